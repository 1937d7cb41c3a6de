"""`ToolCallParser`: the options of the constructor, and bodies of calls that no family's corpus has."""

import pytest

from dragoman import ConfigError, Limits, ToolCallParser, tool
from dragoman.limits import DEFAULT_LIMITS
from dragoman.toolcalls.parser import Parsed
from dragoman.turn.events import ArgsDelta, BlockEnd

KIMI = (
    "<|tool_call_begin|>functions.ls:0<|tool_call_argument_begin|>{",
    '"a": 1',
    "}<|tool_call_end|>",
)


def parse(family: str, *pieces: str, limits: Limits = DEFAULT_LIMITS) -> Parsed:
    parser = ToolCallParser(format=family, limits=limits)
    for piece in pieces:
        parser.feed(piece)
    parser.close()
    return parser.result


def test_whole_holds_a_call_until_it_has_ended() -> None:
    parser = ToolCallParser(format="kimi_k2", whole=True)

    assert [[], []] == [parser.feed(piece) for piece in KIMI[:2]]
    ended = parser.feed(KIMI[2]) + parser.close()
    assert '{"a": 1}' == "".join(one.json for one in ended if isinstance(one, ArgsDelta))
    assert isinstance(ended[-1], BlockEnd)
    assert ended[-1].complete


@pytest.mark.parametrize("name", ["none", "None", "nome", "standard"])
def test_an_unknown_format_is_not_answered_with_a_name_that_is_unknown_too(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no tool-call format `{name}`") as caught:
        ToolCallParser(format=name)

    assert "`none`" not in str(caught.value).partition(";")[2]
    assert "`standard`" not in str(caught.value).partition(";")[2]


@pytest.mark.parametrize(
    ("literal", "json"),
    [
        (r'"\UFFFFFFFF"', r'"\\UFFFFFFFF"'),  # beyond the last character
        (r'"\xZZ"', r'"\\xZZ"'),
        ("0x1F", "31"),
        ("1__0", '"1__0"'),  # not a number in Python either
    ],
)
def test_a_literal_that_python_refuses_is_text(literal: str, json: str) -> None:
    (call,) = parse("pythonic", f"[ls(a={literal})]").tool_calls

    assert f'{{"a": {json}}}' == call.arguments
    assert call.complete


@pytest.mark.parametrize(
    "written", ["{'name': 5}", "['x']", "{'name': 'ls', 'arguments': {1: 2j}}", "{'nope"]
)
def test_a_python_value_that_is_no_call_stays_text(written: str) -> None:
    found = parse("hermes", f"<tool_call>{written}</tool_call>")

    assert () == found.tool_calls
    assert f"<tool_call>{written}</tool_call>" == found.content


@pytest.mark.parametrize(
    ("body", "limits"),
    [('{"a": nope}', Limits()), ('{"a": ' + "[" * 20 + "]" * 20 + "}", Limits(max_json_depth=8))],
    ids=["not JSON", "too deep"],
)
def test_a_body_that_cannot_be_read_ends_the_call(body: str, limits: Limits) -> None:
    text = f"<tool_call>\n<function=ls>\n{body}\n</function>\n</tool_call>"
    found = parse("qwen3_coder", text, limits=limits)

    assert [("ls", False)] == [(call.name, call.complete) for call in found.tool_calls]
    assert "native_call_invalid" in [one.code for one in found.problems]


def test_a_call_that_begins_inside_an_open_string_ends_the_one_before() -> None:
    second = '<tool_call>{"name": "pwd", "arguments": {}}</tool_call>'
    found = parse("hermes", '<tool_call>{"name": "ls", "arguments": {"a": "x', second)

    assert [("ls", False), ("pwd", True)] == [(one.name, one.complete) for one in found.tool_calls]


HEADER = '<tool_call>{"name": "ls", "arguments": '


@pytest.mark.parametrize("end", ["}}</tool_call>", ""], ids=["closed", "cut"])
def test_arguments_that_are_not_json_are_limited_too(end: str) -> None:
    text = HEADER + '{"a": nope ' + "y" * 50 + end
    found = parse("hermes", *text, limits=Limits(max_tool_args_bytes=20))

    assert [("ls", '{"a": n', False)] == [
        (one.name, one.arguments, one.complete) for one in found.tool_calls
    ]
    assert "native_call_invalid" in [one.code for one in found.problems]


def test_the_header_of_a_call_is_text_if_nothing_follows_it() -> None:
    found = parse("hermes", HEADER + '{"a": "x', '<tool_call>{"name": "')

    assert [("ls", '{"a": "x', False)] == [
        (one.name, one.arguments, one.complete) for one in found.tool_calls
    ]
    assert '<tool_call>{"name": "' == found.content


@pytest.mark.parametrize("after", ["", "</tool_call>", HEADER + "{}}</tool_call>"])
def test_arguments_that_took_the_bracket_of_their_object_are_not_complete(after: str) -> None:
    properties = {"a": {"type": "object"}, "c": {"type": "integer"}}
    declared = tool("ls", schema={"type": "object", "properties": properties})
    parser = ToolCallParser(format="hermes", tools=[declared])
    parser.feed(HEADER + '{"a": {"b": 1, "c": 2}}')
    parser.feed(after)
    parser.close()

    assert not parser.result.tool_calls[0].complete


@pytest.mark.parametrize("after", ["", "\n<tool_call>\n<function=pwd>\n</function>\n</tool_call>"])
def test_a_json_body_without_its_end_is_not_complete(after: str) -> None:
    found = parse("qwen3_coder", '<tool_call>\n<function=ls>\n{"a": 1', after)

    assert [("ls", False), ("pwd", True)][: 1 + bool(after)] == [
        (one.name, one.complete) for one in found.tool_calls
    ]


def test_a_value_that_nests_too_deeply_for_an_object_is_a_string() -> None:
    declared = tool("ls", schema={"type": "object", "properties": {"a": {"type": "object"}}})
    parser = ToolCallParser(format="qwen3_coder", tools=[declared])
    deep = "[" * 300
    parser.feed(f"<tool_call>\n<function=ls>\n<parameter=a>\n{deep}\n</parameter>\n")
    parser.feed("</function>\n</tool_call>")
    parser.close()

    assert {"a": deep} == parser.result.tool_calls[0].args
