"""Traces: spans at a collector that takes OTLP over HTTP, and the trace headers that upstreams get."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from msgspec import structs
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from dragoman.gateway.config.settings import (
    Key,
    Match,
    Route,
    Secret,
    Server,
    Settings,
    TraceSettings,
    Upstream,
)
from tests.support.asking import post
from tests.support.collector import Collector, attributes
from tests.support.gateway import DIALECTS, Stand, settings_for, stand
from tests.support.simulator import question
from tests.support.waiting import notices, until

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
ROUTES = {
    "chat": "/chat/completions",
    "anthropic": "/messages",
    "responses": "/responses",
    "gemini": "/models/{model}:generateContent",
}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}


@contextmanager
def traced(traces: TraceSettings) -> Iterator[Stand]:
    def make(url: str) -> Settings:
        plain = settings_for(url)
        failing = Upstream(base_url=f"{url}/v1", retries=1, max_retry_after=1)
        vendor = structs.replace(plain.upstreams["anthropic"], profile="anthropic")
        searches = Route(name="vendor", match=Match(model="vendor/*"), to=("vendor/*",))
        both = Route(name="both", match=Match(model="both"), to=("failing/plain+error:500", "anthropic/plain"))  # fmt: skip
        key = Key(key=Secret("env:K", "sk-secret-of-client"), name="ada")
        return structs.replace(
            plain,
            server=Server(port=0, keys=(key,)),
            upstreams={**plain.upstreams, "failing": failing, "vendor": vendor},
            routes=(both, searches, *plain.routes),
            traces=traces,
        )

    with stand(make) as found:
        yield found


def ask(
    gateway: Stand,
    dialect: str,
    model: str,
    *,
    stream: bool = True,
    tools: Any = (),
    **headers: str,
) -> httpx2.Response:
    headers["authorization"] = "Bearer sk-secret-of-client"
    body = question(dialect, model, stream=stream) | ({"tools": tools} if tools else {})
    return post(gateway, dialect, body, headers=headers)


def kept(gateway: Stand) -> dict[str, str]:
    """Return the headers of the last request that the simulator got."""
    return {name.lower(): value for name, value in gateway.simulator.exchanges[-1].headers.items()}


# --- spans --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seen() -> Iterator[tuple[Collector, dict[str, httpx2.Response]]]:
    """Ask everything once; the gateway sends what is left when it ends."""
    with Collector(200) as collector:
        settings = TraceSettings(endpoint=collector.url, headers={"x-team": "blue"})
        with traced(settings) as gateway:
            got = {
                f"{dialect} {stream}": ask(gateway, dialect, f"{dialect}/plain", stream=stream)
                for dialect in DIALECTS
                for stream in (False, True)
            }
            got["search"] = ask(gateway, "anthropic", "vendor/plain", tools=[SEARCH])
            got["child"] = ask(gateway, "chat", "chat/plain", traceparent=PARENT, tracestate="a=b")
            got["sent"] = httpx2.Response(200, headers=kept(gateway))
            got["unsampled"] = ask(gateway, "chat", "chat/plain", traceparent=PARENT[:-1] + "0")
            got["both"] = ask(gateway, "chat", "both")
            got["refused"] = ask(gateway, "chat", "chat/plain+error:401")
            got["unknown"] = post(gateway, "chat", {}, headers={"authorization": "Bearer wrong"})
        yield collector, got


def spans(seen: tuple[Collector, dict[str, httpx2.Response]], name: str) -> tuple[Span, list[Span]]:
    """Return the span of a request and those of its attempts, in order."""
    collector, got = seen
    found = (one for one in collector.spans if attributes(one).get("dragoman.request.id") == got[name].headers["request-id"])  # fmt: skip
    server = next(found)
    below = [one for one in collector.spans if one.parent_span_id == server.span_id]
    return server, sorted(below, key=lambda one: one.start_time_unix_nano)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
def test_request_and_attempt_are_spans_of_one_trace(
    seen: tuple[Collector, dict[str, httpx2.Response]], dialect: str, *, stream: bool
) -> None:
    server, (attempt,) = spans(seen, f"{dialect} {stream}")
    about, done = attributes(server), attributes(attempt)
    route = ROUTES[dialect]
    if stream:
        route = route.replace(":generate", ":streamGenerate")

    assert (Span.SPAN_KIND_SERVER, f"POST {route}") == (server.kind, server.name)
    assert ("POST", route, 200, "ada") == tuple(about[name] for name in ("http.request.method", "http.route", "http.response.status_code", "dragoman.key"))  # fmt: skip
    assert (Span.SPAN_KIND_CLIENT, "chat plain") == (attempt.kind, attempt.name)
    assert server.trace_id == attempt.trace_id
    assert ("chat", "plain", stream) == tuple(done[f"gen_ai.{name}"] for name in ("operation.name", "request.model", "request.stream"))  # fmt: skip
    assert done["gen_ai.provider.name"]
    assert done["gen_ai.response.model"]
    assert done["gen_ai.usage.input_tokens"] > 0
    assert done["gen_ai.usage.output_tokens"] > 0
    assert ["stop"] == done["gen_ai.response.finish_reasons"]
    assert "127.0.0.1" == done["server.address"]
    assert done["gen_ai.response.time_to_first_chunk"] > 0
    assert Status.STATUS_CODE_UNSET == attempt.status.code


def test_tools_that_the_vendor_runs_are_counted_at_its_span(
    seen: tuple[Collector, dict[str, httpx2.Response]],
) -> None:
    _, (searched,) = spans(seen, "search")
    _, (plain,) = spans(seen, "anthropic True")

    assert 1 == attributes(searched)["dragoman.server_calls.web_search"]
    assert [] == [name for name in attributes(plain) if name.startswith("dragoman.server_calls")]


def test_client_s_trace_goes_on_at_the_upstream(
    seen: tuple[Collector, dict[str, httpx2.Response]],
) -> None:
    server, (attempt,) = spans(seen, "child")
    sent = seen[1]["sent"].headers

    assert (TRACE, "b7ad6b7169203331") == (server.trace_id.hex(), server.parent_span_id.hex())
    assert f"00-{TRACE}-{attempt.span_id.hex()}-01" == sent["traceparent"]
    assert "a=b" == sent["tracestate"]


def test_trace_that_the_client_does_not_keep_is_not_sent(
    seen: tuple[Collector, dict[str, httpx2.Response]],
) -> None:
    ids = [attributes(one).get("dragoman.request.id") for one in seen[0].spans]

    assert 200 == seen[1]["unsampled"].status_code
    assert seen[1]["unsampled"].headers["request-id"] not in ids


def test_retry_and_fallback_are_spans(seen: tuple[Collector, dict[str, httpx2.Response]]) -> None:
    server, attempts = spans(seen, "both")

    assert ["failing", "failing", "anthropic"] == [attributes(one)["dragoman.upstream"] for one in attempts]  # fmt: skip
    assert [2, 2, 0] == [one.status.code for one in attempts]
    assert [500, 500, None] == [attributes(one).get("http.response.status_code") for one in attempts]  # fmt: skip
    assert all(attributes(one)["error.type"] for one in attempts[:2])
    assert "error.type" not in attributes(attempts[2])
    assert Status.STATUS_CODE_UNSET == server.status.code


def test_failures_are_recorded_without_their_words(
    seen: tuple[Collector, dict[str, httpx2.Response]],
) -> None:
    server, (attempt,) = spans(seen, "refused")
    unknown, none = spans(seen, "unknown")

    assert Status.STATUS_CODE_ERROR == attempt.status.code
    assert attributes(attempt)["error.type"]
    assert "upstream_unusable" == attributes(server)["error.type"]
    assert ("auth", 401, []) == (attributes(unknown)["error.type"], attributes(unknown)["http.response.status_code"], none)  # fmt: skip
    assert "" == attempt.status.message


def test_spans_have_no_content_and_no_credential(
    seen: tuple[Collector, dict[str, httpx2.Response]],
) -> None:
    collector, got = seen
    asked = question("chat", "m", stream=False)["messages"][-1]["content"]
    answered = got["chat False"].json()["choices"][0]["message"]["content"]

    assert asked.encode() not in collector.raw
    assert answered.encode() not in collector.raw
    assert b"sk-secret" not in collector.raw
    assert {"dragoman"} == {one["service.name"] for one in collector.resources}
    assert {("/v1/traces", "blue")} == {(one["path"], one["x-team"]) for one in collector.headers}


# --- a collector that fails ---------------------------------------------------------------------------


def test_collector_that_fails_is_in_the_log_and_harms_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with Collector(400) as collector, traced(TraceSettings(endpoint=collector.url)) as gateway:
        first = ask(gateway, "chat", "chat/plain")
        until(lambda: collector.spans)
        line = notices(gateway, "traces")[0]
        second = ask(gateway, "anthropic", "chat/plain")

    assert (200, 200) == (first.status_code, second.status_code)
    assert "400" in line["why"]


# --- without traces -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"traceparent": PARENT, "tracestate": "a=b,c=d"}, (PARENT, "a=b,c=d")),
        ({"traceparent": PARENT}, (PARENT, None)),
        ({"traceparent": "00-nonsense", "tracestate": "a=b"}, (None, None)),
        ({"tracestate": "a=b"}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_trace_headers_pass_unchanged_without_traces(
    plain: Stand, given: dict[str, str], sent: tuple[str | None, str | None]
) -> None:
    ask(plain, "anthropic", "chat/plain", **given)

    assert sent == (kept(plain).get("traceparent"), kept(plain).get("tracestate"))


@pytest.fixture(scope="module")
def plain() -> Iterator[Stand]:
    with traced(TraceSettings()) as found:
        yield found
