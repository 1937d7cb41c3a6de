"""The official MCP client beside our server and a simulator."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from mcp.client import Client
from mcp.types import CallToolResult

from dragoman.cli.mcp import RoutedUpstreams
from dragoman.dialects import DIALECT_NAMES
from dragoman.gateway.config.settings import Match, Route, Settings, Upstream
from dragoman.mcp_server.server import make_server
from dragoman.simulator.server import Simulator

DIALECTS = DIALECT_NAMES
WEATHER = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
COMMAND = (sys.executable, "-m", "dragoman.cli.main", "mcp")


def settings_for(url: str) -> Settings:
    """Return settings with an upstream for each dialect, all of them a simulator."""
    bases = dict.fromkeys(DIALECTS, f"{url}/v1") | {"gemini": f"{url}/v1beta"}
    return Settings(
        upstreams={name: Upstream(base_url=base, dialect=name) for name, base in bases.items()},
        routes=tuple(Route(match=Match(model=f"{name}/*"), to=(f"{name}/*",)) for name in DIALECTS),
    )


class Talk:
    """One connection."""

    def __init__(self, client: Client, simulator: Simulator) -> None:
        self.client = client
        self.simulator = simulator
        self.pieces: list[dict[str, Any]] = []  # the progress reports of the last call
        self.steps: list[float] = []

    async def call(self, name: str, **arguments: Any) -> CallToolResult:
        self.pieces, self.steps = [], []
        return await self.client.call_tool(name, arguments, progress_callback=self._heard)

    async def good(self, name: str, **arguments: Any) -> Any:
        """Return what a tool gives; the SDK has held it against the tool's schema."""
        result = await self.call(name, **arguments)
        assert not result.is_error, result.structured_content
        assert result.structured_content == json.loads(result.content[0].text)
        return result.structured_content

    async def bad(self, name: str, **arguments: Any) -> Any:
        """Return how a tool fails."""
        result = await self.call(name, **arguments)
        assert result.is_error
        assert result.structured_content == json.loads(result.content[0].text)
        return result.structured_content

    async def _heard(self, progress: float, _total: float | None, message: str | None) -> None:
        self.steps.append(progress)
        self.pieces.append(json.loads(message or "{}"))


@asynccontextmanager
async def talk(mode: str = "auto", make=settings_for) -> AsyncIterator[Talk]:
    """Connect to a server in this process."""
    async with Simulator() as simulator:
        upstreams = RoutedUpstreams(make(simulator.url))
        try:
            async with Client(make_server(upstreams), mode=mode) as client:
                yield Talk(client, simulator)
        finally:
            await upstreams.close()


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def run(work: Callable[[Talk], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    """Do some work over its own connection, and return what it gives."""

    async def main() -> Any:
        async with talk(**options) as found:
            return await work(found)

    return asyncio.run(main())
