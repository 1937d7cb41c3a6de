"""llama.cpp's server through the gateway: its own bytes, in all nine directions, streaming and not."""

import json
from typing import Any

import anthropic
import openai
import pytest

from dragoman.checker.checker import Violation, check
from tests.servers.llama import Llama, llama_settings, running
from tests.support.asking import get, post
from tests.support.gateway import FIXED_PATHS, PATHS, Stand, stand
from tests.support.raw_http import RawClient
from tests.support.simulator import declared, question
from tests.support.talks import Said, Sdks
from tests.support.waiting import until

FORECAST = {
    "name": "get_forecast",
    "description": "The weather of some days.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 12},
            "unit": {"type": "string", "enum": ["celsius", "kelvin"]},
            "dry": {"type": "boolean"},
        },
        "required": ["city", "unit", "dry"],
    },
}
FORCED = {"chat": "required", "anthropic": {"type": "any"}, "responses": "required"}
NAMED = {
    "chat": {"type": "function", "function": {"name": "get_forecast"}},
    "anthropic": {"type": "tool", "name": "get_forecast"},
    "responses": {"type": "function", "name": "get_forecast"},
}
LIMIT = {"chat": "max_tokens", "anthropic": "max_tokens", "responses": "max_output_tokens"}
CUT = {"chat": "length", "anthropic": "max_tokens", "responses": "incomplete"}
TOO_LONG = "word " * 4000  # a token a letter: more than twice the room

# What this server does at `/v1/chat/completions` against the dialect's rules, and no client minds: each chunk
# has its own time, and the first may come without a role.  Such chunks are passed on as they are.
HARMLESS = {"same-id", "role-once"}

clients = pytest.mark.parametrize("client", FIXED_PATHS)
upstreams = pytest.mark.parametrize("upstream", FIXED_PATHS)
ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Llama:
    """Run a server whose model calls tools as soon as it may."""
    with running("calls", tmp_path_factory.mktemp("llama"), 8192) as found:
        yield found


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Llama:
    """Run a server whose model writes until its room is full."""
    with running("noise", tmp_path_factory.mktemp("noisy"), 65536) as found:
        yield found


@pytest.fixture(scope="module")
def gateway(llama: Llama, noisy: Llama) -> Stand:
    with stand(lambda _: llama_settings(llama, noisy)) as found:
        yield found


@pytest.fixture(scope="module")
def sdks(gateway: Stand) -> Sdks:
    with Sdks(gateway.url) as clients:
        yield clients


def is_forecast(arguments: object) -> bool:
    match arguments:
        case {"city": str(city), "unit": "celsius" | "kelvin", "dry": bool()}:
            return len(city) <= 12
    return False


def violations(client: str, upstream: str, stream: bytes) -> list[Violation]:
    passed = HARMLESS if client == upstream == "chat" else set()
    return [one for one in check(client, stream).violations if one.rule not in passed]


def used(client: str, said: Said) -> tuple[int, int]:
    """Return the tokens of prompt, cached ones included, and answer."""
    usage = said.whole["usage"]
    if client == "chat":
        return usage["prompt_tokens"], usage["completion_tokens"]
    cached = usage.get("cache_read_input_tokens") or 0
    return usage["input_tokens"] + cached, usage["output_tokens"]


# --- calls --------------------------------------------------------------------------------------------


@clients
@upstreams
@ways
def test_calls_come_whole_and_their_results_are_taken(
    sdks: Sdks, client: str, upstream: str, stream: bool
) -> None:
    talk = sdks.talk(
        client,
        f"{upstream}/tiny",
        stream=stream,
        tools=(FORECAST,),
        tool_choice=FORCED[client],
        **{LIMIT[client]: 2000},
    )
    first = talk.ask("How will it be in Ulm?")
    second = talk.answer(first, *("sunny" for _ in first.calls))

    for said in (first, second):
        assert said.calls
        assert all(
            name == "get_forecast" and is_forecast(arguments) for _, name, arguments in said.calls
        )
        assert talk.called == said.finish
        assert "" == said.reasoning
    assert len({*first.ids, *second.ids}) == len(first.ids) + len(second.ids)
    # The second prompt holds the first, its calls and their results.
    assert used(client, second)[0] > used(client, first)[0] + 10 * len(first.calls)
    assert 0 < used(client, first)[1] < 2000


