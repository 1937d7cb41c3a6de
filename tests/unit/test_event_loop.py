"""Signals reach the event loop, also on a loop that takes no signal handlers."""

import asyncio
import os
import signal
import sys

import pytest

from dragoman.event_loop import new_event_loop, on_signal


class LoopOfWindows(asyncio.SelectorEventLoop):
    def add_signal_handler(self, sig, callback, *args) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("make", [new_event_loop, asyncio.SelectorEventLoop, LoopOfWindows])
def test_a_signal_calls_the_function_in_the_loop(make) -> None:
    seen = []

    async def main() -> None:
        arrived = asyncio.Event()

        def note() -> None:
            seen.append(asyncio.get_running_loop())
            arrived.set()

        on_signal(signal.SIGUSR1, note)
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.wait_for(arrived.wait(), 30)

    before = signal.getsignal(signal.SIGUSR1)
    try:
        with asyncio.Runner(loop_factory=make) as runner:
            runner.run(main())
            assert [runner.get_loop()] == seen
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_without_uvloop_the_loop_is_asyncios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_event_loop()
    loop.close()

    assert isinstance(loop, asyncio.SelectorEventLoop)
