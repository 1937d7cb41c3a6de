"""A gateway over a simulator, both real servers on loopback, in a thread with its own event loop."""

import asyncio
import io
import json
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import structs

from dragoman.dialects import DIALECT_NAMES
from dragoman.gateway.config.settings import Match, Route, Server, Settings, Upstream
from dragoman.gateway.logging import Logger
from dragoman.gateway.serve import Running
from dragoman.simulator.server import Simulator

T = TypeVar("T")
DIALECTS = DIALECT_NAMES
# For tests whose requests are bytes or lines of their own on a fixed path, and for tests of what Chat, Messages and
# Responses have in common.  The paths of Gemini name the model: `wire` of simulator.py makes them of a request.
FIXED_PATHS = ("chat", "anthropic", "responses")
UNUSABLE = {
    "chat": 424,
    "anthropic": 424,
    "responses": 400,
    "gemini": 424,
}  # statuses of an unusable upstream
PATHS = {
    "chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "responses": "/v1/responses",
}


class Stand:
    """What a test uses: `url` of the gateway, the simulator behind it, and the gateway's log."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.log = io.StringIO()
        self._lines: list[dict[str, Any]] = []
        self._parsed = 0  # characters of the log that are in `_lines`
        self.simulator: Simulator
        self.running: Running

    @property
    def url(self) -> str:
        return self.running.url

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of the log so far; each is parsed once, because many tests may share a gateway."""
        text = self.log.getvalue()
        if len(text) < self._parsed:  # a test has emptied the log
            self._lines, self._parsed = [], 0
        end = text.rfind("\n") + 1
        self._lines += map(json.loads, text[self._parsed : end].splitlines())
        self._parsed = max(self._parsed, end)
        return self._lines

    def do(self, work: Coroutine[Any, Any, T], timeout: float = 60.0) -> T:
        """Run something in the servers' event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)


def settings_for(url: str, **changes: Any) -> Settings:
    """Return settings with one upstream of each dialect, all of them the simulator.

    A model `anthropic/plain+cut:9` asks the simulator for `plain+cut:9` in Messages.
    """
    upstreams = {
        name: Upstream(
            base_url=f"{url}/{'v1beta' if name == 'gemini' else 'v1'}",
            dialect=name,
            retries=0,
            models=("plain",),
        )
        for name in DIALECTS
    }
    fallback = Route(name="rest", match=Match(model="*"), to=("chat/*",))
    routes = tuple(
        Route(name=name, match=Match(model=f"{name}/*"), to=(f"{name}/*",)) for name in DIALECTS
    )
    return structs.replace(
        Settings(server=Server(port=0), upstreams=upstreams, routes=(*routes, fallback)), **changes
    )


@contextmanager
def stand(make=settings_for, **simulator: Any) -> Iterator[Stand]:
    """Run both servers; `make` gets the simulator's address and returns the gateway's settings."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    found = Stand(loop)
    stop = asyncio.Event()
    ready = threading.Event()
    failed: list[BaseException] = []

    async def serve() -> None:
        try:
            async with Simulator(port=0, **simulator) as found.simulator:
                logger = Logger(found.log, json=True, level="debug")
                settings = make(found.simulator.url)
                async with Running(settings, logger=logger) as found.running:
                    ready.set()
                    await stop.wait()
        except BaseException as error:
            failed.append(error)
            raise
        finally:
            ready.set()

    served = asyncio.run_coroutine_threadsafe(serve(), loop)
    try:
        assert ready.wait(60), "the servers did not start within a minute"
        if failed:
            raise failed[0]
        yield found
    finally:
        loop.call_soon_threadsafe(stop.set)
        if not failed:
            served.result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
