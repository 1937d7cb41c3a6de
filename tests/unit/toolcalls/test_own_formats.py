"""Formats of users: what the builders read, and which tables are not legal."""

from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from dragoman import ConfigError, Tool, json_format, tags_format
from dragoman.toolcalls.format import (
    AHEAD,
    BLANKS,
    Action,
    Format,
    JsonSpec,
    ObjectsSpec,
    OneOf,
    Rule,
    Run,
    TagsSpec,
    call,
    closes,
    markers,
)
from dragoman.toolcalls.format_suite import check_format
from dragoman.toolcalls.formats import AUTO, FORMATS
from dragoman.toolcalls.own_formats import FormatError, validated
from dragoman.toolcalls.parser import parse
from tests.support.tables import in_one_test

TOOL = Tool(
    name="add", schema=Raw(b'{"properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}')
)
JSON: dict[str, Any] = {"open": "<call>", "close": "</call>"}
TAGS: dict[str, Any] = {
    "open": '<run tool="{name}">',
    "close": "</run>",
    "parameter": '<arg key="{key}">',
    "parameter_close": "</arg>",
}


def found(format_: Format, text: str) -> list[tuple[str, str, str]]:
    parsed = parse(text, format=format_, tools=[TOOL])
    return [(one.id, one.name, one.arguments) for one in parsed.tool_calls]


def test_json_between_markers() -> None:
    form = json_format("a", **JSON, name_key="tool", arguments_key="input", id_key="id")

    assert [("c7", "add", '{"n": 1}')] == found(
        form, '<call>{"id": "c7", "tool": "add", "input": {"n": 1}}</call>'
    )


def test_json_after_a_marker_with_the_name() -> None:
    form = json_format("a", open="<call:{name}>", close="</call>")

    (call_,) = found(form, '<call:add>{"n": 1}</call>')
    assert ("add", '{"n": 1}') == call_[1:]


def test_tags_are_typed_by_the_schema() -> None:
    text = '<runs>\n<run tool="add">\n<arg key="n">\n1\n</arg><arg key="s">1</arg>\n</run>\n</runs>'

    (call_,) = found(tags_format("a", **TAGS, section=["<runs>", "</runs>"]), text)

    assert ("add", '{"n": 1, "s": "1"}') == call_[1:]


@pytest.mark.parametrize(("trim", "value"), [("none", r"\n x\n"), ("line", " x"), ("blank", "x")])
def test_values_are_trimmed_as_declared(trim: Any, value: str) -> None:
    text = '<run tool="add"><arg key="s">\n x\n</arg></run>'

    (call_,) = found(tags_format("a", **TAGS, trim=trim), text)

    assert f'{{"s": "{value}"}}' == call_[2]


