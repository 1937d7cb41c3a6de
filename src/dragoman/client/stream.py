"""An answer while it comes.

One read, one feed: all events that a read leads to are there at once, and are then given one by one.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Final, Self

from dragoman.client.errors import ClientError
from dragoman.client.exchange import Exchange, Session, cancelled
from dragoman.client.faults import as_fault, fault_error, keep_received, peer_error
from dragoman.client.prepared import Prepared
from dragoman.errors import MisuseError, PeerError
from dragoman.turn.events import Event, Fault, FaultKind
from dragoman.turn.fold import Answer, Folder
from dragoman.turn.loss import Loss

_UNFINISHED: Final = Fault(
    FaultKind.GATEWAY, "this answer has not been read to its end", code="unfinished"
)


class AnswerStream:
    """One streamed answer: events, then the whole.

    Entered once.  Leaving it closes the connection, unless the answer was read to its end.
    """

    def __init__(self, call: Prepared, session: Callable[[], Session], within: float) -> None:
        self._call = call
        self._session = session
        self._within = within  # seconds that it may take; 0: as the settings say
        self._exchange: Exchange | None = None
        self._reader = call.reader()
        self._folder = Folder()
        self._error: ClientError | None = None  # raised once what came before it is out
        self._done = False  # the answer has ended, well or not
        self._left = False
        self._ready: Iterator[Event] = iter(())
        self.losses: tuple[Loss, ...] = call.losses  # of the request; also the first events
        self.status = 0  # of the HTTP answer
        self.request_id = ""  # the server's name for the request

    async def __aenter__(self) -> Self:
        if self._exchange is not None or self._left:
            raise MisuseError("a stream is entered once")
        exchange = self._exchange = Exchange(self._session(), self._within)
        try:
            await exchange.open(self._call.body, self._call.headers)
        except BaseException:
            await exchange.close()
            raise
        self.status, self.request_id = exchange.status, exchange.request_id
        self._folder.feed(self.losses)
        self._ready = iter(self.losses)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._left = True
        if self._exchange is not None:
            await self._exchange.close()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        """Return the next event; the last one is `Finish`.

        Raises:
            ClientError: the answer failed; `received` holds what had come.
        """
        while True:
            for event in self._ready:
                return event
            events = await self.pump()
            if not events:
                raise StopAsyncIteration
            self._ready = iter(events)

    async def pump(self) -> list[Event]:
        """Return the events of the next read that leads to any; none at the end.

        For readers that want all of them at once; `async for` gives them one by one.

        Raises:
            ClientError: the answer failed; `received` holds what had come.
        """
        if self._error is not None:
            raise self._error
        exchange = self._exchange
        if exchange is None or self._left:
            raise MisuseError("a stream is read inside its `with`")
        if self._done:
            return []
        events: list[Event] = []
        failed: ClientError | None = None
        reader, read = self._reader, exchange.read
        try:
            while not events:
                data = await read()
                events = reader.feed(data) if data else reader.close()
        except PeerError as error:
            failed = peer_error(error, reader.broken)
            events = reader.fail(as_fault(failed))
        except ClientError as error:
            failed = error
            events = reader.fail(as_fault(failed))
        if reader.done:
            events = await self._end(exchange, events, failed)
        else:
            self._folder.feed(events)
        return events

    async def _end(
        self, exchange: Exchange, events: list[Event], failed: ClientError | None
    ) -> list[Event]:
        """Note how the answer ended; return its last events, without a fault, which is raised."""
        self._done = True
        fault = self._reader.outcome
        if isinstance(fault, Fault):
            events = [event for event in events if event is not fault]
            self._folder.feed(events)
            error = failed or fault_error(fault, self._call.settings, self._reader.broken)
            self._error = exchange.identified(error)
            keep_received(error, self.message())
        else:
            self._folder.feed(events)
            await exchange.settle()
        await exchange.close()
        if self._error is not None and not events:
            raise self._error
        return events

    def message(self) -> Answer:
        """Return what has come; complete once the events have ended.

        An answer that is not complete says so: it has a `fault`.
        """
        if self._error is not None:
            return self._folder.so_far(as_fault(self._error))
        return self._folder.answer() if self._done else self._folder.so_far(_UNFINISHED)

    async def close(self) -> None:
        """Stop reading.  A task that reads meanwhile gets a `cancelled` error."""
        if self._exchange is None:
            self._left = True
        elif not self._done:
            self._exchange.abort(cancelled("the stream was closed"))
