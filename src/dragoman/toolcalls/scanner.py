"""Find markers in text that arrives in pieces, and hold back what may still become one.

A marker is a short grammar, not just a string: `<invoke name="`, a name, `">`.  It is written as a
sequence of parts, from which two regular expressions are made: one that finds it whole, and one that
matches any beginning of it at the end of the text.  The second is what is held back: the longest tail
that could still grow into a marker, and not one character more.  Every part is bounded, and so is what
is held.

Knows nothing of tool calls.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, TypeAlias

from msgspec import Struct


class Run(Struct, frozen=True, gc=False):
    """A bounded run of characters of one class."""

    chars: str  # a character class, as regular expressions write it
    least: int = 0  # 0 or 1
    most: int = 64
    name: str = ""  # the run is wanted under this name
    lazy: bool = False  # as short as what follows allows


class OneOf(Struct, frozen=True):
    """One of several sequences."""

    choices: tuple["Pattern", ...]


class Ahead(Struct, frozen=True, gc=False):
    """What follows is looked at and not consumed."""

    or_end: bool = False  # the end of the text may stand in its place


Part: TypeAlias = str | Run | OneOf | Ahead
Pattern: TypeAlias = tuple[Part, ...]

AHEAD: Final = Ahead()
AHEAD_OR_END: Final = Ahead(or_end=True)
_BLANK_CHARS: Final = " \t\r\n"
BLANKS: Final = Run(f"[{_BLANK_CHARS}]")
ANYTHING: Final = r"[\s\S]"


def one_of(*choices: str | Pattern) -> OneOf:
    """Return a choice between strings or patterns."""
    return OneOf(tuple((choice,) if isinstance(choice, str) else choice for choice in choices))


class Found(Struct, frozen=True, gc=False):
    """A marker in the text."""

    which: int  # its place among the scanner's patterns
    start: int
    end: int
    groups: dict[str, str]


class Scanner:
    """Find any of some patterns; earlier ones come first where several begin at the same place."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._patterns = tuple(patterns)
        self._rivals: dict[int, re.Pattern[str] | None] = {}
        # The longest text that is ever held back.
        self.reach = max((_length(pattern) for pattern in patterns), default=1) - 1
        # Characters that may begin a marker: text without any of them needs no look.
        self.leads = _leads(self._patterns)

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        return re.compile(
            "|".join(
                f"(?P<p{number}>{_regex(pattern, number)})"
                for number, pattern in enumerate(self._patterns)
            )
            or r"(?!)"
        )

    @cached_property
    def _at_end(self) -> re.Pattern[str]:
        """As `_whole`, where the end of the text may stand for what a marker looks ahead to."""
        if not any(
            isinstance(part, Ahead) and part.or_end for one in self._patterns for part in one
        ):
            return self._whole
        return re.compile(
            "|".join(
                f"(?P<p{number}>{_regex(pattern, number, ended=True)})"
                for number, pattern in enumerate(self._patterns)
            )
            or r"(?!)"
        )

    @cached_property
    def _begun(self) -> re.Pattern[str] | None:
        return _beginnings(self._patterns)

    def find(self, text: str, at: int) -> Found | None:
        """Return the first marker from `at` on that is whole, and that no other can outgrow."""
        match = self._search(self._whole, text, at)
        if match is None:
            return None
        found = self._found(match)
        if found.which and self.outgrown(text, found):
            return None
        # A marker that begins before this one may still be on its way.
        if found.start > at and self._begins_before(text, at, found.start):
            return None
        return found

    def find_at(self, text: str, at: int) -> Found | None:
        """Return the marker that begins at `at`, if it is whole and no other can outgrow it."""
        match = self._whole.match(text, at)
        if match is None:
            return None
        found = self._found(match)
        return None if found.which and self.outgrown(text, found) else found

    def find_last(self, text: str, at: int) -> Found | None:
        """Return the first marker from `at` on, when no more text will come."""
        match = self._search(self._at_end, text, at)
        return None if match is None else self._found(match)

    def hold(self, text: str, at: int) -> int:
        """Return where the tail begins that may become a marker; the text's length if none does."""
        begun = self._begun
        if begun is None:
            return len(text)
        match = self._search(begun, text, max(at, len(text) - self.reach))
        return len(text) if match is None else match.start()

    def _begins_before(self, text: str, at: int, to: int) -> bool:
        """Say whether a marker that begins before `to` may still come: it reaches to the end."""
        begun = self._begun
        at = max(at, len(text) - self.reach)
        if begun is None or at >= to:
            return False
        if self.leads is not None and len(self.leads) == 1:
            at = text.find(self.leads, at, to)
            while at >= 0:
                if begun.match(text, at) is not None:
                    return True
                at = text.find(self.leads, at + 1, to)
            return False
        match = self._search(begun, text, at)
        return match is not None and match.start() < to

    def begins(self, text: str, at: int = 0) -> bool:
        """Say whether all of the text from `at` on may become a marker."""
        return self._begun is not None and self._begun.match(text, at) is not None

    def _search(self, regex: re.Pattern[str], text: str, at: int) -> re.Match[str] | None:
        """Search, trying only places where a marker can begin: many times faster than `search`."""
        leads = self.leads
        if leads is None:
            return regex.search(text, at)
        if len(leads) == 1:
            at = text.find(leads, at)
            while at >= 0:
                match = regex.match(text, at)
                if match is not None:
                    return match
                at = text.find(leads, at + 1)
            return None
        for lead in self._any_lead.finditer(text, at):
            match = regex.match(text, lead.start())
            if match is not None:
                return match
        return None

    @cached_property
    def _any_lead(self) -> re.Pattern[str]:
        return re.compile(f"[{re.escape(self.leads or '')}]" if self.leads else r"(?!)")

    def _found(self, match: re.Match[str]) -> Found:
        group = match.lastindex or 0
        which, names = self._groups[group]
        return Found(
            which, match.start(), match.end(group), {name: match[at] for name, at in names}
        )

    @cached_property
    def _groups(self) -> dict[int, tuple[int, list[tuple[str, int]]]]:
        """By the group of a pattern: its place, and the names of the groups inside it."""
        index = self._whole.groupindex
        return {
            index[f"p{which}"]: (
                which,
                [
                    (name.removesuffix(f"_{which}"), at)
                    for name, at in index.items()
                    if name.endswith(f"_{which}")
                ],
            )
            for which in range(len(self._patterns))
        }

    def outgrown(self, text: str, found: Found) -> bool:
        """Say whether a pattern that comes first may still match at the same place."""
        which = found.which
        if which not in self._rivals:
            rivals = [one for one in self._patterns[:which] if _rival(one, self._patterns[which])]
            self._rivals[which] = _beginnings(rivals)
        begun = self._rivals[which]
        return (
            begun is not None
            and len(text) - found.start <= self.reach
            and begun.match(text, found.start) is not None
        )


