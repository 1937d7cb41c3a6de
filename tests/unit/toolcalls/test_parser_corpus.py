"""Every corpus case, however its text arrives and wherever it stops."""

import json

import pytest

from dragoman.toolcalls.formats import FORMATS
from tests.support.tables import check_all, in_one_test
from tests.support.toolcalls import Case, corpus, cuts, found, run

each_family = pytest.mark.parametrize("family", FORMATS)


@in_one_test
@each_family
def test_every_family_has_cases(family: str) -> None:
    assert len(corpus(family)) >= 8


@each_family
def test_cases_give_what_they_expect(family: str) -> None:
    check_all(corpus(family), _gives_what_it_expects)


def _gives_what_it_expects(case: Case) -> None:
    parsed = run(case.parser(), case.pieces)

    assert case.expected() == found(parsed)
    for expected, call in zip(case.calls, parsed.tool_calls, strict=True):
        assert expected.id in ("", call.id)


@each_family
def test_cases_give_the_same_however_the_text_arrives(family: str) -> None:
    check_all(corpus(family), _gives_the_same)


def _gives_the_same(case: Case) -> None:
    text, expected = case.whole, case.expected()

    assert expected == found(run(case.parser(), [text]))
    assert expected == found(run(case.parser(), text))
    for at in cuts(text):
        to = at + at % 3  # in two pieces, or with a short one between them
        pieces = [text[:at], text[at:to], text[to:]]
        assert expected == found(run(case.parser(), filter(None, pieces))), text[:at]


@each_family
def test_cases_cut_short_agree_with_the_whole_as_far_as_they_go(family: str) -> None:
    check_all(corpus(family), _agrees_when_cut_short)


def _agrees_when_cut_short(case: Case) -> None:
    text = case.whole
    whole = run(case.parser(), [text])

    for at in (0, *cuts(text)):
        short = text[:at]
        cut = run(case.parser(), [short], cut=True)
        for said, whole_text in ((cut.content, whole.content), (cut.reasoning, whole.reasoning)):
            assert rest_of(said, whole_text).strip() in short
        if not case.cut_agrees:
            continue
        assert len(cut.tool_calls) <= len(whole.tool_calls)
        for one, other in zip(cut.tool_calls, whole.tool_calls, strict=False):
            assert other.name == one.name
            if one.complete:
                assert other.arguments == one.arguments, short
            else:
                # A comma waits for what follows it, and nothing at all gets an opening bracket.
                # A value whose type is not certain yet is emitted as it was written.
                rest = rest_of(one.arguments.rstrip(", \n"), other.arguments).lstrip('"')
                assert one.arguments == "{" or rest in short or json.loads(f'"{rest}"') in short


def rest_of(said: str, whole_text: str) -> str:
    """Return what `said` has beyond its common beginning with `whole_text`."""
    common = 0
    for one, other in zip(said, whole_text, strict=False):
        if one != other:
            break
        common += 1
    return said[common:]
