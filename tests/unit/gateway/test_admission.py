"""Who enters at once, who waits, and in which order."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.admission import (
    Admission,
    Entrance,
    PlaceLimits,
    RequestQueue,
    UpstreamPlace,
    UpstreamPlaces,
)
from dragoman.gateway.state.state import State


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 60))


async def let_tasks_run() -> None:
    """Let every task run until all of them wait."""
    for _ in range(20):
        await asyncio.sleep(0)


class Door:
    """An entrance with so many places; requests are known by their names."""

    def __init__(self, places: int = 1) -> None:
        self.entrance = Entrance()
        self.entered: list[str] = []
        self.inside: dict[str, Admission] = {}
        self._limits = PlaceLimits(places)

    async def _attempt(self, name: str) -> Admission | None:
        found = self.entrance.enter(self._limits, 0.0, 0)
        if not isinstance(found, Admission):
            return None
        self.entered.append(name)
        self.inside[name] = found
        return found

    def ask(self, name: str, priority: int = 0, seconds: float = 60.0) -> asyncio.Task[Any]:
        queue = self.entrance.queue
        waiter = queue.join(priority)
        work = queue.wait(waiter, lambda: self._attempt(name), seconds=seconds, polls=False)
        return asyncio.create_task(work)

    async def leave(self, name: str) -> None:
        self.inside.pop(name).leave()
        await let_tasks_run()


def test_requests_of_one_priority_enter_as_they_came():
    async def scene() -> list[str]:
        door = Door()
        tasks = [door.ask(name) for name in "abcd"]
        await let_tasks_run()
        for name in "abcd":
            await door.leave(name)
        await asyncio.gather(*tasks)
        return door.entered

    assert ["a", "b", "c", "d"] == run(scene())


def test_higher_priority_enters_first():
    async def scene() -> list[str]:
        door = Door()
        tasks = [door.ask("inside")]
        await let_tasks_run()
        tasks += [door.ask("low", -1), door.ask("plain"), door.ask("high", 5), door.ask("high2", 5)]
        await let_tasks_run()
        for name in ("inside", "high", "high2", "plain", "low"):
            await door.leave(name)
        await asyncio.gather(*tasks)
        return door.entered

    assert ["inside", "high", "high2", "plain", "low"] == run(scene())


def test_every_eighth_place_goes_to_the_request_that_waited_longest():
    async def scene() -> list[str]:
        door = Door()
        tasks = [door.ask("0", 1)]
        await let_tasks_run()
        tasks += [door.ask("low"), *(door.ask(str(number), 1) for number in range(1, 12))]
        await let_tasks_run()
        for _ in range(12):
            await door.leave(door.entered[-1])
        await asyncio.gather(*tasks)
        return door.entered

    assert ["0", "1", "2", "3", "4", "5", "6", "low", "7", "8", "9", "10", "11"] == run(scene())


def test_request_that_leaves_the_queue_lets_the_next_one_try():
    async def scene() -> tuple[list[str], int]:
        door = Door()
        door.ask("inside")
        await let_tasks_run()
        gone, kept = door.ask("gone"), door.ask("kept")
        await let_tasks_run()
        gone.cancel()
        await let_tasks_run()
        await door.leave("inside")
        await kept
        return door.entered, len(door.entrance.queue)

    assert (["inside", "kept"], 0) == run(scene())


def test_all_free_places_are_filled():
    async def scene() -> list[str]:
        door = Door(3)
        for name in "abcde":
            door.ask(name)
        await let_tasks_run()
        return door.entered

    assert ["a", "b", "c"] == run(scene())


def test_wait_ends_by_its_timeout():
    async def scene() -> tuple[Any, int]:
        door = Door()
        door.ask("inside")
        await let_tasks_run()
        return await door.ask("late", seconds=0.01), len(door.entrance.queue)

    assert ("timeout", 0) == run(scene())


def test_wait_ends_when_the_gateway_drains():
    async def scene() -> Any:
        queue = RequestQueue()
        waiter = queue.join(0)

        async def never() -> None:
            return None

        task = asyncio.create_task(queue.wait(waiter, never, seconds=60, polls=False))
        await let_tasks_run()
        waiter.end()
        return await task

    assert "draining" == run(scene())


def test_place_that_another_process_gives_back_is_found(tmp_path: Path):
    async def scene() -> Any:
        first, second = State(tmp_path), State(tmp_path)
        here, there = UpstreamPlaces("local", first), UpstreamPlaces("local", second)
        held = await there.enter(1)
        assert isinstance(held, UpstreamPlace)
        assert await here.enter(1) is None
        queue = here.entrance.queue
        task = asyncio.create_task(
            queue.wait(queue.join(0), lambda: here.enter(1), seconds=30, polls=here.entrance.shared)
        )
        await let_tasks_run()
        held.leave()  # which wakes nothing in this process
        found = await task
        await first.close()
        await second.close()
        return found

    assert isinstance(run(scene()), UpstreamPlace)


@pytest.mark.parametrize(
    ("held", "waiting", "places", "expected"), [(0.01, 0, 1, 1.0), (6.0, 3, 2, 12.0), (900, 9, 1, 60.0)]
)  # fmt: skip
def test_retry_after_is_when_those_that_wait_have_been_served(
    held: float, waiting: int, places: int, expected: float
):
    async def scene() -> float:
        found = UpstreamPlaces("local", State(None))
        found.leave(held)
        for _ in range(waiting):
            found.entrance.queue.join(0)
        return found.retry_after(places)

    assert expected == run(scene())


def test_counts_go_on_after_a_reload():
    old, new = Entrance(), Entrance()
    entered = old.enter(PlaceLimits(1), 0.0, 0)
    new.adopt(old)
    refused = new.enter(PlaceLimits(1), 0.0, 0)
    assert isinstance(entered, Admission)
    entered.leave()

    assert "concurrent" == refused.limit
    assert isinstance(new.enter(PlaceLimits(1), 0.0, 0), Admission)
    assert new.queue is old.queue
