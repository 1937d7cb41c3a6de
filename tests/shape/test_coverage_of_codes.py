"""Each field failure and each founding demand that the core answers has a test of its name."""

import re
from pathlib import Path

import pytest

from tests.support.tables import in_one_test

TESTS = Path(__file__).parent.parent

SCENARIOS = [
    *(f"a{n}" for n in range(1, 11)),
    "a8b",
    *(f"b{n}" for n in range(1, 11)),
    *(f"c{n}" for n in range(1, 20)),
    *(f"d{n}" for n in range(1, 7)),
    *(f"e{n}" for n in range(1, 8)),
    *(f"f{n}" for n in range(1, 12)),
    *(f"h{n}" for n in range(1, 7)),
]
HERITAGE = [
    *(f"k1_{n}" for n in range(1, 13)),
    *(f"k2_{n}" for n in range(1, 9)),
    *(f"p_{n}" for n in range(1, 13)),
    *(f"g_{n}" for n in (1, 2, 3, 4, 5, 6, 7, 9, 10)),
    *(f"s_{n}" for n in range(1, 12)),
]
DEVIATIONS = [
    *(f"r{n}" for n in range(1, 13)),
    *(f"t{n}" for n in range(1, 21)),
    *(f"s{n}" for n in range(1, 23)),
]


def names() -> list[str]:
    """Return the names of all tests and corpus cases, ids of parametrized tests included."""
    found = [path.name for path in (TESTS / "corpus").glob("*/*") if path.is_dir()]
    found += [path.stem for path in (TESTS / "corpus" / "toolcalls").glob("*/*.json")]
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        found += re.findall(r"def test_(\w+)", text)
        found += re.findall(r"""id=["']([\w ]+)["']""", text)
    return found


@pytest.fixture(scope="module")
def words() -> str:
    return " ".join(f"_{name.replace(' ', '_')}_" for name in names())


@in_one_test
@pytest.mark.parametrize("code", [*SCENARIOS, *HERITAGE, *DEVIATIONS])
def test_code_has_a_test_of_its_name(code: str, words: str) -> None:
    assert re.search(rf"_{code}_", words), f"no test or corpus case carries the code {code}"
