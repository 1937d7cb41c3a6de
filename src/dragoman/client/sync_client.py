"""The same client for programs without an event loop.

The asynchronous client runs in a thread of its own.  A streamed answer comes over from there by itself, and is
read in the caller's thread.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Iterator
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TypeVar, Unpack

from dragoman.client.ahead import ReadAhead
from dragoman.client.client import Client
from dragoman.client.errors import ClientError
from dragoman.client.exchange import cancelled
from dragoman.client.incoming import Facts, Incoming
from dragoman.client.settings import ClientOptions
from dragoman.errors import MisuseError
from dragoman.turn.answer import Answer
from dragoman.turn.events import Event
from dragoman.turn.request import Request

T = TypeVar("T")
_CLOSED: Final = "the client was closed"


class SyncClient:
    """Ask one server.  The arguments are those of `Client`; to be shared between threads.

    Its thread begins with the first request and ends with `close`, or on leaving `with`.
    """

    __slots__ = ("_client", "_thread")
    _client: Client
    _thread: "_LoopThread"

    def __init__(self, base_url: str, **options: Unpack[ClientOptions]) -> None:
        object.__setattr__(self, "_client", Client(base_url, **options))
        object.__setattr__(self, "_thread", _LoopThread())

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a client is not changed after it was made")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a client is not changed after it was made")

    def __repr__(self) -> str:
        return f"Sync{self._client!r}"

    def create(self, request: Request, /, *, timeout: float = 0.0) -> Answer:
        """Return the whole answer to a request; `timeout` is in seconds; 0 means no limit beyond `timeouts`.

        Raises:
            ClientError: there is none.
            MisuseError, MalformedError, UntranslatableError: the request cannot be sent as it is.
        """
        return self._thread.run(self._client.create(request, timeout=timeout))

    def stream(self, request: Request, /, *, timeout: float = 0.0) -> "SyncAnswerStream":
        """Return the answer as it comes: `with client.stream(request) as turn`.

        All of it is to come `timeout` is in seconds; 0 means no limit beyond `timeouts`.

        Raises:
            MisuseError, MalformedError, UntranslatableError: the request cannot be sent as it is.
        """
        incoming = self._client._incoming(request, timeout)  # noqa: SLF001 -- the same client
        return SyncAnswerStream(incoming, self._thread)

    def close(self) -> None:
        """Close all connections, and end the thread; what is still read ends as `cancelled`."""
        self._thread.stop(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class SyncAnswerStream(Facts):
    """One streamed answer: events, then the whole."""

    def __init__(self, incoming: Incoming, thread: "_LoopThread") -> None:
        super().__init__(incoming)
        self._thread = thread
        self._loop: asyncio.AbstractEventLoop | None = None  # in which the stream was entered
        self._ahead: ReadAhead | None = None
        self._reading = threading.Lock()

    def __enter__(self) -> Self:
        self._loop = self._thread.begin()
        try:
            self._ahead = self._thread.run(self._open(), self._loop)
        except (KeyboardInterrupt, SystemExit):  # it may be open all the same
            self._unless_closed(self._incoming.leave())
            raise
        self._ready = iter(self.losses)
        return self

    async def _open(self) -> ReadAhead:
        return ReadAhead(await self._incoming.open())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._unless_closed(self._incoming.leave())

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        """Return the next event; the last one is `Finish`.

        Raises:
            ClientError: the answer failed; `received` holds what had come.
        """
        for event in self._ready:
            return event
        ready = self._ready = iter(self.pump())
        return next(ready)

    def pump(self) -> list[Event]:
        """Return the events of the next read that leads to any; none at the end.

        Raises:
            ClientError: the answer failed; `received` holds what had come.
        """
        incoming, ahead = self._incoming, self._ahead
        if ahead is None:
            self._thread.check(self._loop)
            raise MisuseError("a stream is read inside its `with`")
        events: list[Event] = []
        if incoming.check() is None:
            return events
        if not self._reading.acquire(blocking=False):
            raise MisuseError("an answer is read by one thread at a time")
        try:
            while not (events or incoming.done):
                events = incoming.feed(ahead.read())
        except ClientError as error:
            events = incoming.fail(error)
        finally:
            self._reading.release()
        if incoming.done:
            self._unless_closed(incoming.settle())
            return incoming.last(events)
        return events

    def close(self) -> None:
        """Stop reading.  A thread that reads meanwhile gets a `cancelled` error."""
        self._unless_closed(self._incoming.close())

    def _unless_closed(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what need not be done if the whole client was closed meanwhile."""
        try:
            self._thread.run(work, self._loop)
        except ClientError as error:
            if error.stage != "cancelled":
                raise


class _LoopThread:
    """An event loop in a thread, which lives from its first use to `stop`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> asyncio.AbstractEventLoop:
        """Return the loop; begin it if need be."""
        with self._lock:
            return self._loop or self._begin()

    def run(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop | None = None) -> T:
        """Do `work` in the loop, and wait for it; `loop` is one that must not have been left.

        Raises:
            ClientError: the client was closed meanwhile.
        """
        with self._lock:
            if loop is not None and loop is not self._loop:
                work.close()
                raise cancelled(_CLOSED)
            future = asyncio.run_coroutine_threadsafe(work, self._loop or self._begin())
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise cancelled(_CLOSED) from None
        except BaseException:
            future.cancel()  # the caller was interrupted: nobody waits any more
            raise

    def check(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Raise `cancelled` if `loop` was left, by closing the client."""
        with self._lock:
            if loop is not None and loop is not self._loop:
                raise cancelled(_CLOSED)

    def stop(self, client: Client) -> None:
        """Close the client in its loop, and end the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(client.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _begin(self) -> asyncio.AbstractEventLoop:
        loop = self._loop = _new_loop()
        self._thread = threading.Thread(
            target=_serve, args=(loop,), name="dragoman client", daemon=True
        )
        self._thread.start()
        return loop


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return the fastest event loop that there is."""
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 -- not on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return new_event_loop()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, and leave nothing behind."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
