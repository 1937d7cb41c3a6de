"""State that processes share, behind one interface: `State` for one machine, `RedisState` for several."""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

from dragoman.gateway.config.settings import Server
from dragoman.gateway.logging import Logger
from dragoman.gateway.state.key_limits import Meter, SharedMeter
from dragoman.gateway.state.notes import FIND_NOTES, PUT_NOTE, Notes, RedisNotes, WorkerNotes
from dragoman.gateway.state.redis_limits import (
    CHARGE,
    ENTER,
    LEASE_SECONDS,
    LEAVE,
    LEVELS,
    PROLONG,
    REPORT,
    RedisMeter,
)
from dragoman.gateway.state.redis_link import RedisLink, StateAwayError
from dragoman.gateway.state.rests import READ, READ_SECONDS, REST, WELL, RedisRests, WorkerRests
from dragoman.gateway.state.worker_limits import WorkerLimits

Status: TypeAlias = Literal["", "connected", "away"]

PREFIX: Final = "dragoman:"  # of every key in Redis

_LEVELS_AT_ONCE: Final = 4  # keys: hundreds of gateways with many keys would keep Redis busy
_NOTES: Final = 16  # in one round trip: each may find half a megabyte
_SCRIPTS: Final = (CHARGE, ENTER, LEAVE, LEVELS, PROLONG, READ, REPORT, REST, WELL)


