"""Cache marks: the vendor takes four in a request, and the last ones cover the most."""

from collections.abc import Callable, Iterable
from typing import Final

from dragoman.dialects.anthropic import schema
from dragoman.turn.known import made_once
from dragoman.turn.loss import Loss
from dragoman.turn.request import (
    CacheHint,
    DocumentPart,
    ImagePart,
    Part,
    Request,
    SearchResultPart,
    TextPart,
    Tool,
    ToolResultPart,
)

MOST: Final = 4
_SHORT: Final = schema.CacheControl()
_LONG: Final = schema.CacheControl("1h")


class CacheMarks:
    """Hand out a request's marks in the order tools, system, messages; the first ones may be too many.

    They are counted when the first one is handed out: most requests have none.
    """

    def __init__(self, skipped: int | Callable[[], int]) -> None:
        self._skipped = skipped

    @property
    def skipped(self) -> int:
        """How many of the next ones are left out."""
        if not isinstance(self._skipped, int):
            self._skipped = self._skipped()
        return self._skipped

    @skipped.setter
    def skipped(self, skipped: int) -> None:
        self._skipped = skipped

    def take(self, hint: CacheHint | None) -> schema.CacheControl | None:
        """Return the mark for a hint, unless it is one too many."""
        if hint is None:
            return None
        if self.skipped:
            self.skipped -= 1
            return None
        return _LONG if hint.long else _SHORT


def marks_of(request: Request, losses: list[Loss]) -> CacheMarks:
    """Return the marks of a request; if there are too many, that is told before all else."""

    def too_many() -> int:
        total = marked_tools(request.tools, None)
        total += sum(text.cache is not None for text in request.system)
        total += sum(_marked(turn.parts) for turn in request.turns)
        skipped = max(0, total - (MOST - (request.cache_all is not None)))
        if skipped:
            detail = f"the first {skipped} of {total}"
            losses.insert(0, Loss("cache_hint_dropped", "$.cache_control", detail))
        return skipped

    return CacheMarks(too_many)


def mark_of(hint: CacheHint | None) -> schema.CacheControl | None:
    """Return the mark for a hint on the whole prefix."""
    return None if hint is None else _LONG if hint.long else _SHORT


@made_once
def marked_tools(tools: tuple[Tool, ...], _target: None) -> int:
    """Return how many of the tools have a mark."""
    return sum(tool.cache is not None for tool in tools)


def _marked(parts: Iterable[Part]) -> int:
    """Return how many of the parts, and of those inside them, have a mark."""
    count = 0
    for part in parts:
        if isinstance(part, ToolResultPart):
            count += _marked(part.parts) + (part.cache is not None)
        elif isinstance(part, TextPart | ImagePart | DocumentPart | SearchResultPart):
            count += part.cache is not None
    return count
