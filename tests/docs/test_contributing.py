"""The pages for contributors: their commands exist, and the code that they name is where they say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("CONTRIBUTING.md", "ARCHITECTURE.md")
_MAKE = re.compile(r"`make ([a-z-]+)`")
# `[file](src/….py): `Name`, `name`` says that the file defines these names.
_NAMED = re.compile(r"\]\(([^)]+\.py)\): ((?:`[\w.]+`(?:, | and )?)+)")


def undefined_names(page: str) -> list[str]:
    """Return the names that a page gives to a file which does not define them."""
    missing = []
    for path, names in _NAMED.findall((ROOT / page).read_text("utf-8")):
        text = (ROOT / path).read_text("utf-8")
        for name in re.findall(r"`([\w.]+)`", names):
            for part in name.split("."):
                defined = rf"^\s*(?:(?:async )?def|class) {part}\b|^\s*{part}\b[^(\n]*="
                if not re.search(defined, text, re.MULTILINE):
                    missing.append(f"{page}: {path}: {name}")
    return missing


@pytest.mark.parametrize("page", PAGES)
def test_every_name_is_defined_in_the_file_before_it(page: str) -> None:
    assert [] == undefined_names(page)


def test_every_make_verb_for_contributors_exists() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    verbs = _MAKE.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))

    assert verbs
    assert [] == [verb for verb in verbs if f"\n{verb}: " not in makefile]


@pytest.mark.parametrize("heading", ["The path of a request", "The path of a streamed chunk"])
def test_the_number_of_files_on_a_path_is_true(heading: str) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    linked = set(re.findall(r"\]\((src/[^)]+)\)", section))

    assert f"you open the {len(linked)} files below" in section
