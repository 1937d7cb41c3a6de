"""Tools and tool choices for Chat upstreams."""

import pytest
from msgspec import Raw

from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Flavor
from dragoman.turn.request import (
    Request,
    Role,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
    Turn,
)
from dragoman.turn.server_tools import Place, ServerKind, ServerOptions
from tests.unit.dialects.chat.support import PLAIN, codes, decode, encode, foreign, user

EMPTY = {"type": "object", "properties": {}}
INPUT = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


def function(name: str, **more: object) -> dict:
    return {"type": "function", "function": {"name": name, "parameters": EMPTY, **more}}


def sent(*tools: Tool, profile: Profile = PLAIN, **fields: object) -> tuple[dict, list[str]]:
    body, encoded = encode(foreign(user(), tools=tools, **fields), profile)
    return body, codes(encoded.losses)


def test_p_6_tool_without_a_schema_takes_no_arguments() -> None:
    body, lost = sent(Tool(name="f", description="d"))

    assert [function("f", description="d")] == body["tools"]
    assert [] == lost


def test_meta_keyword_goes_and_other_bytes_stay() -> None:
    schema = Raw(b'{"$schema":"x","type" : "object","b":1.50}')
    _, encoded = encode(foreign(user(), tools=(Tool(name="f", schema=schema),)))

    assert b'"parameters":{"type" : "object","b":1.50}' in encoded.body


def test_f1_schemas_are_put_into_the_upstream_s_flavour() -> None:
    schema = Raw(b'{"type":"object","properties":{"a":{"type":"string","anyOf":[{"const":"x"}]}}}')
    _, plain = sent(Tool(name="f", schema=schema))
    body, lost = sent(
        Tool(name="f", schema=schema), profile=Profile(name="x", schema_dialect="moonshot")
    )

    assert [] == plain
    assert ["schema_rewritten"] == lost
    assert "type" not in body["tools"][0]["function"]["parameters"]["properties"]["a"]


def test_strict_only_where_it_is_known() -> None:
    knows = Profile(name="x", supports_strict=True)

    assert sent(Tool(name="f", strict=True), profile=knows)[0]["tools"][0]["function"]["strict"]
    assert (["tool_option_dropped"]) == sent(Tool(name="f", strict=True))[1]


def test_options_and_examples() -> None:
    tool = Tool(name="f", description="d", options=("defer_loading",), examples=(Raw(b'{"a":1}'),))

    body, lost = sent(tool)

    assert 'd\n\nExamples of input:\n{"a":1}' == body["tools"][0]["function"]["description"]
    assert ["tool_option_dropped"] == lost


def test_d5_names_are_made_legal_everywhere() -> None:
    long = "mcp__" + "x" * 80
    body, lost = sent(Tool(name=long), tool_choice=ToolChoice("tool", long))

    name = body["tools"][0]["function"]["name"]
    assert 64 == len(name)
    assert {"type": "function", "function": {"name": name}} == body["tool_choice"]
    assert ["tool_renamed"] == lost


def test_f6_namespaces_are_flattened_and_collisions_refused() -> None:
    body, _ = sent(Tool(name="read", namespace="fs"))

    assert "fs__read" == body["tools"][0]["function"]["name"]
    with pytest.raises(UntranslatableError) as caught:
        sent(Tool(name="read", namespace="fs"), Tool(name="fs__read", path="$.tools[1]"))
    assert ("$.tools[1]", "tool_name_collision") == (caught.value.path, caught.value.code)


def test_f6_custom_tools_become_functions_unless_the_upstream_has_them() -> None:
    tool = Tool(name="p", description="d", flavor=Flavor.CUSTOM, grammar=("lark", "start: x"))
    knows = Profile(name="x", supports_custom_tools=True)

    body, lost = sent(tool)
    native, none = sent(tool, profile=knows, tool_choice=ToolChoice("tool", "p"))

    as_function = body["tools"][0]["function"]
    assert INPUT == as_function["parameters"]
    assert "d\n\nThe input must match this lark grammar:\nstart: x" == as_function["description"]
    assert ["grammar_not_enforced"] == lost
    form = {"type": "grammar", "grammar": {"definition": "start: x", "syntax": "lark"}}
    assert [
        {"type": "custom", "custom": {"name": "p", "description": "d", "format": form}}
    ] == native["tools"]
    assert {"type": "custom", "custom": {"name": "p"}} == native["tool_choice"]
    assert [] == none


def test_built_in_tools_of_other_vendors_are_functions_or_refused() -> None:
    shell = Tool(name="bash", kind="bash", vendor="anthropic", schema=Raw(b'{"type":"object"}'))
    screen = Tool(name="computer", kind="computer", vendor="anthropic", path="$.tools[0]")

    assert "bash" == sent(shell)[0]["tools"][0]["function"]["name"]
    with pytest.raises(UntranslatableError) as caught:
        sent(screen)
    assert "$.tools[0]" == caught.value.path


