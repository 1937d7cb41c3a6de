"""A streamed answer while it arrives: opened, read into events, assembled, closed.

`IncomingAnswer` and `StreamedAnswer` are what the asynchronous and the synchronous stream share; how each
of them waits for bytes differs.  One read, one feed: all events that a read leads to are decoded at once, and
then handed out one by one.
"""

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, Self

from dragoman.client.encode import Prepared
from dragoman.client.errors import (
    ClientError,
    as_fault,
    cancelled,
    fault_error,
    keep_received,
    peer_error,
)
from dragoman.client.exchange import HttpExchange, Session
from dragoman.errors import MisuseError, PeerError
from dragoman.turn.answer import Answer, Folder
from dragoman.turn.events import Event, Fault, FaultKind, TextDelta
from dragoman.turn.losses import Loss

_FOLD_BATCH: Final = 64  # events folded together: one by one costs as much as reading them
_UNFINISHED: Final = Fault(
    FaultKind.GATEWAY, "this answer has not been read to its end", code="unfinished"
)


class IncomingAnswer:
    """One streamed answer.  Opened once, in an event loop; fed by the task or thread that reads."""

    def __init__(self, call: Prepared, session: Callable[[], Session], timeout: float) -> None:
        self._call = call
        self._session = session
        self._timeout = (
            timeout  # seconds for the whole exchange; 0: only the client's `timeouts` apply
        )
        self._exchange: HttpExchange | None = None
        self._reader = call.reader()
        self._folder = Folder()
        self._unfolded: list[Event] = []  # events that the folder has not got yet
        self._folding = threading.Lock()  # one thread may call `answer` while another reads
        self._error: ClientError | None = None  # raised once the events before it are out
        self._released = False
        self._left = False
        self.done: bool = False  # the answer has ended, successfully or not
        self.losses: tuple[Loss, ...] = call.losses  # of the request; also the first events
        self.status: int = 0  # of the HTTP response
        self.request_id: str = ""  # the server's id of the request

    async def open(self) -> HttpExchange:
        """Send the request and wait for a successful status."""
        if self._exchange is not None or self._left:
            raise MisuseError("a stream can be entered only once")
        exchange = self._exchange = HttpExchange(self._session(), self._timeout)
        try:
            await exchange.open(self._call.url, self._call.body, self._call.headers)
        except BaseException:
            await exchange.close()
            raise
        self.status, self.request_id = exchange.status, exchange.request_id
        self._unfolded += self.losses
        return exchange

    def check(self) -> HttpExchange | None:
        """Return the exchange to read from, None if the answer has ended.

        Raises:
            ClientError: the answer failed, and all events before the failure are out.
            MisuseError: the stream is not open.
        """
        if self._error is not None:
            raise self._error
        if self._exchange is None or self._left:
            raise MisuseError("a stream can be read only inside its `with` block")
        return None if self.done else self._exchange

    def feed(self, data: bytes, /) -> list[Event]:
        """Return the events of one read; empty `data` is the end of input."""
        reader = self._reader
        try:
            events = reader.feed(data) if data else reader.close()
        except PeerError as error:
            return self.fail(peer_error(error, reader.broken))
        if reader.outcome is not None:
            return self._end(events, None)
        unfolded = self._unfolded
        unfolded += events
        if len(unfolded) > _FOLD_BATCH:
            with self._folding:
                self._fold()
        return events

    def _fold(self) -> None:
        events = self._unfolded[:]
        del self._unfolded[: len(events)]  # another thread may have added some meanwhile
        self._folder.feed(events)

    def fail(self, error: ClientError, /) -> list[Event]:
        """End the answer with a failure; return the events that were held back."""
        return self._end(self._reader.fail(as_fault(error)), error)

    def _end(self, events: list[Event], failed: ClientError | None) -> list[Event]:
        """Record how the answer ended; return its last events, without a fault, which is raised."""
        fault = self._reader.outcome
        if not isinstance(fault, Fault):
            self._unfolded += events
            self.done = True
            return events
        events = [event for event in events if event is not fault]
        self._unfolded += events
        error = failed or fault_error(fault, self._call.settings, self._reader.broken)
        if self._exchange is not None:
            self._exchange.identified(error)
        self._error = error
        keep_received(error, self.answer())
        self.done = True
        return events

    async def release(self) -> None:
        """Release the connection once the answer has ended; another request may use it."""
        if self._exchange is not None and not self._released:
            self._released = True
            if self._error is None:
                await self._exchange.drain()
            await self._exchange.close()

    def last(self, events: list[Event]) -> list[Event]:
        """Return the last events.

        Raises:
            ClientError: there are none, and the answer failed.
        """
        if self._error is not None and not events:
            raise self._error
        return events

    def answer(self) -> Answer:
        """Return the answer so far; see `StreamedAnswer.answer`."""
        with self._folding:
            done, error = self.done, self._error  # read in the reverse order of their writes
            self._fold()
            if error is not None:
                return self._folder.so_far(as_fault(error))
            return self._folder.answer() if done else self._folder.so_far(_UNFINISHED)

    async def close(self) -> None:
        """Stop reading.  A concurrent reader gets a `cancelled` error."""
        if self._exchange is None:
            self._left = True
        elif not self.done:
            self._exchange.abort(cancelled("the stream was closed"))

    async def leave(self) -> None:
        """Abandon the rest of the answer."""
        self._left = True
        if self._exchange is not None:
            await self._exchange.close()


