"""A gateway in a thread of this process, on a free port of loopback, for as long as an agent runs."""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self, TextIO

from msgspec import structs

from dragoman.event_loop import new_event_loop
from dragoman.gateway.config.settings import DEFAULT_HOST, Settings
from dragoman.gateway.logging import Logger
from dragoman.gateway.plan import secrets_of
from dragoman.gateway.serve import Companion, Running

_LAST_SECONDS: Final = (
    1.0  # for requests still running after the agent has ended: no client waits for them
)


class GatewayThread:
    """`with GatewayThread(settings, log=file) as gateway: gateway.url`."""

    def __init__(
        self, settings: Settings, *, log: TextIO, companion: Companion | None = None
    ) -> None:
        server = structs.replace(
            settings.server, host=DEFAULT_HOST, port=0, workers=1, drain_seconds=_LAST_SECONDS
        )
        self._settings = structs.replace(settings, server=server)
        self._companion = companion
        self._log = log
        self._thread = threading.Thread(target=self._run, name="dragoman-gateway", daemon=True)
        self._started: Future[tuple[str, Settings]] = Future()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self.url: str = ""
        self.settings: Settings = settings  # as they are served: with the companion's changes

    def __enter__(self) -> Self:
        self._thread.start()
        self.url, self.settings = self._started.result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._main())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)  # raised where the gateway was asked for

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with AsyncExitStack() as stack:
            settings = self._settings
            if self._companion is not None:
                settings = await stack.enter_async_context(self._companion(settings))
            logger = Logger.of(settings.log, secrets=secrets_of(settings), stream=self._log)
            running = await stack.enter_async_context(Running(settings, logger=logger))
            self._started.set_result((running.url, settings))
            await self._stop.wait()
            await running.stop()
