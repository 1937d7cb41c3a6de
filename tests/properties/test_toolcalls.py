"""Native tool calls: any calls, written as any family writes them, cut anywhere; and any text at all."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.toolcalls.format import Action, Format, OneOf, Pattern
from dragoman.toolcalls.format_damage import schema_of
from dragoman.toolcalls.format_samples import openings, units
from dragoman.toolcalls.formats import AUTO, FORMATS
from dragoman.toolcalls.parser import Parsed, ToolCallParser
from dragoman.turn.request import Tool
from tests.properties.strategies import scaled
from tests.support.renderers import FAMILIES, Family, NativeCall

each_family = pytest.mark.parametrize("family", FORMATS)

PROSE = st.text(st.sampled_from("abc XYZ.,;!?-\n\té漢😀12"), max_size=20)
# What stands inside a string: everything but what begins a tag of some family.
CHARS = st.text(
    st.sampled_from("ab \n\t\"'\\/{}()[]:,;=#|&é漢😀\x07"), max_size=12
) | st.sampled_from(["", "</", "<b>", "```", "null", "12", "true", "%}", "\\u00e9", '"}'])
KEYS = st.from_regex(r"[a-z][a-z_]{0,6}", fullmatch=True).filter(lambda key: key != "item")
SCALARS = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(-1e6, 1e6)


def values(*, trims: bool, typed: bool) -> st.SearchStrategy[Any]:
    strings = CHARS.map(str.strip) if trims else CHARS
    inner = strings.filter(bool) if typed else strings
    leaves = inner | st.integers(-1000, 1000) | st.booleans()
    # A list is of one type: formats without types of their own cannot tell more.
    lists = st.lists(inner, min_size=1, max_size=3) | st.lists(
        st.integers(), min_size=1, max_size=3
    )
    nested = lists | st.dictionaries(KEYS, leaves, min_size=1, max_size=3)
    return strings | SCALARS | nested


def calls_of(family: Family) -> st.SearchStrategy[list[NativeCall]]:
    arguments = st.dictionaries(KEYS, values(trims=family.trims, typed=family.typed), max_size=3)
    return st.lists(arguments, min_size=1, max_size=family.most).map(
        lambda found: [NativeCall(f"tool_{number}", one) for number, one in enumerate(found)]
    )


def declared(calls: list[NativeCall]) -> list[Tool]:
    return [
        Tool(
            name=call.name,
            schema=Raw(json.dumps(schema_of(call.arguments, required=False)).encode()),
        )
        for call in calls
    ]


def run(parser: ToolCallParser, text: str, cuts: list[int]) -> Parsed:
    at = 0
    for size in cuts:
        parser.feed(text[at : at + size])
        at += size
    parser.feed(text[at:])
    parser.close()
    return parser.result


@each_family
@settings(max_examples=scaled(30), deadline=None)
@given(data=st.data())
def test_calls_in_a_family_s_own_grammar_parse_to_the_same_calls_and_text(
    family: str, data: st.DataObject
) -> None:
    grammar = FAMILIES[family]
    calls = data.draw(calls_of(grammar))
    before = data.draw(PROSE.filter(str.strip) | st.just("")) if grammar.before else ""
    after = data.draw(PROSE.filter(str.strip) | st.just("")) if grammar.after else ""
    cuts = data.draw(st.lists(st.integers(1, 9), max_size=200))
    tools = declared(calls) if grammar.typed or grammar.declared else None

    text = before + grammar.render(calls) + after
    parsed = run(ToolCallParser(format=family, tools=tools), text, cuts)

    assert [(call.name, call.arguments) for call in calls] == [
        (one.name, json.loads(one.arguments)) for one in parsed.tool_calls
    ]
    assert all(one.complete for one in parsed.tool_calls)
    assert before + after == parsed.content
    assert parsed.reasoning == ""


# Each begins as something that may stand around a string.
LIKE_SEPARATORS = [
    ", xyz",
    ": xyz",
    "= xyz",
    "] xyz",
    ") xyz",
    "} xyz",
    "[ xyz",
    "( xyz",
    "{ xyz",
    "; xyz",
    "' xyz",
    '" xyz',
    "\\ xyz",
]


@each_family
def test_strings_that_begin_like_separators_are_the_same_however_they_arrive(family: str) -> None:
    grammar = FAMILIES[family]
    arguments = dict(zip("abcdefghijklm", LIKE_SEPARATORS, strict=True))
    calls = [NativeCall("tool_0", arguments)]
    tools = declared(calls) if grammar.typed or grammar.declared else None
    text = grammar.render(calls)

    for at in range(1, len(text)):  # a short piece after it, and the rest
        parsed = run(ToolCallParser(format=family, tools=tools), text, [at, 2])
        assert [arguments] == [json.loads(one.arguments) for one in parsed.tool_calls]


def literals(pattern: Pattern) -> list[str]:
    found: list[str] = []
    for part in pattern:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, OneOf):
            for choice in part.choices:
                found += literals(choice)
    return [one for one in found if one]


def fragments(family: Format) -> st.SearchStrategy[str]:
    markers = sorted({one for rule in family.rules for one in literals(rule.pattern)})
    markers += [one for pair in family.think for one in literals(pair)]
    markers += ['{"name": "f"', "f", "}", '"', " "]
    whole = st.sampled_from(markers)
    part = whole.flatmap(lambda one: st.integers(0, len(one)).map(lambda at: one[:at]))
    return st.lists(whole | part | PROSE, max_size=12).map("".join)


# Families whose strings are between tags: a string that quotes the closing tag looks like its end.
TAGGED = {"kimi_k3", "deepseek_v32", "deepseek_v4", "gemma4"} | {
    key for key, family in FAMILIES.items() if family.typed
}


@pytest.mark.parametrize("family", [key for key in FORMATS if key not in TAGGED])
@settings(max_examples=scaled(20), deadline=None)
@given(data=st.data())
def test_a_string_may_quote_any_marker_of_its_family(family: str, data: st.DataObject) -> None:
    grammar = FAMILIES[family]
    markers = sorted({one for rule in FORMATS[family].rules for one in literals(rule.pattern)})
    strings = st.lists(st.sampled_from(markers) | CHARS, max_size=4).map("".join)
    arguments = data.draw(
        st.lists(st.dictionaries(KEYS, strings, max_size=2), min_size=1, max_size=2)
    )
    calls = [
        NativeCall(f"tool_{number}", one) for number, one in enumerate(arguments[: grammar.most])
    ]
    cuts = data.draw(st.lists(st.integers(1, 9), max_size=100))

    parser = ToolCallParser(format=family, tools=declared(calls) if grammar.declared else None)
    parsed = run(parser, grammar.render(calls), cuts)

    assert [(call.name, call.arguments) for call in calls] == [
        (one.name, json.loads(one.arguments)) for one in parsed.tool_calls
    ]
    assert parsed.content == ""


@each_family
@settings(max_examples=scaled(40), deadline=None)
@given(data=st.data())
def test_text_strewn_with_markers_comes_back_unless_it_holds_a_call(
    family: str, data: st.DataObject
) -> None:
    form = FORMATS[family]
    text = data.draw(fragments(form))
    cuts = data.draw(st.lists(st.integers(1, 5), max_size=60))

    tools = data.draw(st.sampled_from([None, [Tool(name="f")], [Tool(name="other")]]))

    whole = run(ToolCallParser(format=form, tools=tools, seed="s"), text, [])
    parsed = run(ToolCallParser(format=form, tools=tools, seed="s"), text, cuts)

    assert (whole.content, whole.reasoning, whole.tool_calls) == (
        parsed.content,
        parsed.reasoning,
        parsed.tool_calls,
    )
    if not whole.tool_calls:
        assert is_subsequence(whole.content, text)
        assert is_subsequence(whole.reasoning, text)
        structured = any(
            rule.action in (Action.START_TEXT, Action.START_REASONING) for rule in form.rules
        )
        tagged = any(literals((opener,))[0] in text for opener, _ in form.think)
        if not structured and not tagged and not whole.problems:
            assert text == whole.content


def is_subsequence(part: str, text: str) -> bool:
    rest = iter(text)
    return all(char in rest for char in part)


@settings(max_examples=scaled(300), deadline=None)
@given(
    text=st.text(st.characters() | st.sampled_from("<|>[]{}\"'\\=: \n"), max_size=80),
    family=st.sampled_from([*FORMATS.values(), AUTO]),
    cuts=st.lists(st.integers(1, 7), max_size=40),
)
def test_any_text_gives_a_result(text: str, family: Format, cuts: list[int]) -> None:
    parsed = run(ToolCallParser(format=family), text, cuts)

    if not parsed.tool_calls and not parsed.problems and not parsed.reasoning:
        assert text == parsed.content


@each_family
@settings(max_examples=scaled(30), deadline=None)
@given(data=st.data())
def test_whatever_a_call_holds_its_arguments_are_an_object_or_it_is_not_complete(
    family: str, data: st.DataObject
) -> None:
    form = FORMATS[family]
    head = data.draw(st.sampled_from(openings(form)))
    rest = data.draw(st.lists(st.sampled_from(units(form)) | CHARS, max_size=8).map("".join))
    cuts = data.draw(st.lists(st.integers(1, 9), max_size=60))
    # A limit so small that many pass it.
    limits = data.draw(st.sampled_from([DEFAULT_LIMITS, Limits(max_tool_args_bytes=60)]))

    parsed = run(ToolCallParser(format=form, limits=limits), head + rest, cuts)

    for call in parsed.tool_calls:
        assert call.arguments
        assert not call.complete or isinstance(json.loads(call.arguments), dict)
