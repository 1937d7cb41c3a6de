"""Find markers in text that arrives in pieces, and hold back what may still become one.

What is held back is the longest tail that could still grow into a marker, and not one character more.

Knows nothing of tool calls.
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

    def scan(self, text: str, at: int) -> FoundMarker | int:
        """Return the first marker from `at` on, or where the tail begins that may become one."""
        if not self._may_find(text, at):
            return len(text)
        expression = self._expression
        match = expression.regex.search(text, at)
        if match is None:
            return len(text)
        return _found_marker(expression, match) or match.start()

    def scan_at(self, text: str, at: int) -> FoundMarker | None:
        """Return the marker that begins at `at`, if it is whole and nothing better may come."""
        if not self._ready and not self._may_begin(text, at):
            return None
        match = self._expression.regex.match(text, at)
        return None if match is None else _found_marker(self._expression, match)

    def begins(self, text: str, at: int = 0) -> bool:
        """Say whether all of the text from `at` on may become a marker."""
        if not self._ready and not self._may_begin(text, at):
            return False
        match = self._expression.regex.match(text, at)
        return match is not None and match.lastindex not in self._expression.terminals

    def find_last(self, text: str, at: int) -> FoundMarker | None:
        """Return the first marker from `at` on, when no more text will come."""
        if not self._may_find(text, at):
            return None
        match = self._at_end.regex.search(text, at)
        return None if match is None else _found_marker(self._at_end, match)

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
    """Return the scanner of some patterns: one for all who look for the same."""
    return Scanner(patterns)


# --- from patterns to one regular expression ------------------------------------------------------------
#
# From patterns to one regular expression, which says all there is to say of a place in a text.
#
# Where a marker stands the expression matches, and the last group that it closed tells which marker.  Where
# the text ends within what may become a marker it matches too, but closes no such group: every part may
# give way to the end of the text.  So the first pattern that is there, or may still come, decides, and no
# way of cutting the text changes what is decided.
#
# What patterns have in common is written once, and a run gives nothing back that what follows it could not
# take.  The cost at a place is therefore about the length of what is looked at there.

# A sequence to be written, and the place of the pattern that it ends; None: it is a part of one.
_Branch: TypeAlias = tuple[Pattern, int | None]


class Terminal(Struct, frozen=True, gc=False):
    """What a group says that only a whole marker closes."""

    which: int  # the pattern's place
    # The group where the marker ends, before what is only looked at; 0: where it begins; None: with all.
    end: int | None


class _Path(Struct, frozen=True):
    """Where in the expression something is written."""

    root: bool = True  # nothing that takes a character stands before it
    end: int | None = None
    ways: int = 1  # in which runs before it may share characters with what follows them
    follow: tuple[Pattern, ...] = ((),)  # what may come after it


class Expression:
    """The expression of some patterns; `ended` says that no more text will come."""

    def __init__(self, patterns: tuple[Pattern, ...], *, ended: bool = False) -> None:
        self.terminals: dict[int | None, Terminal] = {}  # by group
        self.names: list[tuple[str, int]] = []  # groups of the runs that are wanted
        self.ways = 1  # how often, at most, one character is looked at from one place
        self._ended = ended
        self._groups = 0
        branches: list[_Branch] = [
            (one, which) for which, pattern in enumerate(patterns) for one in _rooted(pattern)
        ]
        self.regex = re.compile(self._choice(branches, _Path()) if branches else r"(?!)")

    def _choice(self, branches: list[_Branch], path: _Path) -> str:
        """Write branches in their order; those that begin alike share their beginning."""
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
        # The first character of all must be there.
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
            rest = f"(?:\\Z|{rest})"  # a last run may go on
        out += rest
        return f"(?:{out}|\\Z)" if gives_way else out

    def _one_of(self, part: OneOf, rests: list[_Branch], path: _Path) -> str:
        if any(which is not None and may_be_empty(rest) for rest, which in rests):
            # Nothing after it would tell the end of the marker from the end of the text.
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
    """Return the sequences of a pattern that begin with something that must be there."""
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
    """Return what may come after a part, to the end of the pattern."""
    return tuple((*rest, *follow) for rest, _ in rests for follow in path.follow)


def _grouped(branches: list[_Branch]) -> list[tuple[Part | None, list[_Branch]]]:
    """Put branches together that begin alike: their beginning, and what follows it in each.

    Strings that begin with different characters never fit at the same place: their order is free.
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
    """Return the expression of any beginning of a string that is not all of it, the empty one too."""
    out = ""
    for char in reversed(text[:-1]):
        out = f"(?:{re.escape(char)}{out})?"
    return out
