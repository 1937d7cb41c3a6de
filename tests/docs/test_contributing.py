"""The pages for contributors: links lead to files, and the index names every page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
INDEX = ROOT / "docs" / "README.md"
PAGES = [ROOT / "CONTRIBUTING.md", INDEX, ROOT / "README.md", ROOT / "ARCHITECTURE.md"]
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_MAKE = re.compile(r"`make ([a-z-]+)`")


def linked(page: Path) -> list[Path]:
    """Return the files that the relative links of a page lead to."""
    targets = _LINK.findall(_FENCED.sub("", page.read_text("utf-8")))
    relative = [one.partition("#")[0] for one in targets if "://" not in one]
    return [(page.parent / one).resolve() for one in relative if one]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    files = linked(page)

    assert files
    assert [] == [str(file) for file in files if not file.is_file()]


def test_every_page_is_in_the_index() -> None:
    pages = {page.resolve() for page in INDEX.parent.rglob("*.md")} - {INDEX.resolve()}

    assert pages <= {*linked(INDEX)}


def test_every_make_verb_for_contributors_exists() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    verbs = _MAKE.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))

    assert verbs
    assert [] == [verb for verb in verbs if f"\n{verb}: " not in makefile]