def test_server_tools_are_mapped_or_dropped() -> None:
    search = Tool(
        name="web_search",
        server=True,
        does=ServerKind.WEB_SEARCH,
        server_options=ServerOptions(place=Place(city="Oslo"), max_uses=3),
        kind="web_search",
        vendor="anthropic",
    )
    has = Profile(name="x", chat_search="options")

    body, lost = sent(search, Tool(name="f"))
    mapped, _ = sent(search, profile=has)

    assert ["server_tool_dropped"] == lost
    assert [function("f")] == body["tools"]
    place = {"type": "approximate", "approximate": {"city": "Oslo"}}
    assert {"user_location": place} == mapped["web_search_options"]
    with pytest.raises(UntranslatableError):
        sent(search, Tool(name="f"), tool_choice=ToolChoice("tool", "web_search"))


def test_server_tools_of_a_chat_client_return_as_they_are() -> None:
    tool = {"type": "web_search", "web_search": {"enable": True}}

    anyone = Profile(name="x", vendor_models=True)
    body, encoded = encode(decode({"tools": [tool], "web_search_options": {"a": 1}}), anyone)

    assert [tool] == body["tools"]
    assert {"a": 1} == body["web_search_options"]
    assert () == encoded.losses


def test_f3_choice_without_tools_is_dropped() -> None:
    body, lost = sent(tool_choice=ToolChoice("required"))

    assert "tool_choice" not in body
    assert "tools" not in body
    assert ["tool_choice_dropped"] == lost


@pytest.mark.parametrize(
    ("strength", "choice", "expected", "names", "lost"),
    [
        ("full", ToolChoice("auto"), "auto", ["f", "g"], []),
        ("full", ToolChoice("required"), "required", ["f", "g"], []),
        ("full", ToolChoice("none"), "none", ["f", "g"], []),
        (
            "full",
            ToolChoice("tool", "g"),
            {"type": "function", "function": {"name": "g"}},
            ["f", "g"],
            [],
        ),
        ("full", ToolChoice("required", allowed=("g",)), "required", ["g"], []),
        (
            "strings_only",
            ToolChoice("tool", "g"),
            "required",
            ["g"],
            ["tool_choice_narrowed"],
        ),
        ("auto_only", ToolChoice("required"), "auto", ["f", "g"], ["tool_choice_adjusted"]),
        ("auto_only", ToolChoice("tool", "g"), "auto", ["g"], ["tool_choice_adjusted"]),
    ],
)
def test_t20_choices_as_the_upstream_takes_them(
    strength: str, choice: ToolChoice, expected: object, names: list[str], lost: list[str]
) -> None:
    body, losses = sent(
        Tool(name="f"),
        Tool(name="g"),
        tool_choice=choice,
        profile=Profile(name="x", tool_choice=strength),
    )

    assert expected == body["tool_choice"]
    assert names == [tool["function"]["name"] for tool in body["tools"]]
    assert lost == losses


def test_allowed_tools_are_sent_to_an_upstream_that_knows_them() -> None:
    body, _ = sent(
        Tool(name="f"),
        Tool(name="g"),
        tool_choice=ToolChoice("auto", allowed=("g",)),
        profile=Profile(name="x", supports_store=True),
    )

    allowed = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "g"}}]}
    assert {"type": "allowed_tools", "allowed_tools": allowed} == body["tool_choice"]
    assert 2 == len(body["tools"])


def test_no_tool_use_without_a_word_for_it() -> None:
    silent = Profile(name="x", tool_choice_none=False)
    none = ToolChoice("none")
    called = (
        user(),
        Turn(Role.ASSISTANT, (ToolCallPart("a", "f", "{}"),)),
        Turn(Role.USER, (ToolResultPart("a"),)),
    )

    fresh, _ = encode(foreign(user(), tools=(Tool(name="f"),), tool_choice=none), silent)
    later, encoded = encode(foreign(*called, tools=(Tool(name="f"),), tool_choice=none), silent)

    assert "tools" not in fresh
    assert "tool_choice" not in later
    assert ["tool_choice_adjusted"] == codes(encoded.losses)


def test_parallel_calls() -> None:
    silent = Profile(name="x", supports_parallel_flag=False)

    assert sent(Tool(name="f"), parallel=False)[0]["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in sent(parallel=False)[0]
    assert ["parallel_not_enforced"] == sent(Tool(name="f"), parallel=False, profile=silent)[1]
    assert [] == sent(Tool(name="f"), parallel=True, profile=silent)[1]


def test_choice_may_force_the_only_kind_of_tool_there_is() -> None:
    request = Request(
        dialect="responses",
        model="m",
        turns=(user(),),
        tools=(Tool(name="x", server=True, kind="mcp", vendor="openai"),),
        tool_choice=ToolChoice("required"),
    )

    with pytest.raises(UntranslatableError):
        encode(request)
