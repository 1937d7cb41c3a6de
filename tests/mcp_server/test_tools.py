"""Each tool, by the official client, beside a server in the same process."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from mcp.shared.exceptions import MCPError

from dragoman.check import check, rules
from dragoman.client.errors import STAGES
from dragoman.gateway.config.settings import Match, Route, Settings, Upstream
from dragoman.mcp_server.tools import TOOLS
from dragoman.requests import translate_request
from dragoman.toolcalls.formats import FORMATS
from dragoman.toolcalls.parser import parse
from dragoman.translate import Translator, translate_body
from tests.support.mcp_talk import WEATHER, Talk, said, talk

DIALECTS = ("chat", "anthropic", "responses")
KIMI = (
    "Let me see.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
    '<|tool_call_argument_begin|>{"city": "Rome"}<|tool_call_end|><|tool_calls_section_end|>'
)
CHAT_BODY = {
    "id": "x",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    ],
}
CHAT_STREAM = "".join(
    f"data: {json.dumps(chunk)}\n\n"
    for chunk in (
        {
            "id": "x",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}}],
        },
        {
            "id": "x",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        },
    )
)


def run(work: Callable[[Talk], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    async def main() -> Any:
        async with talk(**options) as found:
            return await work(found)

    return asyncio.run(main())


def test_s_10_tools_have_complete_schemas() -> None:
    listed = run(lambda one: one.client.list_tools()).tools

    assert list(TOOLS) == [tool.name for tool in listed]
    for tool in listed:
        for schema in (tool.input_schema, tool.output_schema):
            Draft202012Validator.check_schema(schema)
            assert "object" == schema["type"]
        assert tool.description
        assert False is tool.input_schema["additionalProperties"]
        assert set(tool.output_schema["properties"]) == set(tool.output_schema["required"])


# --- chat -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("family", ["plain", "kimi-k2", "glm-4.6"])
def test_chat_gives_text_reasoning_and_calls(dialect: str, family: str) -> None:
    story = 'sim: think Hm.\nsim: say Let me look.\nsim: call get_weather {"city": "Rome"}'

    async def work(one: Talk) -> Any:
        return await one.good(
            "chat", model=f"{dialect}/{family}", messages=said(story), tools=[WEATHER]
        )

    found = run(work)

    assert "Let me look." == found["text"].strip()
    assert "Hm." == found["reasoning"].strip()
    [call] = found["tool_calls"]
    assert ("get_weather", {"city": "Rome"}, True) == (
        call["name"],
        json.loads(call["arguments"]),
        call["complete"],
    )
    assert "tool_calls" == found["finish"]
    assert family == found["model"]
    assert found["usage"]["input"] > 0


def test_s_10_streaming_stays_streaming() -> None:
    async def work(one: Talk) -> tuple[Any, list[dict[str, Any]], list[float]]:
        story = (
            'sim: think First this.\nsim: say Then that.\nsim: call get_weather {"city": "Rome"}'
        )
        found = await one.good(
            "chat", model="chat/plain+pace:5", messages=said(story), tools=[WEATHER]
        )
        return found, one.pieces, one.steps

    found, pieces, steps = run(work)

    assert len(pieces) > 5
    assert steps == sorted(set(steps))
    for field in ("text", "reasoning"):
        assert found[field] == "".join(piece.get(field, "") for piece in pieces)
    assert ["get_weather"] == [name for piece in pieces for name in piece.get("calls", ())]
    arguments = "".join(piece.get("arguments", "") for piece in pieces)
    assert found["tool_calls"][0]["arguments"] == arguments


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_conversation_goes_on_with_calls_and_results(dialect: str) -> None:
    async def work(one: Talk) -> tuple[Any, list[Any]]:
        line = 'sim: call get_weather {"city": "Rome"}\nsim: then\n'
        messages: list[dict[str, Any]] = said(f"{line}{line}sim: say It is sunny.")
        model = f"{dialect}/plain+ids:call_0"
        for _ in range(2):
            found = await one.good("chat", model=model, messages=messages, tools=[WEATHER])
            [call] = found["tool_calls"]
            function = {"name": call["name"], "arguments": call["arguments"]}
            messages += [
                {
                    "role": "assistant",
                    "content": found["text"],
                    "tool_calls": [{"id": call["id"], "type": "function", "function": function}],
                },
                {"role": "tool", "tool_call_id": call["id"], "content": "sunny"},
            ]
        return await one.good("chat", model=model, messages=messages, tools=[WEATHER]), messages

    found, messages = run(work)

    assert "It is sunny." == found["text"]
    assert messages[1]["tool_calls"][0]["id"] != messages[3]["tool_calls"][0]["id"]


def test_settings_of_a_request_reach_the_upstream() -> None:
    async def work(one: Talk) -> Any:
        await one.good(
            "chat",
            model="chat/plain",
            messages=[{"role": "system", "content": "Be kind."}, *said("Hi")],
            system="Be brief.",
            tools=[WEATHER],
            tool_choice="get_weather",
            parallel_tool_calls=False,
            max_tokens=50,
            temperature=0.5,
            top_p=0.9,
            stop=["END"],
            seed=7,
            reasoning="high",
        )
        return one.simulator.exchanges[-1].json

    sent = run(work)

    assert ("plain", 0.5, 0.9, 7) == tuple(
        sent[name] for name in ("model", "temperature", "top_p", "seed")
    )
    assert "get_weather" == sent["tool_choice"]["function"]["name"]
    assert "Be brief." in str(sent["messages"][0])
    assert "Be kind." in str(sent["messages"])
    assert True is sent["stream"]


def test_what_the_upstream_cannot_be_told_is_a_loss() -> None:
    async def work(one: Talk) -> Any:
        return await one.good("chat", model="anthropic/plain", messages=said("Hi"), seed=7)

    codes = {loss["code"] for loss in run(work)["losses"]}

    assert {"max_tokens_defaulted", "sampling_dropped"} <= codes


def test_calls_at_the_same_time_do_not_mix() -> None:
    async def work(one: Talk) -> list[Any]:
        asked = (
            one.good("chat", model="chat/plain+pace:2", messages=said(f"sim: say Number {n}"))
            for n in range(8)
        )
        return await asyncio.gather(*asked)

    assert [f"Number {n}" for n in range(8)] == [found["text"] for found in run(work)]


def test_a_schema_for_the_answer_reaches_the_upstream() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def work(one: Talk) -> Any:
        return await one.good("chat", model="chat/plain", messages=said("Hi"), schema=schema)

    assert isinstance(json.loads(run(work)["text"])["n"], int)


def test_a_cut_call_is_told_as_cut() -> None:
    async def work(one: Talk) -> Any:
        return await one.good(
            "chat", model="chat/plain+length", messages=said("get_weather"), tools=[WEATHER]
        )

    found = run(work)

    assert [False] == [call["complete"] for call in found["tool_calls"]]
    assert "length" == found["finish"]


# --- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_s_10_errors_map_one_to_one(dialect: str) -> None:
    async def work(one: Talk) -> Any:
        model = f"{dialect}/plain+error:429+retry-after:7"
        return await one.bad("chat", model=model, messages=said("Hi"))

    found = run(work)

    assert ("ClientError", "http", "rate_limit", 429, 7.0) == tuple(
        found[name] for name in ("error", "stage", "kind", "status", "retry_after")
    )
    assert found["stage"] in STAGES


def test_a_broken_answer_tells_what_had_come() -> None:
    async def work(one: Talk) -> Any:
        story = "sim: say The beginning of a long answer that has no end."
        return await one.bad("chat", model="chat/plain+cut:900", messages=said(story))

    found = run(work)

    assert found["stage"] in ("http", "protocol")
    assert found["received"]["text"].startswith("The")
    assert None is found["received"]["finish"]


def test_an_upstream_that_is_not_there_is_told_as_such() -> None:
    def nowhere(_url: str) -> Settings:
        return Settings(upstreams={"gone": Upstream(base_url="http://127.0.0.1:9/v1")})

    async def work(one: Talk) -> Any:
        return await one.bad("chat", model="m", messages=said("Hi"))

    assert "connect" == run(work, make=nowhere)["stage"]


@pytest.mark.parametrize(
    ("tool", "arguments", "path"),
    [
        ("chat", {"messages": []}, "$.messages"),
        ("chat", {}, ""),
        ("chat", {"messages": [], "speed": 1}, ""),
        ("chat", {"messages": [{"role": "king"}], "model": "chat/plain"}, "$.messages[0]"),
        ("chat", {"messages": said("Hi"), "model": "chat/m", "tools": [{"a": 1}]}, "$[0]"),
        ("parse_tool_calls", {"text": 5}, "$.text"),
        ("translate", {"what": "song", "from": "chat", "to": "chat", "text": ""}, "$.what"),
        ("translate", {"what": "request", "from": "chat", "to": "anthropic", "text": "{}"}, "$"),
        ("check_stream", {"dialect": "latin", "stream": ""}, "$.dialect"),
        ("list_models", {"all": True}, ""),
    ],
)
def test_wrong_arguments_are_told_with_their_path(
    tool: str, arguments: dict[str, Any], path: str
) -> None:
    found = run(lambda one: one.bad(tool, **arguments))

    assert "Malformed" == found["error"]
    assert found["path"].startswith(path)


def test_a_model_that_no_route_knows_is_refused() -> None:
    found = run(lambda one: one.bad("chat", model="unknown", messages=said("Hi")))

    assert ("ConfigError", "no route for the model `unknown`; see `list_models`") == (
        found["error"],
        found["message"],
    )


def test_an_unknown_family_is_refused() -> None:
    assert (
        "ConfigError" == run(lambda one: one.bad("parse_tool_calls", text="", format="x"))["error"]
    )


def test_an_unknown_tool_is_an_error_of_the_protocol() -> None:
    async def work(one: Talk) -> None:
        with pytest.raises(MCPError, match="no tool `rm`"):
            await one.call("rm")

    run(work)


def test_the_first_target_of_a_route_answers() -> None:
    def two(url: str) -> Settings:
        upstreams = {name: Upstream(base_url=f"{url}/v1") for name in ("one", "two")}
        route = Route(match=Match(model="claude-*"), to=("two/kimi-k2", "one/plain"))
        return Settings(upstreams=upstreams, routes=(route,))

    async def work(one: Talk) -> Any:
        return await one.good("chat", model="claude-opus", messages=said("Hi"))

    assert "kimi-k2" == run(work, make=two)["model"]


# --- cancelling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_cancelling_a_call_cancels_the_upstream(mode: str) -> None:
    async def work(one: Talk) -> bool:
        model = "chat/plain+stall:300"
        asking = asyncio.create_task(one.call("chat", model=model, messages=said("Hi")))
        await one.simulator.wait_for(lambda exchange: exchange.written > 0)
        asking.cancel()
        exchange = await one.simulator.wait_for(lambda exchange: exchange.over, timeout=1)
        with pytest.raises(asyncio.CancelledError):
            await asking
        return exchange.closed_early

    assert run(work, mode=mode)


# --- no second parser -------------------------------------------------------------------------------


def test_s_10_parse_gives_what_the_library_gives() -> None:
    found = run(lambda one: one.good("parse_tool_calls", text=KIMI, model="kimi-k2"))
    expected = parse(KIMI, format="kimi_k2", seed="parse")

    assert expected.content == found["content"]
    assert [msgspec.to_builtins(one) for one in expected.calls] == [
        one | {"repair": ""} for one in found["tool_calls"]
    ]
    assert [] == found["problems"]


def test_s_10_parse_leaves_text_alone_that_nobody_writes_calls_in() -> None:
    for arguments in ({"format": "none"}, {"model": "kimi-k2", "tools": []}):
        found = run(lambda one, given=arguments: one.good("parse_tool_calls", text=KIMI, **given))

        assert KIMI == found["content"]
        assert [] == found["tool_calls"]


def test_parse_finds_the_end_of_reasoning() -> None:
    async def work(one: Talk) -> Any:
        return await one.good(
            "parse_tool_calls", text="hm</think>Hi", format="none", start_in_reasoning=True
        )

    found = run(work)

    assert ("Hi", "hm") == (found["content"], found["reasoning"])


@pytest.mark.parametrize("target", DIALECTS)
def test_s_10_translate_gives_what_the_library_gives(target: str) -> None:
    request = json.dumps({"model": "m", "messages": said("Hi"), "logit_bias": {"1": 2}})
    body = json.dumps(CHAT_BODY)
    ways = {"from": "chat", "to": target}

    async def work(one: Talk) -> list[Any]:
        return [
            await one.good("translate", what=what, text=text, **ways)
            for what, text in (("request", request), ("body", body), ("stream", CHAT_STREAM))
        ]

    found = run(work)
    expected = translate_request(request.encode(), source="chat", target=target)
    translator = Translator(source="chat", target=target)

    assert expected.body.decode() == found[0]["text"]
    assert [one.code for one in expected.losses] == [one["code"] for one in found[0]["losses"]]
    assert (
        translate_body(body.encode(), source="chat", target=target).body.decode()
        == found[1]["text"]
    )
    assert (translator.feed(CHAT_STREAM.encode()) + translator.close()).decode() == found[2]["text"]
    assert [None, None, None] == [one["failure"] for one in found]


def test_a_failure_inside_an_answer_is_translated_and_told() -> None:
    cut = CHAT_STREAM.split("\n\n", maxsplit=1)[0] + "\n\n"

    async def work(one: Talk) -> list[Any]:
        ways = {"from": "chat", "to": "anthropic"}
        return [
            await one.good("translate", what="stream", text=cut, **ways),
            await one.good("translate", what="body", text='{"error": {"message": "no"}}', **ways),
        ]

    stream, body = run(work)

    assert "event: error" in stream["text"]
    assert "ended" in stream["failure"]
    assert "no" == body["failure"]


def test_s_10_check_gives_what_the_library_gives() -> None:
    async def work(one: Talk) -> list[Any]:
        return [
            await one.good("check_stream", dialect=dialect, stream=CHAT_STREAM)
            for dialect in DIALECTS
        ]

    found = run(work)

    for dialect, one in zip(DIALECTS, found, strict=True):
        assert msgspec.to_builtins(check(dialect, CHAT_STREAM.encode())) == msgspec.convert(
            one, dict
        ) | {"violations": tuple(one["violations"])}
        assert all(violation["rule"] in rules(dialect) for violation in one["violations"])


# --- lists ------------------------------------------------------------------------------------------


def test_models_are_listed_with_who_answers() -> None:
    found = run(lambda one: one.good("list_models"))

    assert {"chat", "anthropic", "responses"} == {one["owner"] for one in found["models"]}
    assert [] == found["unreachable"]


def test_an_upstream_that_cannot_be_asked_is_named() -> None:
    def half(_url: str) -> Settings:
        gone = Upstream(base_url="http://127.0.0.1:9/v1")
        known = Upstream(base_url="http://127.0.0.1:9/v1", models=("m",))
        return Settings(upstreams={"gone": gone, "known": known})

    found = run(lambda one: one.good("list_models"), make=half)

    assert ["known/m"] == [one["name"] for one in found["models"]]
    assert [True] == [one.startswith("gone: ") for one in found["unreachable"]]


def test_every_family_is_listed() -> None:
    found = run(lambda one: one.good("list_formats"))

    assert list(FORMATS) == [one["key"] for one in found["formats"]]
