"""The client for programs without an event loop.

The asynchronous client runs in a background thread.  Bytes of a streamed answer are queued there and decoded in
the caller's thread.
"""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, NoReturn, Self, TypeVar, Unpack

from dragoman.client.answer_stream import IncomingAnswer, StreamedAnswer
from dragoman.client.client import Client
from dragoman.client.errors import ClientError, cancelled
from dragoman.client.exchange import HttpExchange
from dragoman.client.settings import ClientOptions
from dragoman.errors import MisuseError
from dragoman.event_loop import new_event_loop
from dragoman.turn.answer import Answer
from dragoman.turn.events import Event, TextDelta
from dragoman.turn.request import Request

T = TypeVar("T")
_CLOSED: Final = "the client was closed"
_MAX_QUEUED: Final = 128 * 1024  # bytes between the event loop and the reading thread


class SyncClient:
    """Send requests to one server, without an event loop.

    Takes the arguments of `Client`, and behaves the same.  Immutable; may be shared between threads.  The
    connections live in one background thread, which starts with the first request and ends with `close`, or
    on leaving `with`.

    Args:
        base_url: As for `Client`.
        **options: The keyword arguments of `Client`.

    Raises:
        ConfigError: a setting is invalid.

    Example:
        with SyncClient("http://127.0.0.1:8484/v1", model="sim/plain") as client:
            print(client.create(request("Hello")).text)
    """

    __slots__ = ("_client", "_thread")
    _client: Client
    _thread: "_LoopThread"

    def __init__(self, base_url: str, **options: Unpack[ClientOptions]) -> None:
        object.__setattr__(self, "_client", Client(base_url, **options))
        object.__setattr__(self, "_thread", _LoopThread())

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a client cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a client cannot be changed")

    def __repr__(self) -> str:
        return f"Sync{self._client!r}"

    def create(self, request: Request, /, *, timeout: float = 0.0) -> Answer:
        """Send a request and return its complete answer.

        Args:
            request: What to send; made by `dragoman.request`.
            timeout: Seconds for the whole exchange, besides the client's `timeouts`; 0: none.

        Raises:
            ClientError: there is no complete answer; the error says how far it came.
            MisuseError, MalformedError, UntranslatableError: the request cannot be sent; nothing was.
        """
        return self._thread.run(self._client.create(request, timeout=timeout))

    def stream(self, request: Request, /, *, timeout: float = 0.0) -> "SyncAnswerStream":
        """Return the answer as a stream: `with client.stream(request) as stream`.

        The request is sent when the stream is entered.

        Args:
            request: What to send; made by `dragoman.request`.
            timeout: Seconds for the whole exchange, besides the client's `timeouts`; 0: none.

        Raises:
            MisuseError, MalformedError, UntranslatableError: the request cannot be sent.
        """
        incoming = self._client._incoming(request, timeout)  # noqa: SLF001 -- the same client
        return SyncAnswerStream(incoming, self._thread)

    def close(self) -> None:
        """Close all connections and end the thread; streams that are still read raise `cancelled`.

        A later request starts a new thread.
        """
        self._thread.stop(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class SyncAnswerStream(StreamedAnswer):
    """One streamed answer, for programs without an event loop.  Made by `SyncClient.stream`.

    Iterate over it for events, or over `text` for text alone; both read the same stream.  Enter it once.
    Leaving `with` closes the connection unless the answer was read to its end, so the model stops
    generating.  While the program does not read, at most 256 KiB are buffered and the server has to wait.

    Example:
        with client.stream(request("Hello")) as stream:
            for text in stream.text:
                print(text, end="")
        print(stream.answer().finish_reason)
    """

    def __init__(self, incoming: IncomingAnswer, thread: "_LoopThread") -> None:
        super().__init__(incoming)
        self._thread = thread
        self._loop: asyncio.AbstractEventLoop | None = None  # in which the stream was entered
        self._ahead: _ReadAhead | None = None
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

    async def _open(self) -> "_ReadAhead":
        return _ReadAhead(await self._incoming.open())

    def __exit__(self, *_error: object) -> None:
        self._unless_closed(self._incoming.leave())

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        """Return the next event; the last one is `Finish`.

        Raises:
            ClientError: the answer failed; `received` holds what had arrived.
        """
        for event in self._ready:
            return event
        ready = self._ready = iter(self.pump())
        return next(ready)

    @property
    def text(self) -> Iterator[str]:
        """The text of the answer as it arrives, without reasoning and tool calls.

        Other events that arrive meanwhile are skipped; `answer` still contains them.

        Raises:
            ClientError: while iterating, if the answer failed.
        """
        return (event.text for event in self if isinstance(event, TextDelta))

    def pump(self) -> list[Event]:
        """Return all events of the next read that leads to any; an empty list at the end.

        Raises:
            ClientError: the answer failed; `received` holds what had arrived.
            MisuseError: another thread reads this stream.
        """
        incoming, ahead = self._incoming, self._ahead
        if ahead is None:
            self._thread.check(self._loop)
            raise MisuseError("a stream can be read only inside its `with` block")
        events: list[Event] = []
        if incoming.check() is None:
            return events
        if not self._reading.acquire(blocking=False):
            raise MisuseError("only one thread at a time can read an answer")
        try:
            while not (events or incoming.done):
                events = incoming.feed(ahead.read())
        except ClientError as error:
            events = incoming.fail(error)
        finally:
            self._reading.release()
        if incoming.done:
            self._unless_closed(incoming.release())
            return incoming.last(events)
        return events

    def close(self) -> None:
        """Stop reading.  A thread that reads meanwhile gets a `cancelled` error."""
        self._unless_closed(self._incoming.close())

    def _unless_closed(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the loop; do nothing if the client was closed meanwhile."""
        try:
            self._thread.run(work, self._loop)
        except ClientError as error:
            if error.stage != "cancelled":
                raise


class _ReadAhead:
    """Queues the bytes of one exchange, from its event loop to the thread that reads them.

    The loop queues bytes where they arrive, so an event costs one wake-up of the loop and one of the reader.
    Only the loop writes `_given` and only the reader writes `_taken`; the difference is what is queued.  If
    that is too much, the loop queues no more, so that the connection stops receiving and the server has to
    wait; the reader calls the loop once half of it is gone.
    """

    def __init__(self, exchange: HttpExchange) -> None:
        self._exchange = exchange
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[bytes | ClientError] = SimpleQueue()
        self._given = 0
        self._taken = 0
        self._full = False  # the reader has to call once there is room
        self._over = False  # the answer's end, or its failure, is in the queue
        exchange.listen(self._give)
        self._give()

    def read(self) -> bytes:
        """Return what has arrived, at least a byte; empty at the end.  One thread at a time.

        Raises:
            ClientError: the connection broke, a timeout ran out, or the exchange was closed.
        """
        exchange = self._exchange
        if exchange.why is not None:
            raise exchange.why
        exchange.waiting_since = time.monotonic()
        try:
            found = self._queue.get()
        finally:
            exchange.waiting_since = None
        if isinstance(found, ClientError):
            raise found
        self._taken += len(found)
        if self._full and self._given - self._taken <= _MAX_QUEUED // 2:
            self._full = False
            with suppress(RuntimeError):  # the loop was closed: the next read raises
                self._loop.call_soon_threadsafe(self._give)
        return found

    def _give(self) -> None:
        """Queue what has arrived.  Called in the event loop for each arrival."""
        try:
            while not self._over and not self._is_full():
                data = self._exchange.take()
                if data is None:
                    break
                self._over = not data
                self._given += len(data)
                self._queue.put(data)
        except ClientError as error:
            self._over = True
            self._queue.put(error)

    def _is_full(self) -> bool:
        if self._given - self._taken <= _MAX_QUEUED:
            return False
        self._full = True
        # The reader may have taken bytes just before `_full` was set.
        self._full = self._given - self._taken > _MAX_QUEUED // 2
        return self._full


class _LoopThread:
    """An event loop in a background thread, from its first use to `stop`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> asyncio.AbstractEventLoop:
        """Return the loop; start it if necessary."""
        with self._lock:
            return self._loop or self._begin()

    def run(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop | None = None) -> T:
        """Run `work` in the loop and wait for it; `loop` must still be the current one, if given.

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
            future.cancel()  # the caller was interrupted: nothing waits for the result
            raise

    def check(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Raise `cancelled` if the client was closed since `loop` was current."""
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
        loop = self._loop = new_event_loop()
        self._thread = threading.Thread(
            target=_serve, args=(loop,), name="dragoman client", daemon=True
        )
        self._thread.start()
        return loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then close it and its tasks."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
