"""Runs work in threads that would block the event loop for long.

The core is synchronous, and its time is linear in what it is given; a large request or answer takes it
seconds.  Python lets another thread run every few milliseconds, so the event loop goes on serving.
"""

import asyncio
import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from itertools import islice
from typing import Final, TypeVar, cast

from dragoman.translate import Translator

T = TypeVar("T")

# Bytes whose work is done where it arises: at a microsecond for the costliest byte it takes a tenth of a second.
LIGHT_BYTES: Final = 128 * 1024
# Bytes of a stream that are fed at once, less if its lines are short: a slice has about a thousand events at most,
# and the costliest take a tenth of a millisecond.
SLICE_BYTES: Final = 64 * 1024
SHORT_SLICE_BYTES: Final = 8 * 1024
_SHORT_LINE_BYTES: Final = 32  # on average; an event has two lines or more
_CR: Final = ord("\r")
_LONG_STREAM_BYTES: Final = 4 * 1024 * 1024
# Threads share one interpreter: more of them would only make the event loop wait longer for its turn.
_THREADS: Final = 2
_M_ARENA_MAX: Final = -8  # of `malloc.h`
_TRIM_SECONDS: Final = 0.5  # without heavy work, until its memory is given back to the system


class HeavyWork:
    """Runs large work in a thread, and small work at once in the event loop."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None  # made when first needed
        self._trim = _allocator_trim()
        self._trimming: asyncio.TimerHandle | None = None
        self._last = 0.0  # when heavy work last ended, by the loop's clock

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Run `work`, which processes `size` bytes, and return its result.

        A task that is cancelled meanwhile waits until the thread is done: the thread must not change
        data while the code that handles the cancellation uses it.
        """
        if size <= LIGHT_BYTES:
            return work()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="dragoman-heavy")
        loop = asyncio.get_running_loop()
        if self._trimming is None:
            self._trimming = loop.call_later(_TRIM_SECONDS, self._give_back, loop)
        begun = self._threads.submit(work)
        future = asyncio.wrap_future(begun)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            # What has begun cannot be stopped; cancelling `future` instead would only end the wait for it.
            begun.cancel()
            while not begun.done():
                await _wait_through(future)
            raise
        finally:
            self._last = loop.time()
            del (
                begun,
                future,
            )  # an error that they hold would hold this frame, and with it the work's bytes

    def close(self) -> None:
        """Let the threads end."""
        if self._trimming is not None:
            self._trimming.cancel()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _give_back(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give free memory back, unless heavy work has just been done: more of it may need the same."""
        again = self._last + _TRIM_SECONDS
        if again > loop.time():
            self._trimming = loop.call_at(again, self._give_back, loop)
            return
        self._trimming = None
        if self._threads is not None and self._trim is not None:
            self._threads.submit(self._trim, 0)


class Feeder:
    """Feeds one stream to its translator without keeping others waiting.

    A long read is fed in slices, between which others have their turn.  What ends an event that is large
    by itself is fed in a thread, and so is all of a stream that has become large: some dialects repeat the
    whole answer at its end.
    """

    __slots__ = ("_heavy", "_received", "_translator")

    def __init__(self, heavy: HeavyWork, translator: Translator) -> None:
        self._heavy = heavy
        self._translator = translator
        self._received = 0

    def is_light(self, data: bytes) -> bool:
        """Count what was read, and return whether it may be fed at once."""
        size = len(data)
        received = self._received = self._received + size
        if size > SHORT_SLICE_BYTES and first_slice(data) < size:
            return False
        if received <= LIGHT_BYTES:
            return True
        return received <= _LONG_STREAM_BYTES and self._translator.held + size <= LIGHT_BYTES

    async def feed(self, data: bytes) -> bytes:
        """Feed what was read, nothing at the stream's end, and return what the client is to get."""
        translator, run = self._translator, self._heavy.run
        if not data:
            return await run(max(translator.held, self._received), translator.close)
        out: list[bytes] = []
        start = 0
        while start < len(data):
            piece = data[start : start + SLICE_BYTES]
            piece = piece[: first_slice(piece)]
            start += len(piece)
            long = self._received > _LONG_STREAM_BYTES
            size = self._received if long else translator.held + len(piece)
            if written := await run(size, partial(translator.feed, piece)):
                out.append(written)
            await asyncio.sleep(0)
        return b"".join(out)


def first_slice(data: bytes) -> int:
    """Return how many bytes of what was read are fed at once."""
    size = len(data)
    if size <= SHORT_SLICE_BYTES:
        return size
    if size > SLICE_BYTES:
        return SLICE_BYTES
    most = size // _SHORT_LINE_BYTES
    if _CR in data:
        short = data.count(b"\n") + data.count(b"\r") > most
    else:  # to read the lines takes a quarter of the instructions of `count`
        short = next(islice(BytesIO(data), most, None), None) is not None
    return SHORT_SLICE_BYTES if short else size


def _allocator_trim() -> Callable[[int], int] | None:
    """Return the function by which the GNU allocator gives free memory back to the system.

    By itself it keeps large blocks for the next that are needed, and what lies between blocks in use.  It
    gives back the end of its main arena only, so threads are made to use that one.
    """
    try:
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, 1)
        return cast("Callable[[int], int]", library.malloc_trim)
    except (OSError, AttributeError, TypeError):
        return None  # another allocator


async def _wait_through(future: asyncio.Future[T]) -> None:
    """Wait for a thread, however often the waiting task is cancelled."""
    try:
        await asyncio.wait((future,))
    except asyncio.CancelledError:
        return
