"""Declared tools that come again: agents send the same list with every request of a conversation.

A list is read once, and what is made of it (a table of names, definitions for an upstream) is made
once.  Nothing but time depends on it: what is kept is a pure function of its arguments.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from dragoman.limits import KIB
from dragoman.turn.request import Tool

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

_LISTS: Final = 64  # lists that are kept: the agents that use one process at the same time
_MOST_BYTES: Final = 256 * KIB  # of a list that is kept: an agent with many servers has half of it
_SAMPLE: Final = 64  # bytes of a list's beginning and end, by which it is looked for
_PLACES: Final = 8  # places that are remembered: each is looked at in every request
_LEAST_BYTES: Final = KIB  # of a list whose place is remembered: less is soon read
_NEAR: Final = 64 * KIB  # how far from either end of a request a list is looked for
# What stands in a request for a list that was taken out: a character that nobody sends.
_RARE: Final = 0x7F
_STAND_IN: Final = b'"%c"' % _RARE
_STANDS_IN: Final = Raw(_STAND_IN)
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


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


class _Place(Struct, frozen=True):
    """Where a list stood in a request, counted from both ends: a conversation grows on one side of it."""

    json: bytes
    raw: Raw  # the same
    tools: KnownTools
    before: int  # bytes before it
    behind: int  # bytes from its first one on


class ToolLists:
    """The lists that clients of one dialect have sent lately; large ones are read each time."""

    def __init__(self, decode: Callable[[bytes], tuple[Tool, ...]]) -> None:
        self._decode = decode
        self._known = lru_cache(maxsize=_LISTS)(self._read)
        self._places: tuple[_Place, ...] = ()  # the latest first

    def read(self, raw: Raw, body: bytes = b"") -> tuple[Tool, ...]:
        """Return the tools of a list; `body` is the request that it stands in.

        Raises:
            MalformedError: it is none.
        """
        json = bytes(raw)
        if len(json) > _MOST_BYTES:
            return self._decode(json)
        known = self._known(_Definitions(json))
        if len(json) >= _LEAST_BYTES:
            self._remember(json, known, body)
        return known

    def decode_beside(
        self, decoder: msgspec.json.Decoder[T], body: bytes, tools_of: Callable[[T], Raw | None]
    ) -> tuple[T, Raw, tuple[Tool, ...]] | None:
        """Decode a request without looking at its list once more, if that stands where it stood before.

        Returns what was decoded, which holds something else in the place of the list, the list as it
        was written, and its tools; None if the whole request must be looked at.
        """
        for place in self._places:
            json, start = place.json, place.before
            if not body.startswith(json, start):
                start = len(body) - place.behind
                if start < 0 or not body.startswith(json, start):
                    continue
            rest = b"".join((body[:start], _STAND_IN, body[start + len(json) :]))
            try:
                decoded = decoder.decode(rest)
            except _UNREADABLE:
                return None
            # The same bytes elsewhere in the request are no declaration.
            found = tools_of(decoded) == _STANDS_IN and _RARE not in body
            return (decoded, place.raw, place.tools) if found else None
        return None

    def _read(self, definitions: _Definitions) -> KnownTools:
        return KnownTools(self._decode(definitions.json))

    def _remember(self, json: bytes, tools: KnownTools, body: bytes) -> None:
        head = json[:_SAMPLE]
        start = body.find(head, 0, _NEAR)
        if start < 0:
            start = body.find(head, max(0, len(body) - len(json) - _NEAR))
        if start >= 0:
            place = _Place(json, Raw(json), tools, start, len(body) - start)
            others = [one for one in self._places if one.tools is not tools]
            self._places = (place, *others[: _PLACES - 1])


def made_once(make: Callable[[tuple[Tool, ...], H], T]) -> Callable[[tuple[Tool, ...], H], T]:
    """Let `make` work only once on a list that is known, for each target that it is made for."""
    kept = lru_cache(maxsize=_LISTS)(make)

    def made(tools: tuple[Tool, ...], target: H, /) -> T:
        return kept(tools, target) if isinstance(tools, KnownTools) else make(tools, target)

    return made
