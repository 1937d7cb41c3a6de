"""The table of shapes x families: every cell has a corpus case, a generated check, or a reason why it needs none."""

import json
import tomllib
from fnmatch import fnmatch

import pytest

from dragoman.toolcalls.format import (
    Action,
    ElementsSpec,
    Format,
    JsonSpec,
    LiteralsSpec,
    ObjectsSpec,
    TagsSpec,
)
from dragoman.toolcalls.format_suite import CHECKS
from dragoman.toolcalls.formats import FORMATS
from dragoman.toolcalls.parser import parse
from dragoman.turn.request import Tool
from tests.support.renderers import FAMILIES, NativeCall
from tests.support.toolcalls import ROOT
from tests.unit.toolcalls import test_format_suite

SHAPES = tomllib.loads((ROOT / "shapes.toml").read_text())
# The checks by the names that they report.
CHECK_NAMES = {
    "whole", "split", "text around calls", "reasoning", "cut", "deletion", "honest text", "linear"
}  # fmt: skip
KINDS = {JsonSpec: "json", ObjectsSpec: "objects", TagsSpec: "tags", ElementsSpec: "elements"}


def kind(form: Format) -> str:
    """Return how a family writes arguments."""
    bodies = [rule.body for rule in form.rules if rule.action is Action.CALL]
    if isinstance(bodies[-1], LiteralsSpec):
        return bodies[-1].style
    return next(KINDS[type(body)] for body in bodies if type(body) in KINDS)


def cell(shape: str, key: str) -> str:
    """Return what shows a shape in a family, or an empty text."""
    row = SHAPES[shape]
    names = sorted(path.stem for path in (ROOT / key).glob("*.json"))
    found = [
        next((name for name in names if fnmatch(name, one)), "") for one in row.get("cases", [])
    ]
    if all(found) if row.get("all") else any(found):
        return ", ".join(filter(None, found))
    why = row.get("why", {})
    return row.get("check") or why.get(key) or why.get(kind(FORMATS[key]), "")


@pytest.mark.parametrize("shape", SHAPES)
def test_no_cell_is_empty(shape: str) -> None:
    assert [] == [key for key in FORMATS if not cell(shape, key)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_names_checks_and_families_that_exist(shape: str) -> None:
    row = SHAPES[shape]
    kinds = {kind(form) for form in FORMATS.values()}

    assert row["says"]
    assert {"says", "check", "cases", "why", "all"} >= row.keys()
    assert {*CHECK_NAMES, None} >= {row.get("check")}
    assert kinds | FORMATS.keys() >= row.get("why", {}).keys()


@pytest.mark.parametrize("key", [key for key in FORMATS if kind(FORMATS[key]) == "objects"])
def test_6_2_a_python_dict_in_place_of_the_object_is_a_call(key: str) -> None:
    arguments = {"a": None, "b": "it's"}
    text = FAMILIES[key].render([NativeCall("probe_it", arguments)])
    start, end = text.index("{"), text.rindex("}") + 1
    text = text[:start] + repr(json.loads(text[start:end])) + text[end:]

    (call,) = parse(text, format=key, tools=[Tool(name="probe_it")]).tool_calls

    assert call.complete
    assert ("probe_it", arguments) == (call.name, json.loads(call.arguments))


def test_every_check_of_the_suite_is_run_for_every_family() -> None:
    assert len(CHECK_NAMES) == len(CHECKS)
    assert callable(test_format_suite.test_every_family_passes)
