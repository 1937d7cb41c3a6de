"""The event loop on which servers and clients run, and signals that reach it."""

import asyncio
import signal
from collections.abc import Callable


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop where it is installed, else asyncio's, as on Windows."""
    try:
        from uvloop import new_event_loop as fast  # noqa: PLC0415 -- not on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return fast()


def on_signal(number: int, callback: Callable[[], object]) -> None:
    """Call a function in the running event loop whenever a signal arrives.

    The event loop of Windows takes no signal handlers.  There the interpreter's handler wakes the loop.
    """
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(number, callback)
    except NotImplementedError:
        signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(callback))
