"""Native calls that end early: by the end of the text, because the model was stopped, or by a limit."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.toolcalls.formats import FORMATS
from dragoman.toolcalls.parser import Parsed, ToolCallParser
from dragoman.turn.answer import ToolCall
from tests.properties.strategies import scaled
from tests.properties.test_toolcalls import calls_of, declared
from tests.support.held import bound
from tests.support.renderers import FAMILIES, NativeCall
from tests.support.tables import in_one_test

each_family = pytest.mark.parametrize("family", FORMATS)

CUT = {"call_cut", "native_call_invalid"}
# The problems of a call that counts as complete although a part of its markup is missing.
MENDED = {"args_repaired", "native_closer_missing"}


def parse(parser: ToolCallParser, text: str, size: int, most: int, *, cut: bool) -> Parsed:
    for at in range(0, len(text), size):
        parser.feed(text[at : at + size])
        assert len(parser.held) <= most
    parser.close(cut=cut)
    return parser.result


def arguments_of(call: ToolCall) -> object:
    """Return the arguments of a complete call; those of another one cannot be an object."""
    if not call.complete:
        assert call.arguments
        with pytest.raises(json.JSONDecodeError):
            json.loads(call.arguments)
        return None
    arguments = json.loads(call.arguments)
    assert isinstance(arguments, dict)
    return arguments


@each_family
@settings(max_examples=scaled(30), deadline=None)
@given(data=st.data())
def test_a_call_that_ends_early_is_reported_as_cut_or_is_all_there(
    family: str, data: st.DataObject
) -> None:
    grammar = FAMILIES[family]
    calls = data.draw(calls_of(grammar))
    text = grammar.render(calls)
    text = text[: data.draw(st.integers(0, len(text)))]
    cut = data.draw(st.booleans())
    # A name alone at a proper end is a call of Mistral's, where nobody says which tools there are.
    known = grammar.typed or grammar.declared or family == "mistral"
    tools = declared(calls) if known else None
    most = bound(FORMATS[family], text)

    parser = ToolCallParser(format=family, tools=tools)
    parsed = parse(parser, text, data.draw(st.integers(1, 9)), most, cut=cut)

    codes = {problem.code for problem in parsed.problems}
    written = {call.name: call.arguments for call in calls}
    assert all(call.complete for call in parsed.tool_calls[:-1])
    for call in parsed.tool_calls:
        arguments = arguments_of(call)
        if not call.complete:
            assert codes & CUT
        elif cut or not codes & MENDED:
            assert written[call.name] == arguments


@each_family
@settings(max_examples=scaled(20), deadline=None)
@given(data=st.data())
def test_a_call_beyond_the_limit_is_reported_and_never_looks_whole(
    family: str, data: st.DataObject
) -> None:
    grammar = FAMILIES[family]
    calls = [
        NativeCall(f"tool_{number}", {"content": "ab" * data.draw(st.integers(0, 100))})
        for number in range(data.draw(st.integers(1, grammar.most)))
    ]
    limit = data.draw(st.integers(10, 150))
    limits = Limits(max_tool_args_bytes=limit)
    text = grammar.render(calls)
    size = data.draw(st.integers(1, 40))
    most = bound(FORMATS[family], text, limits=limits, piece=size)

    parser = ToolCallParser(format=family, tools=declared(calls), limits=limits)
    parsed = parse(parser, text, size, most, cut=False)

    details = {problem.detail for problem in parsed.problems}
    written = {call.name: call.arguments for call in calls}
    for call in parsed.tool_calls:
        if call.complete:
            assert written[call.name] == arguments_of(call)
            assert len(call.arguments) <= limit + size
        else:
            assert any("max_tool_args_bytes" in detail for detail in details)


@in_one_test
@each_family
@pytest.mark.parametrize("cut", [False, True])
def test_b10_a_call_stopped_inside_a_string_is_never_whole(family: str, *, cut: bool) -> None:
    grammar = FAMILIES[family]
    calls = [NativeCall("tool_0", {"content": "rm -r /tmp/x"})]
    text = grammar.render(calls)
    text = text[: text.index("/tmp")]

    parser = ToolCallParser(format=family, tools=declared(calls), limits=DEFAULT_LIMITS)
    parser.feed(text)
    parser.close(cut=cut)

    (call,) = parser.result.tool_calls
    assert not call.complete
    assert CUT & {problem.code for problem in parser.result.problems}
    assert None is arguments_of(call)
    assert call.arguments.rstrip().endswith('"rm -r')
