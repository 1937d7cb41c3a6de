"""One answer of the model inside a loop: calls out, results in."""

from collections.abc import Sequence
from typing import TypeAlias, get_args

import msgspec

from dragoman.dialects.surrogates import mended
from dragoman.errors import MisuseError
from dragoman.turn.answer import Answer, ToolCall
from dragoman.turn.request import (
    USER,
    DocumentPart,
    ImagePart,
    SearchResultPart,
    TextPart,
    ToolResultPart,
    Turn,
)

Content: TypeAlias = TextPart | ImagePart | DocumentPart | SearchResultPart


class Step:
    """One answer of the model, and the calls in it that wait for results."""

    def __init__(
        self,
        answer: Answer | None,
        tool_calls: tuple[ToolCall, ...] = (),
        given: Sequence[ToolResultPart] = (),
    ) -> None:
        self.answer = answer  # None: the step was resumed from a transcript
        self.tool_calls = tool_calls
        self._results = {one.call_id: one for one in given}

    @property
    def is_last(self) -> bool:
        """The model called nothing: there is nothing more to do."""
        return not self.tool_calls

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The calls that have no result yet."""
        return tuple(call for call in self.tool_calls if call.id not in self._results)

    @property
    def results(self) -> tuple[ToolResultPart, ...]:
        """The results that were given, in the order of the calls."""
        return tuple(self._results[one.id] for one in self.tool_calls if one.id in self._results)

    def resolve(self, call: ToolCall | str, value: object, *, is_error: bool = False) -> None:
        """Say what a tool returned: text and parts (images and the like) as they are, else JSON.

        Raises:
            MisuseError: there is no such call, it has its result, or the value has no JSON.
        """
        call_id = call if isinstance(call, str) else call.id
        known = next((one for one in self.tool_calls if one.id == call_id), None)
        if known is None:
            raise MisuseError(f"no call `{call_id}` in this step")
        if call_id in self._results:
            raise MisuseError(f"the call `{call_id}` has its result")
        self._results[call_id] = ToolResultPart(call_id, _parts(value), is_error, known.flavor)

    def refuse(self, call: ToolCall, reason: str = "") -> None:
        """Tell the model that a call was not run, and why: by default the call's own problem."""
        self.resolve(call, reason or call.error or "this call was not run", is_error=True)

    def turn(self) -> Turn | None:
        """Return all results as one turn of the conversation; None while one is missing."""
        if not self.tool_calls or self.pending:
            return None
        return Turn(USER, self.results)


def _parts(value: object) -> tuple[Content, ...]:
    kinds = get_args(Content)
    if isinstance(value, kinds):
        return (value,)
    if isinstance(value, list | tuple) and value and all(isinstance(one, kinds) for one in value):
        return tuple(value)
    return (TextPart(_text(value)),)


def _text(value: object) -> str:
    if isinstance(value, str):
        return mended(value)
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise MisuseError(f"a result that has no JSON: {error}") from None
