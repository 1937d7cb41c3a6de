"""Find markers in text that arrives in pieces, and hold back what may still become one.

What is held back is the longest tail that could still grow into a marker, and not one character more.

Knows nothing of tool calls.
"""

import re
from collections.abc import Sequence
from functools import cache, cached_property

from msgspec import Struct

from dragoman.toolcalls.expressions import Expression
from dragoman.toolcalls.patterns import Pattern, leads, length


class Found(Struct, frozen=True, gc=False):
    """A marker in the text."""

    which: int  # its place among the scanner's patterns
    start: int
    end: int
    groups: dict[str, str]


class Scanner:
    """Find any of some patterns; earlier ones come first where several begin at the same place."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.patterns = tuple(patterns)
        # The longest text that is ever held back.
        self.reach = max((length(pattern) for pattern in patterns), default=1) - 1
        # Characters that may begin a marker: text without any of them needs no look.
        self.leads = leads(self.patterns)
        self._ready = False  # the expression is compiled

    def scan(self, text: str, at: int) -> Found | int:
        """Return the first marker from `at` on, or where the tail begins that may become one."""
        if not self._may_find(text, at):
            return len(text)
        expression = self._expression
        match = expression.regex.search(text, at)
        if match is None:
            return len(text)
        return _found(expression, match) or match.start()

    def scan_at(self, text: str, at: int) -> Found | None:
        """Return the marker that begins at `at`, if it is whole and nothing better may come."""
        if not self._ready and not self._may_begin(text, at):
            return None
        match = self._expression.regex.match(text, at)
        return None if match is None else _found(self._expression, match)

    def begins(self, text: str, at: int = 0) -> bool:
        """Say whether all of the text from `at` on may become a marker."""
        if not self._ready and not self._may_begin(text, at):
            return False
        match = self._expression.regex.match(text, at)
        return match is not None and match.lastindex not in self._expression.terminals

    def find_last(self, text: str, at: int) -> Found | None:
        """Return the first marker from `at` on, when no more text will come."""
        if not self._may_find(text, at):
            return None
        match = self._at_end.regex.search(text, at)
        return None if match is None else _found(self._at_end, match)

    def warm(self) -> None:
        """Compile now what is else compiled when a text first may hold a marker."""
        _ = self._expression, self._at_end

    # An expression takes milliseconds to compile, and most texts never need it: until one shows a
    # character that may begin a marker, that character is all that is looked for.

    def _may_find(self, text: str, at: int) -> bool:
        leads = self.leads
        if leads is None:
            return True
        # One character is found many times faster than any of a class.
        for lead in leads:  # noqa: SIM110 -- `any` costs a generator for every piece
            if text.find(lead, at) >= 0:
                return True
        return False

    def _may_begin(self, text: str, at: int) -> bool:
        return self.leads is None or text[at : at + 1] in self.leads

    @cached_property
    def _expression(self) -> Expression:
        self._ready = True
        return Expression(self.patterns)

    @cached_property
    def _at_end(self) -> Expression:
        return Expression(self.patterns, ended=True)


def _found(expression: Expression, match: re.Match[str]) -> Found | None:
    terminal = expression.terminals.get(match.lastindex)
    if terminal is None:
        return None
    start, end = match.start(), terminal.end
    return Found(
        terminal.which,
        start,
        match.end() if end is None else start if not end else match.end(end),
        {name: text for name, group in expression.names if (text := match[group]) is not None},
    )


@cache
def scanner(patterns: tuple[Pattern, ...]) -> Scanner:
    """Return the scanner of some patterns: one for all who look for the same."""
    return Scanner(patterns)
