"""A streamed response on its way from the upstream to the client.

Once the stream flows, no task runs for it: what arrives is translated and written to the client in the callback
that receives it.  The request's task waits, and is woken for what a callback must not do.

                  bytes arrive: take, feed, write
                        ┌────────┐
                        ▼        │
    BEGINNING ──────► FLOWING ───┘◄─────────────────────────────────────┐
    `begin`: the        │                                               │
    task reads until    ├── the client does not read its response ──► WAITING, until it does
    there is content    ├── a read or a write is long ──────────────► WAITING: the task feeds and writes it
                        │
                        └── end, failure, deadline, client gone ────► ENDED: `run` returns the last bytes, or raises

Flow control works in both directions: while the client does not read, nothing is taken from the upstream's
connection, which stops reading once enough bytes wait in it.  The shared clock of all streams checks deadlines:
it cancels the waiting task.
"""

import asyncio
from collections.abc import Callable

from dragoman.gateway.client_stream import MAX_WRITE_BYTES, ClientStream
from dragoman.gateway.heavy import Feeder, HeavyWork
from dragoman.gateway.recording import ExchangeRecording
from dragoman.translate import Translator
from dragoman.transport import Reply


class Pipe:
    """Forwards one streamed response."""

    __slots__ = (
        "_before_write",
        "_data",
        "_feeder",
        "_out",
        "_recording",
        "_reply",
        "_stream",
        "_translator",
        "_waiter",
    )

    def __init__(
        self,
        reply: Reply,
        translator: Translator,
        stream: ClientStream,
        heavy: HeavyWork,
        recording: ExchangeRecording | None,
    ) -> None:
        self._reply = reply
        self._translator = translator
        self._stream = stream
        self._feeder = Feeder(heavy, translator)
        self._recording = recording
        self._before_write: Callable[[], object] | None = None
        self._waiter: asyncio.Future[None] | None = None  # of the task, while the stream flows
        self._data: bytes | None = None  # what the task has to feed; nothing: the end
        self._out = b""  # what the task has to write

    async def begin(self) -> None:
        """Read until the response has content or ended without any; `run` writes what this leads to.

        Raises:
            TransportError: the response breaks off.
        """
        translator, feeder = self._translator, self._feeder
        held: list[bytes] = []
        while translator.repeatable and not translator.halted:
            data = await self._reply.read()
            if self._recording is not None:
                self._recording.read(data)
            self._stream.note_read()
            light = data and feeder.is_light(data)
            held.append(translator.feed(data) if light else await feeder.feed(data))
        self._out = b"".join(held)

    async def run(self, before_write: Callable[[], object] | None) -> bytes:
        """Forward everything as it arrives; return the last bytes, which are not written yet.

        `before_write` is called before each write.

        Raises:
            TransportError: the response breaks off.
            ClientLeftError: the client closed its connection.
        """
        self._before_write = before_write
        out, self._out = self._out, b""
        self._reply.listen(self._forward)
        try:
            while not self._translator.halted:
                if out and before_write is not None:
                    before_write()
                await self._stream.write(out)
                out = b""  # nothing that was sent is kept while this waits
                await self._flow()
                out, self._out = self._out, b""
                if self._data is not None:
                    data, self._data = self._data, None
                    out = await self._feeder.feed(data)
                    del data
        finally:
            self._reply.listen(None)
            self._waiter = None  # the traceback of a failure that it holds leads back to here
        return out

    def _flow(self) -> asyncio.Future[None]:
        """Let the stream flow; return what is done when the task is needed."""
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        self._forward()  # what arrived while the task was at work
        return waiter

    def _forward(self) -> None:
        """Forward what has arrived, one write for each read; wake the task where a callback cannot go on."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            return  # the task is at work, or will be
        stream, translator = self._stream, self._translator
        try:
            while True:
                data = self._reply.take()
                if data is None:
                    return
                stream.note_read()
                if self._recording is not None:
                    self._recording.read(data)
                if not data or not self._feeder.is_light(data):
                    self._data = data
                    break
                out = translator.feed(data)
                if translator.halted or len(out) > MAX_WRITE_BYTES:
                    self._out = out
                    break
                if out:
                    if self._before_write is not None:
                        self._before_write()
                    stream.forward(out)
                    if stream.is_full:
                        break
            waiter.set_result(None)
        except Exception as error:  # noqa: BLE001 -- the task raises it
            waiter.set_exception(error)
