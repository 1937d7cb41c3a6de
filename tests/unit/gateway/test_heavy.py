"""Large work leaves the event loop free, small work is done at once, and a cancelled task waits for it."""

import asyncio
import threading

import pytest

from dragoman.gateway.heavy import (
    LIGHT_BYTES,
    SHORT_SLICE_BYTES,
    SLICE_BYTES,
    Feeder,
    HeavyWork,
    first_slice,
)
from dragoman.translate import Translator
from tests.support.odd_upstream import chat_stream


def test_small_work_is_done_where_it_is_asked_for() -> None:
    async def run() -> int:
        return await HeavyWork().run(LIGHT_BYTES, threading.get_ident)

    assert threading.get_ident() == asyncio.run(run())


def test_large_work_is_done_in_a_thread_while_others_run() -> None:
    async def run() -> tuple[int, int]:
        heavy, turn = HeavyWork(), threading.Event()

        def work() -> int:
            assert turn.wait(60)  # set by the event loop, which must be free for that
            return threading.get_ident()

        task = asyncio.create_task(heavy.run(LIGHT_BYTES + 1, work))
        await asyncio.sleep(0)
        turn.set()
        found = await task
        heavy.close()
        return found, threading.get_ident()

    worker, loop = asyncio.run(run())
    assert worker != loop


def test_an_error_of_large_work_is_raised() -> None:
    def work() -> None:
        raise ValueError("no")

    async def run() -> None:
        heavy = HeavyWork()
        try:
            await heavy.run(LIGHT_BYTES + 1, work)
        finally:
            heavy.close()

    with pytest.raises(ValueError, match="no"):
        asyncio.run(run())


def test_a_cancelled_task_ends_after_its_thread() -> None:
    async def run() -> list[str]:
        heavy, begun, turn = HeavyWork(), threading.Event(), threading.Event()
        order: list[str] = []

        def work() -> None:
            begun.set()
            assert turn.wait(60)
            order.append("thread")

        async def ask() -> None:
            try:
                await heavy.run(LIGHT_BYTES + 1, work)
            finally:
                order.append("task")

        task = asyncio.create_task(ask())
        await asyncio.to_thread(begun.wait, 60)
        for _ in range(2):  # the second one while it waits for the thread
            task.cancel()
            await asyncio.sleep(0)
        assert not order
        turn.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        heavy.close()
        return order

    assert ["thread", "task"] == asyncio.run(run())


@pytest.mark.parametrize("words", [10, 2_000])
def test_a_stream_is_the_same_however_it_is_fed(words: int) -> None:
    data = b"".join(chat_stream(*(f"word {at} " for at in range(words))))
    at_once = Translator(source="chat", target="anthropic")
    expected = at_once.feed(data) + at_once.close()

    async def run() -> bytes:
        heavy = HeavyWork()
        translator = Translator(source="chat", target="anthropic")
        feeder = Feeder(heavy, translator)
        assert feeder.is_light(data) is (len(data) <= SLICE_BYTES)
        out = await feeder.feed(data) + await feeder.feed(b"")
        heavy.close()
        return out

    assert expected == asyncio.run(run())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"data: x\n\n", 9),
        (b"data: x\n\n" * 10_000, SLICE_BYTES),  # more than a slice: its density is looked at later
        (b"data: x\n\n" * 7_000, SHORT_SLICE_BYTES),
        (b"data: x\r\r" * 7_000, SHORT_SLICE_BYTES),
        (b"data: " + b"x" * 252 + b"\n\n", 260),
        ((b"data: " + b"x" * 252 + b"\n\n") * 200, 52_000),
    ],
    ids=["small", "large", "short lines", "carriage returns", "one event", "dense stream"],
)
def test_slices_of_short_lines_are_small(data: bytes, expected: int) -> None:
    assert expected == first_slice(data)
