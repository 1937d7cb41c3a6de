"""Globs over names, case-insensitive: `*` is any text, `?` any one character.

Brackets are plain characters: names such as `claude-sonnet-4-5[1m]` are real.
"""

import fnmatch
import re


class Glob:
    """One pattern, compiled once.  The time it takes is linear in the name for a given pattern."""

    __slots__ = ("_match", "text")

    def __init__(self, text: str) -> None:
        self.text: str = text
        # `translate` writes atomic groups, so that a hostile name finds no backtracking.
        self._match = re.compile(
            fnmatch.translate(text.replace("[", "[[]")), re.IGNORECASE | re.DOTALL
        ).match

    def __repr__(self) -> str:
        return f"Glob({self.text!r})"

    def matches(self, name: str) -> bool:
        return self._match(name) is not None


def is_glob(text: str) -> bool:
    """Return whether a text has characters that make it more than a name."""
    return "*" in text or "?" in text


def fill(template: str, name: str) -> str:
    """Return a template with a name in the place of its first `*`; the checker allows no second."""
    return template.replace("*", name, 1)
