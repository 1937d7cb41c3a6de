"""Every endpoint that asks an upstream admits its client first: by the key's models and by its limits."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from msgspec import structs

from dragoman.gateway import endpoints
from dragoman.gateway.app import PROBES, Endpoint, all_endpoints
from dragoman.gateway.config.settings import (
    Key,
    Match,
    Route,
    Secret,
    Server,
    Settings,
    Upstream,
)
from dragoman.gateway.state.key_limits import Bucket, Meter
from tests.support.gateway import Stand, settings_for, stand
from tests.support.odd_upstream import Asked, OddUpstream, Reply, odd_upstream
from tests.support.waiting import until

ENDPOINTS = all_endpoints()
# Gemini's paths name the model.
GEMINI = tuple(
    Endpoint(("POST",), f"/v1beta/models/odd:{verb}", endpoints.answer)
    for verb in ("generateContent", "streamGenerateContent", "countTokens")
)
LIMITS = {
    "requests": {"requests_per_minute": 1},
    "tokens": {"tokens_per_minute": 1},
    "concurrent": {"concurrent": 1},
}
KEYS = ("free", "models", *LIMITS)
# An endpoint with a body is sent one that fits all dialects.
BODY = {
    "model": "odd",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "hello"}],
    "input": "hello",
}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}


def each(*listed: Endpoint) -> pytest.MarkDecorator:
    names = [f"{one.methods[0]} {one.path}" for one in listed]
    return pytest.mark.parametrize("endpoint", listed, ids=names)


all_of_them = each(*ENDPOINTS, *GEMINI)
asking = each(*(one for one in ENDPOINTS if one.asks), *GEMINI)


def speak(asked: Asked) -> Reply:
    """Play an upstream that knows every path, and answers all of them with something."""
    path = asked.path.partition("?")[0]
    body: Any = {"id": "resp_1", "object": "response", "status": "completed", "output": []}
    if path.endswith("/models"):
        body = {"data": [{"id": "listed"}]}
    elif path.endswith(("count_tokens", "input_tokens")):
        body = {"input_tokens": 3}
    return Reply(200, json.dumps(body).encode())


@contextmanager
def guarded() -> Iterator[tuple[Stand, OddUpstream]]:
    with odd_upstream() as odd:
        odd.answer = speak

        def make(url: str) -> Settings:
            def key(name: str, **limits: Any) -> Key:
                return Key(key=Secret("env:K", f"{name}-key"), name=name, **limits)

            keys = (
                key("free"),
                key("models", models=("other",)),
                *(key(name, **limit) for name, limit in LIMITS.items()),
            )
            vendor = Upstream(
                base_url=f"{odd.url}/v1", dialect="responses", profile="openai", retries=0
            )
            # The client's own credential goes upstream: every response may be asked for there.
            route = Route(match=Match(model="odd"), to=("vendor/m",), auth="passthrough")
            return structs.replace(
                settings_for(url),
                server=Server(port=0, keys=keys),
                upstreams={"vendor": vendor},
                routes=(route,),
            )

        with stand(make) as found:
            yield found, odd


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Stand, OddUpstream]]:
    with guarded() as found:
        yield found


def ask(found: Stand, endpoint: Endpoint, key: str) -> httpx2.Response:
    method = endpoint.methods[0]
    path = endpoint.path.replace("{id}", "resp_1").replace("{rest}", "")
    body = {"json": CONTENTS if endpoint in GEMINI else BODY} if method == "POST" else {}
    return httpx2.request(
        method,
        f"{found.url}{path}",
        headers={"x-api-key": f"{key}-key"},
        timeout=60,
        verify=False,
        **body,
    )


def use_up(bucket: Bucket, amount: float) -> None:
    """Spend from a limit now: a bucket that nothing was ever asked of drains at once."""
    bucket.wait(0, per_minute=1, now=time.monotonic())
    bucket.spend(amount)


def meter_of(found: Stand, key: str) -> Meter:
    """Return what a key has used."""
    return found.running.gateway.plan.keyring.identify({"x-api-key": f"{key}-key"}).entrance.meter


def ask_again(
    both: tuple[Stand, OddUpstream], endpoint: Endpoint, key: str
) -> tuple[httpx2.Response, bool]:
    """Return the answer of an endpoint, and whether an upstream was asked for it."""
    found, odd = both
    found.do(forgotten(found))
    before = len(odd.asked)
    answer = ask(found, endpoint, key)
    return answer, len(odd.asked) > before


@all_of_them
def test_endpoint_admits_or_asks_no_upstream(
    both: tuple[Stand, OddUpstream], endpoint: Endpoint
) -> None:
    meter = meter_of(both[0], "requests")
    meter.requests.spend(-1_000)  # whatever other tests have left
    answer, asked = ask_again(both, endpoint, "requests")

    assert answer.status_code < 500
    assert (endpoint.asks, endpoint.asks) == (asked, meter.requests.level > 0)
    until(lambda: 0 == meter.running)  # a stream's place is free after its last byte


async def forgotten(found: Stand) -> None:
    """Let the gateway ask again for what it would answer from memory."""
    found.running.gateway.runtime.catalogue.forget()


@asking
def test_key_that_has_used_its_requests_is_refused_before_any_upstream_is_asked(
    both: tuple[Stand, OddUpstream], endpoint: Endpoint
) -> None:
    use_up(meter_of(both[0], "requests").requests, 1)
    answer, asked = ask_again(both, endpoint, "requests")

    assert (429, False) == (answer.status_code, asked)
    assert int(answer.headers["retry-after"]) >= 1


@asking
def test_key_with_too_many_requests_under_way_is_refused(
    both: tuple[Stand, OddUpstream], endpoint: Endpoint
) -> None:
    meter = meter_of(both[0], "concurrent")
    meter.running = 1
    try:
        busy, asked = ask_again(both, endpoint, "concurrent")
    finally:
        meter.running = 0
    free, _ = ask_again(both, endpoint, "concurrent")

    assert (429, False) == (busy.status_code, asked)
    assert free.status_code < 400
    until(lambda: 0 == meter.running)  # a stream's place is free after its last byte


@asking
def test_key_that_has_used_its_tokens_is_refused_where_tokens_are_used(
    both: tuple[Stand, OddUpstream], endpoint: Endpoint
) -> None:
    use_up(meter_of(both[0], "tokens").tokens, 1000)
    answer, asked = ask_again(both, endpoint, "tokens")

    if endpoint.methods[0] == "POST" and "{id}" not in endpoint.path:
        assert (429, False) == (answer.status_code, asked)
    else:
        assert answer.status_code < 400


@asking
def test_key_asks_for_no_model_but_its_own(
    both: tuple[Stand, OddUpstream], endpoint: Endpoint
) -> None:
    answer, asked = ask_again(both, endpoint, "models")

    if endpoint.methods[0] == "POST" and "{id}" not in endpoint.path:
        assert (403, False) == (answer.status_code, asked)
        assert "`odd`" in answer.json()["error"]["message"]
    elif endpoint.path.startswith("/models"):
        assert [] == answer.json().get("data", [])
    else:
        assert answer.status_code < 400


@pytest.mark.parametrize("path", ["/messages/count_tokens", "/responses/input_tokens"])
def test_counting_costs_a_request_and_no_tokens(both: tuple[Stand, OddUpstream], path: str) -> None:
    found, _ = both
    meter_of(found, "tokens").tokens.spend(-1_000_000)
    endpoint = next(one for one in ENDPOINTS if one.path == path)
    answers = [ask(found, endpoint, "tokens").status_code for _ in range(3)]

    assert [200, 200, 200] == answers


def test_no_path_is_known_beside_the_table(both: tuple[Stand, OddUpstream]) -> None:
    found, odd = both
    known = {(method, one.path) for one in ENDPOINTS for method in one.methods}
    before = len(odd.asked)
    for one in ENDPOINTS:
        for method in ("GET", "POST", "DELETE", "PUT", "PATCH"):
            if (method, one.path) in known or "{rest}" in one.path:
                continue
            path = one.path.replace("{id}", "resp_1")
            if any(_fits(other, method, path) for other in ENDPOINTS):
                continue
            answer = httpx2.request(
                method, f"{found.url}{path}", headers={"x-api-key": "free-key"}, verify=False
            )
            assert (404, "unknown_url") == (
                answer.status_code,
                answer.json()["error"].get("code", "unknown_url"),
            )
    probes = [httpx2.get(f"{found.url}{path}", verify=False).status_code for path in PROBES]

    assert [401 if path == "/metrics" else 200 for path in PROBES] == probes
    assert before == len(odd.asked)


def _fits(endpoint: Endpoint, method: str, path: str) -> bool:
    return method in endpoint.methods and endpoint.matches(path)
