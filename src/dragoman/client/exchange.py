"""One HTTP exchange: opened once, read under timeouts, closed once.  Bytes and times only.

A timeout and `close` of another task both end an exchange with `abort`, which wakes the reader.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from yarl import URL

from dragoman.client.errors import ClientError, cancelled, refusal, transport_error
from dragoman.client.settings import Settings
from dragoman.errors import MisuseError
from dragoman.transport import Connector, Reply, TransportError
from dragoman.turn.events import FaultKind

# Not the event loop's clock: `uvloop` updates its own only between turns, and threads need it too.
_now: Final = time.monotonic


class Session:
    """The connections of one client in one event loop, and the exchanges that use them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.connector: Connector = Connector(settings.limits)
        self.open: set[HttpExchange] = set()

    async def close(self) -> None:
        for exchange in tuple(self.open):
            exchange.abort(cancelled("the client was closed"))
        await self.connector.close()


class HttpExchange:
    """One request and the bytes of its answer.  `timeout` is for the whole exchange, in seconds; 0: none."""

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
        # When the exchange must have ended, and which timeout demands that.
        self._end = min(
            ((self._began + seconds, clock) for seconds, clock in spans if seconds),
            default=(float("inf"), ""),
        )
        self._reply: Reply | None = None
        self._opening: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard = 0.0  # when the last bytes arrived; 0: none yet
        self._take: Callable[[], bytes | None] = _unopened
        self.waiting_since: float | None = None  # since when a reader waits for bytes
        self.why: ClientError | None = None  # why nothing more is read
        self.status: int = 0
        self.request_id: str = ""

    async def open(self, url: URL, body: bytes, headers: Mapping[str, str]) -> None:
        """Send the request and wait for a successful status.

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
                    url,
                    headers=headers,
                    body=body,
                    connect_seconds=self._times.connect,
                    tls=settings.tls,
                    proxy=settings.proxy,
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

    async def _refusal(self, reply: Reply) -> ClientError:
        """Read the body of an error response, as far as it arrives in time."""
        # Test: test_an_error_whose_body_does_not_come_is_reported_all_the_same.
        body = await reply.read_error()
        if self.why is not None and self.why.stage == "cancelled":
            return self.why
        return self.identified(refusal(reply, body, self._settings))

    async def read(self) -> bytes:
        """Return what has arrived, at least a byte; empty at the end.

        Raises:
            ClientError: the connection broke, a timeout ran out, or the exchange was closed.
        """
        while (data := self.take()) is None:
            await self.wait()
        return data

    async def wait(self) -> None:
        """Wait until there may be something to take.

        Raises:
            MisuseError: another task waits.
        """
        if self.waiting_since is not None:
            raise MisuseError("only one task at a time can read an answer")
        assert self._reply is not None  # noqa: S101 -- `take` refuses before
        self.waiting_since = _now()
        try:
            await self._reply.wait()
        finally:
            self.waiting_since = None

    def take(self) -> bytes | None:
        """Return what has arrived, empty at the end, None if one has to `wait` for more.

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
            self._watch()  # from here on the idle timeout counts
        return data

    def listen(self, listener: Callable[[], object]) -> None:
        """Call `listener` whenever there may be something to take, instead of waking `wait`."""
        if self._reply is not None:
            self._reply.listen(listener)

    def identified(self, error: ClientError) -> ClientError:
        """Add status, request id and retry delay of the HTTP response to an error."""
        error.status = error.status or self.status
        error.request_id = self.request_id
        # Test: test_a_server_s_retry_after_is_reported_with_a_redirect_too.
        if error.retry_after is None and self._reply is not None:
            error.retry_after = self._reply.retry_after
        return error

    def abort(self, why: ClientError) -> None:
        """Stop the exchange; its reader, now or later, gets `why`."""
        if self.why is not None:
            return
        self.why = self.identified(why)
        if self._opening is not None:
            self._opening.reschedule(self._loop.time())
        if self._reply is not None:
            self._reply.abort(TransportError("http", why.code, why.message))

    async def drain(self) -> None:
        """Release the connection for another request, if the answer's end has arrived."""
        if self._reply is not None and self.why is None:
            await self._reply.drain()

    async def close(self) -> None:
        """Abandon the rest of the answer; closing the connection stops the generation."""
        self._session.open.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._reply is not None:
            self._reply.close()

    # --- timeouts ----------------------------------------------------------------------------------

    def _due(self, now: float) -> tuple[float | None, str]:
        """Return when the next timeout runs out, and which one it is."""
        times, waiting = self._times, self.waiting_since
        clocks = [self._end] if self._end[1] else []
        if not self._heard:
            if times.first_byte:
                clocks.append((self._began + times.first_byte, "first_byte"))
        elif times.idle:
            # Test: test_a_slow_program_is_not_a_silent_server.
            # A program that does not read makes us stop receiving: that is not the server's silence.
            since = now if waiting is None else max(waiting, self._heard)
            clocks.append((since + times.idle, "idle"))
        return min(clocks, default=(None, ""))

    def _watch(self) -> None:
        """Check the timeouts, and schedule the next check."""
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
        reason_text = {
            "total": f"no complete answer within {times.total:g} s",
            "request": f"no complete answer within the {self._timeout:g} s of this request",
            "first_byte": f"no answer within {times.first_byte:g} s",
            "idle": f"the stream was silent for {times.idle:g} s",
        }[clock]
        return ClientError(
            "timeout",
            f"the server took too long: {reason_text}",
            code=f"{clock}_timeout",
            kind=FaultKind.TIMEOUT,
        )


def _unopened() -> bytes | None:
    raise MisuseError("an answer can be read only while it is open")
