"""What the workers of one gateway share, seen from outside of real processes."""

import asyncio
import fcntl
import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.gateway.test_fallback_places import complete
from tests.support.collector import Collector
from tests.support.odd_upstream import Asked, Gate, OddUpstream, Reply
from tests.support.received import received
from tests.support.redis import redis_server
from tests.support.serving import Served, serving, simulating
from tests.support.simulator import WEATHER, question
from tests.support.waiting import until

# The kernel chooses the worker of each connection: all of them would take the same one in 1 of 10 million runs.
MANY = 12


@contextmanager
def workers(folder: Path, number: int, *lines: str, **environment: str) -> Iterator[Served]:
    """Run a gateway; each line is one of its settings."""
    (folder / "dragoman.toml").write_text("\n".join(lines))
    with serving(folder, "--workers", str(number), TMPDIR=str(folder), **environment) as served:
        until(lambda: len(served.notices("started")) == number)
        yield served


def post(served: Served, body: dict[str, Any], **headers: str) -> httpx2.Response:
    """Send a request over a new connection."""
    return httpx2.post(f"{served.url}/v1/chat/completions", json=body, headers=headers, timeout=60)


def ask(served: Served, model: str = "odd/m", **headers: str) -> httpx2.Response:
    return post(served, question("chat", model, stream=False), **headers)


async def ask_all(served: Served, number: int) -> list[int]:
    """Ask over as many connections at once; return the statuses."""
    limits = httpx2.Limits(max_connections=number)
    url, body = f"{served.url}/v1/chat/completions", question("chat", "odd/m", stream=False)
    async with httpx2.AsyncClient(timeout=60, limits=limits) as client:
        got = await asyncio.gather(*(client.post(url, json=body) for _ in range(number)))
    return [one.status_code for one in got]


# --- remembered reasoning -----------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2, 4])
def test_reasoning_that_one_worker_saw_returns_at_all(tmp_path: Path, number: int) -> None:
    tools = [{"type": "function", "function": WEATHER}]
    body = {"model": "sim/plain+think", "messages": [{"role": "user", "content": "Ulm?"}], "tools": tools}  # fmt: skip
    with simulating() as simulator:
        lines = ("[upstreams.sim]", f'base_url = "{simulator.url}/v1"', 'profile = "deepseek"', "retries = 0")  # fmt: skip
        with workers(tmp_path, number, *lines) as served:
            (call,) = post(served, body).json()["choices"][0]["message"]["tool_calls"]
            until(lambda: notes_in(tmp_path))
            forgetful = {"role": "assistant", "content": None, "tool_calls": [call]}
            result = {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}
            body["messages"] += [forgetful, result]
            for _ in range(MANY):
                assert 200 == post(served, body).status_code
        thoughts = [received(one).reasoning for one in simulator.exchanges[-MANY:]]

    assert thoughts[0]
    assert "Let me think" in thoughts[0][0]
    assert [thoughts[0]] * MANY == thoughts


def notes_in(folder: Path) -> int:
    """Return how many values the workers have left for each other."""
    for file in folder.glob("dragoman-*/notes"):
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(file)) as database:
            return int(database.execute("select count(*) from notes").fetchone()[0])
    return 0


# --- places at an upstream ----------------------------------------------------------------------------


class Busy:
    """An upstream that counts how many requests it has at once."""

    def __init__(self, odd: OddUpstream) -> None:
        self.gate = Gate()
        self.now = 0
        self.most = 0
        self._lock = threading.Lock()
        odd.answer = self._answer

    def _answer(self, asked: Asked) -> Reply:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.gate.wait()
        with self._lock:
            self.now -= 1
        return complete(asked)


def limited(odd: OddUpstream, *lines: str) -> tuple[str, ...]:
    return ("[upstreams.odd]", f'base_url = "{odd.url}/v1"', "retries = 0", "max_concurrent = 3", *lines)  # fmt: skip