class State:
    """What the workers of one gateway share: limits of keys, notes and cool-downs, in a folder; without one, nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._workers = None if folder is None else WorkerLimits(folder)
        self._worker_notes = None if folder is None else WorkerNotes(folder)
        self._worker_rests = None if folder is None else WorkerRests(folder)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def status(self) -> Status:
        """Whether the server that holds the state responds; empty: there is none."""
        return ""

    def meter(self, digest: bytes) -> Meter:
        """Return what counts the requests of a key on this machine."""
        return Meter() if self._workers is None else self._workers.meter(digest)

    def shared_meter(self, digest: bytes) -> SharedMeter | None:
        """Return what counts the requests of a key on all machines."""
        return None

    @property
    def notes(self) -> Notes | None:
        """What processes learn and leave for each other; None: there is one process."""
        return self._worker_notes

    def rest(self, upstream: str, seconds: float) -> None:
        """Let other processes know that an upstream rests."""
        if self._worker_rests is not None:
            self._worker_rests.rest(upstream, seconds)

    def well(self, upstream: str) -> None:
        """Let other processes know that an upstream answers again."""
        if self._worker_rests is not None:
            self._worker_rests.well(upstream)

    def watch_rests(self, on_rests: Callable[[Mapping[str, float]], None]) -> None:
        """Call a function, again and again, with the seconds that upstreams rest according to any process."""
        if self._worker_rests is not None:
            self._tasks.append(asyncio.create_task(self._read_rests(on_rests)))

    async def _read_rests(self, on_rests: Callable[[Mapping[str, float]], None]) -> None:
        while True:
            with suppress(StateAwayError):
                on_rests(await self._rests_now())
            await asyncio.sleep(READ_SECONDS)

    async def _rests_now(self) -> Mapping[str, float]:
        return {} if self._worker_rests is None else self._worker_rests.read()

    async def close(self) -> None:
        await self._stop_tasks()
        if self._worker_rests is not None:
            self._worker_rests.close()
        if self._workers is not None:
            self._workers.close()
        if self._worker_notes is not None:
            await asyncio.to_thread(self._worker_notes.close)

    async def _stop_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


class RedisState(State):
    """What several gateways share by a Redis server.  While it is away, each counts alone."""

    def __init__(self, url: str, folder: Path | None, logger: Logger) -> None:
        super().__init__(folder)
        self._logger = logger
        self._link = RedisLink(url, _SCRIPTS, self._on_change)
        self._notes_link = RedisLink(url, (FIND_NOTES, PUT_NOTE), self._on_notes, batch=_NOTES)
        self._notes = RedisNotes(self._notes_link, PREFIX)
        self._rests = RedisRests(self._link, PREFIX)
        self._gateway = os.urandom(8).hex()
        # The workers of a gateway count in one folder: to the others they are one machine.
        self._machine = self._gateway if folder is None else f"{socket.gethostname()}:{folder}"
        self._meters: dict[bytes, RedisMeter] = {}
        self._status: Status = ""
        self._back = asyncio.Event()  # Redis responds again

    @property
    def status(self) -> Status:
        return "connected" if self._link.available else "away"

    @property
    def notes(self) -> Notes | None:
        return self._notes

    async def start(self) -> None:
        """Connect; a server that does not respond is tried again in the background.

        Raises:
            ConfigError: the package is missing, or the address cannot be used.
        """
        await asyncio.gather(self._link.start(), self._notes_link.start())
        self._tasks += map(asyncio.create_task, (self._keep_up(), self._read_levels()))

    def shared_meter(self, digest: bytes) -> SharedMeter | None:
        meter = self._meters.get(digest)
        if meter is None:
            meter = RedisMeter(self._link, PREFIX, digest.hex(), self._gateway)
            self._meters[digest] = meter
        return meter

    async def close(self) -> None:
        await self._stop_tasks()
        for meter in self._meters.values():
            await meter.wait_sent()
        await asyncio.gather(self._link.close(), self._notes_link.close())
        await super().close()

    def rest(self, upstream: str, seconds: float) -> None:
        self._rests.rest(upstream, seconds)

    def well(self, upstream: str) -> None:
        self._rests.well(upstream)

    def watch_rests(self, on_rests: Callable[[Mapping[str, float]], None]) -> None:
        self._tasks.append(asyncio.create_task(self._read_rests(on_rests)))

    async def _rests_now(self) -> Mapping[str, float]:
        return await self._rests.read()

    async def _read_levels(self) -> None:
        """Keep up with what other gateways admit, to know it when Redis goes away."""
        while True:
            await asyncio.sleep(READ_SECONDS)
            oldest = sorted((one for one in self._meters.values() if one.in_use), key=_read_at)
            with suppress(StateAwayError):
                await asyncio.gather(*(one.read_levels() for one in oldest[:_LEVELS_AT_ONCE]))

    async def _keep_up(self) -> None:
        """Prolong what this gateway holds; charge what it owes as soon as Redis is back."""
        while True:
            self._back.clear()
            with suppress(StateAwayError):
                for meter in tuple(self._meters.values()):
                    await meter.charge_owed()
            try:
                async with asyncio.timeout(LEASE_SECONDS / 3):
                    await self._back.wait()
            except TimeoutError:
                self._prolong()

    def _prolong(self) -> None:
        """Report that this machine runs, and which requests it has under way."""
        self._link.send(REPORT, (f"{PREFIX}machines",), self._machine, LEASE_SECONDS)
        for meter in self._meters.values():
            meter.prolong()

    def _on_change(self, why: str) -> None:
        if not why:
            self._prolong()  # before any request asks: Redis may have lost its memory
            self._back.set()
        if self.status == self._status:
            return
        self._status = self.status
        if why:
            effect = "this gateway counts limits and remembers reasoning alone"
            self._logger.notice("state away", level="warning", why=why, effect=effect)
        else:
            self._logger.notice("state connected")

    def _on_notes(self, why: str) -> None:
        """Log that the second connection failed, unless the first did, too."""
        if why and self._link.available:
            effect = "some reasoning is remembered by this gateway alone"
            self._logger.notice("notes not shared", level="warning", why=why, effect=effect)


def _read_at(meter: RedisMeter) -> float:
    return 0.0 if meter.levels is None else meter.levels.at


async def open_state(server: Server, folder: Path | None, logger: Logger) -> State:
    """Return the state that the settings ask for; `folder` is shared by the workers of this gateway.

    Raises:
        ConfigError: it cannot be used.
    """
    if server.state is None:
        return State(folder)
    state = RedisState(server.state.value, folder, logger)
    await state.start()
    return state
