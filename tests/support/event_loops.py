"""The event loops that everything which waits has to work on, and one in a thread for servers of tests."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvloop

OnLoop = Callable[[Coroutine[None, None, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def on_loop(request: pytest.FixtureRequest) -> OnLoop:
    """Runs on the event loop of Python, and on the gateway's."""

    def run(work: Coroutine[None, None, None]) -> None:
        factory = uvloop.new_event_loop if request.param == "uvloop" else None
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(work)

    return run


@contextmanager
def loop_in_thread() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Run an event loop in a thread; what is given to the function runs there, and it returns the result."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