@pytest.mark.parametrize("number", [2, 4])
def test_upstream_gets_as_many_requests_of_all_workers_as_it_takes(
    tmp_path: Path, odd: OddUpstream, number: int
) -> None:
    busy = Busy(odd)

    async def run(served: Served) -> list[int]:
        task = asyncio.create_task(ask_all(served, MANY))
        await asyncio.to_thread(until, lambda: busy.now == 3)
        await asyncio.sleep(1.0)  # more would arrive now
        busy.gate.open(1000)
        return await task

    with workers(tmp_path, number, *limited(odd, "max_queue = 0")) as served:
        statuses = asyncio.run(run(served))

    assert 3 == busy.most
    assert {200, 503} == set(statuses)


def test_request_waits_for_a_place_that_another_worker_gives_back(
    tmp_path: Path, odd: OddUpstream
) -> None:
    busy = Busy(odd)
    busy.gate.open(1000)
    with workers(tmp_path, 4, *limited(odd)) as served:
        statuses = asyncio.run(ask_all(served, 40))

    assert [200] * 40 == statuses
    assert 3 >= busy.most


def test_places_of_a_worker_that_crashed_are_free_again(tmp_path: Path, odd: OddUpstream) -> None:
    busy = Busy(odd)

    async def run(served: Served) -> None:
        task = asyncio.create_task(ask_all(served, 3))
        await asyncio.to_thread(until, lambda: busy.now == 3)
        for one in served.notices("started"):
            os.kill(one["process"], signal.SIGKILL)
        with pytest.raises(httpx2.HTTPError):
            await task

    with workers(tmp_path, 2, *limited(odd, "max_queue = 0")) as served:
        asyncio.run(run(served))
        busy.gate.open(1000)
        until(lambda: len(served.notices("started")) == 4)
        statuses = asyncio.run(ask_all(served, 3))

    assert [200] * 3 == statuses


# --- a worker that cannot be replaced -----------------------------------------------------------------


def test_others_serve_while_a_worker_cannot_open_the_store(
    tmp_path: Path, odd: OddUpstream
) -> None:
    odd.answer = complete
    file, aside = tmp_path / "responses.db", tmp_path / "aside"
    lines = ("[upstreams.odd]", f'base_url = "{odd.url}/v1"', "[store]", 'responses = "sqlite"', f'path = "{file}"')  # fmt: skip
    with workers(tmp_path, 2, *lines) as served:
        file.rename(aside)
        file.mkdir()
        os.kill(served.notices("started")[0]["process"], signal.SIGKILL)
        until(lambda: "the response store" in served.text and "ended with 2" in served.text)
        statuses = [ask(served).status_code for _ in range(MANY)]
        file.rmdir()
        aside.rename(file)
        until(lambda: len(served.notices("started")) == 3)
        statuses += [ask(served).status_code for _ in range(MANY)]

    assert [200] * 2 * MANY == statuses


def test_folder_of_the_workers_is_locked_against_programs_that_remove_old_files(
    tmp_path: Path, odd: OddUpstream
) -> None:
    with workers(tmp_path, 2, "[upstreams.odd]", f'base_url = "{odd.url}/v1"'):
        (folder,) = tmp_path.glob("dragoman-*")
        opened = os.open(folder, os.O_RDONLY)
        try:
            with pytest.raises(BlockingIOError):  # systemd-tmpfiles asks for the same lock
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(opened)


def test_reason_is_reported_if_the_folder_of_the_workers_is_gone(
    tmp_path: Path, odd: OddUpstream
) -> None:
    odd.answer = complete
    with workers(tmp_path, 2, "[upstreams.odd]", f'base_url = "{odd.url}/v1"') as served:
        (folder,) = tmp_path.glob("dragoman-*")
        shutil.rmtree(folder)
        os.kill(served.notices("started")[0]["process"], signal.SIGKILL)
        until(lambda: "this worker cannot continue: FileNotFoundError" in served.text)
        statuses = [ask(served).status_code for _ in range(MANY)]

    assert [200] * MANY == statuses


