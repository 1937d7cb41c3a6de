"""Tools of any client for a Gemini upstream."""

import re

from msgspec import Raw, structs

from dragoman.turn.events import BlockStart, Flavor
from dragoman.turn.losses import Loss
from dragoman.turn.request import USER as ROLE
from dragoman.turn.request import Request, TextPart, Tool, ToolChoice, Turn
from dragoman.turn.server_tools import ServerKind
from dragoman.turn.tools import ToolTable
from tests.unit.dialects.gemini.support import call, read, target, written

SCHEMA = Raw(b'{"$schema":"x","type":"object","properties":{"a":{"type":"string","minLength":1}}}')
LOOK = Tool(name="look", description="Look.", schema=SCHEMA, path="$.tools[0]")


def said(*tools, **more):
    turns = (Turn(ROLE, (TextPart("x"),)),)
    return Request(dialect="chat", model="m", turns=turns, tools=tools, **more)


def test_functions_are_one_entry_with_json_schema():
    body, losses = written(said(LOOK, Tool(name="now", schema=Raw(b'{"type":"object"}'))))

    assert [
        {
            "functionDeclarations": [
                {
                    "name": "look",
                    "description": "Look.",
                    "parametersJsonSchema": {
                        "type": "object",
                        "properties": {"a": {"type": "string", "minLength": 1}},
                    },
                },
                {"name": "now"},
            ]
        }
    ] == body["tools"]
    assert [] == losses


def test_an_upstream_without_json_schema_gets_googles_language():
    to = target()
    older = structs.replace(to, profile=structs.replace(to.profile, schema_dialect="gemini"))
    strict = structs.replace(
        LOOK, schema=Raw(b'{"type":"object","properties":{"a":{"const":"b"}}}')
    )
    body, losses = written(said(strict), older)
    (declared,) = body["tools"][0]["functionDeclarations"]

    assert {"a": {"type": "string", "enum": ["b"]}} == declared["parameters"]["properties"]
    assert ["schema_rewritten"] == losses


def test_a_free_form_tool_is_a_function_with_one_input():
    body, _ = written(said(Tool(name="patch", flavor=Flavor.CUSTOM)))
    (declared,) = body["tools"][0]["functionDeclarations"]

    assert {"input": {"type": "string"}} == declared["parametersJsonSchema"]["properties"]


def test_names_and_options_that_google_does_not_take():
    body, losses = written(
        said(structs.replace(LOOK, name="läuft los", strict=True, options=("defer_loading",)))
    )
    (declared,) = body["tools"][0]["functionDeclarations"]

    assert declared["name"].startswith("l_uft_los")
    assert ["tool_renamed", "tool_option_dropped", "tool_option_dropped"] == losses


def test_a_search_of_another_vendor_is_googles():
    search = Tool(
        name="web_search",
        server=True,
        does=ServerKind.WEB_SEARCH,
        kind="web_search",
        vendor="openai",
        raw=Raw(b"{}"),
    )
    shell = Tool(name="shell", server=True, kind="shell", vendor="openai", raw=Raw(b"{}"))
    body, losses = written(said(LOOK, search, shell))

    assert {"googleSearch": {}} == body["tools"][1]
    assert ["server_tool_mapped", "server_tool_dropped"] == losses


def test_choices():
    find = structs.replace(LOOK, name="find")
    for choice, config, declared in (
        (ToolChoice("auto"), {"mode": "AUTO"}, 2),
        (ToolChoice("required"), {"mode": "ANY"}, 2),
        (ToolChoice("none"), {"mode": "NONE"}, 2),
        (ToolChoice("tool", "find"), {"mode": "ANY", "allowedFunctionNames": ["find"]}, 2),
        (
            ToolChoice("required", allowed=("find",)),
            {"mode": "ANY", "allowedFunctionNames": ["find"]},
            2,
        ),
        (ToolChoice("auto", allowed=("find",)), {"mode": "AUTO"}, 1),
    ):
        body, losses = written(said(LOOK, find, tool_choice=choice))

        assert {"functionCallingConfig": config} == body["toolConfig"]
        assert declared == len(body["tools"][0]["functionDeclarations"])
        assert ([] if declared == 2 else ["tool_choice_narrowed"]) == losses


def test_strict_functions_are_enforced_where_the_upstream_can():
    enforces = target()
    enforces = structs.replace(
        enforces, profile=structs.replace(enforces.profile, supports_strict=True)
    )
    strict = structs.replace(LOOK, strict=True)

    for choice in (None, ToolChoice("auto")):
        body, losses = written(said(strict, tool_choice=choice), enforces)
        assert {"functionCallingConfig": {"mode": "VALIDATED"}} == body["toolConfig"]
        assert [] == losses
    assert "toolConfig" not in written(said(LOOK), enforces)[0]
    assert (["tool_option_dropped"], False) == (
        written(said(strict))[1],
        "toolConfig" in written(said(strict))[0],
    )


def test_names_are_the_clients_own_where_google_takes_them():
    names = ["a.b", "mcp:x-1", "_y", "1tool", "-tool", "é", "z" * 65]
    tools = tuple(structs.replace(LOOK, name=name) for name in names)
    body, losses = written(said(*tools))
    sent = [one["name"] for one in body["tools"][0]["functionDeclarations"]]

    assert names[:3] == sent[:3]
    assert ["tool_renamed"] * 4 == losses
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}", name) for name in sent)
    assert len(names) == len(set(sent))
    # What the model calls is what the client declared.
    chunk = {"candidates": [{"content": {"parts": [call(name) for name in sent]}}]}
    end = {"candidates": [{"finishReason": "STOP"}]}
    events = read(chunk, end, request=said(*tools), tools=ToolTable(tools))
    assert names == [one.name for one in events if isinstance(one, BlockStart)]
    assert {"usage_missing"} == {one.code for one in events if isinstance(one, Loss)}


def test_one_call_at_a_time_cannot_be_enforced():
    assert ["parallel_not_enforced"] == written(said(LOOK, parallel=False))[1]
