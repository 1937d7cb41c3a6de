"""`transformers serve` through the gateway: its own bytes, from both of its dialects into all three."""

from typing import NamedTuple

import pytest

from dragoman.checker.checker import check
from tests.servers.transformers_serve import MODELS, OFFERED, running, transformers_settings
from tests.support.asking import post
from tests.support.gateway import FIXED_PATHS, Stand, stand
from tests.support.simulator import WEATHER, WEATHER_CALL, question
from tests.support.talks import Sdks

LIMIT = {"chat": "max_tokens", "anthropic": "max_tokens", "responses": "max_output_tokens"}
CUT = {"chat": "length", "anthropic": "max_tokens", "responses": "incomplete"}
# What this server leaves out of most chunks of Chat, and no client minds; such chunks are passed on as they are.
HARMLESS = {"$.choices[0].finish_reason"}

clients = pytest.mark.parametrize("client", FIXED_PATHS)
upstreams = pytest.mark.parametrize("upstream", OFFERED)
models = pytest.mark.parametrize("model", MODELS)
ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


class Chain(NamedTuple):
    gateway: Stand
    sdks: Sdks


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    folder = tmp_path_factory.mktemp("transformers")
    with (
        running(folder) as server,
        stand(lambda _: transformers_settings(server, folder)) as gateway,
        Sdks(gateway.url) as sdks,
    ):
        yield Chain(gateway, sdks)


@clients
@upstreams
@models
@ways
def test_call_comes_whole_and_its_result_is_taken(
    chain: Chain, *, client: str, upstream: str, model: str, stream: bool
) -> None:
    talk = chain.sdks.talk(
        client, f"{upstream}/{model}", stream=stream, tools=(WEATHER,), **{LIMIT[client]: 200}
    )
    first = talk.ask("What is the weather?")
    second = talk.answer(first, "eleven degrees")

    assert [("get_weather", WEATHER_CALL)] == [call[1:] for call in first.calls]
    assert "" == first.text.strip()
    assert (talk.called, talk.done) == (first.finish, second.finish)
    assert "It is eleven degrees in Zürich." == second.text.strip()
    assert second.whole["usage"]


@clients
@upstreams
@models
@pytest.mark.parametrize("tools", [[WEATHER], None], ids=["call", "text"])
def test_stream_is_legal(
    chain: Chain, *, client: str, upstream: str, model: str, tools: list[object] | None
) -> None:
    answer = post(chain.gateway, client, question(client, f"{upstream}/{model}", tools=tools))
    verdict = check(client, answer.content)
    passed = HARMLESS if client == upstream == "chat" else set()

    assert 200 == answer.status_code
    assert set() == {one.path for one in verdict.violations} - passed
    assert ("finish", int(tools is not None)) == (verdict.ended, verdict.calls)


@clients
@upstreams
@ways
def test_b10_answer_that_is_cut_is_marked(
    chain: Chain, *, client: str, upstream: str, stream: bool
) -> None:
    body = question(client, f"{upstream}/llama", stream=stream) | {LIMIT[client]: 3}
    answer = post(chain.gateway, client, body)

    assert 200 == answer.status_code
    assert f'"{CUT[client]}"' in answer.text


@clients
@upstreams
def test_model_that_is_not_there_is_a_failure_with_a_reason(
    chain: Chain, client: str, upstream: str
) -> None:
    answer = post(chain.gateway, client, question(client, f"{upstream}/missing", stream=True))

    assert 400 <= answer.status_code
    assert answer.json()["error"]["message"]
