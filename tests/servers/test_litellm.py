"""LiteLLM's proxy through the gateway, in front of the simulator: client, gateway, LiteLLM, simulator."""

from typing import NamedTuple

import pytest

from dragoman.checker.checker import check
from dragoman.simulator.server import Simulator
from tests.servers.lite import BEHIND, lite_settings, running
from tests.support.asking import post
from tests.support.gateway import FIXED_PATHS, PATHS, Stand, stand
from tests.support.raw_http import RawClient
from tests.support.simulator import CLOCK, WEATHER, WEATHER_CALL, question
from tests.support.talks import Sdks
from tests.support.waiting import until

LIMIT = {"chat": "max_tokens", "anthropic": "max_tokens", "responses": "max_output_tokens"}
CUT = {"chat": "length", "anthropic": "max_tokens", "responses": "incomplete"}

# What this proxy does in Chat, and no client minds: most chunks lack the key, and counts stand beside a choice.
# Such chunks are passed on as they are.
HARMLESS = {"$.choices[0].finish_reason", "$.choices[0]"}

clients = pytest.mark.parametrize("client", FIXED_PATHS)
upstreams = pytest.mark.parametrize("upstream", FIXED_PATHS)
behind_it = pytest.mark.parametrize("behind", BEHIND)
ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


class Chain(NamedTuple):
    gateway: Stand
    simulator: Simulator
    sdks: Sdks

    def talked(self, client: str, model: str, *, stream: bool) -> tuple:
        """Return a conversation, what asks for the weather in it, and what comes of the answer."""
        limit = {LIMIT[client]: 2000}
        talk = self.sdks.talk(client, model, stream=stream, tools=(WEATHER,), **limit)
        first = talk.ask("What is the weather?")
        return talk, first, talk.answer(first, "eleven degrees")


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    with (
        stand() as last,
        running(last.simulator.url, tmp_path_factory.mktemp("litellm")) as proxy,
        stand(lambda _: lite_settings(proxy)) as gateway,
        Sdks(gateway.url) as sdks,
    ):
        yield Chain(gateway, last.simulator, sdks)


@clients
@upstreams
@behind_it
@ways
def test_call_comes_whole_and_its_result_is_taken(
    chain: Chain, *, client: str, upstream: str, behind: str, stream: bool
) -> None:
    talk, first, second = chain.talked(client, f"{upstream}/{behind}/sim/plain", stream=stream)

    assert [("get_weather", WEATHER_CALL)] == [call[1:] for call in first.calls]
    assert talk.called == first.finish
    assert talk.done == second.finish
    assert "eleven degrees" in second.text
    assert not second.calls


@clients
@upstreams
@behind_it
def test_stream_is_legal(chain: Chain, client: str, upstream: str, behind: str) -> None:
    body = question(client, f"{upstream}/{behind}/sim/plain", tools=[WEATHER])
    answer = post(chain.gateway, client, body)
    verdict = check(client, answer.content)
    passed = HARMLESS if client == upstream == "chat" else set()

    assert 200 == answer.status_code
    assert set() == {one.path for one in verdict.violations} - passed
    assert ("finish", 1) == (verdict.ended, verdict.calls)


@clients
@upstreams
@ways
@pytest.mark.parametrize("family", ["kimi-k2", "qwen3-coder", "glm45"])
def test_calls_that_a_model_writes_as_text_become_calls(
    chain: Chain, *, client: str, upstream: str, family: str, stream: bool
) -> None:
    _, first, second = chain.talked(client, f"{upstream}/chat/sim/{family}", stream=stream)

    assert [("get_weather", WEATHER_CALL)] == [call[1:] for call in first.calls]
    assert "<" not in first.text
    assert "eleven degrees" in second.text


@clients
@upstreams
@behind_it
def test_forced_tool_is_the_one_that_is_called(
    chain: Chain, client: str, upstream: str, behind: str
) -> None:
    named = {
        "chat": {"type": "function", "function": {"name": "get_time"}},
        "anthropic": {"type": "tool", "name": "get_time"},
        "responses": {"type": "function", "name": "get_time"},
    }
    talk = chain.sdks.talk(
        client,
        f"{upstream}/{behind}/sim/plain",
        stream=True,
        tools=(WEATHER, CLOCK),
        tool_choice=named[client],
    )

    assert ["get_time"] == [name for _, name, _ in talk.ask("What is the weather?").calls]


@clients
@upstreams
@behind_it
@ways
def test_b10_answer_that_is_cut_is_marked(
    chain: Chain, *, client: str, upstream: str, behind: str, stream: bool
) -> None:
    text = "Say a long sentence, please, of many words."
    body = question(client, f"{upstream}/{behind}/sim/plain", text, stream=stream)
    answer = post(chain.gateway, client, body | {LIMIT[client]: 5})

    assert 200 == answer.status_code
    assert f'"{CUT[client]}"' in answer.text.replace(" ", "")


@clients
@upstreams
@behind_it
@ways
@pytest.mark.parametrize("status", [400, 429, 500])
def test_failure_behind_it_is_reported_as_one(
    chain: Chain, *, client: str, upstream: str, behind: str, stream: bool, status: int
) -> None:
    body = question(client, f"{upstream}/{behind}/sim/plain+error:{status}", stream=stream)
    answer = post(chain.gateway, client, body)

    assert answer.status_code == status, answer.text


@clients
@upstreams
@behind_it
def test_g2_stream_that_breaks_does_not_look_complete(
    chain: Chain, client: str, upstream: str, behind: str
) -> None:
    body = question(client, f"{upstream}/{behind}/sim/plain+cut:900", tools=[WEATHER])
    answer = post(chain.gateway, client, body)

    # LiteLLM may get the answer whole before it tells any of it.
    assert answer.status_code >= 500 or "failure" == check(client, answer.content).ended


@clients
@pytest.mark.parametrize(
    ("upstream", "behind"),
    # For the others it asks Chat for the whole answer first, and does not stop that.
    [
        ("chat", "chat"),
        ("chat", "anthropic"),
        ("anthropic", "anthropic"),
        ("responses", "anthropic"),
    ],
)
def test_g7_the_model_stops_when_the_client_leaves(
    chain: Chain, client: str, upstream: str, behind: str
) -> None:
    body = question(client, f"{upstream}/{behind}/sim/plain+text:64+pace:50")
    with RawClient(chain.gateway.url, PATHS[client], body) as raw:
        assert 200 == raw.head()
        raw.body_with(b"delta")

    last = chain.simulator.exchanges[-1]
    until(lambda: last.over)
    assert last.closed_early
