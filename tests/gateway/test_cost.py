"""What a response cost, as the upstream reports it or by the prices of the settings."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import structs

from dragoman.checker.checker import check
from dragoman.gateway.config.settings import Price, Record, Settings, Upstream
from tests.support.asking import get, post
from tests.support.gateway import DIALECTS, PATHS, Stand, settings_for, stand
from tests.support.odd_upstream import SSE, OddUpstream, Reply, chat_stream, odd_upstream
from tests.support.simulator import question
from tests.support.waiting import logged, until

USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 2,
    "total_tokens": 12,
    "cost": 0.00001234,
    "cost_details": {"upstream_inference_cost": 0.00001},
}
clients = pytest.mark.parametrize("dialect", DIALECTS)


@pytest.fixture(scope="module")
def peer() -> Iterator[OddUpstream]:
    with odd_upstream() as found:
        yield found


@pytest.fixture(scope="module")
def gateway(peer: OddUpstream) -> Iterator[Stand]:
    def make(url: str) -> Settings:
        upstream = Upstream(base_url=f"{peer.url}/v1", retries=0, cooldown=0)
        return structs.replace(settings_for(url), upstreams={"priced": upstream}, routes=())

    with stand(make) as found:
        yield found


def body(usage: dict[str, Any]) -> bytes:
    message = {"role": "assistant", "content": "It rains."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"id": "c", "created": 1, "model": "m", "choices": [choice], "usage": usage}).encode()  # fmt: skip


@clients
def test_cost_of_a_complete_response_is_in_a_header_and_in_the_log(
    gateway: Stand, peer: OddUpstream, dialect: str
) -> None:
    peer.answer_with(200, body(USAGE))
    got = post(gateway, dialect, question(dialect, "priced/m", stream=False))

    assert "0.00001234" == got.headers["x-dragoman-cost"]
    assert 0.00001234 == logged(gateway, got.headers["request-id"])["cost"]
    shown = got.json()["usageMetadata" if dialect == "gemini" else "usage"]
    if dialect == "chat":
        assert (USAGE["cost"], USAGE["cost_details"]) == (shown["cost"], shown["cost_details"])
    else:
        assert "cost" not in shown


@clients
def test_cost_of_a_stream_is_in_the_log_and_in_usage_of_chat(
    gateway: Stand, peer: OddUpstream, dialect: str
) -> None:
    *frames, done = chat_stream("It ", "rains.")
    last = {"id": "c", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m"}
    last |= {"choices": [], "usage": USAGE}
    frames.append(b"data: %b\n\n" % json.dumps(last).encode())
    peer.answer = lambda _asked: Reply(200, b"".join([*frames, done]), SSE)
    got = post(gateway, dialect, question(dialect, "priced/m"))

    assert () == check(dialect, got.content).violations
    assert 0.00001234 == logged(gateway, got.headers["request-id"])["cost"]
    assert "x-dragoman-cost" not in got.headers  # it was sent before the cost was known
    assert ("cost" in got.text) == (dialect == "chat")


@pytest.mark.parametrize("name", ["x_litellm_response_cost", "x_dragoman_cost"])
def test_cost_that_another_gateway_reports_in_a_header_is_passed_on(
    gateway: Stand, peer: OddUpstream, name: str
) -> None:
    counts = {key: USAGE[key] for key in ("prompt_tokens", "completion_tokens", "total_tokens")}
    peer.answer_with(200, body(counts), **{name: "1.5e-05"})
    got = post(gateway, "anthropic", question("anthropic", "priced/m", stream=False))

    assert "0.000015" == got.headers["x-dragoman-cost"]
    assert 0.000015 == logged(gateway, got.headers["request-id"])["cost"]


@pytest.mark.parametrize("value", ["", "None", "-1", "nan"])
def test_header_without_a_cost_is_ignored(gateway: Stand, peer: OddUpstream, value: str) -> None:
    counts = {key: USAGE[key] for key in ("prompt_tokens", "completion_tokens", "total_tokens")}
    peer.answer_with(200, body(counts), x_litellm_response_cost=value)
    got = post(gateway, "chat", question("chat", "priced/m", stream=False))

    assert 200 == got.status_code
    assert "x-dragoman-cost" not in got.headers
    assert "cost" not in logged(gateway, got.headers["request-id"])


# --- prices of the settings ---------------------------------------------------------------------------

COUNTS = {
    "prompt_tokens": 1000,
    "completion_tokens": 200,
    "total_tokens": 1200,
    "prompt_tokens_details": {"cached_tokens": 400},
}
PRICES = (
    Price(model="priced/m", input=0.6, output=2.5, cached_input=0.15),
    Price(model="chat/*", input=1, output=1),
)
COST = 0.00092  # 600 x 0.6 + 400 x 0.15 + 200 x 2.5 micro-dollars


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


@pytest.fixture(scope="module")
def priced(peer: OddUpstream, folder: Path) -> Iterator[Stand]:
    def make(url: str) -> Settings:
        upstream = Upstream(base_url=f"{peer.url}/v1", retries=0, cooldown=0)
        plain = settings_for(url, prices=PRICES, record=Record(dir=str(folder)))
        upstreams = {**plain.upstreams, "priced": upstream}
        return structs.replace(plain, upstreams=upstreams, routes=())

    with stand(make) as found:
        yield found


def stream_of(usage: dict[str, Any]) -> bytes:
    *frames, done = chat_stream("It ", "rains.")
    last = {"id": "c", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m"}
    frames.append(b"data: %b\n\n" % json.dumps(last | {"choices": [], "usage": usage}).encode())
    return b"".join([*frames, done])


@clients
def test_cost_is_computed_where_the_upstream_does_not_report_it(
    priced: Stand, peer: OddUpstream, folder: Path, dialect: str
) -> None:
    peer.answer_with(200, body(COUNTS))
    got = post(priced, dialect, question(dialect, "priced/m", stream=False))
    line = logged(priced, got.headers["request-id"])

    assert "0.00092" == got.headers["x-dragoman-cost"]
    assert (COST, True) == (line["cost"], line["cost_computed"])
    assert '"cost"' not in got.text  # nothing is added to what the upstream says
    kept = until(lambda: list(folder.rglob(f"*{got.headers['request-id']}*.dragoman")))
    until(lambda: b'"cost":0.00092' in kept[0].read_bytes())


@clients
def test_cost_of_a_stream_is_computed_for_log_and_metrics(
    priced: Stand, peer: OddUpstream, dialect: str
) -> None:
    before = spent(priced)
    peer.answer = lambda _asked: Reply(200, stream_of(COUNTS), SSE)
    got = post(priced, dialect, question(dialect, "priced/m"))
    line = logged(priced, got.headers["request-id"])

    assert (COST, True) == (line["cost"], line["cost_computed"])
    assert '"cost"' not in got.text
    assert round(before + COST, 9) == spent(priced)


def spent(gateway: Stand) -> float:
    page = get(gateway, "/metrics").text
    found = re.findall(r'dragoman_cost_dollars_total\{.*?upstream="priced"\} (\S+)', page)
    return float(found[0]) if found else 0.0


def test_cost_that_the_upstream_reports_wins_over_the_prices(
    priced: Stand, peer: OddUpstream
) -> None:
    peer.answer_with(200, body(COUNTS | {"cost": 0.5}))
    got = post(priced, "anthropic", question("anthropic", "priced/m", stream=False))
    peer.answer_with(200, body(COUNTS), x_litellm_response_cost="0.25")
    other = post(priced, "anthropic", question("anthropic", "priced/m", stream=False))
    line = logged(priced, got.headers["request-id"])

    assert ("0.5", "0.25") == tuple(one.headers["x-dragoman-cost"] for one in (got, other))
    assert 0.5 == line["cost"]
    assert "cost_computed" not in line


def test_model_without_a_price_has_no_cost(priced: Stand, peer: OddUpstream) -> None:
    peer.answer_with(200, body(COUNTS))
    got = post(priced, "chat", question("chat", "priced/other", stream=False))

    assert "x-dragoman-cost" not in got.headers
    assert "cost" not in logged(priced, got.headers["request-id"])


def test_response_that_its_client_leaves_costs_what_was_generated(priced: Stand) -> None:
    asked = question("chat", "chat/plain+text:200+pace:20")
    with httpx2.stream("POST", priced.url + PATHS["chat"], json=asked, timeout=30) as got:
        for _ in zip(range(40), got.iter_lines(), strict=False):
            pass
    line = until(lambda: logged(priced, got.headers["request-id"]))

    assert ("client_left", True) == (line["ended"], line["cost_computed"])
    assert 0.000005 < line["cost"] < 0.0005
