"""The same client for programs without an event loop.

The asynchronous client runs in a thread of its own; a caller crosses over once for each read of an answer,
not for each event.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Iterator
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar, Unpack

from dragoman.client.client import Client
from dragoman.client.errors import ClientError
from dragoman.client.exchange import cancelled
from dragoman.client.settings import ClientOptions
from dragoman.client.stream import AnswerStream
from dragoman.turn.events import Event
from dragoman.turn.fold import Answer
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request

T = TypeVar("T")


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

    def create(self, request: Request, /, *, within: float = 0.0) -> Answer:
        """Return the whole answer to a request; `within` so many seconds, if not 0.

        Raises:
            ClientError: there is none.
            MisuseError, Malformed, Untranslatable: the request cannot be sent as it is.
        """
        return self._thread.run(self._client.create(request, within=within))

    def stream(self, request: Request, /, *, within: float = 0.0) -> "SyncAnswerStream":
        """Return the answer as it comes: `with client.stream(request) as turn`.

        All of it is to come `within` so many seconds, if not 0.

        Raises:
            MisuseError, Malformed, Untranslatable: the request cannot be sent as it is.
        """
        return SyncAnswerStream(self._client.stream(request, within=within), self._thread)

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


class SyncAnswerStream:
    """One streamed answer: events, then the whole."""

    def __init__(self, stream: AnswerStream, thread: "_LoopThread") -> None:
        self._stream = stream
        self._thread = thread
        self._loop: asyncio.AbstractEventLoop | None = None  # in which the stream was entered
        self._ready: Iterator[Event] = iter(())

    @property
    def status(self) -> int:
        """The status of the HTTP answer."""
        return self._stream.status

    @property
    def request_id(self) -> str:
        """The server's name for the request."""
        return self._stream.request_id

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the server cannot be told of the request; also the first events."""
        return self._stream.losses

    def __enter__(self) -> Self:
        self._loop = self._thread.begin()
        self._thread.run(self._stream.__aenter__(), self._loop)
        self._ready = iter(self._stream.losses)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._unless_closed(self._stream.__aexit__(kind, error, trace))

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        """Return the next event; the last one is `Finish`.

        Raises:
            ClientError: the answer failed; `received` holds what had come.
        """
        while True:
            for event in self._ready:
                return event
            events = self.pump()
            if not events:
                raise StopIteration
            self._ready = iter(events)

    def pump(self) -> list[Event]:
        """Return the events of the next read that leads to any; none at the end.

        Raises:
            ClientError: the answer failed; `received` holds what had come.
        """
        return self._thread.run(self._stream.pump(), self._loop)

    def message(self) -> Answer:
        """Return what has come; complete once the events have ended."""
        return self._stream.message()

    def close(self) -> None:
        """Stop reading.  A thread that reads meanwhile gets a `cancelled` error."""
        self._unless_closed(self._stream.close())

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
                raise cancelled("the client was closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop or self._begin())
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise cancelled("the client was closed") from None
        except BaseException:
            future.cancel()  # the caller was interrupted: nobody waits any more
            raise

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
