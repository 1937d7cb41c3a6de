"""One request on its way: when it began, what is due, and what the client has been sent.

The client's side of an exchange.  The status line waits until the upstream has said something, so that an
early failure keeps its status; a client that would wait too long gets the status and signs of life first.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from aiohttp import web
from msgspec import structs

from dragoman.gateway.config.settings import Server, Timeouts
from dragoman.turn.events import Fault, FaultKind

# Bytes that are written at once: the server copies what it is given, which takes a large piece too long.
_WRITE_BYTES: Final = 1024 * 1024
TOTAL_TIMEOUT: Final = "total_timeout"
STREAM_HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


class ClientLeftError(Exception):
    """The client is gone: nobody is left to tell."""


class ClientStream:
    """The clocks of one request, and the stream to its client."""

    def __init__(self, http: web.BaseRequest, server: Server, keep_alive: bytes) -> None:
        self._http = http
        self._server = server
        self._keep_alive = keep_alive
        self._loop = asyncio.get_running_loop()
        self._signing: asyncio.Task[None] | None = None
        self._streams = False
        self._writing = False
        self._scope: asyncio.Timeout | None = None
        self._timeouts = Timeouts()
        self._deadline: Fault | None = None  # set when one has passed
        self.stopped: Fault | None = None  # set when no other attempt may follow
        self.response: web.StreamResponse | None = None
        self.head: Callable[[], dict[str, str]] = dict  # makes the answer's headers
        self.began = self._loop.time()
        self.asked = self.began  # when the present attempt began
        self.last_read = 0.0  # from the upstream, in this attempt; 0: nothing yet
        self.last_write = self.began
        self.first_content = 0.0
        self.delivered = False  # the client has been sent its last event

    # --- deadlines -----------------------------------------------------------------------------

    def expect(self, scope: asyncio.Timeout, timeouts: Timeouts, *, streams: bool) -> None:
        """Begin an attempt: `scope` is ended when one of `timeouts` passes."""
        self._scope = scope
        self._timeouts = timeouts
        self._streams = streams
        self._deadline = None
        self.asked = self._loop.time()
        self.last_read = 0.0

    def heard(self) -> float:
        """Note that the upstream said something."""
        self.last_read = now = self._loop.time()
        return now

    def rest(self) -> None:
        """End an attempt: nothing is expected until the next one."""
        self._scope = None

    async def pause(self, seconds: float) -> None:
        """Wait between two attempts, unless the flight is aborted."""
        # Nothing is expected of an upstream that is not asked.
        self._timeouts = structs.replace(self._timeouts, first_byte=0.0, idle=0.0)
        try:
            async with asyncio.timeout(None) as scope:
                self._scope = scope
                await asyncio.sleep(seconds)
        except TimeoutError:
            pass
        finally:
            self.rest()

    def abort(self, fault: Fault, *, final: bool = False) -> None:
        """End the attempt under way with a failure; a `final` one allows no other attempt."""
        if final:
            self.stopped = fault
        if self._scope is not None and self._deadline is None and not self._scope.expired():
            self._deadline = fault
            self._scope.reschedule(self._loop.time())

    @property
    def deadline(self) -> Fault:
        """Why the attempt was ended."""
        return self._deadline or Fault(FaultKind.TIMEOUT, "upstream timed out", code="timeout")

    def tick(self, now: float) -> None:
        """Do what is due: end a late attempt, commit to a status, give a sign of life."""
        late = None if self._scope is None else self._late(now)
        if late is not None:
            self.abort(late, final=late.code == TOTAL_TIMEOUT)
            return
        if not self._streams or self._signing is not None or self._writing:
            return
        server = self._server
        patience = server.hold_headers if self.response is None else server.keep_alive
        if patience and now - self.last_write >= patience:
            self._signing = asyncio.create_task(self._sign())

    def _late(self, now: float) -> Fault | None:
        times = self._timeouts
        if times.total and now - self.began >= times.total:
            return _timeout(f"no complete answer within {times.total:g} s", TOTAL_TIMEOUT)
        if not self.last_read:
            if times.first_byte and now - self.asked >= times.first_byte:
                return _timeout(f"no answer within {times.first_byte:g} s", "first_byte_timeout")
        elif times.idle and now - self.last_read >= times.idle and not self._writing:
            return _timeout(f"the stream was silent for {times.idle:g} s", "idle_timeout")
        return None

    # --- the client's stream ---------------------------------------------------------------------

    async def _sign(self) -> None:
        """Show that the answer is still being worked on."""
        try:
            if not self._streams:
                return  # it ended just now
            response = self.response or await self._prepare()
            await self._send(response, self._keep_alive)
        except ClientLeftError:
            pass  # the handler is told by its own write, or cancelled
        finally:
            self._signing = None

    async def _prepare(self) -> web.StreamResponse:
        response = web.StreamResponse(headers=STREAM_HEADERS | self.head())
        self.response = response
        try:
            await response.prepare(self._http)
        except ConnectionError as error:
            raise ClientLeftError from error
        return response

    async def open(self) -> None:
        """Send the status line of a stream, if it has not left."""
        await self._signed()
        if self.response is None:
            await self._prepare()

    async def hush(self) -> bool:
        """Give no more signs of life; say whether the status line of a stream has left."""
        self._streams = False
        await self._signed()
        return self.response is not None

    async def _signed(self) -> None:
        if self._signing is not None:
            await asyncio.wait((self._signing,))

    async def write(self, data: bytes) -> None:
        """Send a piece of the stream; waits while the client does not read."""
        if self.response is None:
            raise RuntimeError("write before open")
        await self._send(self.response, data)
        # While the client did not read, nobody listened: that was not the upstream's silence.
        self.last_read = self.last_write

    async def write_last(self, data: bytes) -> None:
        """Send the last piece of the stream, which may be empty; a client may leave after it."""
        if data:
            await self.write(data)
        self.delivered = True

    async def _send(self, response: web.StreamResponse, data: bytes) -> None:
        self._writing = True
        try:
            if len(data) <= _WRITE_BYTES:
                await response.write(data)
            else:
                for start in range(0, len(data), _WRITE_BYTES):
                    await response.write(data[start : start + _WRITE_BYTES])
        except ConnectionError as error:
            raise ClientLeftError from error
        finally:
            self._writing = False
        self.last_write = self._loop.time()

    def close(self) -> None:
        """Release the pump, which also refers to this flight: a cycle would keep the request in memory."""
        self.head = dict

    async def end(self) -> web.StreamResponse:
        """End the stream."""
        if not await self.hush() or self.response is None:
            raise RuntimeError("end before open")
        try:
            await self.response.write_eof()
        except ConnectionError as error:
            raise ClientLeftError from error
        return self.response


def _timeout(said: str, code: str) -> Fault:
    return Fault(FaultKind.TIMEOUT, f"upstream timed out: {said}", code=code)


# --- the clock of all streams ---


TICK_SECONDS: Final = 0.2


class Ticking(Protocol):
    def tick(self, now: float) -> None:
        """Do what is due; `now` is the event loop's time."""
        ...


class DeadlineClock:
    """Ticks for whoever is on it."""

    def __init__(self) -> None:
        self._watched: set[Ticking] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._watched)

    def add(self, one: Ticking) -> None:
        self._watched.add(one)
        if self._timer is None:
            self._wind()

    def remove(self, one: Ticking) -> None:
        self._watched.discard(one)

    def _wind(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for one in tuple(self._watched):
            one.tick(now)
        if self._watched:
            self._wind()