@pytest.mark.parametrize(
    "form",
    [
        json_format("pair", **JSON),
        json_format("alone", open="<|acme_call|>"),
        json_format("named", open="[[call:{name}]]", close="[[/call]]"),
        tags_format("section", **TAGS, section=["<runs>", "</runs>"]),
        tags_format(
            "words",
            open="@call {name}:",
            close="@end",
            parameter="@arg {key}=",
            parameter_close="@;",
            think=("@think", "@/think"),
        ),
    ],
    ids=lambda form: form.key,
)
def test_what_the_builders_return_passes_all_checks(form: Format) -> None:
    outcomes = list(check_format(form))

    assert [] == [one for one in outcomes if not one.passed]


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"open": ""}, "open", "is empty"),
        ({"open": " <call>"}, "open", "begins or ends with blanks"),
        ({"open": "call"}, "open", "begins with `call`, which prose contains too"),
        ({"open": "<"}, "open", "at least two characters"),
        ({"open": "<" * 101}, "open", "has 101 characters; the limit is 100"),
        ({"close": "<call>"}, "close", "begins like `open`"),
        ({"close": "<call>s"}, "close", "begins like `open`"),
        ({"close": "</{name}>"}, "close", "has no placeholder"),
        ({"open": "<call:{name}"}, "open", "needs a text before and after `{name}`"),
        ({"open": "<call:{name}{name}>"}, "open", "exactly once"),
        ({"open": "{name}:"}, "open", "needs a text before and after `{name}`"),
        ({"open": "<think>"}, "think[1]", "begins like `open`"),
        ({"think": ["<think>"]}, "think", "has two tags"),
        ({"think": ["<think>", ""]}, "think[2]", "is empty"),
        ({"name_key": ""}, "name_key", "is empty"),
        ({"models": [""]}, "models", "a glob that is empty"),
    ],
)
def test_a_json_format_that_is_not_legal(changes: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        json_format("a", **{**JSON, **changes})

    assert isinstance(error.value, FormatError)
    assert reason in str(error.value)
    assert field == error.value.field


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"open": "<run>"}, "open", "needs the placeholder `{name}` exactly once"),
        ({"parameter": "<arg>"}, "parameter", "needs the placeholder `{key}` exactly once"),
        ({"parameter_close": ""}, "parameter_close", "is empty"),
        ({"close": ""}, "close", "is empty"),
        ({"section": ["<runs>"]}, "section", "has two markers"),
        ({"section": ["</run>", "</runs>"]}, "section[1]", "begins like `close`"),
        ({"parameter": '<run tool="{key}">'}, "parameter", "begins like `open`"),
    ],
)
def test_a_tags_format_that_is_not_legal(changes: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(FormatError, match="`") as error:
        tags_format("a", **{**TAGS, **changes})

    assert reason in error.value.reason
    assert field == error.value.field


# --- tables -----------------------------------------------------------------------------------------------

NAME = Run(r"\w", 1, 64, name="name")
BODY = TagsSpec(
    param=(("<p ", Run(r"\w", 1, 64, name="key"), ">"),),
    value_end=(("</p>",),),
    call_end=(("</f>",),),
)
GOOD = Format(key="good", rules=(*call(("<f ", NAME, ">"), body=BODY), *closes(("</f>",))))


@in_one_test
@pytest.mark.parametrize("form", [*FORMATS.values(), AUTO, GOOD], ids=lambda form: form.key)
def test_every_built_in_table_is_legal(form: Format) -> None:
    assert form is validated(form)


def first(**changes: Any) -> tuple[Rule, ...]:
    return (replace(GOOD.rules[0], **changes), *GOOD.rules[1:])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": "a b"}, "`key`: `a b` is not a name"),
        ({"models": ("",)}, "`models`: has a glob"),
        ({"think": (("<a>",),)}, "`think[1]`: has two tags"),
        ({"think": (("<f ", "</f>"),)}, "`rules[1].pattern`: begins like a tag of `think`"),
        ({"rules": closes(("</f>",))}, "`rules`: have no rule that begins a call"),
        ({"rules": (GOOD.rules,)}, "`rules[1]`: is not a `Rule`"),
        ({"rules": list(GOOD.rules)}, "`rules`: are not tuples of rules all the way down"),
        ({"rules": first(pattern="<f ")}, "`rules[1].pattern`: is not a tuple"),
        ({"rules": first(pattern=(BLANKS, AHEAD))}, "`rules[1].pattern`: matches the empty text"),
        ({"rules": first(pattern=("<", Run("x", 0, 900)))}, "may match 901 characters; the limit is"),
        ({"rules": first(pattern=("<", Run("[x", 0, 9)))}, "is not a class of characters"),
        ({"rules": first(pattern=("<", Run("ab", 0, 9)))}, "matches more than one character"),
        ({"rules": first(pattern=("<", Run("x", 2, 9)))}, "`least` is 0 or 1"),
        ({"rules": first(pattern=("<", OneOf(())))}, "has a choice without any alternative"),
        ({"rules": first(pattern=("<", 3))}, "has a `int`; expected a string"),
        ({"rules": first(pattern=("<f ",))}, "needs a run with the name `name` or `id`"),
        ({"rules": first(at=frozenset())}, "`rules[1].at`: is empty"),
        ({"rules": first(body=None)}, "`rules[1].body`: a rule that does `CALL` needs body"),
        ({"rules": first() + first(action=Action.SKIP)}, "a rule that does `SKIP` has no body"),
        ({"rules": first(action=Action.TRY_FAMILIES)}, "`rules[1].families`: is empty"),
        ({"rules": first(body=replace(BODY, param=()))}, "`rules[1].body.param`: is empty"),
        ({"rules": first(body=replace(BODY, param=(("<p>",),)))}, "needs a run with the name `key`"),
        (
            {"rules": (*GOOD.rules, *call(("<f ", NAME, ">"), body=JsonSpec()))},
            "`rules[4]`: has the pattern of rules[1], which counts at",
        ),
        (
            {"rules": (*GOOD.rules, *markers(("<f ", NAME, ">"), action=Action.SKIP))},
            "`rules[4]`: has the pattern of rules[1]",
        ),
    ],
)  # fmt: skip
def test_a_table_that_is_not_legal_is_an_error_where_it_is_used(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        parse("x", format=replace(GOOD, **changes))

    assert message in str(error.value)


def test_a_format_may_have_reasoning_tags_alone() -> None:
    parsed = parse("[a]x[b]y", format=Format(key="plain", rules=(), think=(("[a]", "[b]"),)))

    assert ("x", "y") == (parsed.reasoning, parsed.content)


def test_objects_need_no_name_in_their_marker() -> None:
    assert validated(Format(key="o", rules=call(("<f>", AHEAD, "{"), body=ObjectsSpec())))
