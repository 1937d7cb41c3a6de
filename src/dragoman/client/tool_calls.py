"""A call that a model made, and whether it can be run as it is."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from dragoman.client.schema_check import misfit
from dragoman.turn.events import Flavor
from dragoman.turn.request import Tool, ToolCallPart
from dragoman.wire.json_values import decode_any

CUT: Final = "the call was cut before its end: it was not run; make it again, in smaller pieces"

INVALID: Final = "the arguments are cut off or not valid JSON: the call was not run; make it again with valid JSON"


class Call(Struct, frozen=True):
    """One call of a tool."""

    id: str  # unique in the conversation
    name: str
    # As the model wrote them: JSON, or the free text of a custom tool.  If they were cut or are invalid,
    # `problem` says so, and they are here as far as they came.
    arguments: str
    problem: str = ""  # why it should not be run; empty: nothing speaks against it
    namespace: str = ""
    flavor: Flavor = Flavor.FUNCTION

    @property
    def values(self) -> dict[str, Any]:
        """The arguments by name; empty for free text, and for a call that should not be run."""
        if self.problem or self.flavor is Flavor.CUSTOM:
            return {}
        try:
            value = decode_any(self.arguments)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}


def judged(part: ToolCallPart, tools: Sequence[Tool], broken: str = "") -> Call:
    """Return a call with what is wrong with it; `broken` is why it is not what the model meant."""
    problem = broken or _problem(part, tools)
    return Call(part.id, part.name, part.arguments, problem, part.namespace, part.flavor)


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
