"""Cache marks: the vendor takes four in a request, and the last ones cover the most."""

from typing import Final

from dragoman.dialects.anthropic import schema
from dragoman.turn.known import made_once
from dragoman.turn.loss import Loss
from dragoman.turn.request import (
    CacheHint,
    DocumentPart,
    ImagePart,
    Request,
    SearchResultPart,
    TextPart,
    Tool,
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
    total = _marked_tools(request.tools, None)
    for text in request.system:
        total += text.cache is not None
    for turn in request.turns:
        for part in turn.parts:
            # The frequent sorts first: every part of every request comes by here.
            if type(part) is ToolCallPart:
                continue
            if type(part) is TextPart:
                if part.cache is not None:
                    total += 1
            elif type(part) is ToolResultPart:
                if part.cache is not None:
                    total += 1
                for inner in part.parts:
                    if inner.cache is not None:
                        total += 1
            elif isinstance(part, ImagePart | DocumentPart | SearchResultPart):
                total += part.cache is not None
    skipped = max(0, total - (MOST - (request.cache_all is not None)))
    if skipped:
        detail = f"the first {skipped} of {total}"
        losses.append(Loss("cache_hint_dropped", "$.cache_control", detail))
    return CacheMarks(skipped)


def mark_of(hint: CacheHint | None) -> schema.CacheControl | None:
    """Return the mark for a hint on the whole prefix."""
    return None if hint is None else _LONG if hint.long else _SHORT


@made_once
def _marked_tools(tools: tuple[Tool, ...], _target: None) -> int:
    return sum(tool.cache is not None for tool in tools)
