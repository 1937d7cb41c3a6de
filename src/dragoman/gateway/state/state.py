"""State that processes share, behind one interface: `State` for one machine, `RedisState` for several."""

import asyncio
import os
from pathlib import Path
from typing import Final, Literal, TypeAlias

from dragoman.gateway.config.settings import Server
from dragoman.gateway.logging import Logger
from dragoman.gateway.state.key_limits import Meter, SharedMeter
from dragoman.gateway.state.redis_limits import ENTER, LEASE_SECONDS, LEAVE, PROLONG, RedisMeter
from dragoman.gateway.state.redis_link import RedisLink
from dragoman.gateway.state.worker_limits import WorkerLimits

Status: TypeAlias = Literal["", "connected", "away"]

PREFIX: Final = "dragoman:"  # of every key in Redis


class State:
    """What the workers of one gateway share: the limits of keys, in a folder; without one, nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._workers = None if folder is None else WorkerLimits(folder)

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

    async def close(self) -> None:
        if self._workers is not None:
            self._workers.close()


class RedisState(State):
    """What several gateways share by a Redis server.  While it is away, each counts alone."""

    def __init__(self, url: str, folder: Path | None, logger: Logger) -> None:
        super().__init__(folder)
        self._logger = logger
        self._link = RedisLink(url, (ENTER, LEAVE, PROLONG), self._on_change)
        self._gateway = os.urandom(8).hex()
        self._meters: dict[bytes, RedisMeter] = {}
        self._status: Status = ""
        self._upkeep: asyncio.Task[None] | None = None

    @property
    def status(self) -> Status:
        return "connected" if self._link.available else "away"

    async def start(self) -> None:
        """Connect; a server that does not respond is tried again in the background.

        Raises:
            ConfigError: the package is missing, or the address cannot be used.
        """
        await self._link.start()
        self._upkeep = asyncio.create_task(self._keep_up())

    def shared_meter(self, digest: bytes) -> SharedMeter | None:
        meter = self._meters.get(digest)
        if meter is None:
            meter = RedisMeter(self._link, PREFIX, digest.hex(), self._gateway)
            self._meters[digest] = meter
        return meter

    async def close(self) -> None:
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.wait([self._upkeep])
        await self._link.close()
        await super().close()

    async def _keep_up(self) -> None:
        """Prolong what this gateway holds."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            self._prolong()

    def _prolong(self) -> None:
        for meter in self._meters.values():
            meter.prolong()

    def _on_change(self, why: str) -> None:
        status: Status = "away" if why else "connected"
        if not why:
            self._prolong()
        if status == self._status:
            return
        self._status = status
        if why:
            effect = "limits of keys are counted by this gateway alone"
            self._logger.notice("state away", level="warning", why=why, effect=effect)
        else:
            self._logger.notice("state connected")


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
