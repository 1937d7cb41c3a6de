"""The client's side of a response: status line, deadlines, keep-alive bytes, writes.

The status line waits until the upstream has sent content, so that an early failure keeps its status.  A client
that would wait longer than `hold_headers` gets the status line and keep-alive bytes first.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import HttpVersion11, web
from msgspec import structs

from dragoman.context import Rendering
from dragoman.dialects import dialect
from dragoman.exchange_setup import make_exchange
from dragoman.gateway.config.settings import Timeouts
from dragoman.gateway.request_context import RequestContext
from dragoman.gateway.routing import Hop
from dragoman.translate import Translator
from dragoman.turn.events import Fault, FaultKind
from dragoman.turn.request import Request

# Bytes that are written at once: they are copied, and a large copy would delay other requests.
MAX_WRITE_BYTES: Final = 1024 * 1024
TOTAL_TIMEOUT: Final = "total_timeout"
CONTINUED_TIMEOUT: Final = "continuation_timeout"
STREAM_HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
_LIST_HEADERS: Final = STREAM_HEADERS | {"content-type": "application/json; charset=utf-8"}
# Before a failure is repeated: two writes reach a client as two reads.
_PAUSE_SECONDS: Final = 0.05


class ClientLeftError(Exception):
    """The client closed its connection: no response can reach it."""


class _StreamedResponse(web.StreamResponse):
    """A response whose head leaves with the first bytes of its body, in one write."""

    # Versions of aiohttp that do not know it write the head at once.
    _send_headers_immediately = False


class ClientStream:
    """The deadlines of one request, and the stream to its client.

    `runtime.deadlines` calls `tick` a few times a second.
    """

    __slots__ = (
        "_attempt_began", "_chunked", "_connection", "_context", "_continued", "_deadline", "_keeping_alive",
        "_last_write", "_loop", "_note_gap", "_outcome", "_response", "_scope", "_streams", "_timeouts", "_writing",
        "began", "last_read", "translator",
    )  # fmt: skip

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._outcome = context.outcome
        self._loop = asyncio.get_running_loop()
        self._connection = context.http.protocol
        # Test: test_client_of_http_1_0_gets_its_stream_without_chunks.
        self._chunked = context.http.version >= HttpVersion11
        self._response: web.StreamResponse | None = None  # set when the status line has been sent
        self._keeping_alive: asyncio.Task[None] | None = None
        self._streams = False  # keep-alive bytes may be sent
        self._writing = False
        self._scope: asyncio.Timeout | None = None  # of the attempt in progress
        self._timeouts = Timeouts()
        self._continued = 0.0  # seconds of an answer that is continued; 0: no limit
        self._deadline: Fault | None = None  # set when one has passed
        self._note_gap: Callable[[float], None]  # set by `begin_attempt`
        self.began: float = self._loop.time()
        self._attempt_began = self.began
        self._last_write = self.began
        self.last_read: float = 0.0  # from the upstream, in this attempt; 0: nothing yet
        self.translator: Translator | None = None  # of the upstream's stream, while there is one

    # --- deadlines -----------------------------------------------------------------------------

    def begin_attempt(
        self, scope: asyncio.Timeout, hop: Hop, *, streams: bool, continued: float = 0.0
    ) -> None:
        """Start the clocks of an attempt: `scope` is cancelled when one of the upstream's timeouts passes.

        `continued` are the seconds of an answer that this attempt continues, counted from its first request.
        """
        self._scope = scope
        self._note_gap = self._context.runtime.metrics.gaps(hop.upstream_name)
        self._timeouts = _within(hop.timeouts, self._context.client_timeout)
        self._streams = streams
        self._continued = continued
        self._deadline = None
        self._attempt_began = self._loop.time()
        self.last_read = 0.0

    def note_read(self) -> None:
        """Restart the idle clock: the upstream has sent something."""
        now = self._loop.time()
        if self.last_read:
            self._note_gap(now - self.last_read)
        self.last_read = now

    def note_first_content(self) -> None:
        """Record when the content began to arrive."""
        if self.last_read:
            self._outcome.first_event = self.last_read - self.began

    def end_attempt(self) -> None:
        """Stop the clocks until the next attempt."""
        self._scope = None

    async def pause(self, seconds: float) -> None:
        """Wait between two attempts, unless the request is aborted."""
        # No upstream is asked meanwhile, so only the total time counts.
        self._timeouts = structs.replace(self._timeouts, first_byte=0.0, idle=0.0)
        try:
            async with asyncio.timeout(None) as scope:
                self._scope = scope
                await asyncio.sleep(seconds)
        except TimeoutError:
            pass
        finally:
            self.end_attempt()

    def abort(self, fault: Fault, *, final: bool = False) -> None:
        """End the attempt in progress with a failure; after a `final` one no other attempt follows."""
        if final:
            self._outcome.stopped = fault
        if self._scope is not None and self._deadline is None and not self._scope.expired():
            self._deadline = fault
            self._scope.reschedule(self._loop.time())

    @property
    def deadline(self) -> Fault:
        """Why the attempt was ended."""
        return self._deadline or Fault(FaultKind.TIMEOUT, "upstream timed out", code="timeout")

    def tick(self, now: float) -> None:
        """End a late attempt, send the status line, or send keep-alive bytes, whichever is due."""
        late = None if self._scope is None else self._late(now)
        if late is not None:
            self.abort(late, final=late.code == TOTAL_TIMEOUT)
            return
        if not self._streams or self._keeping_alive is not None or self._writing:
            return
        server = self._context.plan.settings.server
        patience = server.hold_headers if self._response is None else server.keep_alive
        if patience and now - self._last_write >= patience:
            self._keeping_alive = asyncio.create_task(self._keep_alive())

    def _late(self, now: float) -> Fault | None:
        times = self._timeouts
        if times.total and now - self.began >= times.total:
            return _timeout(f"no complete answer within {times.total:g} s", TOTAL_TIMEOUT)
        if self._continued and now - self.began >= self._continued:
            within = f"{self._continued:g} s (max_seconds of [continuations])"
            return _timeout(f"no complete answer within {within}", CONTINUED_TIMEOUT)
        if not self.last_read:
            if times.first_byte and now - self._attempt_began >= times.first_byte:
                return _timeout(f"no answer within {times.first_byte:g} s", "first_byte_timeout")
        elif times.idle and now - self.last_read >= times.idle and not self._writing:
            return _timeout(f"the stream was silent for {times.idle:g} s", "idle_timeout")
        return None

    # --- the client's stream ---------------------------------------------------------------------

    async def _keep_alive(self) -> None:
        """Send bytes that clients ignore, so that proxies and clients do not give up."""
        try:
            if not self._streams:
                return  # it ended just now
            await self._write_now(dialect(self._context.dialect).keep_alive)
            await self._drain()
        except ClientLeftError:
            pass  # the handler's own write raises it too, or the handler is cancelled
        finally:
            self._keeping_alive = None

    async def _prepare(self) -> web.StreamResponse:
        """Return the response; its head leaves with the first bytes that are written."""
        framed = _LIST_HEADERS if self._context.framing == "list" else STREAM_HEADERS
        response = _StreamedResponse(headers=framed | self._context.response_headers())
        self._response = response
        await response.prepare(self._context.http)
        # A stream may stay open for long.  It needs neither headers that are written nor the timer of an
        # idle connection, which aiohttp starts again behind the response: 2 KB together.
        response.headers.clear()
        self._connection.keep_alive(True)
        return response

    async def _begin(self, data: bytes) -> None:
        """Send the status line and the first bytes of the stream."""
        self._record(data)
        try:
            await (await self._prepare()).write(data)
        except ConnectionError as error:
            raise ClientLeftError from error
        self._last_write = self._loop.time()

    async def stop_keep_alive(self) -> bool:
        """Send no more keep-alive bytes; return whether the status line has been sent."""
        self._streams = False
        await self._keep_alive_sent()
        return self._response is not None

    async def _keep_alive_sent(self) -> None:
        if self._keeping_alive is not None:
            await asyncio.wait((self._keeping_alive,))

    @property
    def is_full(self) -> bool:
        """The client does not read its response: too many bytes wait for it already."""
        return self._connection.writing_paused

    def forward(self, data: bytes) -> None:
        """Send a piece of the stream directly after `note_read`; `is_full` shows whether the client reads.

        Raises:
            ClientLeftError: the client closed its connection.
        """
        self._send(data)
        self._last_write = self.last_read

    async def write(self, data: bytes) -> None:
        """Send a piece of the stream, the first one behind the status line, and wait while the client does not read.

        Raises:
            ClientLeftError: the client closed its connection.
        """
        if self._response is None:
            await self._keep_alive_sent()
        for start in range(0, len(data) or 1, MAX_WRITE_BYTES):
            await self._drain()
            await self._write_now(data[start : start + MAX_WRITE_BYTES])
        await self._drain()
        # Test: test_g8_reader_that_rests_is_not_the_upstreams_silence.
        # The upstream was not read while the client did not read: that time is not idle time.
        self.last_read = self._last_write

    async def _write_now(self, data: bytes) -> None:
        if self._response is None:
            await self._begin(data)
        elif data:
            self._send(data)
            self._last_write = self._loop.time()

    def _send(self, data: bytes) -> None:
        """Write bytes to the client's connection, as one chunk of HTTP."""
        if self._response is None:
            raise RuntimeError("the status line has not been sent")
        self._record(data)
        transport = self._connection.transport
        if transport is None or transport.is_closing():
            raise ClientLeftError
        transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def _record(self, data: bytes) -> None:
        if self._outcome.recording is not None:
            self._outcome.recording.wrote(data)

    async def _drain(self) -> None:
        """Wait while the client does not read."""
        if not self.is_full:
            return
        self._writing = True
        try:
            await self._context.http.writer.drain()
        except ConnectionError as error:
            raise ClientLeftError from error
        finally:
            self._writing = False
        self._last_write = self._loop.time()

    async def end(self, data: bytes) -> web.StreamResponse:
        """Send the last piece of the stream, which may be empty, and its end; a client may leave after that.

        Raises:
            ClientLeftError: the client closed its connection.
        """
        await self.stop_keep_alive()
        again = self._fault_again()
        if again or len(data) > MAX_WRITE_BYTES:
            await self.write(data)
            self._outcome.delivered = True
            data = again
        else:
            self._record(data)
        if again:  # a recording has it once
            await asyncio.sleep(_PAUSE_SECONDS)
        await self._drain()
        self._writing = True
        try:
            response = self._response or await self._prepare()
            await response.write_eof(data)
        except ConnectionError as error:
            raise ClientLeftError from error
        finally:
            self._writing = False
        self._outcome.delivered = True
        self.end_attempt()  # no deadline can change what was sent
        return response

    def _fault_again(self) -> bytes:
        """Return the second form of the failure that ends this stream, where the client's dialect has one."""
        again = dialect(self._context.dialect).fault_again
        fault = self._outcome.ended
        if again is None or not isinstance(fault, Fault) or self._context.framing != "sse":
            return b""
        return again(fault)

    async def fail(self, fault: Fault, request: Request) -> web.StreamResponse | None:
        """End a stream that has begun with a failure; None if no status line has been sent yet."""
        if not await self.stop_keep_alive():
            return None
        self._outcome.ended = fault
        if self.translator is not None and self.translator.begun:
            last = self.translator.fail(fault)
        else:
            rendering = Rendering(framing=self._context.framing)
            exchange = make_exchange(request=request, rendering=rendering)
            writer = dialect(self._context.dialect).writer(exchange)
            last = writer.send(fault)
        return await self.end(last)


def _timeout(reason: str, code: str) -> Fault:
    return Fault(FaultKind.TIMEOUT, f"upstream timed out: {reason}", code=code)


def _within(timeouts: Timeouts, asked: float) -> Timeouts:
    """Return timeouts that also end an attempt when the client no longer wants the response."""
    if not asked or 0 < timeouts.total <= asked:
        return timeouts
    return structs.replace(timeouts, total=asked)
