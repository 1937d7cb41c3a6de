"""A damaged connection between a client and the gateway.

For each fault: the gateway ends the upstream's response, the next request is served, and nothing is left open.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.support.chaos import ChaosProxy, Direction, Event, Fault, chaos
from tests.support.gateway import DIALECTS, Stand, stand
from tests.support.peers import nothing_left
from tests.support.simulator import question, wire
from tests.support.views import seen

TEXT = "It rains in Ulm, as it often does in November."
FOLLOWING = dict(zip(DIALECTS, (*DIALECTS[1:], DIALECTS[0]), strict=True))  # the upstream's dialect
SLOWLY = "+pace:50"  # milliseconds between the chunks of the upstream, of which there are hundreds


class Case(NamedTuple):
    dialect: str
    fault: Fault

    @property
    def name(self) -> str:
        fault = self.fault
        what = f"{fault.event}-{fault.after}" if fault.event else f"pieces-of-{fault.piece}"
        return f"{self.dialect}-{fault.direction}-{what}"


PIECES = (Fault(piece=1), Fault("to_server", piece=1), Fault("to_server", piece=9, pause=0.001))
WHOLE = [Case(dialect, fault) for dialect in DIALECTS for fault in PIECES]


def sample(direction: Direction, events: Sequence[Event], places: Sequence[int]) -> list[Case]:
    """Return cases in which each dialect has each event, and each place has half of the dialects."""
    return [
        Case(dialect, Fault(direction, event=event, after=after))
        for number, (event, after) in enumerate(product(events, places))
        for dialect in DIALECTS[number % 2 :: 2]
    ]


# Before and within the head of the response, and within its first events.
LEAVING = sample("to_client", ("reset", "close", "close_sender"), (0, 40, 600))
# Within the head of the request, and within its body.
UNFINISHED = sample("to_server", ("reset", "close", "half_close", "stall"), (10, 300))
CASES = [*WHOLE, *LEAVING, *UNFINISHED]


class World(NamedTuple):
    gateway: Stand
    proxies: dict[str, ChaosProxy]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with stand() as gateway:
        port = urlsplit(gateway.url).port
        with chaos(("127.0.0.1", port), [case.fault for case in CASES]) as proxies:
            yield World(gateway, dict(zip([case.name for case in CASES], proxies, strict=True)))


async def ask(url: str, case: Case, text: str = TEXT, quirks: str = "") -> bytes:
    said = f"sim: say {text}\n# {case.name}"
    upstream = FOLLOWING[case.dialect]
    path, body = wire(
        case.dialect, question(case.dialect, f"{upstream}/plain+chunk:8{quirks}", said)
    )
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as http,
        http.post(url + path, json=body) as response,
    ):
        return await response.read()


def through(world: World, case: Case) -> str:
    return f"http://127.0.0.1:{world.proxies[case.name].port}"


@pytest.mark.parametrize("case", WHOLE, ids=[case.name for case in WHOLE])
def test_a_slow_connection_changes_nothing(world: World, case: Case) -> None:
    assert TEXT == seen(case.dialect, asyncio.run(ask(through(world, case), case))).text


@pytest.mark.parametrize("case", LEAVING, ids=[case.name for case in LEAVING])
def test_a_connection_that_breaks_ends_the_upstreams_response(world: World, case: Case) -> None:
    mark = case.name.encode()

    async def broken() -> None:
        async with nothing_left():
            with pytest.raises((aiohttp.ClientError, TimeoutError)):
                await ask(through(world, case), case, TEXT * 40, SLOWLY)
            world.proxies[case.name].drop()

    world.gateway.do(broken())
    (exchange,) = (one for one in world.gateway.simulator.exchanges if mark in one.body)

    assert (True, True) == (exchange.over, exchange.closed_early)
    assert TEXT == seen(case.dialect, asyncio.run(ask(through(world, case), case))).text


@pytest.mark.parametrize("case", UNFINISHED, ids=[case.name for case in UNFINISHED])
def test_a_request_that_does_not_arrive_is_not_sent_upstream(world: World, case: Case) -> None:
    mark = case.name.encode()

    async def broken() -> None:
        async with nothing_left():
            with suppress(aiohttp.ClientError, TimeoutError):
                async with asyncio.timeout(0.3 if case.fault.event == "stall" else 60):
                    answer = await ask(through(world, case), case)
                assert "error" in json.loads(answer)
            world.proxies[case.name].drop()

    world.gateway.do(broken())

    assert not [one for one in world.gateway.simulator.exchanges if mark in one.body]
    assert TEXT == seen(case.dialect, asyncio.run(ask(through(world, case), case))).text
