"""Work that would keep the event loop from other requests, done in threads beside it.

The core is synchronous, and its time is linear in what it is given; a large request or answer takes it
seconds.  Python lets another thread run every few milliseconds, so the event loop goes on serving.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from dragoman.translate import Translator

T = TypeVar("T")

# Bytes whose work is done where it arises: at a microsecond for the costliest byte it takes a tenth of a second.
LIGHT_BYTES: Final = 128 * 1024
# Bytes of a stream that are fed at once: the costliest events are of a few bytes and take tens of microseconds.
SLICE_BYTES: Final = 16 * 1024
# Threads share one interpreter: more of them would only make the event loop wait longer for its turn.
_THREADS: Final = 2


class HeavyWork:
    """Runs what is large in a thread, and what is small at once."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None  # made when first needed

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Return what `work` returns, which is to look at `size` bytes.

        A task that is cancelled meanwhile waits until the thread is done: what the work changes must not
        change behind the back of whoever handles the cancellation.
        """
        if size <= LIGHT_BYTES:
            return work()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="dragoman-heavy")
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            future.cancel()  # if it has not begun
            while not future.done():
                await _wait_through(future)
            raise
        finally:
            del future  # an error that it holds would hold this frame, and with it the work's bytes

    def close(self) -> None:
        """Let the threads end."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def is_light(translator: Translator, data: bytes) -> bool:
    """Say whether what was read of a stream may be fed at once."""
    size = len(data)
    return size <= SLICE_BYTES and translator.held + size <= LIGHT_BYTES


async def feed_fairly(heavy: HeavyWork, translator: Translator, data: bytes) -> bytes:
    """Feed what was read of a stream, nothing at its end, and return what the client is to get.

    A long read is fed in slices, between which others have their turn.  What ends an event that is large
    by itself is fed in a thread.
    """
    if not data:
        return await heavy.run(translator.held, translator.close)
    out: list[bytes] = []
    for start in range(0, len(data), SLICE_BYTES):
        piece = data[start : start + SLICE_BYTES]
        out.append(await heavy.run(translator.held + len(piece), partial(translator.feed, piece)))
        await asyncio.sleep(0)
    return b"".join(out)


async def _wait_through(future: asyncio.Future[T]) -> None:
    """Wait for a thread, however often the waiting task is cancelled."""
    try:
        await asyncio.wait((future,))
    except asyncio.CancelledError:
        return
