"""The event loops that everything which waits has to work on."""

import asyncio
from collections.abc import Callable, Coroutine

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
