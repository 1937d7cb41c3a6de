"""What a marker is: a sequence of strings, bounded runs of characters, and choices.

`<invoke name="`, a name, `">` is such a sequence.  Every part is bounded, and so is every marker.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, TypeAlias

from msgspec import Struct


class Run(Struct, frozen=True, gc=False):
    """A bounded run of characters of one class."""

    chars: str  # a character class, as regular expressions write it
    least: int = 0  # 0 or 1
    most: int = 64
    name: str = ""  # the run is wanted under this name


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
BLANKS: Final = Run(r"[ \t\r\n]")

_MOST_LEADS: Final = 4  # of one class: as many as there are blanks
# Characters of every kind that a class may tell apart.
_SAMPLE: Final = "".join(map(chr, range(0x180))) + "\uff5c\u2581\u25c1\u25b7\u2028\u3000\u6f22"


def one_of(*choices: str | Pattern) -> OneOf:
    """Return a choice between strings or patterns."""
    return OneOf(tuple((choice,) if isinstance(choice, str) else choice for choice in choices))


def joined(pattern: Pattern) -> Pattern:
    """Return a pattern without empty strings, and with neighbouring strings made one."""
    parts: list[Part] = []
    for part in pattern:
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        elif part != "":
            parts.append(part)
    return tuple(parts)


def length(pattern: Pattern) -> int:
    """Return how long a text can be that fits."""
    total = 0
    for part in pattern:
        match part:
            case str():
                total += len(part)
            case Run():
                total += part.most
            case OneOf():
                total += max(length(choice) for choice in part.choices)
            case Ahead():
                pass
    return total


def may_be_empty(pattern: Pattern) -> bool:
    """Say whether the empty text fits."""
    return all(
        (isinstance(part, Run) and not part.least)
        or (isinstance(part, OneOf) and any(map(may_be_empty, part.choices)))
        or isinstance(part, Ahead)
        or not part
        for part in pattern
    )


def firsts(pattern: Pattern) -> Iterator[str]:
    """Yield the classes and characters that a text may begin with if it fits."""
    for place, part in enumerate(pattern):
        match part:
            case str():
                if part:
                    yield re.escape(part[0])
                    return
            case Run():
                yield part.chars
                if part.least:
                    return
            case OneOf():
                for choice in part.choices:
                    yield from firsts((*choice, *pattern[place + 1 :]))
                return
            case Ahead():
                pass


@cache
def chars_of(chars: str) -> frozenset[str]:
    """Return the characters of a class, as far as classes differ."""
    return frozenset(re.findall(chars, _SAMPLE))


def apart(run: Run, following: Pattern) -> bool:
    """Say whether nothing that may follow a run could also be part of it."""
    return all(chars_of(run.chars).isdisjoint(chars_of(first)) for first in firsts(following))


def leads(patterns: Sequence[Pattern]) -> str | None:
    """Return the characters that texts begin with which fit, or None if there are too many."""
    found: set[str] = set()
    for first in {first for pattern in patterns for first in firsts(pattern)}:
        chars = chars_of(first)
        if len(chars) > _MOST_LEADS:
            return None
        found |= chars
    return "".join(sorted(found))
