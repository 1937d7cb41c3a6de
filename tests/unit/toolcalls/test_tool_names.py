import pytest
from msgspec import Raw

from dragoman.toolcalls.parser import parse
from dragoman.toolcalls.tool_names import DeclaredTools, ResolvedCall
from dragoman.turn.request import Tool

TOOLS = [
    Tool(name="bash", schema=Raw(b'{"properties":{"command":{}},"required":["command"]}')),
    Tool(name="list_files", schema=Raw(b'{"properties":{"path":{}}}')),
    Tool(name="query.dataset", schema=Raw(b'{"properties":{"q":{}}}')),
]
KNOWN = DeclaredTools(TOOLS)
UNKNOWN = DeclaredTools(None)


@pytest.mark.parametrize(
    ("call_id", "name"),
    [
        ("functions.bash:15", "bash"),
        ("bash:0", "bash"),
        ("bash", "bash"),
        ("functions.a.b:0", "a.b"),
        ("functions.my-tool:3", "my-tool"),
        ("call_abc123", None),
        ("call_abc123:0", None),
        ("3", None),
        ("", None),
        ("other", None),
    ],
)
def test_k1_10_c5_name_in_an_id(call_id: str, name: str | None) -> None:
    assert name == KNOWN.name_from_id(call_id)


def test_an_id_alone_is_a_name_if_no_tools_are_known() -> None:
    assert UNKNOWN.name_from_id("other") == "other"
    assert UNKNOWN.name_from_id("call_1") is None


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("bash", "bash"),
        ("functions.bash", "bash"),
        ("Bash", "bash"),
        ("list-files", "list_files"),
        ("bash<|channel|>commentary", "bash"),
        ("unknown_tool", "unknown_tool"),
        ("browser.search", "browser.search"),
        ("calc.calc", "calc"),
    ],
)
def test_c16_name_in_a_header(written: str, name: str) -> None:
    assert name == KNOWN.resolve_name(written)


def test_c5_the_arguments_identify_the_tool() -> None:
    named = KNOWN.resolve_by_arguments('{"name": "list_files", "path": "/home"}')

    assert ResolvedCall("list_files", '{"path":"/home"}') == named
    assert ResolvedCall("bash", '{"command": "ls"}') == KNOWN.resolve_by_arguments(
        '{"command": "ls"}'
    )
    assert ResolvedCall("bash", '{"a": 1}') == KNOWN.resolve_by_arguments(
        '{"name": "bash", "arguments": {"a": 1}}'
    )
    assert KNOWN.resolve_by_arguments('{"zzz": 1}') is None
    assert KNOWN.resolve_by_arguments("[1]") is None


def test_names_that_only_differ_in_spelling_are_not_confused() -> None:
    twins = DeclaredTools([Tool(name="get_x"), Tool(name="getX")])

    assert twins.resolve_name("get_x") == "get_x"
    assert twins.resolve_name("get-x") == "get-x"


@pytest.mark.parametrize(
    ("inner", "arguments"),
    [
        ('{"command": "ls"}', '{"command": "ls"}'),
        ('"{\\"command\\": \\"ls\\"}"', '{"command": "ls"}'),
        ("null", "{}"),
        ("[1]", "[1]"),
    ],
)
def test_c5_what_an_object_of_name_and_arguments_holds_is_an_object_or_not_complete(
    inner: str, arguments: str
) -> None:
    tools = [Tool(name="bash"), Tool(name="other")]
    body = f'{{"name": "bash", "arguments": {inner}}}'
    text = f"<|tool_call_begin|>call_1<|tool_call_argument_begin|>{body}<|tool_call_end|>"

    (call,) = parse(text, format="kimi_k2", tools=tools).tool_calls

    assert ("call_1", "bash", arguments, arguments.startswith("{")) == (
        call.id,
        call.name,
        call.arguments,
        call.complete,
    )