def _rival(one: Pattern, other: Pattern) -> bool:
    """Say whether two patterns may begin alike."""
    return any(
        first.startswith(second) or second.startswith(first)
        for first in map(_lead, _flat(one))
        for second in map(_lead, _flat(other))
    )


def _lead(flat: Pattern) -> str:
    """Return the string that a pattern begins with."""
    return flat[0] if isinstance(flat[0], str) else ""


def _flat(pattern: Pattern) -> Iterator[Pattern]:
    """Yield the sequences without choices that `pattern` stands for."""
    pattern = tuple(part for part in pattern if part != "")
    for place, part in enumerate(pattern):
        if isinstance(part, OneOf):
            for choice in part.choices:
                yield from _flat(pattern[:place] + choice + pattern[place + 1 :])
            return
    yield pattern


def _regex(pattern: Pattern, number: int, *, ended: bool = False) -> str:
    """Return the expression for all of a pattern."""
    out: list[str] = []
    for place, part in enumerate(pattern):
        match part:
            case str():
                out.append(re.escape(part))
            case Run():
                lazy = "?" if part.lazy else ""
                run = f"{part.chars}{{{part.least},{part.most}}}{lazy}"
                out.append(f"(?P<{part.name}_{number}>{run})" if part.name else run)
            case OneOf():
                choices = "|".join(_regex(choice, number, ended=ended) for choice in part.choices)
                out.append(f"(?:{choices})")
            case Ahead():
                rest = _regex(pattern[place + 1 :], number, ended=ended)
                ending = r"|\s*\Z" if ended and part.or_end else ""
                # The group around the whole ends here: what is looked at is no part of it.
                out.append(f"(?={rest}{ending})")
                break
    return "".join(out)


def _atoms(pattern: Pattern) -> list[str | Run]:
    atoms: list[str | Run] = []
    for part in pattern:
        if isinstance(part, str):
            atoms.extend(part)
        elif isinstance(part, Run):
            atoms.append(part)
    return atoms


def _beginnings(patterns: Sequence[Pattern]) -> re.Pattern[str] | None:
    """Return the expression for every proper beginning of the patterns, at the end of the text."""
    begun: list[str] = []
    for pattern in patterns:
        for flat in _flat(pattern):
            atoms = _atoms(flat)
            # A run that may be empty cannot come first: the rest would be lost to the search.
            while isinstance(atoms[0], Run) and not atoms[0].least:
                begun.append(_nested([Run(atoms[0].chars, 1, atoms[0].most), *atoms[1:]]))
                atoms = atoms[1:]
            begun.append(_nested(atoms))
    begun = [expression for expression in dict.fromkeys(begun) if expression]
    return re.compile(f"(?:{'|'.join(begun)})\\Z") if begun else None


def _nested(atoms: Sequence[str | Run]) -> str:
    """Return `a(?:b(?:c)?)?` for the atoms a, b, c, d."""
    out = ""
    for place in range(len(atoms) - 1, -1, -1):
        atom = atoms[place]
        last = place == len(atoms) - 1
        rest = f"(?:{out})?" if out else ""
        if isinstance(atom, Run):
            # A last run may still grow.
            out = f"{atom.chars}{{{atom.least},{atom.most}}}{rest}"
        else:
            out = "" if last else re.escape(atom) + rest
    return out


def _length(pattern: Pattern) -> int:
    total = 0
    for part in pattern:
        match part:
            case str():
                total += len(part)
            case Run():
                total += part.most
            case OneOf():
                total += max(_length(choice) for choice in part.choices)
            case Ahead():
                pass
    return total


def _leads(patterns: Sequence[Pattern]) -> str | None:
    """Return the characters that patterns begin with, or None if it may be any of a class."""
    leads: set[str] = set()
    for pattern in patterns:
        for flat in _flat(pattern):
            for atom in _atoms(flat):
                if isinstance(atom, str):
                    leads.add(atom)
                    break
                if atom.chars == r"\n":
                    leads.add("\n")
                elif atom.chars == BLANKS.chars:
                    leads.update(_BLANK_CHARS)
                else:
                    return None
                if atom.least:
                    break
    return "".join(sorted(leads))
