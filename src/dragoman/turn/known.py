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
_SAMPLE: Final = 64  # bytes of a list's beginning and end, by which it is looked for


class _Definitions:
    """A list as it was written, found by a sample: to digest all of it costs more than to compare it."""

    __slots__ = ("json",)

    def __init__(self, json: bytes) -> None:
        self.json = json

    def __hash__(self) -> int:
        json = self.json
        return hash((len(json), json[:_SAMPLE], json[-_SAMPLE:]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Definitions) and self.json == other.json


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
        return KnownTools(decode(definitions.json))

    def read(raw: Raw, /) -> tuple[Tool, ...]:
        json = bytes(raw)
        return known(_Definitions(json)) if len(json) <= _MOST_BYTES else decode(json)

    return read


def made_once(make: Callable[[tuple[Tool, ...], H], T]) -> Callable[[tuple[Tool, ...], H], T]:
    """Let `make` work only once on a list that is known, for each target that it is made for."""
    kept = lru_cache(maxsize=_LISTS)(make)

    def made(tools: tuple[Tool, ...], target: H, /) -> T:
        return kept(tools, target) if isinstance(tools, KnownTools) else make(tools, target)

    return made
