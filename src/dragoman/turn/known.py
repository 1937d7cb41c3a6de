"""Declared tools that come again: agents send the same list with every request of a conversation.

A list is read once, and what is made of it (a table of names, definitions for an upstream) is made
once.  Nothing but time depends on it: what is kept is a pure function of its arguments.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Final, TypeVar

from msgspec import Raw

from dragoman.limits import KIB
from dragoman.turn.request import Tool

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

_LISTS: Final = 64  # lists that are kept: the agents that use one process at the same time
_MOST_BYTES: Final = 256 * KIB  # of a list that is kept: an agent with many servers has half of it
_SAMPLE: Final = 64  # bytes of a list's beginning, middle and end, by which it is looked for


class _Definitions(bytes):
    """A list as it was written, found by a sample: to digest all of it costs more than to compare it."""

    __slots__ = ()

    def __hash__(self) -> int:
        middle = len(self) // 2
        return hash((self[:_SAMPLE], self[middle : middle + _SAMPLE], self[-_SAMPLE:], middle))


class KnownTools(tuple[Tool, ...]):
    """A list of tools that is kept.

    It equals any tuple of the same tools, but is found by identity alone: what was made of an equal
    list is made again, which costs less than to compare the two.
    """

    __slots__ = ()
    __hash__ = object.__hash__


def read_once(
    decode: Callable[[bytes], tuple[Tool, ...]],
) -> Callable[[Raw], tuple[Tool, ...]]:
    """Let `decode` read equal definitions only once; large ones are read each time."""

    @lru_cache(maxsize=_LISTS)
    def known(definitions: _Definitions) -> KnownTools:
        return KnownTools(decode(definitions))

    def read(raw: Raw, /) -> tuple[Tool, ...]:
        return known(_Definitions(raw)) if len(raw) <= _MOST_BYTES else decode(bytes(raw))

    return read


def made_once(make: Callable[[tuple[Tool, ...], H], T]) -> Callable[[tuple[Tool, ...], H], T]:
    """Let `make` work only once on a list that is known, for each target that it is made for."""
    kept = lru_cache(maxsize=_LISTS)(make)

    def made(tools: tuple[Tool, ...], target: H, /) -> T:
        return kept(tools, target) if isinstance(tools, KnownTools) else make(tools, target)

    return made
