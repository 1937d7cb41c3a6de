"""How many requests an upstream and a key get at once, who waits, and who is refused."""

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dragoman.gateway.config.settings import Key, Match, Route, Secret, Server, Settings, Upstream
from tests.support.asking import get, post
from tests.support.gateway import DIALECTS, Stand, stand
from tests.support.odd_upstream import Asked, Gate, OddUpstream, Reply
from tests.support.simulator import question
from tests.support.waiting import logged, until

OVERLOADED = {"chat": 503, "anthropic": 529, "responses": 503, "gemini": 503}
KEY = {"x-api-key": "k"}


def complete(_asked: Asked) -> Reply:
    message = {"role": "assistant", "content": "It rains."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return Reply(200, json.dumps(body).encode())


class Scene:
    """A gateway over an upstream that answers when a test says so."""

    def __init__(self, found: Stand, odd: OddUpstream, pool: ThreadPoolExecutor) -> None:
        self.gateway = found
        self.gate = Gate()
        self._pool = pool
        self._odd = odd
        self._before = len(odd.asked)
        odd.answer = self._answer

    def _answer(self, asked: Asked) -> Reply:
        self.gate.wait()
        return complete(asked)

    def ask(self, model: str = "m", dialect: str = "chat", **more: Any) -> Future[httpx2.Response]:
        """Ask in the background."""
        body = question(dialect, model, stream=False)
        return self._pool.submit(post, self.gateway, dialect, body, **more)

    @property
    def asked(self) -> list[str]:
        """The models that upstreams were asked for, in order."""
        return [json.loads(one.body)["model"] for one in self._odd.asked[self._before :]]

    def hold(self, model: str = "m", **more: Any) -> Future[httpx2.Response]:
        """Ask in the background; return when the upstream has the request."""
        count = len(self.asked)
        asked = self.ask(model, **more)
        until(lambda: len(self.asked) > count)
        return asked

    def wait(self, model: str = "m", **more: Any) -> Future[httpx2.Response]:
        """Ask in the background; return when the request waits."""
        count = self.queued
        asked = self.ask(model, **more)
        until(lambda: self.queued > count)
        return asked

    @property
    def queued(self) -> int:
        return self.gateway.running.gateway.runtime.queued.total()

    def ready(self) -> dict[str, Any]:
        return get(self.gateway, "/ready", headers=KEY).json()["upstreams"]

    def page(self) -> str:
        return get(self.gateway, "/metrics", headers=KEY).text


def figure(page: str, metric: str, /, **labels: str) -> float:
    (found,) = [
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if (sample.name, sample.labels) == (f"dragoman_{metric}", labels)
    ]
    return found


@contextmanager
def scene(
    odd: OddUpstream, *routes: Route, keys: tuple[Key, ...] = (), **upstreams: Any
) -> Iterator[Scene]:
    """Run a gateway; each upstream is given by its settings, and the first gets every other model."""
    made = {
        name: Upstream(base_url=f"{odd.url}/{name}/v1", retries=0, models=("m",), **settings)
        for name, settings in upstreams.items()
    }
    rest = Route(name="rest", to=tuple(f"{name}/{name}" for name in made))

    def settings(_url: str) -> Settings:
        server = Server(port=0, keys=keys)
        return Settings(server=server, upstreams=made, routes=(*routes, rest))

    with stand(settings) as found, ThreadPoolExecutor(64) as pool:
        acted = Scene(found, odd, pool)
        try:
            yield acted
        finally:
            acted.gate.open(1000)


# --- an upstream's places ---------------------------------------------------------------------------


def test_request_beyond_the_limit_waits_until_another_ends(odd: OddUpstream) -> None:
    with scene(odd, local={"max_concurrent": 1}) as found:
        first = found.hold()
        second = found.wait()
        state = found.ready()["local"]
        found.gate.open()
        first.result(60)
        until(lambda: 2 == len(found.asked))
        found.gate.open()
        line = logged(found.gateway, second.result(60).headers["request-id"])
        page = found.page()

    assert [200, 200] == [one.result().status_code for one in (first, second)]
    assert {"state": "well", "requests": 1, "queued": 1} == state
    assert 0 < line["waited_ms"] <= line["duration_ms"]
    assert 1 == figure(page, "queue_seconds_count", queue="upstream", name="local")
    assert 0 == figure(page, "queued_requests", queue="upstream", name="local")
    assert 0 == figure(page, "upstream_requests", upstream="local")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_request_beyond_the_queue_is_refused_so_that_agents_come_back(
    odd: OddUpstream, dialect: str
) -> None:
    with scene(odd, local={"max_concurrent": 1, "max_queue": 1}) as found:
        found.hold()
        found.wait()
        refused = found.ask(dialect=dialect).result(60)
        line = logged(found.gateway, refused.headers["request-id"])
        page = found.page()

    assert OVERLOADED[dialect] == refused.status_code
    assert "1" == refused.headers["retry-after"]
    assert "x-should-retry" not in refused.headers
    assert (
        "local: at most 1 requests at once are allowed, and 1 are waiting"
        in refused.json()["error"]["message"]
    )
    assert ("overloaded", "upstream_full") == (line["error"], line["error_code"])
    assert 1 == figure(page, "queue_refusals_total", queue="upstream", name="local", cause="full")


def test_request_that_waited_long_enough_is_refused(odd: OddUpstream) -> None:
    with scene(odd, local={"max_concurrent": 1, "queue_timeout": 0.05}) as found:
        found.hold()
        refused = found.ask().result(60)
        line = logged(found.gateway, refused.headers["request-id"])
        page = found.page()

    assert 503 == refused.status_code
    assert "got no place within 0.05 s" in refused.json()["error"]["message"]
    assert line["waited_ms"] >= 50
    assert 1 == figure(
        page, "queue_refusals_total", queue="upstream", name="local", cause="timeout"
    )


def test_stream_holds_its_place_until_its_end(odd: OddUpstream) -> None:
    with (
        scene(odd, local={"max_concurrent": 1, "max_queue": 0}) as found,
        httpx2.Client(verify=False, timeout=60) as client,
    ):
        odd.answer = lambda _asked: Reply(
            200, found.gate.each(_stream()), {"content-type": "text/event-stream"}
        )
        found.gate.open(2)
        url = f"{found.gateway.url}/v1/chat/completions"
        with client.stream("POST", url, json=question("chat", "m")) as streamed:
            pieces = streamed.iter_bytes()
            next(pieces)
            during = found.ask().result(60)
            found.gate.open(1000)
            rest = b"".join(pieces)
        until(lambda: 0 == found.ready()["local"]["requests"])
        odd.answer = complete
        after = found.ask().result(60)

    assert b"[DONE]" in rest
    assert [503, 200] == [during.status_code, after.status_code]


def _stream() -> list[bytes]:
    one = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas = [{"delta": {"role": "assistant", "content": word}} for word in ("It", " rains")]
    deltas.append({"delta": {}, "finish_reason": "stop"})
    frames = [{**one, "choices": [{"index": 0, "finish_reason": None, **each}]} for each in deltas]
    return [*(f"data: {json.dumps(frame)}\n\n".encode() for frame in frames), b"data: [DONE]\n\n"]


def test_free_upstream_of_the_route_is_asked_instead_of_waiting(odd: OddUpstream) -> None:
    with scene(odd, local={"max_concurrent": 1}, other={"max_concurrent": 1}) as found:
        found.hold()
        second = found.hold()
        third = found.wait()
        queues = {name: one["queued"] for name, one in found.ready().items()}
        found.gate.open(1000)
        line = logged(found.gateway, second.result(60).headers["request-id"])
        third.result(60)

    assert ["local", "other", "local"] == found.asked
    assert {"local": 1, "other": 0} == queues
    assert ["local"] == line["full"]


def test_full_upstream_is_waited_for_rather_than_one_that_rests(odd: OddUpstream) -> None:
    with scene(odd, local={"max_concurrent": 1}, other={"failures": 1}) as found:
        runtime = found.gateway.running.gateway.runtime
        found.hold()
        (hop,) = [
            one
            for one in found.gateway.running.gateway.plan.router.upstreams()
            if one.upstream_name == "other"
        ]
        found.gateway.do(_rest(runtime, hop))
        second = found.wait()
        found.gate.open(1000)
        second.result(60)

    assert ["local", "local"] == found.asked


async def _rest(runtime: Any, hop: Any) -> None:
    runtime.health(hop).failed(asyncio.get_running_loop().time())


def test_client_that_leaves_no_longer_waits(odd: OddUpstream) -> None:
    with scene(odd, local={"max_concurrent": 1}) as found:
        found.hold()
        client = http.client.HTTPConnection(urlsplit(found.gateway.url).netloc, timeout=60)
        client.request("POST", "/v1/chat/completions", json.dumps(question("chat", "m")))
        until(lambda: 1 == found.queued)
        client.close()
        until(lambda: 0 == found.queued)
        found.gate.open(1000)
        until(lambda: 0 == found.ready()["local"]["requests"])

    assert ["local"] == found.asked


def test_drain_refuses_those_that_wait_and_lets_the_others_end(odd: OddUpstream) -> None:
    limited = Key(key=Secret("env:K", "k"), name="team", concurrent=2, max_queue=5, metrics=True)
    with scene(odd, keys=(limited,), local={"max_concurrent": 1}) as found:
        first = found.hold(headers=KEY)
        at_upstream = found.wait(headers=KEY)
        at_key = found.wait(headers=KEY)
        drained = threading.Thread(target=found.gateway.do, args=(found.gateway.running.stop(),))
        drained.start()
        refused = [at_upstream.result(60), at_key.result(60)]
        found.gate.open(1000)
        drained.join(60)

    assert [503, 503] == [one.status_code for one in refused]
    assert all("shutting down" in one.json()["error"]["message"] for one in refused)
    assert all("1" == one.headers["retry-after"] for one in refused)
    assert 200 == first.result().status_code


def test_requests_of_a_higher_priority_come_first(odd: OddUpstream) -> None:
    def route(name: str, priority: int) -> Route:
        return Route(name=name, match=Match(model=name), to=(f"local/{name}",), priority=priority)

    routes = (route("batch", -1), route("people", 1))
    with scene(odd, *routes, local={"max_concurrent": 1}) as found:
        found.hold()
        waiting = [found.wait(name) for name in ("batch", "m", "people")]
        found.gate.open(1000)
        for one in waiting:
            one.result(60)

    assert ["local", "people", "local", "batch"] == found.asked


def test_ten_times_the_capacity_is_answered_promptly_and_served_right_after(
    odd: OddUpstream,
) -> None:
    with scene(odd, local={"max_concurrent": 4, "max_queue": 2}) as found:
        held = [found.hold() for _ in range(4)]
        waiting = [found.wait() for _ in range(2)]
        began = time.monotonic()
        beyond = [found.ask(dialect=DIALECTS[number % 4]) for number in range(54)]
        refused = [one.result(60) for one in beyond]
        seconds = time.monotonic() - began
        found.gate.open(1000)
        served = [one.result(60).status_code for one in (*held, *waiting)]
        again = found.ask().result(60)

    assert [OVERLOADED[DIALECTS[number % 4]] for number in range(54)] == [
        one.status_code for one in refused
    ]
    assert all(int(one.headers["retry-after"]) >= 1 for one in refused)
    assert seconds < 30
    assert [200] * 6 == served
    assert 200 == again.status_code


# --- a key's places -----------------------------------------------------------------------------------


def test_request_beyond_a_keys_limit_waits_and_more_get_429(odd: OddUpstream) -> None:
    limited = Key(key=Secret("env:K", "k"), name="team", concurrent=1, max_queue=1, metrics=True)
    with scene(odd, keys=(limited,), local={}) as found:
        first = found.hold(headers=KEY)
        second = found.wait(headers=KEY)
        refused = [found.ask(dialect=one, headers=KEY).result(60) for one in DIALECTS]
        page = found.page()
        found.gate.open(1000)
        line = logged(found.gateway, second.result(60).headers["request-id"])

    assert [200, 200] == [one.result().status_code for one in (first, second)]
    assert [429] * 4 == [one.status_code for one in refused]
    assert all("1" == one.headers["retry-after"] for one in refused)
    assert "1 requests at once and 1 that wait" in refused[0].json()["error"]["message"]
    assert line["waited_ms"] > 0
    assert 1 == figure(page, "queued_requests", queue="key", name="team")
    assert 4 == figure(page, "queue_refusals_total", queue="key", name="team", cause="full")


def test_key_that_waited_long_enough_gets_429(odd: OddUpstream) -> None:
    limited = Key(
        key=Secret("env:K", "k"), name="team", concurrent=1, max_queue=1, queue_timeout=0.05
    )
    with scene(odd, keys=(limited,), local={}) as found:
        found.hold(headers=KEY)
        refused = found.ask(headers=KEY).result(60)

    assert 429 == refused.status_code


# --- the order of targets ---------------------------------------------------------------------------


def test_weighted_targets_take_turns(odd: OddUpstream) -> None:
    route = Route(match=Match(model="w"), to=("a/a", "b/b"), choose="weighted", weights=(2, 1))
    with scene(odd, route, a={}, b={}) as found:
        found.gate.open(1000)
        for _ in range(6):
            found.ask("w").result(60)

    assert ["a", "b", "a", "a", "b", "a"] == found.asked


def test_least_busy_target_is_asked(odd: OddUpstream) -> None:
    route = Route(match=Match(model="l"), to=("a/a", "b/b"), choose="least_busy")
    with scene(odd, route, a={}, b={}) as found:
        held = [found.hold() for _ in range(2)]  # at `a`, by another route
        free = [found.hold("l") for _ in range(2)]
        found.gate.open(1000)
        for one in (*held, *free):
            one.result(60)

    assert ["a", "a", "b", "b"] == found.asked


def test_conversation_stays_with_its_target_and_returns_to_it(odd: OddUpstream) -> None:
    route = Route(match=Match(model="s"), to=("a/a", "b/b", "c/c"), choose="sticky")
    upstreams = {name: {"max_concurrent": 1} for name in "abc"}
    with scene(odd, route, **upstreams) as found:
        found.gate.open(2)
        for dialect in ("chat", "anthropic"):
            found.ask("s", dialect).result(60)
        full = [found.hold("s"), found.hold("s")]  # the second finds its target full
        found.gate.open(2)
        for one in full:
            one.result(60)
        until(lambda: not any(one.get("requests") for one in found.ready().values()))
        found.gate.open(1)
        found.ask("s", "responses").result(60)
    home, away = found.asked[0], found.asked[3]

    assert [home, home, home, away, home] == found.asked
    assert home != away


def test_conversation_moves_while_its_target_rests_and_comes_back(odd: OddUpstream) -> None:
    route = Route(match=Match(model="s"), to=("a/a", "b/b", "c/c"), choose="sticky")
    upstreams = {name: {"failures": 1, "cooldown": 1.5} for name in "abc"}
    with scene(odd, route, **upstreams) as found:
        odd.answer = complete
        found.ask("s").result(60)
        (home,) = found.asked
        odd.answer = lambda asked: (
            Reply(500, b"{}") if json.loads(asked.body)["model"] == home else complete(asked)
        )
        moved = [found.ask("s").result(60) for _ in range(3)]
        line = logged(found.gateway, moved[-1].headers["request-id"])
        odd.answer = complete
        until(lambda: "resting" != found.ready()[home]["state"])
        back = [found.ask("s").result(60) for _ in range(2)]
    away = moved[0].headers["x-dragoman-upstream"]

    assert away != home
    assert [home, home, away, away, away, home, home] == found.asked
    assert [200] * 5 == [one.status_code for one in (*moved, *back)]
    assert [home] == line["resting"]
    assert [home, home] == [one.headers["x-dragoman-upstream"] for one in back]


# --- a conversation that an upstream compacts ---------------------------------------------------------


def test_conversation_is_compacted_only_at_a_free_place(odd: OddUpstream) -> None:
    limits = {"dialect": "responses", "max_concurrent": 1, "max_queue": 1}
    with scene(odd, local=limits) as found:
        first = found.hold(dialect="responses", path="/v1/responses/compact")
        second = found.wait(dialect="responses", path="/v1/responses/compact")
        refused = found.ask(dialect="responses", path="/v1/responses/compact").result(60)
        found.gate.open(1000)
        served = [one.result(60).status_code for one in (first, second)]

    assert (503, "1") == (refused.status_code, refused.headers["retry-after"])
    assert "x-dragoman-upstream" not in refused.headers
    assert [200, 200] == served
    assert ["local", "local"] == found.asked
