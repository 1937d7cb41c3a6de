"""Finds markers in text that arrives in pieces.

A scanner holds back only the longest suffix that could still become a marker.  It knows nothing about tool calls.
"""

import re
from collections.abc import Sequence
from functools import cache, cached_property
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.toolcalls.format import (
    Ahead,
    OneOf,
    Part,
    Pattern,
    Run,
    is_disjoint,
    leads,
    length,
    may_be_empty,
    normalized,
)


class FoundMarker(Struct, frozen=True, gc=False):
    """A marker in the text."""

    which: int  # the index of its pattern
    start: int
    end: int
    groups: dict[str, str]


class Scanner:
    """Find any of several patterns.  Where several match at one position, the first pattern wins."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.patterns: tuple[Pattern, ...] = tuple(patterns)
        # The maximum length of the text that is held back.
        self.reach: int = max((length(pattern) for pattern in patterns), default=1) - 1
        # Characters that may begin a marker: text without them needs no search.
        self.leads: str | None = leads(self.patterns)
        self._ready = False  # the expression is compiled

    def scan(self, text: str, at: int) -> FoundMarker | int:
        """Return the first marker from `at` on, or the start of the suffix that may become one."""
        if not self._may_find(text, at):
            return len(text)
        expression = self._expression
        match = expression.regex.search(text, at)
        if match is None:
            return len(text)
        return _found_marker(expression, match) or match.start()

    def scan_at(self, text: str, at: int) -> FoundMarker | None:
        """Return the marker that begins at `at`, if it is complete and no longer one may follow."""
        if not self._ready and not self._may_begin(text, at):
            return None
        match = self._expression.regex.match(text, at)
        return None if match is None else _found_marker(self._expression, match)

    def begins(self, text: str, at: int = 0) -> bool:
        """Return whether the whole text from `at` on may become a marker."""
        if not self._ready and not self._may_begin(text, at):
            return False
        match = self._expression.regex.match(text, at)
        return match is not None and match.lastindex not in self._expression.terminals

    def find_last(self, text: str, at: int) -> FoundMarker | None:
        """Return the first marker from `at` on, at the end of the input."""
        if not self._may_find(text, at):
            return None
        match = self._at_end.regex.search(text, at)
        return None if match is None else _found_marker(self._at_end, match)

    @property
    def ways(self) -> int:
        """How often one character may be inspected from one position, at most."""
        return max(self._expression.ways, self._at_end.ways)

    def warm(self) -> None:
        """Compile the expressions now instead of on first use."""
        _ = self._expression, self._at_end

    # An expression takes milliseconds to compile, and most texts never need it: it is compiled when a text first
    # contains a character that may begin a marker.

    def _may_find(self, text: str, at: int) -> bool:
        leads = self.leads
        if leads is None:
            return True
        # `find` for one character is many times faster than a character class.
        for lead in leads:  # noqa: SIM110 -- `any` costs a generator for every piece
            if text.find(lead, at) >= 0:
                return True
        return False

    def _may_begin(self, text: str, at: int) -> bool:
        return self.leads is None or text[at : at + 1] in self.leads

    @cached_property
    def _expression(self) -> "Expression":
        self._ready = True
        return Expression(self.patterns)

    @cached_property
    def _at_end(self) -> "Expression":
        return Expression(self.patterns, ended=True)


def _found_marker(expression: "Expression", match: re.Match[str]) -> FoundMarker | None:
    terminal = expression.terminals.get(match.lastindex)
    if terminal is None:
        return None
    start, end = match.start(), terminal.end
    return FoundMarker(
        terminal.which,
        start,
        match.end() if end is None else start if not end else match.end(end),
        {name: text for name, group in expression.names if (text := match[group]) is not None},
    )


@cache
def scanner(patterns: tuple[Pattern, ...]) -> Scanner:
    """Return the shared scanner for these patterns."""
    return Scanner(patterns)


# --- from patterns to one regular expression ------------------------------------------------------------
#
# One expression answers both questions about a position: is there a marker, and could one still begin here?
#
# If there is a complete marker, the expression matches and the last closed group identifies the pattern.  If the
# text ends inside a possible marker, the expression matches too, but closes no such group: every part may match
# the end of the text instead.  Therefore the first pattern that matches or may still match wins, and the result
# does not depend on how the text was cut.
#
# Common prefixes of patterns are written once, and runs are possessive where the following part cannot begin with
# a character of the run.  So the cost at a position is proportional to the text inspected there.

# A sequence to write, and the index of the pattern that it ends; None: it is only a part of a pattern.
_Branch: TypeAlias = tuple[Pattern, int | None]


class Terminal(Struct, frozen=True, gc=False):
    """The meaning of a group that only a complete marker closes."""

    which: int  # the pattern's index
    # The group where the marker ends and lookahead begins; 0: at the start; None: there is no lookahead.
    end: int | None


class _Path(Struct, frozen=True):
    """A position in the expression."""

    root: bool = True  # no earlier part consumes a character
    end: int | None = None  # see `Terminal.end`
    ways: int = 1  # how many ways earlier runs can share characters with the parts after them
    follow: tuple[Pattern, ...] = ((),)  # the parts that may follow


class Expression:
    """The expression for several patterns; `ended`: no more text will arrive."""

    def __init__(self, patterns: tuple[Pattern, ...], *, ended: bool = False) -> None:
        self.terminals: dict[int | None, Terminal] = {}  # by group
        self.names: list[tuple[str, int]] = []  # groups of named runs
        self.ways: int = 1  # how often one character may be inspected from one position, at most
        self._ended = ended
        self._groups = 0
        branches: list[_Branch] = [
            (one, which) for which, pattern in enumerate(patterns) for one in _rooted(pattern)
        ]
        self.regex: re.Pattern[str] = re.compile(
            self._choice(branches, _Path()) if branches else r"(?!)"
        )

    def _choice(self, branches: list[_Branch], path: _Path) -> str:
        """Write branches in order; adjacent branches share a common prefix."""
        written = [self._group(first, rests, path) for first, rests in _grouped(branches)]
        return written[0] if len(written) == 1 else f"(?:{'|'.join(written)})"

    def _group(self, first: Part | None, rests: list[_Branch], path: _Path) -> str:
        match first:
            case None:
                return self._terminal(rests[0][1], path)
            case str():
                return self._string(first, rests, path)
            case Run():
                return self._run(first, rests, path)
            case OneOf():
                return self._one_of(first, rests, path)
            case Ahead():
                return self._ahead(first, rests, path)

    def _string(self, text: str, rests: list[_Branch], path: _Path) -> str:
        rest = self._choice(rests, replace(path, root=False))
        if self._ended:
            return re.escape(text) + rest
        out = re.escape(text[0])
        if len(text) > 1:
            out += f"(?:{re.escape(text[1:])}{rest}|{_beginning(text[1:])}\\Z)"
        else:
            out += rest
        # The first character of a marker must be present.
        return out if path.root else f"(?:{out}|\\Z)"

    def _run(self, run: Run, rests: list[_Branch], path: _Path) -> str:
        keeps = all(is_disjoint(run, one) for one in _follows(rests, path))
        gives_way = run.least and not path.root and not self._ended
        out = f"{run.chars}{{{run.least},{run.most}}}{'+' if keeps else ''}"
        if run.name:
            out = f"({out})"
            self.names.append((run.name, self._new_group()))
        ways = path.ways if keeps else path.ways * run.most
        rest = self._choice(rests, replace(path, root=False, ways=ways))
        last = any(not one and which is not None for one, which in rests)
        if last and run.most > 1 and not self._ended:
            rest = f"(?:\\Z|{rest})"  # the last run may continue
        out += rest
        return f"(?:{out}|\\Z)" if gives_way else out

    def _one_of(self, part: OneOf, rests: list[_Branch], path: _Path) -> str:
        if any(which is not None and may_be_empty(rest) for rest, which in rests):
            # Without a following part, the end of the marker and the end of the text look the same.
            return self._choice(_chosen(part, rests), path)
        choices: list[_Branch] = [(normalized(choice), None) for choice in part.choices]
        inner = self._choice(choices, replace(path, follow=_follows(rests, path)))
        return inner + self._choice(rests, path)

    def _ahead(self, ahead: Ahead, rests: list[_Branch], path: _Path) -> str:
        mark = ""
        if path.end is None and path.root:
            path = replace(path, end=0)
        elif path.end is None:
            mark = "()"
            path = replace(path, end=self._new_group())
        rest = self._choice(rests, path)
        if ahead.or_end and self._ended:
            rest = f"(?:{rest}|\\s*\\Z{self._terminal(rests[0][1], path)})"
        return mark + rest

    def _terminal(self, which: int | None, path: _Path) -> str:
        if which is None:
            return ""
        self.ways = max(self.ways, path.ways)
        self.terminals[self._new_group()] = Terminal(which, path.end)
        return "()"

    def _new_group(self) -> int:
        self._groups += 1
        return self._groups


def _rooted(pattern: Pattern) -> list[Pattern]:
    """Return the pattern as sequences that each begin with a mandatory part."""
    pattern = normalized(pattern)
    match pattern:
        case (Ahead() as ahead, *rest):
            return [(ahead, *one) for one in _rooted(tuple(rest))]
        case (OneOf(choices=choices), *rest):
            return [one for choice in choices for one in _rooted((*choice, *rest))]
        case (Run(least=0) as run, *rest):
            return [(replace(run, least=1), *rest), *_rooted(tuple(rest))]
        case _:
            return [pattern]


def _chosen(part: OneOf, rests: list[_Branch]) -> list[_Branch]:
    return [(normalized((*one, *rest)), which) for one in part.choices for rest, which in rests]


def _follows(rests: list[_Branch], path: _Path) -> tuple[Pattern, ...]:
    """Return the parts that may follow a part, up to the end of the pattern."""
    return tuple((*rest, *follow) for rest, _ in rests for follow in path.follow)


def _grouped(branches: list[_Branch]) -> list[tuple[Part | None, list[_Branch]]]:
    """Group branches with the same first part; return it with the rest of each branch.

    Strings that begin with different characters cannot match at the same position, so their order is free.
    """
    groups: list[tuple[Part | None, list[_Branch]]] = []
    strings: dict[str, list[_Branch]] = {}  # groups of strings since the last other branch
    for sequence, which in branches:
        first = sequence[0] if sequence else None
        if isinstance(first, str):
            if first[0] not in strings:
                strings[first[0]] = []
                groups.append((first, strings[first[0]]))
            strings[first[0]].append((sequence, which))
            continue
        strings = {}
        rest = (sequence[1:], which)
        if groups and groups[-1][0] == first and _may_share(first, rest, groups[-1][1]):
            groups[-1][1].append(rest)
        else:
            groups.append((first, [rest]))
    return [
        _with_common_string(members) if isinstance(first, str) else (first, members)
        for first, members in groups
    ]


def _may_share(first: Part | None, rest: _Branch, others: list[_Branch]) -> bool:
    match first:
        case Run():
            return all(is_disjoint(first, one) for one, _ in (rest, *others))
        case Ahead():
            return rest[1] == others[0][1]
        case _:
            return isinstance(first, OneOf)


def _with_common_string(members: list[_Branch]) -> tuple[str, list[_Branch]]:
    common = str(members[0][0][0])
    for sequence, _ in members:
        while not str(sequence[0]).startswith(common):
            common = common[:-1]
    rests: list[_Branch] = []
    for sequence, which in members:
        left = str(sequence[0])[len(common) :]
        rests.append(((left, *sequence[1:]) if left else sequence[1:], which))
    return common, rests


def _beginning(text: str) -> str:
    """Return an expression for any proper prefix of a string, including the empty one."""
    out = ""
    for char in reversed(text[:-1]):
        out = f"(?:{re.escape(char)}{out})?"
    return out
