"""Detects calls that repeat with the same arguments and the same results.

Everything is read from the history itself; nothing is remembered between requests.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct, structs

from dragoman.turn.request import (
    ASSISTANT,
    SYSTEM,
    USER,
    Part,
    SearchResultPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
)
from dragoman.wire.json_values import canonical_json

_NAMES_SHOWN: Final = 8
_TAG: Final = re.compile(r"\s*<([A-Za-z][\w.-]*)[\s>]")


class _CallAndResult(Struct, gc=False, frozen=True):
    """A call, and what came of it."""

    call: ToolCallPart
    result: ToolResultPart | None


class Loop(Struct, frozen=True):
    """Calls that came again and again, with the same arguments and the same results."""

    names: tuple[str, ...]  # the tools of one round, in order
    repeats: int  # how many rounds there were, up to the end of the history

    @property
    def description(self) -> str:
        """What happened, in half a sentence."""
        shown = ", ".join(f"`{name[:100]}`" for name in self.names[:_NAMES_SHOWN])
        if len(self.names) == 1:
            return f"the tool {shown} was called {self.repeats} times in a row"
        return f"the tools {shown} were called in the same order {self.repeats} times in a row"


def find_loop(turns: Sequence[Turn], *, repeats: int, longest: int) -> Loop | None:
    """Return the loop that the history ends in: a call, or a short cycle of them, that gives nothing new.

    `repeats` is how many rounds make a loop, `longest` how many calls a round may have.  A user's
    message, or an answer without calls, ends a loop: the calls after it are counted from the start.
    """
    steps = _steps(turns)
    seen: list[_CallAndResult] = []  # from the last call back, as far as it was asked for

    def step(at: int) -> _CallAndResult | None:
        while len(seen) <= at:
            one = next(steps, None)
            if one is None:
                return None
            seen.append(one)
        return seen[at]

    for length in range(1, longest + 1):
        rounds = _rounds(step, length)
        if rounds >= max(2, repeats):
            names = tuple(one.call.name for one in reversed(seen[:length]))
            return Loop(names, rounds)
    return None


def _rounds(step: Callable[[int], _CallAndResult | None], length: int) -> int:
    """Return how often the last `length` steps occur in a row at the end."""
    same = 0
    while (earlier := step(same + length)) is not None:
        later = step(same)
        if later is None or not _are_alike(earlier, later):
            break
        same += 1
    return same // length + 1


def _steps(turns: Sequence[Turn]) -> Iterator[_CallAndResult]:
    """Give the calls of the agent's present run from the last one back."""
    results: dict[str, ToolResultPart] = {}
    after = USER  # the role of the next turn
    for turn in reversed(turns):
        if turn.role is SYSTEM:
            continue  # an agent's own remark
        if turn.role is ASSISTANT:
            calls = [part for part in turn.parts if type(part) is ToolCallPart]
            if not calls and after is USER:
                return
            for call in reversed(calls):
                # An id that occurs again, further back, has its own result.
                yield _CallAndResult(call, results.pop(call.id, None))
        else:
            for part in turn.parts:
                if type(part) is ToolResultPart:
                    results[part.call_id] = part
                elif _is_spoken(part):
                    return
        after = turn.role


def _is_spoken(part: Part) -> bool:
    """Return whether a person wrote this.  Agents put their own remarks between tags."""
    if not isinstance(part, TextPart):
        return True
    text = part.text
    if not text or text.isspace():
        return False
    tag = _TAG.match(text)
    return tag is None or not text.rstrip().endswith(f"</{tag[1]}>")


def _are_alike(one: _CallAndResult, other: _CallAndResult) -> bool:
    """Return whether two calls asked for the same and got the same; what differs most often comes first."""
    call, again = one.call, other.call
    if call.name != again.name or call.namespace != again.namespace:
        return False
    if one.result is None or other.result is None:
        if one.result is not other.result:
            return False
    elif one.result.is_error is not other.result.is_error or (
        _texts(one.result) != _texts(other.result)
    ):
        return False
    if call.arguments == again.arguments:
        return True
    return canonical_json(call.arguments) == canonical_json(again.arguments)


def _texts(result: ToolResultPart) -> list[str]:
    return [text for part in result.parts for text in _contents(part)]


def _contents(part: Part) -> Iterator[str]:
    """Yield the content of a part of a result, without cache marks, which move from turn to turn."""
    match part:
        case TextPart():
            yield part.text
        case SearchResultPart():
            yield from (part.source, part.title, *(inner.text for inner in part.parts))
        case _:
            plain = structs.replace(part, cache=None) if hasattr(part, "cache") else part
            yield repr(plain)
