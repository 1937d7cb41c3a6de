"""Every family of native tool calls shows the same kinds of cases, under the same names.

There is no exception: a family that could not show one of these kinds would be named here, with the reason.
"""

import re
from pathlib import Path

import pytest

import dragoman.toolcalls
from dragoman.toolcalls.formats import FORMATS
from tests.support.tables import in_one_test
from tests.support.toolcalls import ROOT, corpus

# What a corpus case of this name shows.
KINDS = {
    "worked_1": "an example of the family as its makers write it",
    "one_call": "one call with arguments of two types",
    "several_calls": "several calls in one answer",
    "no_arguments": "a call without arguments",
    "nested_values": "lists and objects as arguments",
    "unicode_and_escapes": "characters beyond ASCII, quotation marks, backslashes",
    "literal_end_marker": "a string that holds the family's own closers",
    "text_around": "text before and after a call",
    "cut_inside_a_value": "a stream that stops inside a value",
    "prose_about_markers": "prose that names the markers and comes back",
}


@in_one_test
@pytest.mark.parametrize("family", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_family_has_a_case_of_every_kind(family: str, kind: str) -> None:
    assert (ROOT / family / f"{kind}.json").is_file()


@in_one_test
@pytest.mark.parametrize("family", FORMATS)
def test_cases_of_a_kind_show_what_their_name_promises(family: str) -> None:
    cases = {case.name: case for case in corpus(family)}

    assert 1 == len(cases["one_call"].calls)
    assert len(cases["several_calls"].calls) > 1
    assert {"{}"} == {call.arguments for call in cases["no_arguments"].calls}
    assert [] == cases["prose_about_markers"].calls
    assert cases["prose_about_markers"].whole == cases["prose_about_markers"].content
    assert cases["text_around"].calls
    assert cases["text_around"].content
    assert [False] == [call.complete for call in cases["cut_inside_a_value"].calls][-1:]
    assert any(not char.isascii() for char in cases["unicode_and_escapes"].calls[0].arguments)


def test_every_folder_of_cases_belongs_to_a_family() -> None:
    assert set(FORMATS) == {path.name for path in ROOT.iterdir() if path.is_dir()}


def test_every_case_that_the_code_cites_exists() -> None:
    source = Path(dragoman.toolcalls.__path__[0])
    cited = {
        name
        for path in source.rglob("*.py")
        for group in re.findall(
            r"Cases?: ((?!tests/)(?:[a-z0-9_]+/[a-z0-9_]+(?:, )?)+)", path.read_text()
        )
        for name in group.split(", ")
    }

    assert len(cited) > 30
    assert not [name for name in cited if not (ROOT / f"{name}.json").is_file()]
