"""Tool definitions of clients."""

from typing import Any

import msgspec
import pytest

from dragoman.errors import MalformedError
from dragoman.turn.request import CacheHint, ToolChoice
from tests.support.messages import TOOL, USER, decode


def tool(**fields: Any) -> Any:
    (only,) = decode(tools=[TOOL | fields]).tools
    return only


def test_function_is_read_with_its_schema_as_written() -> None:
    read = tool(
        strict=True, cache_control={"type": "ephemeral"}, input_examples=[{"a": 1}], type="custom"
    )

    assert ("ls", "List files.", True, CacheHint()) == (
        read.name,
        read.description,
        read.strict,
        read.cache,
    )
    assert b'{"type":"object","properties":{}}' == bytes(read.schema)
    assert [b'{"a":1}'] == [bytes(example) for example in read.examples]
    assert "$.tools[0]" == read.path


def test_options_that_others_do_not_have_are_named() -> None:
    assert ("eager_input_streaming", "allowed_callers") == tool(
        eager_input_streaming=True, allowed_callers=["direct"]
    ).options


def test_schema_may_be_missing() -> None:
    (read,) = decode(tools=[{"name": "x"}]).tools

    assert read.schema is None


@pytest.mark.parametrize(
    ("definition", "path"),
    [
        ({"input_schema": {}}, "$.tools[1].name"),
        ({"name": ""}, "$.tools[1].name"),
        ({"name": 5}, "$.tools[1].name"),
        ({"name": "x", "input_schema": "text"}, "$.tools[1].input_schema"),
        ({"name": "x", "input_schema": None}, "$.tools[1].input_schema"),
        ({"name": "x", "input_schema": []}, "$.tools[1].input_schema"),
        ({"name": "x", "type": "function"}, "$.tools[1].type"),
        ("x", "$.tools[1]"),
    ],
)
def test_p_7_invalid_definition_is_refused_with_its_path(definition: Any, path: str) -> None:
    with pytest.raises(MalformedError) as raised:
        decode(tools=[TOOL, definition])

    assert path == raised.value.path


@pytest.mark.parametrize(
    ("kind", "wire_type", "properties"),
    [
        ("bash", "bash_20250124", {"command", "restart"}),
        (
            "text_editor",
            "text_editor_20250728",
            {"command", "path", "file_text", "old_str", "new_str"},
        ),
        ("memory", "memory_20250818", {"command", "path", "old_path", "new_path"}),
    ],
)
def test_client_run_tools_of_the_vendor_have_a_schema_for_others(
    kind: str, wire_type: str, properties: set[str]
) -> None:
    (read,) = decode(tools=[{"type": wire_type, "name": f"my_{kind}"}]).tools

    schema = msgspec.json.decode(read.schema)
    assert (f"my_{kind}", kind, "anthropic", False) == (
        read.name,
        read.kind,
        read.vendor,
        read.server,
    )
    assert properties <= schema["properties"].keys()
    assert read.description
    assert {"type": wire_type, "name": f"my_{kind}"} == msgspec.json.decode(read.raw)


@pytest.mark.parametrize(
    ("wire_type", "kind"),
    [
        ("web_search_20250305", "web_search"),
        ("web_fetch_20250910", "web_fetch"),
        ("code_execution_20250825", "code_execution"),
        ("tool_search_tool_regex_20251119", "tool_search"),
        ("tool_search_tool_bm25_20251119", "tool_search"),
        ("mcp_toolset", "mcp_toolset"),
    ],
)
def test_server_tools_are_known_by_kind(wire_type: str, kind: str) -> None:
    _, read = decode(tools=[TOOL, {"type": wire_type, "name": "x", "max_uses": 5}]).tools

    assert (kind, True, "anthropic", "x") == (read.kind, read.server, read.vendor, read.name)
    assert b'"max_uses":5' in bytes(read.raw)


def test_toolsets_are_run_by_the_client_and_have_no_schema() -> None:
    (read,) = decode(tools=[{"type": "computer_toolset_20260801"}]).tools

    assert ("computer_toolset", "computer_toolset", False, None) == (
        read.name,
        read.kind,
        read.server,
        read.schema,
    )


# --- deferred tools ----------------------------------------------------------------------------------

DEFERRED = {"name": "rare", "defer_loading": True}
FOUND = (
    USER,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}]},
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [{"type": "tool_reference", "tool_name": "rare"}],
            }
        ],
    },
)


def test_f5_deferred_tools_wait_until_they_are_referred_to() -> None:
    before = decode(tools=[TOOL, DEFERRED])
    after = decode(*FOUND, tools=[TOOL, DEFERRED])

    assert ["ls"] == [one.name for one in before.tools]
    assert ["ls", "rare"] == [one.name for one in after.tools]


def test_f5_reference_is_described_in_words() -> None:
    request = decode(*FOUND, tools=[TOOL, DEFERRED])

    assert "The tool rare is now available." == request.turns[2].parts[0].parts[0].text
    assert ["tool_content_flattened"] == [loss.code for loss in request.losses]
    assert "$.messages[2].content[0].content[0]" == request.losses[0].path


def test_f5_nothing_is_deferred_where_only_the_vendor_could_search() -> None:
    search = {"type": "tool_search_tool_bm25_20251119", "name": "search"}

    assert ["search", "rare"] == [one.name for one in decode(tools=[search, DEFERRED]).tools]


# --- choice ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "expected", "parallel"),
    [
        ({"type": "auto"}, ToolChoice("auto"), None),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice("required"), False),
        ({"type": "none"}, ToolChoice("none"), None),
        (
            {"type": "tool", "name": "ls", "disable_parallel_tool_use": False},
            ToolChoice("tool", "ls"),
            True,
        ),
    ],
    ids=["auto", "any", "none", "tool"],
)
def test_choice_is_read(
    choice: dict[str, Any], expected: ToolChoice, parallel: bool | None
) -> None:
    request = decode(tools=[TOOL], tool_choice=choice)

    assert (expected, parallel) == (request.tool_choice, request.parallel)


@pytest.mark.parametrize("choice", [{"type": "tool"}, {"type": "tool", "name": "rm"}])
def test_choice_of_no_known_tool_is_refused(choice: dict[str, str]) -> None:
    with pytest.raises(MalformedError) as raised:
        decode(tools=[TOOL], tool_choice=choice)

    assert "$.tool_choice.name" == raised.value.path
