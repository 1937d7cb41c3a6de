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
    ToolCallPart,
    ToolResultPart,
)

MOST: Final = 4
_SHORT: Final = schema.CacheControl()
_LONG: Final = schema.CacheControl("1h")


class CacheMarks:
    """Hand out a request's marks in the order tools, system, messages; the first ones may be too many."""

    def __init__(self, skipped: int = 0) -> None:
        self.skipped = skipped  # how many of the next ones are left out

    def take(self, hint: CacheHint | None) -> schema.CacheControl | None:
        """Return the mark for a hint, unless it is one too many."""
        if hint is None:
            return None
        if self.skipped:
            self.skipped -= 1
            return None
        return _LONG if hint.long else _SHORT


def marks_of(request: Request, losses: list[Loss]) -> CacheMarks:
    """Return the marks of a request; if there are too many, that is told."""
    total = sum(1 for tool in request.tools if tool.cache is not None)
    total += sum(1 for text in request.system if text.cache is not None)
    total += sum(_marked(turn.parts) for turn in request.turns)
    skipped = max(0, total - (MOST - (request.cache_all is not None)))
    if skipped:
        detail = f"the first {skipped} of {total}"
        losses.append(Loss("cache_hint_dropped", "$.cache_control", detail))
    return CacheMarks(skipped)


def mark_of(hint: CacheHint | None) -> schema.CacheControl | None:
    """Return the mark for a hint on the whole prefix."""
    return None if hint is None else _LONG if hint.long else _SHORT


def _marked(parts: Iterable[Part]) -> int:
    """Return how many of the parts, and of those inside them, have a mark."""
    count = 0
    for part in parts:
        if type(part) is ToolCallPart:
            continue
        if type(part) is TextPart:
            count += part.cache is not None
        elif type(part) is ToolResultPart:
            count += _marked(part.parts) + (part.cache is not None)
        elif isinstance(part, ImagePart | DocumentPart | SearchResultPart):
            count += part.cache is not None
    return count
