"""One request on the wire: opened once, read under clocks, closed once.

Bytes and times only.  Whoever waits is woken by `abort`, be it for a clock or for somebody else.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from dragoman.client.bell import Bell
from dragoman.client.errors import ClientError
from dragoman.client.faults import refusal, transport_error
from dragoman.client.settings import Settings
from dragoman.errors import MisuseError
from dragoman.transport import Connector, Reply, TransportError
from dragoman.turn.events import FaultKind

# Not the clock of the event loop: that of `uvloop` stands still while the loop waits, and threads read it too.
_now: Final = time.monotonic


class Session:
    """The connections of one client in one event loop, and the exchanges that use them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.connector = Connector(settings.limits)
        self.open: set[Exchange] = set()

    async def close(self) -> None:
        for exchange in tuple(self.open):
            exchange.abort(cancelled("the client was closed"))
        await self.connector.close()


class Exchange:
    """One request and its answer's bytes; `timeout` is how many seconds it may take, 0: as the settings say."""

    def __init__(self, session: Session, timeout: float = 0.0) -> None:
        self._session = session
        self._settings = session.settings
        self._times = session.settings.timeouts
        if not 0 <= timeout < float("inf"):
            raise MisuseError(f"`timeout` is a number of seconds, not {timeout!r}")
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._began = _now()
        spans = ((self._times.total, "total"), (timeout, "request"))
        # When it is over, however it goes.
        self._end = min(
            ((self._began + seconds, clock) for seconds, clock in spans if seconds),
            default=(float("inf"), ""),
        )
        self._reply: Reply | None = None
        self._opening: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard = 0.0  # when the last bytes came; 0: none did
        self._take: Callable[[], bytes | None] = _unopened
        self.more = Bell(self._loop)  # rings when there may be something to take
        self.why: ClientError | None = None  # why nothing more is read
        self.status = 0
        self.request_id = ""

    async def open(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Send the request and wait for a good status.

        Raises:
            ClientError: there is none.
        """
        self._session.open.add(self)
        settings = self._settings
        due, _ = self._due(self._began)
        try:
            async with asyncio.timeout(None if due is None else due - self._began) as self._opening:
                reply = await self._session.connector.open(
                    "POST",
                    settings.url,
                    headers=headers,
                    body=body,
                    connect_seconds=self._times.connect,
                    tls=settings.tls,
                )
        except TimeoutError:
            raise self.why or self._late() from None
        except TransportError as failed:
            raise self.why or transport_error(failed, settings) from failed
        finally:
            self._opening = None
        self._reply = reply
        self.status, self.request_id = reply.status, reply.request_id
        if self.why is not None:
            raise self.why
        self._watch()
        if not 200 <= reply.status < 300:
            raise await self._refusal(reply)
        self._take = reply.take
        reply.listen(self.more.ring)

    async def _refusal(self, reply: Reply) -> ClientError:
        """Read what the server says of its refusal, as far as it comes in time."""
        body = await reply.read_error()
        if self.why is not None and self.why.stage == "cancelled":
            return self.why
        return self.identified(refusal(reply, body, self._settings))

    async def read(self) -> bytes:
        """Return what has arrived, at least a byte; nothing at the end.

        Raises:
            ClientError: the connection broke, a clock ran out, or somebody closed the exchange.
        """
        while (data := self.take()) is None:
            await self.more
        return data

    def take(self) -> bytes | None:
        """Return what has arrived, nothing at the end, None before more has come.

        Raises:
            ClientError: as `read`.
        """
        if self.why is not None:
            raise self.why
        try:
            data = self._take()
        except TransportError as failed:
            raise self.identified(transport_error(failed, self._settings)) from failed
        if data is None:
            return None
        now = _now()
        if now >= self._end[0]:
            late = self._late()
            self.abort(late)
            raise late
        first, self._heard = not self._heard, now
        if first:
            self._watch()  # another clock counts from here on
        return data

    def listen(self, listener: Callable[[], object]) -> None:
        """Call `listener` whenever there may be something to take; nobody else reads from here on."""
        if self._reply is not None:
            self._reply.listen(listener)

    def identified(self, error: ClientError) -> ClientError:
        """Put into an error what is known of the HTTP answer."""
        error.status = error.status or self.status
        error.request_id = self.request_id
        if error.retry_after is None and self._reply is not None:
            error.retry_after = self._reply.retry_after
        return error

    def abort(self, why: ClientError) -> None:
        """Stop the exchange; whoever waits for it, now or later, gets `why`."""
        if self.why is not None:
            return
        self.why = self.identified(why)
        if self._opening is not None:
            self._opening.reschedule(self._loop.time())
        if self._reply is not None:
            self._reply.abort(TransportError("http", why.code, why.message))

    async def settle(self) -> None:
        """Let the connection serve another request, if the answer's end is at hand."""
        if self._reply is not None and self.why is None:
            await self._reply.settle()

    async def close(self) -> None:
        """Give up what is left of the answer.  A generation that nobody reads must stop."""
        self._session.open.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._reply is not None:
            self._reply.close()

    # --- clocks ------------------------------------------------------------------------------------

    def _due(self, now: float) -> tuple[float | None, str]:
        """Return when which clock runs out, as things are."""
        times, waiting = self._times, self.more.since
        clocks = [self._end] if self._end[1] else []
        if not self._heard:
            if times.first_byte:
                clocks.append((self._began + times.first_byte, "first_byte"))
        elif times.idle:
            # A program that does not read makes us stop listening: that is not the server's silence.
            since = now if waiting is None else max(waiting, self._heard)
            clocks.append((since + times.idle, "idle"))
        return min(clocks, default=(None, ""))

    def _watch(self) -> None:
        """Look at the clocks, and again when the next one may have run out."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = _now()
        due, _ = self._due(now)
        if due is None or self.why is not None:
            return
        if due <= now:
            self.abort(self._late())
        else:
            self._timer = self._loop.call_later(due - now, self._watch)

    def _late(self) -> ClientError:
        times = self._times
        _, clock = self._due(_now())
        said = {
            "total": f"no complete answer within {times.total:g} s",
            "request": f"no complete answer within the {self._timeout:g} s of this request",
            "first_byte": f"no answer within {times.first_byte:g} s",
            "idle": f"the stream was silent for {times.idle:g} s",
        }[clock]
        return ClientError(
            "timeout",
            f"the server took too long: {said}",
            code=f"{clock}_timeout",
            kind=FaultKind.TIMEOUT,
        )


def _unopened() -> bytes | None:
    raise MisuseError("an answer is read while it is open")


def cancelled(said: str) -> ClientError:
    """Return the error for an exchange that was given up on this side."""
    return ClientError("cancelled", said, code="cancelled")
