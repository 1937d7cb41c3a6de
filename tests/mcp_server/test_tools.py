"""The tools that need no upstream give what the library gives: there is no second parser."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from dragoman.checker.checker import check, rules
from dragoman.cli.mcp import RoutedUpstreams
from dragoman.gateway.config.settings import FormatTable, Settings, Upstream
from dragoman.mcp_server.tools import TOOLS, ToolContext
from dragoman.toolcalls.formats import FORMATS
from dragoman.toolcalls.parser import parse
from dragoman.translate import Translator, translate_body
from dragoman.translate_requests import translate_request
from tests.support.mcp_talk import DIALECTS, Talk, run, said

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


def objects(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a schema and all objects in it that say which fields they have."""
    found = [schema, *schema.get("$defs", {}).values()]
    return [one for one in found if one["type"] == "object"]


def test_s_10_tools_have_complete_schemas() -> None:
    listed = run(lambda one: one.client.list_tools()).tools

    assert list(TOOLS) == [tool.name for tool in listed]
    for tool in listed:
        for schema in (tool.input_schema, tool.output_schema):
            Draft202012Validator.check_schema(schema)
            assert "object" == schema["type"]
        assert tool.description
        assert False is tool.input_schema["additionalProperties"]
        for schema in objects(tool.output_schema):
            assert set(schema["properties"]) == set(schema["required"])


def test_every_field_of_the_schemas_has_a_type_and_is_explained() -> None:
    for tool in run(lambda one: one.client.list_tools()).tools:
        for schema in (*objects(tool.input_schema), *objects(tool.output_schema)):
            for name, field in schema["properties"].items():
                assert field.get("description"), (tool.name, name)
                types = ("type", "anyOf", "$ref")
                assert name == "content" or any(one in field for one in types), (tool.name, name)


def test_s_10_parse_gives_what_the_library_gives() -> None:
    found = run(lambda one: one.good("parse_tool_calls", text=KIMI, model="kimi-k2"))
    expected = parse(KIMI, format="kimi_k2", seed="parse")

    assert expected.content == found["content"]
    fields = ("id", "name", "arguments", "complete")
    calls = [{name: getattr(one, name) for name in fields} for one in expected.tool_calls]
    assert calls == found["tool_calls"]
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


def test_translate_finds_calls_as_parse_does() -> None:
    body = json.dumps(
        {**CHAT_BODY, "choices": [{**CHAT_BODY["choices"][0], "message": said(KIMI)[0]}]}
    )
    given = {"what": "body", "from": "chat", "to": "anthropic", "text": body, "model": "kimi-k2"}

    async def work(one: Talk) -> list[Any]:
        return [await one.good("translate", **given, **more) for more in ({}, {"tools": []})]

    found, none = (json.loads(one["text"])["content"] for one in run(work))

    assert "tool_use" in [part["type"] for part in found]
    assert ["text"] == [part["type"] for part in none]


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


def test_a_failure_inside_an_answer_is_translated_and_reported() -> None:
    cut = CHAT_STREAM.split("\n\n", maxsplit=1)[0] + "\n\n"

    async def work(one: Talk) -> list[Any]:
        ways = {"from": "chat", "to": "anthropic"}
        return [
            await one.good("translate", what="stream", text=cut, **ways),
            await one.good("translate", what="body", text='{"error": {"message": "no"}}', **ways),
        ]

    stream, body = run(work)

    assert "event: error" in stream["text"]
    assert "terminated" in stream["failure"]
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


# --- lists ----------------------------------------------------------------------------------------


def test_models_are_listed_with_who_answers() -> None:
    found = run(lambda one: one.good("list_models"))

    assert {*DIALECTS} == {one["owner"] for one in found["models"]}
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


def test_formats_of_the_settings_are_known() -> None:
    table = FormatTable(shape="json", open="<acme>", close="</acme>")
    settings = Settings(formats={"acme": table})
    context = ToolContext(RoutedUpstreams(settings), lambda _piece: asyncio.sleep(0))
    asked = {"text": '<acme>{"name": "f", "arguments": {"a": 1}}</acme>', "format": "acme"}

    async def use(name: str, **arguments: object) -> Any:
        tool = TOOLS[name]
        return await tool.run(msgspec.convert(arguments, tool.input_type), context)

    parsed = asyncio.run(use("parse_tool_calls", **asked))
    listed = asyncio.run(use("list_formats"))

    assert [("f", '{"a": 1}')] == [(one.name, one.arguments) for one in parsed.tool_calls]
    assert "acme" in [one.key for one in listed.formats]
