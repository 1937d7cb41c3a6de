"""One slow clock for all streams: deadlines and signs of life, at no cost to a read.

A timer per read would cost more than the read.  Instead every open flight is looked at a few times a
second, and only the one that is late is touched.
"""

import asyncio
from typing import Final, Protocol

TICK_SECONDS: Final = 0.2


class Watched(Protocol):
    def tick(self, now: float) -> None:
        """Do what is due; `now` is the event loop's time."""
        ...


class Watch:
    """Ticks for whoever is on it."""

    def __init__(self) -> None:
        self._watched: set[Watched] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._watched)

    def add(self, one: Watched) -> None:
        self._watched.add(one)
        if self._timer is None:
            self._wind()

    def remove(self, one: Watched) -> None:
        self._watched.discard(one)

    def _wind(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for one in tuple(self._watched):
            one.tick(now)
        if self._watched:
            self._wind()
