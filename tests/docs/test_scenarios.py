"""The page on codes lists every code that a test or a corpus case carries, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
PAGE = (TESTS.parent / "docs" / "scenarios.md").read_text("utf-8")
ROWS = re.findall(r"^\| ([A-Z]\d*(?:-\d+)?b?) \| .+ \|$", PAGE, re.MULTILINE)

_TITLE = r"[A-Z]\d*(?:-\d+)?b?"
# Only these letters make codes, so names such as `test_a_400_…` and `test_25_large_…` carry none.
CODE = r"(?:k[12]_\d+|w5_\d+|n[0-7]_\d+|n8|[gps]_\d+|[a-hprst]\d+b?)_"


def codes(name: str) -> list[str]:
    """Return the codes at the beginning of a name, as the page writes them."""
    found = []
    while match := re.match(CODE, name):
        name = name[match.end() :]
        code = match[0][:-1].replace("_", "-").capitalize()
        found.append(re.sub(r"^P(?=\d)", "P-", code))
    return found


def names() -> Iterator[str]:
    """Yield the names of all test functions and of all corpus cases, which are folders or files."""
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    if name.startswith("test_"):
                        yield name.removeprefix("test_")
    for path in (TESTS / "corpus").rglob("*"):
        yield path.stem


@pytest.fixture(scope="module")
def carried() -> set[str]:
    """Return every code that some name carries."""
    return {code for name in names() for code in codes(name)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a8b_g_4_call_starts_empty", ["A8b", "G-4"]),
        ("c1_k1_9_k2_1_field_log", ["C1", "K1-9", "K2-1"]),
        ("s5_text", ["S5"]),
        ("s_5_text", ["S-5"]),
        ("p1_family", ["P-1"]),
        ("w5_2_two_calls", ["W5-2"]),
        ("n0_4_header_alone", ["N0-4"]),
        ("n8_param_repeated", ["N8"]),
        ("25_large_results_are_kept", []),
        ("a_400_is_forwarded", []),
        ("status_s5", []),
        ("kimi_k2", []),
        ("k2_models_are_known", []),
        ("llm_1", []),
    ],
)
def test_codes_are_read_from_the_beginning_of_a_name(name: str, expected: list[str]) -> None:
    assert expected == codes(name)


def test_every_code_that_a_name_carries_has_a_row(carried: set[str]) -> None:
    assert [] == sorted(carried - {*ROWS})


def test_every_row_is_carried_by_a_test_or_a_corpus_case(carried: set[str]) -> None:
    assert [] == sorted({*ROWS} - carried)


def test_every_code_in_the_title_of_a_corpus_case_has_a_row() -> None:
    titles = [path.read_text("utf-8").split("\n")[0] for path in TESTS.rglob("case.md")]
    found = {
        code
        for title in titles
        for codes_of_title in re.findall(rf"^# ((?:{_TITLE}[, ]+)*{_TITLE}): ", title)
        for code in re.split("[, ]+", codes_of_title)
    }

    assert found
    assert [] == sorted(found - {*ROWS})


def test_no_code_has_two_rows() -> None:
    assert sorted({*ROWS}) == sorted(ROWS)


def test_every_line_of_a_table_is_a_row() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    heads = [line for line in lines if line == "| Code | What the tests show |"]

    assert len(lines) == len(heads) + len(ROWS)
