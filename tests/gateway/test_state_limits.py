"""Limits of keys hold for real processes together, however requests are distributed and however busy the machine is."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from tests.support.odd_upstream import Asked, Gate, OddUpstream, Reply, odd_upstream
from tests.support.redis import RedisServer, redis_server
from tests.support.serving import Served, serving
from tests.support.simulator import question
from tests.support.waiting import until

# Which lane each request takes, again and again: a lane is a gateway, or a way to a worker.
SHARES = {"even": (0, 1), "nine_of_ten": (0,) * 9 + (1,), "all_on_one": (0,)}
TOKENS = 50  # of each answer
KEYS = {
    **{f"requests_{name}": "requests_per_minute = 100" for name in SHARES},
    "requests_busy": "requests_per_minute = 100",
    **{f"tokens_{name}": "tokens_per_minute = 6000" for name in SHARES},
    "streams": "concurrent = 8",
    **{f"money_{name}": "budget_day = 10.0" for name in SHARES},
}
PRICE = 0.1  # dollars, of each answer
shares = pytest.mark.parametrize("name", SHARES)


def answer(_asked: Asked) -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Rain."}, "finish_reason": "stop"}  # fmt: skip
    usage = {"prompt_tokens": 30, "completion_tokens": TOKENS - 30, "total_tokens": TOKENS}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}  # fmt: skip
    return Reply(200, json.dumps(body).encode())


def write_settings(folder: Path, odd: OddUpstream, *, state: bool) -> dict[str, str]:
    """Write settings with all keys; return the environment that they need."""
    keys = [f'[[server.keys]]\nname = "{name}"\nkey = "env:K_{name}"\n{limit}' for name, limit in KEYS.items()]  # fmt: skip
    text = [
        "[server]",
        'state = "env:STATE"' if state else "",
        *keys,
        f'[upstreams.odd]\nbase_url = "{odd.url}/v1"\nretries = 0',
        f'[[prices]]\nmodel = "*"\ninput = {PRICE / TOKENS * 1e6}\noutput = {PRICE / TOKENS * 1e6}',
    ]
    (folder / "dragoman.toml").write_text("\n".join(text))
    return {f"K_{name}": f"sk-{name}" for name in KEYS}


class Lane(NamedTuple):
    """One way for requests."""

    url: str
    connections: int  # one: all requests go to the same worker
    keeps: bool  # connections; a new one may reach any worker


class Place(NamedTuple):
    """Processes that count together, and two ways to them."""

    odd: OddUpstream
    lanes: tuple[Lane, Lane]

    def ask(self, key: str, ways: Sequence[int], *, at_once: bool) -> tuple[list[int], float]:
        """Send a request over each lane in the list; return the statuses, and the seconds that it took."""
        return asyncio.run(self.ask_now(key, ways, at_once=at_once))

    async def ask_now(self, key: str, ways: Sequence[int], *, at_once: bool) -> tuple[list[int], float]:  # fmt: skip
        body = question("chat", "odd/m", stream=False)
        async with AsyncExitStack() as stack:
            clients = []
            for lane in self.lanes:
                limits = httpx2.Limits(
                    max_connections=lane.connections,
                    max_keepalive_connections=lane.connections if lane.keeps else 0,
                )
                headers = {"x-api-key": f"sk-{key}"}
                client = httpx2.AsyncClient(base_url=lane.url, headers=headers, limits=limits, timeout=60)  # fmt: skip
                clients.append(await stack.enter_async_context(client))
            began = time.monotonic()
            asked = [clients[way].post("/v1/chat/completions", json=body) for way in ways]
            got = await asyncio.gather(*asked) if at_once else [await one for one in asked]
            return [one.status_code for one in got], time.monotonic() - began


def started(served: Served, workers: int = 1) -> str:
    until(lambda: len(served.notices("started")) == workers)
    return served.url


@contextmanager
def two_gateways(folder: Path, redis: RedisServer, odd: OddUpstream) -> Iterator[Place]:
    environment = write_settings(folder, odd, state=True)
    with ExitStack() as stack:
        made = [
            stack.enter_context(serving(folder, STATE=redis.url, **environment)) for _ in range(2)
        ]
        first, second = (Lane(started(one), 200, keeps=True) for one in made)
        yield Place(odd, (first, second))


@contextmanager
def four_workers(folder: Path, odd: OddUpstream) -> Iterator[Place]:
    environment = write_settings(folder, odd, state=False)
    with serving(folder, "--workers", "4", **environment) as served:
        url = started(served, 4)
        yield Place(odd, (Lane(url, 1, keeps=True), Lane(url, 200, keeps=False)))


@pytest.fixture(scope="module", params=["two_gateways", "four_workers"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        odd = stack.enter_context(odd_upstream())
        odd.answer = answer
        if request.param == "four_workers":
            yield stack.enter_context(four_workers(folder, odd))
        else:
            redis = stack.enter_context(redis_server())
            yield stack.enter_context(two_gateways(folder, redis, odd))


def spread(name: str, number: int) -> list[int]:
    """Return the lanes of so many requests; the second half of them goes the other way."""
    ways = [SHARES[name][one % len(SHARES[name])] for one in range(number)]
    half = number // 2
    return ways[:half] + [1 - way for way in ways[half:]]


@contextmanager
def busy_machine() -> Iterator[None]:
    """Run as many programs that only compute as there are processors."""
    words = [sys.executable, "-c", "while True: pass"]
    made = [subprocess.Popen(words) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for one in made:
            one.kill()
            one.wait()


def ask_160(place: Place, key: str, name: str) -> tuple[int, float]:
    """Ask 160 times in two bursts; return how many were admitted, and how many more the time allowed."""
    ways = spread(name, 160)
    first, seconds = place.ask(key, ways[:80], at_once=True)
    second, more = place.ask(key, ways[80:], at_once=True)
    assert {200, 429} >= {*first, *second}
    return (first + second).count(200), (seconds + more) * 100 / 60


@shares
def test_requests_per_minute_hold_together(place: Place, name: str) -> None:
    admitted, drained = ask_160(place, f"requests_{name}", name)

    assert 98 <= admitted <= (100 + drained) * 1.02


def test_requests_per_minute_hold_on_a_busy_machine(place: Place) -> None:
    with busy_machine():
        admitted, drained = ask_160(place, "requests_busy", "nine_of_ten")

    assert 98 <= admitted <= (100 + drained) * 1.02


@shares
def test_tokens_per_minute_hold_together(place: Place, name: str) -> None:
    """Requests follow one another: the tokens of an answer are known at its end."""
    statuses, seconds = place.ask(f"tokens_{name}", spread(name, 160), at_once=False)
    used = statuses.count(200) * TOKENS

    assert {200, 429} == set(statuses)
    assert 6000 * 0.98 <= used <= (6000 + seconds * 100) * 1.02


@shares
def test_budgets_hold_together(place: Place, name: str) -> None:
    statuses, _ = place.ask(f"money_{name}", spread(name, 130), at_once=False)

    assert {200, 402} == set(statuses)
    assert 10.0 * 0.98 <= statuses.count(200) * PRICE <= 10.0 * 1.02


def test_concurrent_requests_hold_together(place: Place) -> None:
    gate = Gate()
    before = len(place.odd.asked)

    def held(asked: Asked) -> Reply:
        gate.wait()
        return answer(asked)

    async def run() -> tuple[int, list[int]]:
        task = asyncio.create_task(place.ask_now("streams", [1] * 36 + [0] * 4, at_once=True))
        await asyncio.to_thread(until, lambda: len(place.odd.asked) >= before + 8)
        await asyncio.sleep(1.0)  # more would arrive now
        at_once = len(place.odd.asked) - before
        gate.open(100)
        return at_once, (await task)[0]

    place.odd.answer = held
    try:
        at_once, statuses = asyncio.run(run())
    finally:
        gate.open(1000)
        place.odd.answer = answer

    assert 8 == at_once
    assert {200, 429} == set(statuses)
