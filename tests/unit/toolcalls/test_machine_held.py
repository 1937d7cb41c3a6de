"""How much text is held back: no more than the longest marker, and what is said here by name."""

import json

import pytest
from msgspec import Raw

from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.toolcalls.bodies.json_objects import MAX_HEADER_CHARS, MAX_LITERAL_CHARS
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.format_samples import hostile
from dragoman.toolcalls.formats import AUTO, FORMATS
from dragoman.toolcalls.machine import MAX_BLANKS
from dragoman.toolcalls.parser import ToolCallParser, parse
from dragoman.turn.events import ArgsDelta
from dragoman.turn.request import Tool
from tests.support.held import bound, header, longest_marker
from tests.support.quick import thinned
from tests.support.renderers import FAMILIES, NativeCall
from tests.support.tables import in_one_test
from tests.support.toolcalls import corpus

ALL = [*FORMATS.values(), AUTO]
each_family = pytest.mark.parametrize("form", ALL, ids=lambda form: form.key)
LIMITS = Limits(max_tool_args_bytes=5000)


@in_one_test
@each_family
def test_no_marker_is_longer_than_a_header_can_be(form: Format) -> None:
    assert longest_marker(form) <= 700


@each_family
def test_a_case_holds_back_no_more_than_its_family_may_and_a_line_or_two(form: Format) -> None:
    most = longest_marker(form) + header(form)
    for case in corpus(form.key):
        parser = case.parser()
        for char in case.whole:
            parser.feed(char)
            assert len(parser.held.lstrip()) <= most, case.name
            assert len(parser.held) <= most + MAX_BLANKS, case.name
            # The bounds are for hostile text: what models write comes nowhere near them.
            assert len(parser.held) <= 200, case.name


