"""A damaged connection between the gateway and its upstream.

For each fault: the client learns the truth in its dialect, what it got is the beginning of the right response,
and the next request through the same upstream is served.  When all is over, nothing is left open.
"""

import asyncio
import json
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import pytest

from dragoman.gateway.config.settings import (
    Match,
    Route,
    Server,
    Settings,
    TimeoutChanges,
    Upstream,
)
from tests.support.chaos import ChaosProxy, Event, Fault, chaos
from tests.support.chat import payloads
from tests.support.endings import judge_failed_stream
from tests.support.gateway import DIALECTS, stand
from tests.support.peers import nothing_left
from tests.support.serving import simulating
from tests.support.simulator import WEATHER, question, wire
from tests.support.tables import in_one_test
from tests.support.views import seen, seen_body

THOUGHT = "I look at the sky."
TEXT = "It rains in Ulm, as it often does in November."
CALL = ("get_weather", {"city": "Ulm", "unit": "celsius", "days": 3})
SAID = f"sim: think {THOUGHT}\nsim: say {TEXT}\nsim: call {CALL[0]} {json.dumps(CALL[1])}"
FIRST, NEXT = "plain+chunk:8", "plain+chunk:9"  # models of the first request and of the next one
SECONDS = 1.0  # timeouts of the gateway for the first one, if its upstream stalls
FOLLOWING = dict(zip(DIALECTS, (*DIALECTS[1:], DIALECTS[0]), strict=True))
PIECES = (Fault(piece=1), Fault(piece=7, pause=0.001), Fault("to_server", piece=1))
BREAKS: tuple[Event, ...] = ("reset", "close", "half_close", "stall", "close_sender")


class Case(NamedTuple):
    """One damaged exchange.  `place` is a number of bytes, or a share of the whole response."""

    client: str
    upstream: str
    stream: bool
    fault: Fault
    place: float = 0

    @property
    def name(self) -> str:
        kind = "stream" if self.stream else "body"
        fault = self.fault
        what = f"{fault.event}-{self.place}" if fault.event else f"pieces-of-{fault.piece}"
        return f"{self.upstream}-{self.client}-{kind}-{fault.direction}-{what}"


def cases() -> list[Case]:
    found = []
    for upstream in DIALECTS:
        following = FOLLOWING[upstream]
        found += [Case(following, upstream, True, one) for one in PIECES]
        found += [Case(following, upstream, False, one) for one in PIECES]
        found += [Case(upstream, upstream, True, one) for one in PIECES]
        for first, event in enumerate(BREAKS):
            broken = Fault(event=event)
            # None, within the status line, within the head, within the body, and almost all.
            for number, place in enumerate((0, 1, 60, 0.3, 0.5, 0.7, 0.99), first):
                # Each reader and each writer, and each dialect to itself: by turns.
                client = (upstream, following)[number % 2]
                found.append(Case(client, upstream, True, broken, place))
                found.append(Case(upstream, following, False, broken, place))
            request = Fault("to_server", event=event)
            # Within the head of the request and within its body.
            found += [Case(upstream, upstream, True, request, place) for place in (0, 10, 500)]
    return found


CASES = cases()


class Got(NamedTuple):
    status: int
    body: bytes


async def ask(url: str, case: Case, model: str) -> Got:
    body = question(case.client, model, SAID, tools=[WEATHER], stream=case.stream)
    if case.client == "gemini":
        body["generationConfig"] = {"thinkingConfig": {"includeThoughts": True}}
    path, sent = wire(case.client, body)
    async with (
        aiohttp.ClientSession() as http,
        http.post(url + path, json=sent) as response,
    ):
        return Got(response.status, await response.read())  # raises if the body has no proper end


def settings(proxies: dict[str, ChaosProxy]) -> Settings:
    """Return settings with an upstream for each case, behind the proxy of that case."""
    upstreams = {
        f"u{number}": Upstream(
            base_url=f"http://127.0.0.1:{proxies[case.name].port}/v1",
            dialect=case.upstream,
            retries=0,
        )
        for number, case in enumerate(CASES)
    }
    # Only a stall needs a short timeout; a busy machine takes its time.
    quick = TimeoutChanges(first_byte=SECONDS, idle=SECONDS)
    routes = tuple(
        Route(match=Match(model=f"u{number}/{FIRST}"), to=(f"u{number}/*",), timeouts=quick)
        for number, case in enumerate(CASES)
        if case.fault.event == "stall"
    )
    routes += tuple(Route(match=Match(model=f"{name}/*"), to=(f"{name}/*",)) for name in upstreams)
    return Settings(server=Server(port=0), upstreams=upstreams, routes=routes)


