"""`/metrics`: what Prometheus reads, judged by the official parser."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx2
import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from dragoman.gateway.config.settings import Key, Match, Route, Secret, Server, Settings, Upstream
from dragoman.gateway.metrics import COUNTERS, GAUGES, HISTOGRAMS
from tests.support.asking import get, post
from tests.support.gateway import DIALECTS, Stand, settings_for, stand
from tests.support.serving import serving
from tests.support.simulator import question
from tests.support.waiting import until

TOOL = {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}  # fmt: skip
CALL = 'sim: call bash {"command": "ls"}'
KEYS = {"reader": True, "ordinary": False}


def samples(page: str) -> dict[tuple[str, ...], float]:
    """Return each figure of a page, by its name and its labels' values in the order of their names."""
    return {
        (one.name, *(one.labels[label] for label in sorted(one.labels))): one.value
        for family in text_string_to_metric_families(page)
        for one in family.samples
    }


def figure(gateway: Stand, *series: str) -> float:
    return samples(get(gateway, "/metrics").text).get(series, 0.0)


def wait_for(gateway: Stand, expected: float, *series: str) -> None:
    """Wait for a figure: a request is counted after its response was sent."""
    with suppress(AssertionError):
        until(lambda: figure(gateway, *series) == expected, 10)
    assert expected == figure(gateway, *series), series


@pytest.fixture
def gateway() -> Iterator[Stand]:
    def make(url: str) -> Settings:
        settings = settings_for(url)
        dead = Upstream(base_url="http://127.0.0.1:1/v1", retries=1, failures=1, cooldown=60)
        fallback = Route(name="both", match=Match(model="both"), to=("dead/m", "chat/plain"))
        return structs.replace(
            settings,
            upstreams={**settings.upstreams, "dead": dead},
            routes=(fallback, *settings.routes),
        )

    with stand(make) as found:
        yield found


def test_page_has_every_metric_with_its_help(gateway: Stand) -> None:
    got = get(gateway, "/metrics")
    families = {one.name: one for one in text_string_to_metric_families(got.text)}

    assert got.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert {f"dragoman_{name}" for name in (*COUNTERS, *GAUGES, *HISTOGRAMS)} <= families.keys()
    assert all(one.documentation for one in families.values())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_requests_tokens_and_times_are_counted(gateway: Stand, dialect: str) -> None:
    for stream in (False, True):
        post(gateway, dialect, question(dialect, "chat/plain", stream=stream))

    wait_for(gateway, 2, "dragoman_requests_total", dialect, "chat", "200", "chat")
    wait_for(gateway, 2, "dragoman_request_seconds_count", "chat")
    wait_for(gateway, 2, "dragoman_first_event_seconds_count", "chat")
    assert figure(gateway, "dragoman_output_tokens_total", "anonymous", "chat") > 0
    assert figure(gateway, "dragoman_input_tokens_total", "anonymous", "chat") > 0


def test_cached_and_reasoning_tokens_are_counted(gateway: Stand) -> None:
    for model in ("plain+prompt-cache", "plain+prompt-cache", "plain+think"):
        post(gateway, "chat", question("chat", f"chat/{model}", "word " * 400, stream=False))
    wait_for(gateway, 3, "dragoman_request_seconds_count", "chat")

    cached = figure(gateway, "dragoman_cached_input_tokens_total", "anonymous", "chat")
    assert 0 < cached < figure(gateway, "dragoman_input_tokens_total", "anonymous", "chat")
    reasoned = figure(gateway, "dragoman_reasoning_tokens_total", "anonymous", "chat")
    assert 0 < reasoned < figure(gateway, "dragoman_output_tokens_total", "anonymous", "chat")


def test_failures_and_damaged_calls_are_counted_by_kind(gateway: Stand) -> None:
    post(gateway, "chat", question("chat", "chat/plain+error:400", stream=False))
    broken = question("chat", "chat/kimi-k2+bad-json-args", CALL, tools=[TOOL], stream=False)
    post(gateway, "chat", broken)

    wait_for(gateway, 1, "dragoman_request_errors_total", "bad_request", "chat")
    wait_for(gateway, 1, "dragoman_native_problems_total", "args_invalid", "kimi_k2")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_open_streams_are_shown_while_they_are_open(gateway: Stand, dialect: str) -> None:
    gauges = ("dragoman_open_streams", "dragoman_open_requests")
    body = question(dialect, "chat/plain+pace:100", "sim: say " + "word " * 20)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(post, gateway, dialect, body)
        for gauge in gauges:
            wait_for(gateway, 1, gauge)
        assert not asked.done()
        asked.result(60)
    for gauge in gauges:
        wait_for(gateway, 0, gauge)