def test_workers_that_start_while_redis_is_away_serve_and_count(
    tmp_path: Path, odd: OddUpstream
) -> None:
    odd.answer = complete
    lines = ("[upstreams.odd]", f'base_url = "{odd.url}/v1"', "[server]", 'state = "env:STATE"')
    lines += ("[[server.keys]]", 'name = "three"', 'key = "env:THREE"', "requests_per_minute = 3")
    with (
        redis_server() as redis,
        workers(tmp_path, 2, *lines, STATE=redis.url, THREE="sk-three") as served,
    ):
        redis.kill()
        until(lambda: len(served.notices("state away")) == 2)
        for one in served.notices("started"):
            os.kill(one["process"], signal.SIGKILL)
        until(lambda: len(served.notices("started")) == 4)
        statuses = [ask(served, authorization="Bearer sk-three").status_code for _ in range(MANY)]
        redis.start()
        until(lambda: len(served.notices("state connected")) == 4)

    assert [200] * 3 + [429] * (MANY - 3) == statuses


# --- cool-downs ---------------------------------------------------------------------------------------


def test_upstream_that_fails_one_worker_rests_for_all(tmp_path: Path, odd: OddUpstream) -> None:
    def fails(asked: Asked) -> Reply:
        return Reply(500, b"{}") if asked.path.startswith("/first") else complete(asked)

    before = len(odd.asked)
    odd.answer = fails
    lines = (
        *(
            f'[upstreams.{name}]\nbase_url = "{odd.url}/{name}/v1"\nretries = 0\nfailures = 1\ncooldown = 100'
            for name in ("first", "second")
        ),
        '[[routes]]\nmatch = { model = "both" }\nto = ["first/m", "second/m"]',
    )
    with workers(tmp_path, 4, *lines) as served:
        first = ask(served, "both")
        until(lambda: all(resting(served) for _ in range(MANY)))
        page = httpx2.get(f"{served.url}/metrics", timeout=60).text
        later = [ask(served, "both") for _ in range(MANY)]
        asked = [one.path.split("/")[1] for one in odd.asked[before:]]
        odd.answer = complete
        post(served, question("chat", "first/m", stream=False))  # by its name: it is well again
        until(lambda: not any(resting(served) for _ in range(MANY)))

    assert [200] * (MANY + 1) == [one.status_code for one in (first, *later)]
    assert ["first", *["second"] * (MANY + 1)] == asked
    assert 'dragoman_upstream_resting{upstream="first"} 1.0' in page


def resting(served: Served) -> bool:
    """Return whether the worker of a new connection lets the first upstream rest."""
    found = httpx2.get(f"{served.url}/ready", timeout=60).json()["upstreams"]["first"]
    return bool(found["state"] == "resting")


# --- traces -------------------------------------------------------------------------------------------


def test_spans_of_all_workers_reach_the_collector(tmp_path: Path, odd: OddUpstream) -> None:
    odd.answer = complete
    traces = [f"{number:032x}" for number in range(1, MANY + 1)]
    with Collector() as collector:
        lines = ("[traces]", f'endpoint = "{collector.url}"', "[upstreams.odd]", f'base_url = "{odd.url}/v1"')  # fmt: skip
        with workers(tmp_path, 2, *lines) as served:
            for trace in traces:
                ask(served, traceparent=f"00-{trace}-00000000000000ff-01")
            processes = {one["process"] for one in served.notices("started")}
            served.send_signal("SIGTERM")
            code = served.end()
    names = sorted((one.trace_id.hex(), one.name) for one in collector.spans)
    sent = [one.headers["traceparent"] for one in odd.asked[-MANY:]]

    assert 0 == code
    assert sorted((trace, name) for trace in traces for name in ("POST /chat/completions", "chat m")) == names  # fmt: skip
    assert processes == {one["process.pid"] for one in collector.resources}
    assert 2 * MANY == len({one.span_id for one in collector.spans})
    assert traces == [one.split("-")[1] for one in sent]
