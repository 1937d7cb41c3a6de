"""Every relative link of every page leads to a file, a folder or a heading."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.support.tables import in_one_test

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "README.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# `[text](target "title")`, `[name]: target`, and the attributes of HTML.
_LINK = re.compile(
    r"\]\(([^)\s]+)(?: \"[^\"]*\")?\)|^\[[^\]]+\]: (\S+)|(?:href|src|srcset)=\"([^\"]+)\"",
    re.MULTILINE,
)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def links(page: Path) -> list[tuple[Path, str]]:
    """Return the target and the anchor of each relative link."""
    found = _LINK.findall(_FENCED.sub("", page.read_text("utf-8")))
    targets = ["".join(groups) for groups in found]
    relative = [one.partition("#") for one in targets if "://" not in one]
    return [
        ((page.parent / path).resolve() if path else page, anchor) for path, _, anchor in relative
    ]


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of the headings of a page."""
    headings = _HEADING.findall(_FENCED.sub("", page.read_text("utf-8")))
    found: Counter[str] = Counter()
    for heading in headings:
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)  # of a link, its text
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")
        found[anchor] += 1
    return {f"{one}-{at}" if at else one for one, times in found.items() for at in range(times)}


@in_one_test
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = [
        f"{target}#{anchor}"
        for target, anchor in links(page)
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]

    assert [] == broken


def test_links_are_found_in_markdown_and_html() -> None:
    text = """[a](b.md) [c](d.py "TestC") <img src="e.svg"> <a href="f#g">
[h]: i.md
"""

    assert ["b.md", "d.py", "e.svg", "f#g", "i.md"] == ["".join(one) for one in _LINK.findall(text)]


def test_every_page_is_in_the_index() -> None:
    pages = {page.resolve() for page in INDEX.parent.rglob("*.md")} - {INDEX.resolve()}

    assert pages <= {target for target, _ in links(INDEX)}


def test_every_page_that_the_package_names_exists() -> None:
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = {*re.findall(r"docs/[\w-]+\.md", source)}

    assert named
    assert [] == [path for path in named if not (ROOT / path).is_file()]


def test_anchors_are_made_of_headings() -> None:
    page = ROOT / "docs" / "configuration.md"

    assert {"server", "serverkeys", "params-of-a-route", "profilesname"} <= anchors(page)


@in_one_test
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_in_code_font_exists(page: Path) -> None:
    paths = re.findall(r"`((?:tests|tools|docs|src)/[\w./-]+)`", page.read_text("utf-8"))

    real = [path for path in paths if not re.search("NAME|DIALECT", path)]  # these are placeholders

    assert [] == [path for path in real if not (ROOT / path).exists()]
