"""A call that a model made, and whether it can be run as it is."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from dragoman.turn.events import Flavor
from dragoman.turn.request import Tool, ToolCallPart

# What the types of a JSON schema are in Python; `bool` is an `int` there, and no number here.
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


class Call(Struct, frozen=True):
    """One call of a tool."""

    id: str  # unique in the conversation
    name: str
    arguments: str  # as the model wrote them: JSON, or the free text of a custom tool
    problem: str = ""  # why it should not be run; empty: nothing speaks against it
    namespace: str = ""
    flavor: Flavor = Flavor.FUNCTION

    @property
    def values(self) -> dict[str, Any]:
        """The arguments by name; empty for free text and for arguments that cannot be read."""
        if self.problem or self.flavor is Flavor.CUSTOM:
            return {}
        value = msgspec.json.decode(self.arguments)
        return value if isinstance(value, dict) else {}


def judged(part: ToolCallPart, tools: Sequence[Tool]) -> Call:
    """Return a call with what is wrong with it."""
    declared = next((tool for tool in tools if tool.name == part.name), None)
    problem = ""
    if declared is None:
        problem = f"there is no tool `{part.name}`"
    elif part.flavor is Flavor.FUNCTION:
        problem = _complaint(part.arguments, declared)
    return Call(part.id, part.name, part.arguments, problem, part.namespace, part.flavor)


def _complaint(arguments: str, tool: Tool) -> str:
    """Return what is wrong with arguments, as far as the outermost level of the schema tells."""
    try:
        values = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError) as error:
        return f"the arguments are not JSON: {error}"
    if not isinstance(values, dict):
        return "the arguments are not a JSON object"
    schema = msgspec.json.decode(tool.schema) if tool.schema is not None else {}
    if not isinstance(schema, dict):
        return ""
    required = schema.get("required")
    if isinstance(required, list):
        missing = [name for name in required if isinstance(name, str) and name not in values]
        if missing:
            return f"required and missing: {', '.join(f'`{name}`' for name in missing)}"
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, value in values.items():
            wrong = _wrong_type(value, properties.get(name))
            if wrong:
                return f"`{name}` {wrong}"
    return ""


def _wrong_type(value: object, schema: object) -> str:
    if not isinstance(schema, Mapping):
        return ""
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(names, list) or not names or not all(name in _TYPES for name in names):
        return ""
    if any(_is_of(value, name) for name in names):
        return ""
    return f"must be {' or '.join(names)}"


def _is_of(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])
