"""A call that a model made, and whether it can be run as it is."""

from collections.abc import Sequence

from dragoman.client.schema_check import misfit
from dragoman.turn.answer import ToolCall
from dragoman.turn.events import Flavor
from dragoman.turn.request import Tool, ToolCallPart
from dragoman.wire.json_values import decode_any


def judged(part: ToolCallPart, tools: Sequence[Tool], broken: str = "") -> ToolCall:
    """Return a call with what is wrong with it; `broken` is why it is not what the model meant."""
    return ToolCall(
        part.id,
        part.name,
        part.arguments,
        error=broken or _problem(part, tools),
        complete=not broken,
        namespace=part.namespace,
        flavor=part.flavor,
    )


def _problem(part: ToolCallPart, tools: Sequence[Tool]) -> str:
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
        return ""  # free text, or a form that its vendor has defined
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
        return {}  # nothing that could be judged by
