"""An answer while it comes: opened, read into events, put together, closed.

What both faces of the client share.  Who waits for the bytes, and how, is theirs.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Final

from dragoman.client.encode import Prepared
from dragoman.client.errors import ClientError
from dragoman.client.exchange import Exchange, Session, cancelled
from dragoman.client.faults import as_fault, fault_error, keep_received, peer_error
from dragoman.errors import MisuseError, PeerError
from dragoman.turn.answer import Answer, Folder
from dragoman.turn.events import Event, Fault, FaultKind
from dragoman.turn.losses import Loss

_TOGETHER: Final = 64  # events that are folded at once: one by one costs as much as to read them
_UNFINISHED: Final = Fault(
    FaultKind.GATEWAY, "this answer has not been read to its end", code="unfinished"
)


class Incoming:
    """One streamed answer.  Opened once, in an event loop; fed by whoever reads."""

    def __init__(self, call: Prepared, session: Callable[[], Session], timeout: float) -> None:
        self._call = call
        self._session = session
        self._timeout = timeout  # seconds that it may take; 0: as the settings say
        self._exchange: Exchange | None = None
        self._reader = call.reader()
        self._folder = Folder()
        self._unfolded: list[Event] = []  # events that the folder was not told of yet
        self._folding = threading.Lock()  # a thread may ask for the message while another reads
        self._error: ClientError | None = None  # raised once what came before it is out
        self._settled = False
        self._left = False
        self.done = False  # the answer has ended, well or not
        self.losses: tuple[Loss, ...] = call.losses  # of the request; also the first events
        self.status = 0  # of the HTTP answer
        self.request_id = ""  # the server's name for the request

    async def open(self) -> Exchange:
        """Send the request and wait for a good status."""
        if self._exchange is not None or self._left:
            raise MisuseError("a stream is entered once")
        exchange = self._exchange = Exchange(self._session(), self._timeout)
        try:
            await exchange.open(self._call.body, self._call.headers)
        except BaseException:
            await exchange.close()
            raise
        self.status, self.request_id = exchange.status, exchange.request_id
        self._unfolded += self.losses
        return exchange

    def check(self) -> Exchange | None:
        """Return what is to be read from, None if the answer has ended.

        Raises:
            ClientError: the answer failed, and all that came before is out.
            MisuseError: it is not open.
        """
        if self._error is not None:
            raise self._error
        if self._exchange is None or self._left:
            raise MisuseError("a stream is read inside its `with`")
        return None if self.done else self._exchange

    def feed(self, data: bytes, /) -> list[Event]:
        """Return the events that a read leads to; one of nothing is the end."""
        reader = self._reader
        try:
            events = reader.feed(data) if data else reader.close()
        except PeerError as error:
            return self.fail(peer_error(error, reader.broken))
        if reader.outcome is not None:
            return self._end(events, None)
        unfolded = self._unfolded
        unfolded += events
        if len(unfolded) > _TOGETHER:
            with self._folding:
                self._fold()
        return events

    def _fold(self) -> None:
        events = self._unfolded[:]
        del self._unfolded[: len(events)]  # another thread may have added some
        self._folder.feed(events)

    def fail(self, error: ClientError, /) -> list[Event]:
        """End the answer with a failure; return what was held back."""
        return self._end(self._reader.fail(as_fault(error)), error)

    def _end(self, events: list[Event], failed: ClientError | None) -> list[Event]:
        """Note how the answer ended; return its last events, without a fault, which is raised."""
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

    async def settle(self) -> None:
        """Let go of the connection once the answer has ended; another request may use it."""
        if self._exchange is not None and not self._settled:
            self._settled = True
            if self._error is None:
                await self._exchange.settle()
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
        """Return what has come; complete once the events have ended.

        An answer that is not complete says so: it has a `fault`.
        """
        with self._folding:
            done, error = self.done, self._error  # in the order in which they come, last first
            self._fold()
            if error is not None:
                return self._folder.so_far(as_fault(error))
            return self._folder.answer() if done else self._folder.so_far(_UNFINISHED)

    async def close(self) -> None:
        """Stop reading.  Whoever reads meanwhile gets a `cancelled` error."""
        if self._exchange is None:
            self._left = True
        elif not self.done:
            self._exchange.abort(cancelled("the stream was closed"))

    async def leave(self) -> None:
        """Give up what is left of the answer."""
        self._left = True
        if self._exchange is not None:
            await self._exchange.close()


class Facts:
    """What both faces of a streamed answer show of it."""

    def __init__(self, incoming: Incoming) -> None:
        self._incoming = incoming
        self._ready: Iterator[Event] = iter(())  # events that were read, and not given yet

    @property
    def status(self) -> int:
        """The status of the HTTP answer."""
        return self._incoming.status

    @property
    def request_id(self) -> str:
        """The server's name for the request."""
        return self._incoming.request_id

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the server cannot be told of the request; also the first events."""
        return self._incoming.losses

    def answer(self) -> Answer:
        """Return what has come; complete once the events have ended.

        An answer that is not complete says so: it has a `fault`.
        """
        return self._incoming.answer()
