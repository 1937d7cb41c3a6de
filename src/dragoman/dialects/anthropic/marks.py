"""Cache marks: the vendor takes four in a request, and the last ones cover the most."""

from collections.abc import Iterable
from typing import Final

from dragoman.dialects.anthropic import schema
from dragoman.turn.loss import Loss
from dragoman.turn.request import (
    CacheHint,
    DocumentPart,
    ImagePart,
    Part,
    Request,
    SearchResultPart,
    TextPart,
    ToolResultPart,
)

MOST: Final = 4
_SHORT: Final = schema.CacheControl()
_LONG: Final = schema.CacheControl("1h")


class CacheMarks:
    """Hand out a request's marks in the order tools, system, messages; the first ones may be too many."""

    def __init__(self, request: Request, losses: list[Loss]) -> None:
        total = sum(1 for hint in _hints(request) if hint is not None)
        allowed = MOST - (request.cache_all is not None)
        self._skipped = max(0, total - allowed)
        if self._skipped:
            detail = f"the first {self._skipped} of {total}"
            losses.append(Loss("cache_hint_dropped", "$.cache_control", detail))

    def take(self, hint: CacheHint | None) -> schema.CacheControl | None:
        """Return the mark for a hint, unless it is one too many."""
        if hint is None:
            return None
        if self._skipped:
            self._skipped -= 1
            return None
        return _LONG if hint.long else _SHORT


def mark_of(hint: CacheHint | None) -> schema.CacheControl | None:
    """Return the mark for a hint on the whole prefix."""
    return None if hint is None else _LONG if hint.long else _SHORT


def _hints(request: Request) -> Iterable[CacheHint | None]:
    for tool in request.tools:
        yield tool.cache
    for text in request.system:
        yield text.cache
    for turn in request.turns:
        yield from _part_hints(turn.parts)


def _part_hints(parts: Iterable[Part]) -> Iterable[CacheHint | None]:
    for part in parts:
        match part:
            case ToolResultPart():
                yield from _part_hints(part.parts)
                yield part.cache
            case TextPart() | ImagePart() | DocumentPart() | SearchResultPart():
                yield part.cache
            case _:
                pass