def test_calls_found_in_text_are_counted_by_family(gateway: Stand) -> None:
    post(gateway, "anthropic", question("anthropic", "chat/kimi-k2", CALL, tools=[TOOL]))

    wait_for(gateway, 1, "dragoman_native_calls_total", "content", "kimi_k2")
    wait_for(gateway, 1, "dragoman_calls_total", "chat")
    wait_for(gateway, 1, "dragoman_losses_total", "finish_reason_fixed")


def test_gaps_between_the_reads_of_a_stream_are_counted(gateway: Stand) -> None:
    body = question("chat", "chat/plain+pace:20", "sim: say one two three four five six")
    got = post(gateway, "chat", body)
    series = ("dragoman_event_gap_seconds_count", "chat")
    counted = until(lambda: figure(gateway, *series), 10)
    total = figure(gateway, "dragoman_event_gap_seconds_sum", "chat")

    assert 4 <= counted <= got.text.count("data:")
    assert total >= 0.015 * counted


@pytest.mark.parametrize(
    ("model", "cause"), [("plain+cut:900", "upstream_truncated"), ("plain+length", "length")]
)
def test_truncations_are_counted_by_cause(gateway: Stand, model: str, cause: str) -> None:
    post(gateway, "chat", question("chat", f"chat/{model}", CALL, tools=[TOOL]))

    wait_for(gateway, 1, "dragoman_truncations_total", cause, "chat")


def test_failed_attempts_fallbacks_and_rests_are_counted(gateway: Stand) -> None:
    post(gateway, "chat", question("chat", "both", stream=False))

    wait_for(gateway, 1, "dragoman_fallbacks_total", "both", "chat")
    wait_for(gateway, 2, "dragoman_upstream_errors_total", "upstream_unusable", "dead")
    wait_for(gateway, 1, "dragoman_retries_total", "dead")
    wait_for(gateway, 1, "dragoman_cooldowns_total", "dead")
    wait_for(gateway, 1, "dragoman_upstream_resting", "dead")


def test_names_that_a_client_invents_are_in_no_label(gateway: Stand) -> None:
    for number in range(20):
        post(gateway, "chat", question("chat", f"invented-{number}", stream=False))
    wait_for(gateway, 20, "dragoman_request_seconds_count", "chat")

    assert "invented" not in get(gateway, "/metrics").text


@pytest.mark.parametrize(
    ("credential", "status"), [("reader", 200), ("ordinary", 403), ("wrong", 401), ("", 401)]
)
def test_key_needs_the_right_to_read_metrics(credential: str, status: int) -> None:
    keys = tuple(
        Key(key=Secret(f"env:{name}", f"sk-{name}"), name=name, metrics=may)
        for name, may in KEYS.items()
    )

    with stand(lambda url: settings_for(url, server=Server(port=0, keys=keys))) as gateway:
        headers = {"authorization": f"Bearer sk-{credential}"} if credential else {}
        got = get(gateway, "/metrics", headers=headers)

    assert status == got.status_code
    assert "sk-" not in got.text


def test_page_has_the_figures_of_all_workers(tmp_path) -> None:
    with serving(tmp_path, "--workers", "2") as served:
        until(lambda: len(served.notices("started")) == 2)
        for _ in range(12):
            httpx2.post(f"{served.url}/v1/chat/completions", json=question("chat", "sim/plain", stream=False), timeout=60)  # fmt: skip

        def read() -> dict[tuple[str, ...], float]:
            return samples(httpx2.get(f"{served.url}/metrics", timeout=60).text)

        def seen(name: str, value: float) -> Callable[[], bool]:
            return lambda: sum(v for key, v in read().items() if key[0] == name) == value

        until(seen("dragoman_requests_total", 12))
        until(seen("dragoman_workers", 2))
        processes = {one["process"] for one in served.notices("started")}
        served.send_signal("SIGTERM")
        served.end()

    assert 2 == len(processes)
