"""What the link survives of redis-py; tests/gateway runs it with a real server."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from dragoman.gateway.state import redis_link
from dragoman.gateway.state.redis_link import RedisLink, script

SCRIPT = script("return 1")


class Client:
    """What redis-py gives the link; each entry of `loads` is one answer to SCRIPT LOAD."""

    def __init__(self, *loads: str) -> None:
        self._loads: Iterator[str] = iter(loads)
        self.connecting = asyncio.Event()
        self.connection_pool = self

    async def script_load(self, text: str) -> None:
        match next(self._loads, ""):
            case "refuse":
                raise RedisConnectionError("refused")
            case "drop the cancellation":
                self.connecting.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    return

    async def time(self) -> tuple[int, int]:
        return 0, 0

    async def disconnect(self) -> None:
        raise RedisConnectionError("the connection could not be closed in time")

    async def aclose(self) -> None:
        await self.disconnect()


def link_over(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> tuple[RedisLink, "asyncio.Queue[str]"]:
    changes: asyncio.Queue[str] = asyncio.Queue()
    monkeypatch.setattr(redis_link, "connect", lambda _url: client)
    return RedisLink("redis://127.0.0.1", (SCRIPT,), changes.put_nowait), changes


def run(work: Any) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(10):
            await work()

    asyncio.run(in_time())


def test_close_ends_although_redis_py_drops_the_cancellation(monkeypatch: pytest.MonkeyPatch):
    async def close_while_it_connects() -> None:
        client = Client("drop the cancellation")
        link, _ = link_over(client, monkeypatch)
        start = asyncio.create_task(link.start())
        await client.connecting.wait()
        await link.close()
        await start
        assert not link.available

    run(close_while_it_connects)


def test_link_connects_again_although_the_old_connection_cannot_be_closed(
    monkeypatch: pytest.MonkeyPatch,
):
    async def connect_twice() -> None:
        link, changes = link_over(Client("refuse"), monkeypatch)
        await link.start()
        assert "refused" == await changes.get()
        assert "" == await changes.get()
        await link.close()

    run(connect_twice)
