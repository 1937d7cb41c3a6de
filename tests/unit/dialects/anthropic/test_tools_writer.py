"""Tools of any client for an upstream."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman.dialects.server_tools import read_options
from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Flavor
from dragoman.turn.request import (
    Role,
    TextPart,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
    Turn,
)
from dragoman.turn.server_tools import ServerKind
from tests.support.messages import TOOL, ask, codes, decode, encode

LS = Tool(name="ls", schema=Raw(b'{"type":"object"}'))
CLONE = Profile(name="clone")


def tools(*given: Tool, profile: Any = "anthropic", **fields: Any) -> list[Any]:
    return encode(ask(tools=given, **fields), profile).get("tools", [])


def choice(mode: str, name: str = "", profile: Any = "anthropic", **fields: Any) -> Any:
    request = ask(**{"tools": (LS,), "tool_choice": ToolChoice(mode, name)} | fields)
    return encode(request, profile).get("tool_choice")


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, {"type": "object", "properties": {}}),
        (Raw(b"{}"), {"type": "object"}),
        (Raw(b'{"properties":{"a":{}}}'), {"type": "object", "properties": {"a": {}}}),
        (Raw(b'{"type":["object","null"],"a":1}'), {"type": "object", "a": 1}),
        (Raw(b"[]"), {"type": "object", "properties": {}}),
    ],
    ids=["missing", "empty", "no type", "another type", "no object"],
)
def test_schema_has_the_type_object(schema: Raw | None, expected: Any) -> None:
    assert expected == tools(Tool(name="x", schema=schema))[0]["input_schema"]


def test_d5_f6_names_are_made_legal_and_namespaces_flattened() -> None:
    given = (Tool(name="a.b", path="$.tools[0]"), Tool(name="spawn", namespace="agents"))

    first, second = tools(*given)

    assert first["name"].startswith("a_b_")
    assert "agents__spawn" == second["name"]
    assert ["tool_renamed"] == codes(ask(tools=given))


def test_f6_custom_tool_takes_one_string_and_its_grammar_is_described() -> None:
    tool = Tool(
        name="patch", flavor=Flavor.CUSTOM, description="Patch.", grammar=("lark", "start: A")
    )

    (written,) = tools(tool)

    assert ["input"] == written["input_schema"]["required"]
    assert "Patch.\n\nThe input must match this lark grammar:\nstart: A" == written["description"]
    assert ["grammar_not_enforced"] == codes(ask(tools=(tool,)))


def test_custom_tool_may_have_no_description() -> None:
    (written,) = tools(Tool(name="patch", flavor=Flavor.CUSTOM, grammar=("regex", "a+")))

    assert "The input must match this regex grammar:\na+" == written["description"]


def test_shell_of_another_dialect_is_a_function() -> None:
    shell = Tool(name="shell", flavor=Flavor.SHELL, kind="shell", schema=Raw(b'{"type":"object"}'))

    assert [{"name": "shell", "input_schema": {"type": "object"}}] == tools(shell)


def test_strict_is_written_where_it_is_known() -> None:
    tool = Tool(name="x", strict=True)

    assert tools(tool)[0]["strict"]
    assert ["tool_option_dropped"] == codes(ask(tools=(tool,)), CLONE)


def test_options_of_the_dialect_return_as_far_as_the_upstream_knows_them() -> None:
    request = decode(
        tools=[
            TOOL
            | {"defer_loading": True, "eager_input_streaming": True, "allowed_callers": ["direct"]},
            {"type": "tool_search_tool_bm25_20251119", "name": "s"},
        ]
    )

    written = encode(request)["tools"][0]

    assert (True, True) == (written["defer_loading"], written["eager_input_streaming"])
    assert ["tool_option_dropped"] == codes(request)
    assert ["tool_option_dropped", "tool_option_dropped", "server_tool_dropped"] == codes(
        request, CLONE
    )


def test_examples_return() -> None:
    assert [{"a": 1}] == tools(Tool(name="x", examples=(Raw(b'{"a":1}'),)))[0]["input_examples"]


def test_vendors_own_tools_return_as_they_were_and_are_functions_elsewhere() -> None:
    request = decode(tools=[{"type": "bash_20250124", "name": "bash"}])

    assert [{"type": "bash_20250124", "name": "bash"}] == encode(request)["tools"]
    assert "command" in encode(request, CLONE)["tools"][0]["input_schema"]["properties"]


def test_toolset_is_refused_where_nobody_knows_it() -> None:
    request = decode(tools=[{"type": "computer_toolset_20260801", "name": "computer"}])

    assert encode(request)["tools"]
    with pytest.raises(UntranslatableError) as raised:
        encode(request, CLONE)
    assert "$.tools[0]" == raised.value.path


# --- tools that the vendor runs ------------------------------------------------------------------------


def test_server_tool_of_the_vendor_returns_as_it_was() -> None:
    definition = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
    request = decode(tools=[definition])

    assert [definition] == encode(request)["tools"]
    assert [definition] == encode(request, Profile(name="p", server_tools=("web_search",)))["tools"]
    assert ["server_tool_dropped"] == codes(request, CLONE)


def openai_search(raw: bytes) -> Tool:
    return Tool(
        name="web_search",
        server=True,
        does=ServerKind.WEB_SEARCH,
        server_options=read_options(Raw(raw)),
        kind="web_search",
        vendor="openai",
        raw=Raw(raw),
    )


def test_both_lists_of_domains_never_go_out_together() -> None:
    both = b'{"allowed_domains":["a.example"],"blocked_domains":["b.example"]}'
    request = ask(tools=(openai_search(both),))

    (search,) = encode(request, "anthropic")["tools"]
    assert ["a.example"] == search["allowed_domains"]
    assert "blocked_domains" not in search
    assert "tool_option_dropped" in codes(request, "anthropic")


def test_web_search_of_another_dialect_is_mapped() -> None:
    raw = (
        b'{"type":"web_search","filters":{"allowed_domains":["x.example"]},'
        b'"user_location":{"type":"approximate","city":"Oslo"}}'
    )
    search = openai_search(raw)

    assert [
        {
            "type": "web_search_20250305",
            "name": "web_search",
            "allowed_domains": ["x.example"],
            "user_location": {"type": "approximate", "city": "Oslo"},
        }
    ] == tools(search)


@pytest.mark.parametrize("raw", [b"{}", b'{"user_location":5}'])
def test_web_search_without_readable_options_is_plain(raw: bytes) -> None:
    search = openai_search(raw)

    assert [{"type": "web_search_20250305", "name": "web_search"}] == tools(search)


def test_server_tool_that_is_not_there_is_dropped_and_reported() -> None:
    search = Tool(
        name="file_search", server=True, kind="file_search", vendor="openai", path="$.tools[1]"
    )

    assert ["ls"] == [one["name"] for one in tools(LS, search)]
    assert ["server_tool_dropped"] == codes(ask(tools=(LS, search)))


@pytest.mark.parametrize("forced", [ToolChoice("tool", "file_search"), ToolChoice("required")])
def test_forcing_a_tool_that_is_not_there_is_refused(forced: ToolChoice) -> None:
    search = Tool(name="file_search", server=True, kind="file_search", vendor="openai")
    with pytest.raises(UntranslatableError) as raised:
        encode(ask(tools=(search,), tool_choice=forced))

    assert "$.tool_choice" == raised.value.path


# --- choice ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("auto", {"type": "auto"}), ("required", {"type": "any"}), ("none", {"type": "none"})],
)
def test_choice_is_written(mode: str, expected: dict[str, str]) -> None:
    assert expected == choice(mode)


def test_forced_tool_is_named_as_it_is_on_the_wire() -> None:
    request = ask(
        tools=(Tool(name="spawn", namespace="agents"),),
        tool_choice=ToolChoice("tool", "spawn", "agents"),
    )

    assert {"type": "tool", "name": "agents__spawn"} == encode(request)["tool_choice"]


def test_f3_choice_without_tools_is_dropped() -> None:
    request = ask(tool_choice=ToolChoice("required"), parallel=False)

    assert "tool_choice" not in encode(request)
    assert ["tool_choice_dropped"] == codes(request)


def test_only_allowed_tools_are_sent() -> None:
    request = ask(tools=(LS, Tool(name="rm")), tool_choice=ToolChoice("required", allowed=("ls",)))

    body = encode(request)

    assert ["ls"] == [one["name"] for one in body["tools"]]
    assert {"type": "any"} == body["tool_choice"]


@pytest.mark.parametrize(
    ("mode", "name", "expected"),
    [
        (None, "", {"type": "auto", "disable_parallel_tool_use": True}),
        ("auto", "", {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", "", {"type": "any", "disable_parallel_tool_use": True}),
        ("tool", "ls", {"type": "tool", "name": "ls", "disable_parallel_tool_use": True}),
        ("none", "", {"type": "none"}),
    ],
)
def test_parallel_calls_are_switched_off(mode: Any, name: str, expected: dict[str, Any]) -> None:
    given = {} if mode else {"tool_choice": None}

    assert expected == choice(mode or "auto", name, parallel=False, **given)


def test_missing_switch_against_parallel_calls_is_reported() -> None:
    request = ask(tools=(LS,), parallel=False)

    assert ["parallel_not_enforced"] == codes(
        request, Profile(name="p", supports_parallel_flag=False)
    )


@pytest.mark.parametrize(
    ("takes", "mode", "expected"),
    [
        ("auto_only", "required", {"type": "auto"}),
        ("auto_only", "tool", {"type": "auto"}),
        ("strings_only", "tool", {"type": "any"}),
        ("strings_only", "required", {"type": "any"}),
    ],
)
def test_choice_is_weakened_to_what_the_upstream_takes(
    takes: Any, mode: str, expected: Any
) -> None:
    profile = Profile(name="p", tool_choice=takes)

    assert expected == choice(mode, "ls" if mode == "tool" else "", profile)


def test_t20_upstreams_that_call_any_tool_get_the_one_tool() -> None:
    profile = Profile(name="p", tool_choice="strings_only")
    request = ask(tools=(LS, Tool(name="cat")), tool_choice=ToolChoice("tool", "cat"))

    sent = encode(request, profile)

    assert ({"type": "any"}, ["cat"]) == (
        sent["tool_choice"],
        [tool["name"] for tool in sent["tools"]],
    )
    assert ["tool_choice_narrowed"] == codes(request, profile)


def test_none_is_expressed_by_leaving_the_tools_out() -> None:
    profile = Profile(name="p", tool_choice_none=False)
    called = (
        Turn(Role.USER, (TextPart("a"),)),
        Turn(Role.ASSISTANT, (ToolCallPart("t1", "ls", "{}"),)),
        Turn(Role.USER, (ToolResultPart("t1"),)),
    )
    fields: dict[str, Any] = {"tools": (LS,), "tool_choice": ToolChoice("none")}

    assert "tools" not in encode(ask(**fields), profile)
    assert encode(ask(*called, **fields), profile)["tools"]
    assert ["tool_choice_adjusted"] == codes(ask(*called, **fields), profile)


def test_schema_bytes_survive() -> None:
    from tests.support.messages import encoded

    raw = b'{"type":"object",  "properties":{"z":{},"a":{}}}'

    assert raw in encoded(ask(tools=(Tool(name="x", schema=Raw(raw)),))).body
    assert msgspec.json.decode(raw) == tools(Tool(name="x", schema=Raw(raw)))[0]["input_schema"]
