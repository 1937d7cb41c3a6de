"""A bell wakes the task that waits for it, like a future, but at once."""

import asyncio
import contextvars
from collections.abc import Callable

import pytest

from dragoman.client.bell import Bell
from dragoman.errors import MisuseError
from tests.support.event_loops import OnLoop


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


def test_one_task_at_a_time_waits(on_loop: OnLoop) -> None:
    async def run() -> None:
        bell = Bell(asyncio.get_running_loop())
        assert bell.since is None
        task = asyncio.create_task(_waited(bell))
        await asyncio.sleep(0)
        assert bell.since is not None
        with pytest.raises(MisuseError, match="one task at a time"):
            await bell
        await called_by_the_loop(bell.ring)
        await task
        assert bell.since is None

    on_loop(run())


def test_a_task_that_waits_can_be_cancelled_and_wait_again(on_loop: OnLoop) -> None:
    async def run() -> None:
        bell = Bell(asyncio.get_running_loop())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_waited(bell), 0.01)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await bell
        assert not bell.cancel()
        assert bell.since is None
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
