"""What a task waits with for bytes.

A task that waits for a future is woken by the event loop in its next turn, which costs more than most reads are
worth.  What `await` takes is anything that behaves like a future (see `asyncio.isfuture`); a bell is one that
wakes its task there and then.  One task at a time waits for a bell.
"""

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context


class Bell:
    """Wakes the task that waits for it, as often as somebody does."""

    __slots__ = ("_asyncio_future_blocking", "_cancelled", "_context", "_loop", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop  # asyncio reads it too: there is no `get_loop`
        self._wake: Callable[[Bell], object] | None = None  # of the task that waits
        self._context: Context | None = None
        self._cancelled: asyncio.CancelledError | None = None
        self._asyncio_future_blocking = False  # asyncio's own: somebody begins to wait

    def __await__(self) -> Generator["Bell", None, None]:
        self._asyncio_future_blocking = True
        yield self

    def ring(self) -> None:
        """Let the task go on at once, if one waits; in the next turn if another task is at work."""
        wake, context = self._wake, self._context
        if wake is None or context is None:
            return
        if asyncio.current_task(self._loop) is not None:
            self.ring_later()
            return
        self._wake = self._context = None
        context.run(wake, self)

    def ring_later(self) -> None:
        """Let the task go on in the next turn of the event loop."""
        wake, context = self._wake, self._context
        if wake is not None:
            self._wake = self._context = None
            self._loop.call_soon(wake, self, context=context)

    # --- what a task asks of a future --------------------------------------------------------------------

    def add_done_callback(
        self, wake: Callable[["Bell"], object], *, context: Context | None = None
    ) -> None:
        self._wake, self._context = wake, context

    def cancel(self, msg: object = None) -> bool:
        if self._wake is None:
            return False
        # Who cancelled may know it by the message.
        self._cancelled = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        self.ring_later()
        return True

    def result(self) -> None:
        cancelled = self._cancelled
        if cancelled is not None:
            self._cancelled = None
            raise cancelled
