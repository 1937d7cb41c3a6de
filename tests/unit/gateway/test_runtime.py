"""The clock that all open streams share."""

import asyncio

from dragoman.gateway.runtime import TICK_SECONDS, DeadlineClock
from dragoman.turn.events import Fault


class Stream:
    """Notes when it was looked at, and leaves after some looks."""

    def __init__(self, clock: DeadlineClock, looks: int) -> None:
        self.times: list[float] = []
        self.done = asyncio.Event()
        self._clock, self._looks = clock, looks

    def tick(self, now: float) -> None:
        self.times.append(now)
        if len(self.times) == self._looks:
            self._clock.remove(self)
            self.done.set()

    def abort(self, fault: Fault, *, final: bool = False) -> None:
        raise AssertionError(fault, final)


def test_every_stream_is_looked_at_until_it_leaves_and_again_after_a_pause() -> None:
    async def run() -> None:
        clock = DeadlineClock()
        first, second = Stream(clock, 1), Stream(clock, 3)
        clock.add(first)
        clock.add(second)
        async with asyncio.timeout(60):
            await second.done.wait()

            assert (1, 3) == (len(first.times), len(second.times))
            assert second.times[2] - second.times[0] >= 2 * TICK_SECONDS * 0.9

            await asyncio.sleep(2 * TICK_SECONDS)  # the timer has stopped: no stream is open
            late = Stream(clock, 1)
            clock.add(late)
            await late.done.wait()

    asyncio.run(run())
