"""Rows as they change: a stream that runs, files of other processes, listeners that are too many or too late."""

import asyncio
import json
import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
from msgspec import structs

from dragoman.gateway.config.settings import Record, Settings
from dragoman.inspector.access import Viewer
from dragoman.inspector.live import MOST_LISTENERS, Live
from dragoman.inspector.summary import Row, Summary
from tests.support.asking import get, post
from tests.support.gateway import Stand, settings_for, stand
from tests.support.simulator import question

LIVE = "/inspector/api/live"
SAMPLE = Path(__file__).parents[1] / "recorder/recording.dragoman"


def rows(answer: httpx2.Response) -> Iterator[Any]:
    for line in answer.iter_lines():
        if line.startswith('data: {"id"'):
            yield json.loads(line[6:])


def listen(gateway: Stand, **more: Any) -> Any:
    return httpx2.stream("GET", f"{gateway.url}{LIVE}", timeout=30, **more)


def test_a_running_exchange_is_shown_and_its_end(tmp_path: Path) -> None:
    def make(url: str) -> Settings:
        return settings_for(url, record=Record(dir=str(tmp_path)))

    with stand(make) as gateway, listen(gateway) as answer:
        asked = question("chat", "chat/plain+text:1+pace:20")
        client = threading.Thread(target=post, args=(gateway, "chat", asked))
        client.start()
        states: list[str] = []
        for row in rows(answer):
            states.append(row["state"])
            if row["recorded"] and row["state"] == "done":
                break
            if row["state"] == "streaming" and len(states) == 1:
                (running,) = get(gateway, "/inspector/api/exchanges").json()["rows"]
                assert (running["state"], running["level"]) == ("streaming", "streaming")
                assert running["model"].startswith("plain")
        client.join()
    assert states[0] == "streaming"
    assert states[-1] == "done"


def test_files_of_other_processes_are_shown(tmp_path: Path) -> None:
    def make(url: str) -> Settings:
        return settings_for(url, record=Record(dir=str(tmp_path)))

    with stand(make) as gateway, listen(gateway) as answer:
        found = rows(answer)
        get(gateway, "/inspector/api/exchanges")  # the first look, which finds what is there
        time.sleep(0.6)
        shutil.copy(SAMPLE, tmp_path / "other.dragoman")
        assert next(found)["id"] == json.loads(SAMPLE.read_text().splitlines()[0])["id"]


def test_rows_that_change_while_others_are_sent_are_sent_too() -> None:
    first, second = (Summary(row=Row(id=name, time=1.0)) for name in ("req_1", "req_2"))

    async def run() -> bytes:
        async def changes() -> list[Summary]:
            return [first]

        class Slow:
            """A response; while it takes the first row, the second one changes."""

            async def write(self, data: bytes) -> None:
                written.append(data)
                if b"req_1" in data:
                    live._publish(second)
                elif b"req_2" in data:
                    live.close()

        written: list[bytes] = []
        live = Live(changes)
        async with asyncio.timeout(10):
            await live.serve(Slow(), Viewer(all=True), "")
        return b"".join(written)

    assert re.findall(rb'"id":"(req_.)"', asyncio.run(run())) == [b"req_1", b"req_2"]


def test_a_listener_of_another_process_loads_its_list_again() -> None:
    with stand() as gateway, listen(gateway, headers={"last-event-id": "other-7"}) as answer:
        lines = answer.iter_lines()
        kinds = [next(line for line in lines if line.startswith("event:")) for _ in range(2)]
    assert kinds == ["event: hello", "event: reset"]


def test_listeners_are_bounded() -> None:
    with stand() as gateway:
        live = gateway.running.gateway.inspection.inspector._live
        live._listeners |= {object() for _ in range(MOST_LISTENERS)}
        answer = get(gateway, LIVE)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "too_many_listeners")
        live._listeners.clear()


def test_a_reload_shows_the_folder_of_the_new_settings(tmp_path: Path) -> None:
    shutil.copy(SAMPLE, tmp_path / "one.dragoman")
    with stand() as gateway:
        assert get(gateway, "/inspector/api/me").json()["recording"] == "off"
        settings = structs.replace(
            gateway.running.gateway.plan.settings, record=Record(dir=str(tmp_path), when="asked")
        )

        async def reload() -> None:
            gateway.running.reload(settings)

        gateway.do(reload())
        assert get(gateway, "/inspector/api/me").json()["recording"] == "asked"
        assert get(gateway, "/inspector/api/exchanges").json()["total"] == 1


def test_a_gateway_that_stops_ends_its_listeners() -> None:
    with stand() as gateway, listen(gateway) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("retry:")

        async def drain() -> int:
            return await gateway.running.gateway.drain(1.0)

        gateway.do(drain())
        assert "event: hello" in list(lines)
        assert get(gateway, "/inspector").status_code == 503
