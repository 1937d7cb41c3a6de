"""The tool calls of one answer inside a loop: checked, handed out, resolved.

A call that was truncated, or whose arguments are not JSON, stays in the history as it arrived, so that the model
learns about it.  It is never run.
"""

from collections.abc import Sequence
from typing import TypeAlias, get_args

import msgspec
from msgspec import structs

from dragoman.client.errors import ClientError
from dragoman.errors import MisuseError
from dragoman.toolcalls.schema_check import misfit
from dragoman.turn.answer import Answer, ToolCall
from dragoman.turn.events import Flavor
from dragoman.turn.request import (
    USER,
    DocumentPart,
    ImagePart,
    SearchResultPart,
    TextPart,
    Tool,
    ToolCallPart,
    ToolResultPart,
    Turn,
)
from dragoman.wire.json_values import decode_any
from dragoman.wire.surrogates import join_surrogates

Content: TypeAlias = TextPart | ImagePart | DocumentPart | SearchResultPart


class Step:
    """One answer of the model inside a `ToolLoop`, and its tool calls.

    Made by the loop.  Every call needs a result, by `resolve` or `refuse`, before the loop continues.

    Attributes:
        answer: The model's answer; None if the step was resumed from a transcript.
        tool_calls: All calls of the answer, in order, with or without results.

    Example:
        for call in step.pending:
            if call.error:
                step.refuse(call)
            else:
                step.resolve(call, get_weather(**call.args))
    """

    def __init__(
        self,
        answer: Answer | None,
        tool_calls: tuple[ToolCall, ...] = (),
        given: Sequence[ToolResultPart] = (),
    ) -> None:
        self.answer: Answer | None = answer
        self.tool_calls: tuple[ToolCall, ...] = tool_calls
        self._results = {one.call_id: one for one in given}

    @property
    def is_last(self) -> bool:
        """True if the model called no tool: the conversation has ended."""
        return not self.tool_calls

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The calls that have no result yet."""
        return tuple(call for call in self.tool_calls if call.id not in self._results)

    @property
    def results(self) -> tuple[ToolResultPart, ...]:
        """The results so far, in the order of the calls."""
        return tuple(self._results[one.id] for one in self.tool_calls if one.id in self._results)

    def resolve(self, call: ToolCall | str, value: object, *, is_error: bool = False) -> None:
        """Set the result of a call.

        Args:
            call: The call, or its id.
            value: What the tool returned.  Text and parts (`TextPart`, `ImagePart`, lists of them) are sent as
                they are, everything else as JSON.
            is_error: The tool failed; `value` describes how.

        Raises:
            MisuseError: this step has no such call, the call has a result, or the value cannot be JSON.
        """
        call_id = call if isinstance(call, str) else call.id
        known = next((one for one in self.tool_calls if one.id == call_id), None)
        if known is None:
            raise MisuseError(f"no call `{call_id}` in this step")
        if call_id in self._results:
            raise MisuseError(f"the call `{call_id}` has a result already")
        self._results[call_id] = ToolResultPart(call_id, _parts(value), is_error, known.flavor)

    def refuse(self, call: ToolCall, reason: str = "") -> None:
        """Set an error as the result of a call that was not run.

        Args:
            call: The call.
            reason: The text that the model gets; empty: the call's `error`.

        Raises:
            MisuseError: this step has no such call, or the call has a result.
        """
        self.resolve(call, reason or call.error or "this call was not run", is_error=True)

    def turn(self) -> Turn | None:
        """Return all results as one turn of the conversation; None while a call is pending."""
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
        return join_surrogates(value)
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise MisuseError(f"a result that cannot be written as JSON: {error}") from None


# --- checking ---------------------------------------------------------------------------------------


def checked_call(part: ToolCallPart, tools: Sequence[Tool], broken: str = "") -> ToolCall:
    """Return a call with its `error`; `broken` is why its arguments are incomplete, if they are."""
    return ToolCall(
        part.id,
        part.name,
        part.arguments,
        error=broken or _call_error(part, tools),
        complete=not broken,
        namespace=part.namespace,
        flavor=part.flavor,
    )


def _call_error(part: ToolCallPart, tools: Sequence[Tool]) -> str:
    declared = next(
        (
            tool
            for tool in tools
            if tool.name == part.name and tool.namespace == part.namespace and not tool.server
        ),
        None,
    )
    if declared is None:
        return f"there is no tool `{part.name}`"
    if part.flavor is not Flavor.FUNCTION:
        return ""  # free text, or arguments that a vendor has defined
    try:
        values = decode_any(part.arguments)
    except (ValueError, RecursionError) as error:
        return f"the arguments are not JSON: {error}"
    if not isinstance(values, dict):
        return "the arguments are not a JSON object"
    return misfit(values, _schema(declared))


def _schema(tool: Tool) -> object:
    try:
        return decode_any(tool.schema or b"{}")
    except (ValueError, RecursionError):
        return {}  # without a valid schema nothing is checked


# --- calls that are not complete ----------------------------------------------------------------------


def with_broken_call(error: ClientError) -> Answer:
    """Return an answer that failed only because a call's arguments are invalid.

    Raises:
        ClientError: it failed for another reason.
    """
    answer = error.received
    if error.code != "invalid_arguments" or answer is None:
        raise error
    if not answer.call_blocks or answer.call_blocks[-1] is not answer.blocks[-1]:
        raise error
    return answer


def for_history(answer: Answer) -> Answer:
    """Return an answer as the history needs it: incomplete calls count as complete.

    Arguments that are not an object are wrapped when a request is written (`object_arguments`).
    """
    blocks = tuple(
        block if block.complete else structs.replace(block, complete=True)
        for block in answer.blocks
    )
    return structs.replace(answer, blocks=blocks, fault=None)