@clients
@upstreams
@ways
def test_forced_tool_is_the_one_that_is_called(
    sdks: Sdks, client: str, upstream: str, stream: bool
) -> None:
    # By itself the server reads a choice that names a tool as none (Chat, Responses) or as any (Messages).
    others = tuple({**FORECAST, "name": f"get_{one}"} for one in ("tides", "stars", "trains"))
    talk = sdks.talk(
        client,
        f"{upstream}/tiny",
        stream=stream,
        tools=(*others[:2], FORECAST, others[2]),
        tool_choice=NAMED[client],
        **{LIMIT[client]: 2000},
    )
    said = talk.ask("How will it be in Ulm?")

    assert {"get_forecast"} == {name for _, name, _ in said.calls}


@clients
@upstreams
def test_streams_are_legal_and_hold_several_calls(
    gateway: Stand, client: str, upstream: str
) -> None:
    body = question(client, f"{upstream}/tiny", tools=[FORECAST], tool_choice=FORCED[client])
    body[LIMIT[client]] = 2000

    def ask() -> bytes | None:
        # One call or several: that is up to chance.
        answer = post(gateway, client, body)
        verdict = check(client, answer.content)
        assert (200, []) == (answer.status_code, violations(client, upstream, answer.content))
        assert "finish" == verdict.ended
        return answer.content if verdict.calls > 1 else None

    assert until(ask, 60)


# --- ends ---------------------------------------------------------------------------------------------


@clients
@upstreams
@ways
@pytest.mark.parametrize("kind", ["text", "call"])
def test_b10_answer_that_is_cut_is_marked(
    gateway: Stand, *, client: str, upstream: str, stream: bool, kind: str
) -> None:
    body = question(client, f"noisy-{upstream}/tiny", stream=stream)
    if kind == "call":
        body = question(client, f"{upstream}/tiny", stream=stream) | {
            "tools": [declared(client, FORECAST)],
            "tool_choice": FORCED[client],
        }
    # Some of these end before a call has a name, some inside of its arguments.
    for limit in (30, 42, 54):
        answer = post(gateway, client, body | {LIMIT[client]: limit})
        said = read(client, answer.content, stream=stream)

        assert 200 == answer.status_code
        assert CUT[client] == finish_of(client, said)
        if stream:
            assert [] == violations(client, upstream, answer.content)


def read(client: str, data: bytes, *, stream: bool) -> Any:
    """Return a body, or what the last event but one of a stream says of its end."""
    if not stream:
        return json.loads(data)
    lines = [line.removeprefix(b"data: ") for line in data.splitlines() if line[:5] == b"data:"]
    events = [json.loads(line) for line in lines if line != b"[DONE]"]
    match client:
        case "chat":
            return next(one for one in events if one["choices"][0]["finish_reason"])
        case "anthropic":
            return next(one["delta"] for one in events if one["type"] == "message_delta")
    return events[-1]["response"]


def finish_of(client: str, said: Any) -> str:
    match client:
        case "chat":
            return said["choices"][0]["finish_reason"]
        case "anthropic":
            return said["stop_reason"]
    return said["status"]


@clients
@upstreams
@ways
def test_prompt_that_is_too_long_is_refused_in_the_clients_words(
    gateway: Stand, sdks: Sdks, client: str, upstream: str, stream: bool
) -> None:
    talk = sdks.talk(client, f"{upstream}/tiny", stream=stream, **{LIMIT[client]: 100})
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)) as refused:
        talk.ask(TOO_LONG)
    body = post(
        gateway, client, question(client, f"{upstream}/tiny", TOO_LONG, stream=stream)
    ).json()

    assert "exceeds the available context size (8192 tokens)" in str(refused.value)
    if client == "anthropic":
        assert "invalid_request_error" == body["error"]["type"]
        assert "prompt is too long" in body["error"]["message"]
    else:
        assert "context_length_exceeded" == body["error"]["code"]