@pytest.mark.parametrize(
    ("form", "size"),
    [(form, size) for first, size in enumerate((1, 7, 4096)) for form in thinned(ALL, first)],
    ids=lambda one: one.key if isinstance(one, Format) else str(one),
)
def test_hostile_text_is_held_back_no_more_than_its_family_may(form: Format, size: int) -> None:
    for head, unit in hostile(form):
        text = head + unit * (6000 // len(unit) + 1)
        most = bound(form, text, limits=LIMITS, piece=size)
        parser = ToolCallParser(format=form, limits=LIMITS)
        for at in range(0, len(text), size):
            parser.feed(text[at : at + size])
            assert len(parser.held) <= most, (head, unit)


@pytest.mark.parametrize("family", thinned(FORMATS))
def test_c3_a_long_argument_leaves_as_it_comes(family: str) -> None:
    size = 20_000
    value = "ab cd" * (size // 5)
    text = FAMILIES[family].render([NativeCall("tool_0", {"content": value})])
    schema = Raw(b'{"type":"object","properties":{"content":{"type":"string"}}}')
    parser = ToolCallParser(format=family, tools=[Tool(name="tool_0", schema=schema)])
    most = longest_marker(FORMATS[family])
    start = text.index(value)

    sent, lag = 0, 0
    for at, char in enumerate(text):
        events = parser.feed(char)
        sent += sum(len(event.json) for event in events if isinstance(event, ArgsDelta))
        if start < at < start + size:
            lag = max(lag, at - start - sent)
            assert parser.held in ("", " ")  # a blank, where those around a value are trimmed
    parser.close()

    assert lag <= most
    assert [{"content": value}] == [json.loads(call.arguments) for call in parser.result.tool_calls]


def fed(text: str, family: str) -> ToolCallParser:
    parser = ToolCallParser(format=family)
    for char in text:
        parser.feed(char)
    return parser


def test_a_lone_angle_bracket_waits_for_one_character() -> None:
    parser = fed("a <", "kimi_k2")

    assert parser.held == "<"
    parser.feed(" ")
    assert parser.held == ""


def test_blanks_wait_up_to_their_bound_and_then_are_text() -> None:
    parser = fed(" " * MAX_BLANKS, "kimi_k2")

    assert parser.held == " " * MAX_BLANKS
    parser.feed(" ")
    assert parser.held == ""
    assert parser.result.content == " " * (MAX_BLANKS + 1)


@pytest.mark.parametrize("family", ["llama3_json", "hermes"])
def test_an_object_without_a_call_s_keys_is_text_beyond_the_header_s_bound(family: str) -> None:
    head = "" if family == "llama3_json" else "<tool_call>"
    text = head + '{"id": "' + "x" * 2 * MAX_HEADER_CHARS + '", "name": "f", "arguments": {}}'

    whole, pieces = parse(text, format=family), fed(text, family)
    pieces.close()

    assert (text, ()) == (whole.content, whole.tool_calls)
    assert (text, ()) == (pieces.result.content, pieces.result.tool_calls)


def test_arguments_before_the_name_wait_for_it_up_to_the_limit_of_arguments() -> None:
    text = '<tool_call>{"arguments": {"a": "' + "x" * 2 * MAX_HEADER_CHARS + '"}, "name": "f"}'

    assert [call.name for call in parse(text, format="hermes").tool_calls] == ["f"]
    few = Limits(max_tool_args_bytes=MAX_HEADER_CHARS)
    refused = parse(text, format="hermes", limits=few)
    assert (text, ()) == (refused.content, refused.tool_calls)


def test_a_call_in_the_syntax_of_python_waits_for_its_end_up_to_a_bound() -> None:
    def text(size: int) -> str:
        return "<tool_call>{'name': 'f', 'arguments': {'a': '" + "x" * size + "'}}</tool_call>"

    assert len(parse(text(MAX_LITERAL_CHARS // 2), format="hermes").tool_calls) == 1
    assert parse(text(MAX_LITERAL_CHARS), format="hermes").tool_calls == ()


def test_a_call_that_only_its_arguments_can_name_is_text_beyond_their_limit() -> None:
    header = "<|tool_call_begin|>3<|tool_call_argument_begin|>"
    text = header + '{"a": "' + "x" * 200 + '"}'

    refused = parse(text, format="kimi_k2", limits=Limits(max_tool_args_bytes=100))

    assert (text, ()) == (refused.content, refused.tool_calls)
    assert DEFAULT_LIMITS.max_tool_args_bytes > MAX_LITERAL_CHARS


def test_a_long_string_argument_is_never_held() -> None:
    for family, head in (
        ("kimi_k2", '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": "'),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"a": "'),
        ("qwen3_coder", "<function=f><parameter=a>"),
        ("pythonic", '[f(a="'),
        ("gemma4", '<|tool_call>call:f{a:<|"|>'),
        ("minimax_m3", ']<]minimax[>[<invoke name="f">]<]minimax[>[<a>'),
    ):
        parser = fed(head, family)
        for _ in range(1000):
            parser.feed("abcd")
            assert parser.held == "", family


def test_values_that_wait_for_their_type_are_counted_as_arguments() -> None:
    schema = Raw(b'{"type":"object","properties":{"a":{"type":"object"},"b":{"type":"integer"}}}')
    tools = [Tool(name="f", schema=schema)]
    few = Limits(max_tool_args_bytes=1000)
    for family, head in (
        ("qwen3_coder", "<function=f><parameter=a>"),
        ("qwen3_coder", "<function=f><parameter=arguments>"),
        ("deepseek_v32", '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">'),
        ("minimax_m3", ']<]minimax[>[<invoke name="f">]<]minimax[>[<b>'),
        ("pythonic", "[f(a="),
        ("gemma4", "<|tool_call>call:f{a:"),
        ("functiongemma", "<start_function_call>call:f{a:<escape>"),
    ):
        parser = ToolCallParser(format=family, tools=tools, limits=few)
        parser.feed(head)
        for _ in range(300):
            parser.feed("1234")
        parser.close()

        (call,) = parser.result.tool_calls
        assert not call.complete, family
        with pytest.raises(json.JSONDecodeError):
            json.loads(call.arguments)
        details = [problem.detail for problem in parser.result.problems]
        assert any("max_tool_args_bytes" in detail for detail in details), family
