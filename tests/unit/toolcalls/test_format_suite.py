"""The generated checks: every built-in family passes them, and each of them fails for a format with that fault."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.toolcalls.format import (
    AHEAD,
    BLANKS,
    CallWriter,
    Format,
    JsonSpec,
    ObjectsSpec,
    Run,
    SampleCall,
    call,
    closes,
    one_of,
)
from dragoman.toolcalls.format_suite import (
    SampleAnswer,
    Traits,
    check_format,
    cut,
    deleted,
    find_writer,
    honest,
    linear,
    reasoning,
    split,
    surrounded,
    traits_of,
    whole,
)
from dragoman.toolcalls.formats import FORMATS
from tests.support.quick import thinned
from tests.support.renderers import FAMILIES, Family, NativeCall


def writer(family: Family) -> CallWriter:
    return lambda calls: family.render([NativeCall(*one) for one in calls])


def answer(key: str) -> SampleAnswer:
    family = FAMILIES[key]
    traits = Traits(family.before, family.after, min(family.most, 2))
    return SampleAnswer(FORMATS[key], writer(family), traits)


GENERATED = (whole, split, surrounded, reasoning, cut, honest)


@pytest.mark.parametrize(
    ("check", "key"),
    [(check, key) for first, check in enumerate(GENERATED) for key in thinned(FORMATS, first)],
)
def test_every_family_passes(check: Callable[[SampleAnswer], Any], key: str) -> None:
    outcomes = list(check(answer(key)))

    assert outcomes
    assert [] == [one for one in outcomes if not one.passed]


@pytest.mark.parametrize("key", FORMATS)
def test_an_answer_without_a_marker_has_no_other_call(key: str) -> None:
    outcomes = list(deleted(answer(key)))

    assert len(outcomes) > 20
    assert [] == [one for one in outcomes if not one.passed]


@pytest.mark.parametrize("key", FORMATS)
def test_the_text_of_a_family_can_be_derived_from_its_rules(key: str) -> None:
    # This is what `dragoman formats check NAME` parses.
    write = find_writer(FORMATS[key])

    assert write is not None
    derived = SampleAnswer(FORMATS[key], write, traits_of(FORMATS[key]))
    assert [] == [
        one for check in (whole, surrounded, deleted) for one in check(derived) if not one.passed
    ]


# --- formats with a fault ---------------------------------------------------------------------------------

OPENER = (
    *call(("<go>", BLANKS, AHEAD, one_of("{", "[")), body=ObjectsSpec()),
    *closes(("</go>",), stray=False),
)
SOUND = Format(key="sound", description="a sound format", models=(), rules=OPENER)


def failed(format_: Format, **options: Any) -> set[str]:
    return {one.check for one in check_format(format_, **options) if not one.passed}


def objects(opener: str, closer: str) -> CallWriter:
    def write(calls: Sequence[SampleCall]) -> str:
        texts = [
            f'{opener}{{"name": "{name}", "arguments": {arguments}}}{closer}'
            for name, arguments in calls
        ]
        return "".join(texts).replace("'", '"').replace("True", "true")

    return write


def test_a_sound_format_passes() -> None:
    outcomes = list(check_format(SOUND))

    assert len(outcomes) > 500
    assert all(one.passed for one in outcomes)
    assert {
        "whole", "split", "text around calls", "reasoning", "cut", "deletion", "honest text", "linear"
    } == {one.check for one in outcomes}  # fmt: skip


def test_a_closer_without_a_rule_is_shown() -> None:
    form = replace(SOUND, rules=OPENER[:1])

    assert "whole" in failed(form, write=objects("<go>", "</go>"))


def test_another_name_key_than_models_write_is_found() -> None:
    rules = call(("<go>", AHEAD, "{"), body=ObjectsSpec(name_keys=("tool",)))

    assert "whole" in failed(replace(SOUND, rules=rules), write=objects("<go>", ""))


def test_rules_that_nothing_can_be_written_for_are_reported() -> None:
    rules = call(("<go ", Run(r"\w", 1, 20, name="name"), ">"), body=JsonSpec(), empty=True)

    (outcome,) = check_format(replace(SOUND, rules=rules))

    assert not outcome.passed
    assert "give `write`" in outcome.detail


def test_a_marker_that_prose_has_is_found() -> None:
    form = replace(SOUND, rules=call((AHEAD, "{"), body=ObjectsSpec()))

    assert "honest text" in failed(form, write=objects("", ""))


def test_a_marker_that_takes_more_than_linear_time_is_found() -> None:
    pattern = ("<go", *(Run("[a ]", 0, 64),) * 4, ">", AHEAD, "{")
    form = replace(SOUND, rules=(*call(pattern, body=ObjectsSpec()), *OPENER[1:]))

    outcomes = linear(SampleAnswer(form, objects("<go>", "</go>"), Traits()))

    assert "ways" in next(one.detail for one in outcomes if not one.passed)
