"""The bytes of an answer, taken in its event loop ahead of a thread that reads them.

Theory of operation.  Whatever arrives is put into a queue where it arrives; so one event costs one waking of
the loop and one of the reader, and no asking from one to the other.  The loop alone writes `_given`, the
reader alone `_taken`; the difference is what waits in the queue.  Where that is too much, the loop takes
nothing more, which makes the connection stop listening, and the server wait; the reader calls the loop again
once half of it is gone.
"""

import asyncio
import time
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from dragoman.client.errors import ClientError
from dragoman.client.exchange import Exchange

_AHEAD: Final = 128 * 1024  # bytes in the queue, before no more are taken


class ReadAhead:
    """Reads one exchange.  Made in its event loop."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[bytes | ClientError] = SimpleQueue()
        self._given = 0
        self._taken = 0
        self._full = False  # the reader has to call, once there is room
        self._over = False  # the answer's end, or its failure, is in the queue
        exchange.listen(self._give)
        self._give()

    def read(self) -> bytes:
        """Return what has arrived, at least a byte; nothing at the end.  In one thread at a time.

        Raises:
            ClientError: the connection broke, a clock ran out, or somebody closed the exchange.
        """
        exchange = self._exchange
        if exchange.why is not None:
            raise exchange.why
        exchange.more.since = time.monotonic()
        try:
            found = self._queue.get()
        finally:
            exchange.more.since = None
        if isinstance(found, ClientError):
            raise found
        self._taken += len(found)
        if self._full and self._given - self._taken <= _AHEAD // 2:
            self._full = False
            with suppress(RuntimeError):  # the loop was closed: the next read says so
                self._loop.call_soon_threadsafe(self._give)
        return found

    def _give(self) -> None:
        """Put what has arrived into the queue.  In the event loop, for each arrival."""
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
        if self._given - self._taken <= _AHEAD:
            return False
        self._full = True
        # The reader may have passed by just before it could see this.
        self._full = self._given - self._taken > _AHEAD // 2
        return self._full