@clients
@upstreams
def test_request_that_the_server_refuses_has_a_reason(
    gateway: Stand, client: str, upstream: str
) -> None:
    broken = {**FORECAST, "parameters": {"type": "object", "properties": {"a": {"$ref": "#/x/y"}}}}
    body = question(
        client, f"{upstream}/tiny", tools=[broken], tool_choice=FORCED[client], stream=True
    )
    answer = post(gateway, client, body)

    assert 400 <= answer.status_code < 500
    assert answer.json()["error"]["message"]


@clients
@upstreams
def test_g7_server_stops_when_the_client_leaves(
    gateway: Stand, noisy: Llama, client: str, upstream: str
) -> None:
    until(lambda: not noisy.slot["is_processing"])
    body = question(client, f"noisy-{upstream}/tiny") | {LIMIT[client]: 60_000}
    with RawClient(gateway.url, PATHS[client], body) as raw:
        assert 200 == raw.head()
        raw.body_with(b"delta")
        assert noisy.slot["is_processing"]

    # All of the answer would take a minute.
    until(lambda: not noisy.slot["is_processing"], 5)


# --- text ---------------------------------------------------------------------------------------------


@clients
@upstreams
def test_noise_arrives_as_the_server_sent_it(gateway: Stand, client: str, upstream: str) -> None:
    body = question(client, f"noisy-{upstream}/tiny") | {LIMIT[client]: 600}
    answer = post(gateway, client, body)
    verdict = check(client, answer.content)

    assert [] == violations(client, upstream, answer.content)
    assert 0 == verdict.calls
    assert answer.content.decode("utf-8")


@clients
@ways
def test_answer_of_a_schema_is_json(gateway: Stand, client: str, stream: bool) -> None:
    # Only Chat: the server passes over schemas at its two other places.
    schema = {**FORECAST["parameters"], "additionalProperties": False}
    shape = {"type": "json_schema", "schema": schema}
    how = {
        "chat": {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "forecast", "schema": schema},
            }
        },
        "anthropic": {"output_config": {"format": shape}},
        "responses": {"text": {"format": {**shape, "name": "forecast"}}},
    }
    with Sdks(gateway.url) as fresh:
        talk = fresh.talk(
            client,
            "chat/tiny",
            stream=stream,
            extra_body=how[client],
            **{LIMIT[client]: 2000},
        )
        said = talk.ask("How will it be?")

    assert is_forecast(json.loads(said.text))
    assert talk.done == said.finish


# --- beside answers -----------------------------------------------------------------------------------


@upstreams
def test_tokens_are_counted_as_the_server_counts_them(
    gateway: Stand, sdks: Sdks, upstream: str
) -> None:
    asked = {
        "model": f"{upstream}/tiny",
        "messages": [{"role": "user", "content": "How is it in Ulm?"}],
        "tools": [
            {
                "name": FORECAST["name"],
                "description": FORECAST["description"],
                "input_schema": FORECAST["parameters"],
            }
        ],
    }
    counted = sdks.anthropic.messages.with_raw_response.count_tokens(**asked)
    message = sdks.anthropic.messages.create(**asked, max_tokens=2)
    usage = message.usage

    assert "x-dragoman-token-count" not in counted.headers
    assert counted.parse().input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)


def test_models_are_those_of_the_settings_and_any_name_is_answered(
    gateway: Stand, llama: Llama
) -> None:
    listed = [one["id"] for one in get(gateway, "/v1/models").json()["data"]]
    whole = post(
        gateway, "chat", question("chat", f"chat/{llama.model}", stream=False) | {"max_tokens": 2}
    ).json()

    assert "chat/tiny" in listed or "tiny" in listed
    assert 1 == len(whole["choices"])