class StreamedAnswer:
    """What an asynchronous and a synchronous stream have in common."""

    def __init__(self, incoming: IncomingAnswer) -> None:
        self._incoming = incoming
        self._ready: Iterator[Event] = iter(())  # events that were read and not handed out yet

    @property
    def status(self) -> int:
        """The status of the HTTP response; 0 before the stream is entered."""
        return self._incoming.status

    @property
    def request_id(self) -> str:
        """The server's id of the request, from its response headers; empty if it sent none."""
        return self._incoming.request_id

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Parts of the request that the server's dialect cannot express.  Also emitted as first events."""
        return self._incoming.losses

    def answer(self) -> Answer:
        """Return the answer so far; it is complete once the events have ended.

        May be called at any time, also by another thread.  An incomplete answer has a `fault` whose code is
        `unfinished`, or the code of the error that ended it.
        """
        return self._incoming.answer()


class AnswerStream(StreamedAnswer):
    """One streamed answer, for programs with an event loop.  Made by `Client.stream`.

    Iterate over it for events, or over `text` for text alone; both read the same stream.  Enter it once.
    Leaving `async with` closes the connection unless the answer was read to its end, so the model stops
    generating.  While the program does not read, at most 128 KiB are buffered and the server has to wait.

    Example:
        async with client.stream(request("Hello")) as stream:
            async for text in stream.text:
                print(text, end="")
        print(stream.answer().finish_reason)
    """

    _exchange: HttpExchange

    async def __aenter__(self) -> Self:
        """Send the request and wait for the response headers.

        Raises:
            ClientError: the server cannot be reached, or its status is not a success.
        """
        self._exchange = await self._incoming.open()
        self._ready = iter(self.losses)
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close the connection unless the answer was read to its end."""
        await self._incoming.leave()

    def __aiter__(self) -> AsyncIterator[Event]:
        """Return this stream: it can be iterated over once."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event; the last one is `Finish`.

        Raises:
            ClientError: the answer failed; `received` holds what had arrived.
        """
        for event in self._ready:
            return event
        ready = self._ready = iter(await self.pump())
        for event in ready:
            return event
        raise StopAsyncIteration

    @property
    def text(self) -> AsyncIterator[str]:
        """The text of the answer as it arrives, without reasoning and tool calls.

        Other events that arrive meanwhile are skipped; `answer` still contains them.

        Raises:
            ClientError: while iterating, if the answer failed.
        """
        return self._texts()

    async def _texts(self) -> AsyncIterator[str]:
        async for event in self:
            if isinstance(event, TextDelta):
                yield event.text

    async def pump(self) -> list[Event]:
        """Return all events of the next read that leads to any; an empty list at the end.

        For programs that want batches; `async for` hands out one event at a time.

        Raises:
            ClientError: the answer failed; `received` holds what had arrived.
            MisuseError: another task reads this stream.
        """
        incoming = self._incoming
        if incoming.check() is None:
            return []
        exchange = self._exchange
        events: list[Event] = []
        try:
            while not (events or incoming.done):
                while (data := exchange.take()) is None:
                    await exchange.wait()
                events = incoming.feed(data)
        except ClientError as error:
            events = incoming.fail(error)
        if incoming.done:
            await incoming.release()
            return incoming.last(events)
        return events

    async def close(self) -> None:
        """Stop reading.  A task that reads meanwhile gets a `cancelled` error."""
        await self._incoming.close()
