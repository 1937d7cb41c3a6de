"""What a strict client demands of a tool: a description, and a valid JSON schema.

The schema is sent as it is.  Keywords that are not listed below are not checked.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from dragoman.errors import MisuseError
from dragoman.toolcalls.schema_types import resolved
from dragoman.turn.request import Tool
from dragoman.wire.json_values import decode_any

_DEPTH: Final = 64  # deeper schemas are not checked
_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _are_values(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


Rule: TypeAlias = tuple[
    Callable[[Any], bool], str
]  # whether a keyword's value is valid, and the message if it is not

_WORDS: Final[dict[str, Rule]] = {
    "type": (_is_type, f"must be one or several of {', '.join(sorted(_TYPES))}"),
    "required": (_are_names, "must be a list of names"),
    "enum": (_are_values, "must be a list of values"),
    **dict.fromkeys(
        ("title", "description", "pattern", "format", "$ref"), (_is_text, "must be a text")
    ),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        (_is_number, "must be a number"),
    ),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        (_is_count, "must be a number from 0"),
    ),
}
_SCHEMA: Final = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames"})
_LIST: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})


def check_described(tool: Tool) -> None:
    """Check a tool's description and schema; a vendor's own tools need none.

    Raises:
        MisuseError: the tool has no description, or no valid JSON schema of its arguments.
    """
    if tool.server or tool.raw is not None:
        return
    if not tool.description:
        raise MisuseError(f"the tool `{tool.name}` has no description")
    if tool.schema is None:
        if tool.grammar is None:
            raise MisuseError(f"the tool `{tool.name}` has no schema of its arguments")
        return
    if why := schema_fault(bytes(tool.schema)):
        raise MisuseError(f"the tool `{tool.name}` has no valid schema of its arguments: {why}")


def schema_fault(schema: bytes) -> str:
    """Return why this is not a JSON schema of a tool's arguments; empty: it is one."""
    try:
        root = decode_any(schema)
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"
    if not isinstance(root, dict):
        return "it is not an object"
    fault = _fault(root, root, "$", _DEPTH)
    stated = root.get("type", "object")
    if (
        not fault
        and stated != "object"
        and (not isinstance(stated, list) or "object" not in stated)
    ):
        return "`$.type` must be object: arguments have names"
    return fault


def _fault(schema: Any, root: dict[str, Any], path: str, depth: int) -> str:
    if isinstance(schema, bool) or not depth:
        return ""
    if not isinstance(schema, dict):
        return f"`{path}` is not a schema"
    for word, (fits, problem) in _WORDS.items():
        if word in schema and not fits(schema[word]):
            return f"`{path}.{word}` {problem}"
    reference = schema.get("$ref", "")
    if reference.startswith("#") and resolved(schema, root) is None:
        return f"`{path}.$ref` has no target"
    for word, value in schema.items():
        if fault := _below(word, value, root, f"{path}.{word}", depth - 1):
            return fault
    return ""


def _below(word: str, value: Any, root: dict[str, Any], path: str, depth: int) -> str:
    """Return what is wrong with the schemas inside a keyword's value."""
    if word in _SCHEMA and not (word == "items" and isinstance(value, list)):
        return _fault(value, root, path, depth)
    if word in _LIST or (word == "items" and isinstance(value, list)):
        if not isinstance(value, list) or not value:
            return f"`{path}` must be a list of schemas"
        inside = [(f"{path}[{at}]", one) for at, one in enumerate(value)]
    elif word in _NAMED:
        if not isinstance(value, dict):
            return f"`{path}` must be an object of schemas"
        inside = [(f"{path}.{name}", one) for name, one in value.items()]
    else:
        return ""
    return next((why for at, one in inside if (why := _fault(one, root, at, depth))), "")
