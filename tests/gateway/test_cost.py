"""What a response cost, if the upstream reports it: in Chat's usage, in a header, in the log."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

from dragoman.checker.checker import check
from dragoman.gateway.config.settings import Settings, Upstream
from tests.support.asking import post
from tests.support.gateway import DIALECTS, Stand, settings_for, stand
from tests.support.odd_upstream import SSE, OddUpstream, Reply, chat_stream, odd_upstream
from tests.support.simulator import question
from tests.support.waiting import logged

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
    shown = got.json()["usage"]
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