class Outcome(NamedTuple):
    got: Got  # through the damaged connection
    again: Got  # the next request to the same upstream


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """Ask everything once, many at a time.  Nothing may be left open afterwards."""
    with simulating() as simulator:
        target = ("127.0.0.1", urlsplit(simulator.url).port)
        sizes = response_sizes(target)
        faults = [
            case.fault._replace(after=bytes_before(case.place, sizes[case.upstream, case.stream]))
            for case in CASES
        ]
        with chaos(target, faults) as proxies:
            by_case = dict(zip([case.name for case in CASES], proxies, strict=True))
            with stand(lambda _url: settings(by_case)) as gateway:
                return gateway.do(ask_all(gateway.url, proxies), timeout=120)


async def ask_all(url: str, proxies: list[ChaosProxy]) -> dict[str, Outcome]:
    gate = asyncio.Semaphore(48)

    async def one(number: int, case: Case) -> Outcome:
        async with gate:
            got = await ask(url, case, f"u{number}/{FIRST}")
            if case.fault.event == "close_sender":
                # The response may be complete before its connection is closed; it must not be used again meanwhile.
                await asyncio.to_thread(proxies[number].damaged.wait, 60)
                await asyncio.sleep(0.01)
            return Outcome(got, await ask(url, case, f"u{number}/{NEXT}"))

    async with nothing_left():
        found = await asyncio.gather(*(one(number, case) for number, case in enumerate(CASES)))
        for proxy in proxies:
            proxy.drop()  # with the connections that the gateway keeps for later
    return dict(zip([case.name for case in CASES], found, strict=True))


def response_sizes(target: tuple[str, int]) -> dict[tuple[str, bool], int]:
    """Return how many bytes each response of the simulator has on its connection."""
    kinds = [(dialect, stream) for dialect in DIALECTS for stream in (True, False)]
    with chaos(target, [Fault() for _ in kinds]) as proxies:
        for (dialect, stream), proxy in zip(kinds, proxies, strict=True):
            case = Case(dialect, dialect, stream, Fault())
            asyncio.run(ask(f"http://127.0.0.1:{proxy.port}", case, FIRST))
        return {kind: proxy.passed for kind, proxy in zip(kinds, proxies, strict=True)}


def bytes_before(place: float, size: int) -> int:
    return int(place * size) if isinstance(place, float) else place


# --- judges ---------------------------------------------------------------------------------------


def judge_complete(case: Case, got: Got) -> None:
    """Assert that a response is the whole one."""
    answer = (seen if case.stream else seen_body)(case.client, got.body)
    calls = [(name, json.loads(arguments)) for _, name, arguments in answer.calls]

    assert 200 == got.status
    assert (TEXT, THOUGHT, [CALL], "calls") == (answer.text, answer.reasoning, calls, answer.finish)


def is_failure(case: Case, got: Got) -> bool:
    """Return whether a response is a failure, which is then judged by the rules of its dialect."""
    if got.status != 200:
        assert json.loads(got.body)["error"]["message"]
        return True
    if not case.stream or ERRORS[case.client] not in got.body:
        return False
    calls = judge_failed_stream(case.client, got.body.decode())
    pieces = [piece for event in payloads(got.body) for piece in texts(case.client, event)]
    assert TEXT.startswith("".join(pieces))
    assert all(CALL[1] == json.loads(arguments) for arguments in calls)
    return True


ERRORS = {
    "chat": b'data: {"error":',
    "anthropic": b"event: error",
    "responses": b"response.failed",
    "gemini": b'data: {"error":',
}


def texts(dialect: str, event: Any) -> list[str]:
    """Return the text of an event of a stream."""
    match dialect, event:
        case "chat", {"choices": choices}:
            return [one["delta"].get("content") or "" for one in choices]
        case "anthropic", {"delta": {"type": "text_delta", "text": text}}:
            return [text]
        case "responses", {"type": "response.output_text.delta", "delta": text}:
            return [text]
        case "gemini", {"candidates": [{"content": {"parts": parts}}]}:
            return [one.get("text", "") for one in parts if not one.get("thought")]
    return []


@in_one_test
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_client_learns_the_truth_and_the_next_request_is_served(outcomes, case: Case) -> None:
    got, again = outcomes[case.name]

    if not case.fault.event or not is_failure(case, got):
        judge_complete(case, got)
    judge_complete(case, again)


@pytest.mark.parametrize("event", [one for one in BREAKS if one != "close_sender"])
def test_every_kind_of_break_reaches_the_client_as_a_failure(outcomes, event: Event) -> None:
    broken = [case for case in CASES if (case.fault.event, case.place) == (event, 0.5)]

    assert broken
    assert all(is_failure(case, outcomes[case.name].got) for case in broken)
