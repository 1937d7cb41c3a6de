"""What a task waits with for bytes.

A task that waits for a future is woken by the event loop in its next turn, which costs more than most reads are
worth.  What `await` takes is anything that behaves like a future (see `asyncio.isfuture`); a bell is one that
wakes its task there and then.  One task at a time waits for a bell.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from contextvars import Context

from dragoman.errors import MisuseError


class Bell:
    """Wakes the task that waits for it, as often as somebody does."""

    __slots__ = ("_asyncio_future_blocking", "_cancelled", "_context", "_loop", "_wake", "since")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.since: float | None = None  # when somebody began to wait
        self._loop = loop  # asyncio reads it too: there is no `get_loop`
        self._wake: Callable[[Bell], object] | None = None  # of the task that waits
        self._context: Context | None = None
        self._cancelled: asyncio.CancelledError | None = None
        self._asyncio_future_blocking = False  # asyncio's own: somebody begins to wait

    def __await__(self) -> Generator["Bell", None, None]:
        if self.since is not None:
            raise MisuseError("an answer is read by one task at a time")
        self.since = time.monotonic()
        self._asyncio_future_blocking = True
        try:
            yield self
        finally:
            self.since = None

    def ring(self) -> None:
        """Let the task go on at once, if one waits.  Only where the event loop calls, never inside a task."""
        wake, context = self._wake, self._context
        if wake is not None and context is not None:
            self._wake = self._context = None
            context.run(wake, self)

    # --- what a task asks of a future --------------------------------------------------------------------

    def add_done_callback(
        self, wake: Callable[["Bell"], object], *, context: Context | None = None
    ) -> None:
        self._wake, self._context = wake, context

    def cancel(self, msg: object = None) -> bool:
        wake, context = self._wake, self._context
        if wake is None:
            return False
        # Who cancelled may know it by the message.
        self._cancelled = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        self._wake = self._context = None
        self._loop.call_soon(wake, self, context=context)
        return True

    def result(self) -> None:
        cancelled = self._cancelled
        if cancelled is not None:
            self._cancelled = None
            raise cancelled
