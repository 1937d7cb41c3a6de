"""A bell wakes the task that waits for it, like a future, but at once."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine

import pytest
import uvloop

from dragoman.transport.bell import Bell

OnLoop = Callable[[Coroutine[None, None, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def on_loop(request: pytest.FixtureRequest) -> OnLoop:
    """Runs on the event loop of Python, and on the gateway's."""

    def run(work: Coroutine[None, None, None]) -> None:
        factory = uvloop.new_event_loop if request.param == "uvloop" else None
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(work)

    return run


async def called_by_the_loop(work: Callable[[], None]) -> None:
    """Wait until the event loop has called this, outside of every task."""
    asyncio.get_running_loop().call_soon(work)
    await asyncio.sleep(0)


def test_a_task_goes_on_where_the_bell_rings(on_loop: OnLoop) -> None:
    said: list[str] = []
    name = contextvars.ContextVar("name", default="nobody")

    async def run() -> None:
        bell = Bell(asyncio.get_running_loop())

        async def wait() -> None:
            name.set("the task")
            for _ in range(2):
                await bell
                said.append(name.get())

        def ring() -> None:
            bell.ring()
            said.append(name.get())

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        await called_by_the_loop(ring)
        await called_by_the_loop(ring)
        await called_by_the_loop(ring)  # nobody waits any more
        await task

    on_loop(run())

    assert ["the task", "nobody", "the task", "nobody", "nobody"] == said


def test_inside_a_task_another_is_woken_later(on_loop: OnLoop) -> None:
    said: list[str] = []

    async def run() -> None:
        bell = Bell(asyncio.get_running_loop())

        async def wait() -> None:
            await bell
            said.append("woken")

        bell.ring_later()  # nobody waits
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        bell.ring_later()
        said.append("rung")
        await task

    on_loop(run())

    assert ["rung", "woken"] == said


def test_a_bell_that_rings_inside_a_task_waits_for_its_turn(on_loop: OnLoop) -> None:
    said: list[str] = []

    async def run() -> None:
        bell = Bell(asyncio.get_running_loop())

        async def wait() -> None:
            await bell
            said.append("woken")

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        bell.ring()  # as a connection does that reads on while a task closes it
        said.append("rung")
        await task

    on_loop(run())

    assert ["rung", "woken"] == said


def test_a_task_that_waits_can_be_cancelled_and_wait_again(on_loop: OnLoop) -> None:
    async def run() -> None:
        bell = Bell(asyncio.get_running_loop())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_waited(bell), 0.01)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await bell
        assert not bell.cancel()
        task = asyncio.create_task(_waited(bell))
        await asyncio.sleep(0)
        task.cancel("by somebody")
        with pytest.raises(asyncio.CancelledError, match="by somebody"):
            await task
        task = asyncio.create_task(_waited(bell))
        await asyncio.sleep(0)
        await called_by_the_loop(bell.ring)
        await task

    on_loop(run())


async def _waited(bell: Bell) -> None:
    await bell
