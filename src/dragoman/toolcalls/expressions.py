"""From patterns to one regular expression, which says all there is to say of a place in a text.

Where a marker stands the expression matches, and the last group that it closed tells which marker.  Where
the text ends within what may become a marker it matches too, but closes no such group: every part may
give way to the end of the text.  So the first pattern that is there, or may still come, decides, and no
way of cutting the text changes what is decided.

What patterns have in common is written once, and a run gives nothing back that what follows it could not
take.  The cost at a place is therefore about the length of what is looked at there.
"""

import re
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.toolcalls.patterns import (
    Ahead,
    OneOf,
    Part,
    Pattern,
    Run,
    apart,
    joined,
    may_be_empty,
)

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
        keeps = all(apart(run, one) for one in _follows(rests, path))
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
        choices: list[_Branch] = [(joined(choice), None) for choice in part.choices]
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
    pattern = joined(pattern)
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
    return [(joined((*one, *rest)), which) for one in part.choices for rest, which in rests]


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
            return all(apart(first, one) for one, _ in (rest, *others))
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
