"""Honest texts: documents, code, logs and prose that talk about tool calls without being one.

tests/honest/<kind>.txt holds several texts; a line `%%%%` precedes each.  The pages of this project and texts that
name every marker of every family are added to them.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dragoman.toolcalls.format import Format, OneOf, Part
from dragoman.toolcalls.formats import FORMATS

ROOT = Path(__file__).parent.parent.parent
_SEPARATOR = "%%%%\n"
# Tokens that a tokenizer has and people do not type.
_SPECIAL = re.compile(r"<[|｜][^<>]*|[^<>]*[|｜]>|\[TOOL_CALLS\]|\]<\]minimax")
_WORD = re.compile(r"\w+")


@cache
def honest_texts() -> dict[str, str]:
    """Return all texts by name."""
    found = {}
    for path in sorted((ROOT / "tests" / "honest").glob("*.txt")):
        for number, text in enumerate(path.read_text().split(_SEPARATOR)[1:]):
            found[f"{path.stem}/{number}"] = text
    pages = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile")
    for page in (*map(ROOT.joinpath, pages), *sorted((ROOT / "docs").glob("*.md"))):
        found[str(page.relative_to(ROOT))] = page.read_text()
    for key, form in FORMATS.items():
        marks = sorted(markers(form))
        found[f"{key}/prose"] = f"Its models write {', '.join(marks)} and nothing else.\n"
        lines = "".join(f"* `{one}` is one of them\n" for one in marks)
        found[f"{key}/ticks"] = f"Markers:\n{lines}"
        found[f"{key}/fence"] = "Markers:\n\n```\n" + "\n".join(marks) + "\n```\n\nThat is all.\n"
    return found


@cache
def markers(form: Format) -> frozenset[str]:
    """Return the parts of a family's markers, apart from short ones."""
    families = {one.key: one for rule in form.rules for one in rule.families}
    parts = [part for rule in form.rules for part in rule.pattern]
    parts += [tag for pair in form.think for tag in pair]
    own = {one.strip() for part in parts for one in _strings(part) if len(one.strip()) > 2}
    return frozenset(own).union(*map(markers, families.values()))


def _strings(part: Part) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, OneOf):
        for choice in part.choices:
            for inner in choice:
                yield from _strings(inner)


def names_special_tokens(text: str, form: Format) -> bool:
    """Return whether a text names special tokens of this family."""
    return any(_SPECIAL.search(one) and one in text for one in markers(form))


def words_outside_markers(text: str, form: Format) -> list[str]:
    """Return the words of a text that are not part of a marker of this family."""
    marks = sorted(markers(form), key=len, reverse=True)
    return _WORD.findall(re.sub("|".join(map(re.escape, marks)), " ", text))
