"""`kill -9` of a worker, of the first process and of all processes, while responses are being stored.

A client has a complete response or sees its connection break.  Every response that a client has completely is stored,
and the file of the store is whole.
"""

import asyncio
import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from tests.support.serving import Served, serving, simulating
from tests.support.waiting import until

CLIENTS = 8
BEFORE = 24  # responses before the kill
AFTER = 24  # and after it, if there is still a gateway
WORDS = "It rains in Ulm today. " * 400


class Clients:
    """Clients that ask for one response after another, in turn streamed and complete."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stopped = False
        self._more = asyncio.Condition()
        self.complete: dict[str, str] = {}  # texts by the ids of responses
        self.broken = 0

    async def run(self, served: Served, victims: set[int], *, survives: bool) -> None:
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        async with aiohttp.ClientSession(connector=connector) as http:
            clients = [asyncio.create_task(self._ask_often(http, one)) for one in range(CLIENTS)]
            await self._until(BEFORE)
            for one in victims:
                os.kill(one, signal.SIGKILL)
            if survives:
                await self._until(len(self.complete) + AFTER)
            else:
                await asyncio.to_thread(served.end)  # also the workers, which have its output
            self._stopped = True
            await asyncio.gather(*clients)

    async def _until(self, number: int) -> None:
        async with asyncio.timeout(60), self._more:
            await self._more.wait_for(lambda: len(self.complete) >= number)

    async def _ask_often(self, http: aiohttp.ClientSession, client: int) -> None:
        asked = 0
        while not self._stopped:
            asked += 1
            try:
                await self._ask(http, f"{client}-{asked} {WORDS}".strip(), stream=bool(asked % 2))
            except aiohttp.ClientError:
                self.broken += 1
                await asyncio.sleep(0.01)

    async def _ask(self, http: aiohttp.ClientSession, text: str, *, stream: bool) -> None:
        body = {"model": "sim/plain", "input": f"sim: say {text}", "stream": stream}
        async with http.post(f"{self._url}/v1/responses", json=body) as response:
            data = await response.read()
        if response.status == 503:  # a gateway that stops
            self.broken += 1
            return
        assert response.status == 200, data
        if stream:
            event = data.rpartition(b"event: response.completed\ndata: ")[2]
            assert event != data, "the stream ended without its last event"
            data = json.dumps(json.loads(event)["response"]).encode()
        found = json.loads(data)
        assert text == found["output"][-1]["content"][0]["text"].strip()
        async with self._more:
            self.complete[found["id"]] = text
            self._more.notify_all()

    async def stored(self, url: str) -> dict[str, str]:
        """Return the texts of what a gateway has stored of them."""
        found: dict[str, str] = {}
        async with aiohttp.ClientSession() as http:
            for name in self.complete:
                async with http.get(f"{url}/v1/responses/{name}") as response:
                    if response.status == 200:
                        body = await response.json()
                        found[name] = body["output"][-1]["content"][0]["text"].strip()
        return found


@pytest.mark.parametrize("victim", ["worker", "first process", "all processes"])
def test_kill_loses_no_response_that_its_client_has(tmp_path: Path, victim: str) -> None:
    path = tmp_path / "responses.sqlite"
    with simulating() as simulator:
        (tmp_path / "dragoman.toml").write_text(
            f'[server]\nworkers = 2\n[store]\nresponses = "sqlite"\npath = "{path}"\n'
            f'[upstreams.sim]\nbase_url = "{simulator.url}/v1"\nretries = 0\n'
        )
        with serving(tmp_path) as served:
            until(lambda: len(served.notices("started")) == 2)
            workers = {one["process"] for one in served.notices("started")}
            first = served.process.pid
            victims = {
                "worker": {min(workers)},
                "first process": {first},
                "all processes": {first, *workers},
            }
            clients = Clients(served.url)
            survives = victim == "worker"
            asyncio.run(clients.run(served, victims[victim], survives=survives))
            if survives:
                until(lambda: len(served.notices("started")) == 3)
        with serving(tmp_path) as again:
            until(lambda: len(again.notices("started")) == 2)
            found = asyncio.run(clients.stored(again.url))
            statuses = {one["status"] for one in again.notices("request")}
            again.send_signal("SIGTERM")
            code = again.end()
    with closing(sqlite3.connect(path)) as database:
        whole = database.execute("PRAGMA integrity_check").fetchone()
        charged = database.execute("SELECT bytes FROM owner").fetchall()
        sizes = database.execute(
            "SELECT sum(size) FROM (SELECT size FROM piece UNION ALL SELECT size FROM response)"
        ).fetchall()

    assert clients.complete == found
    assert {200} == statuses
    assert clients.broken or survives
    assert ("ok",) == whole
    assert charged == sizes
    assert 0 == code
    assert [] == served.notices("response not stored")
    assert "Traceback" not in served.text + again.text
