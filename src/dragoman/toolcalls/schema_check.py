"""Checks whether a value fits a JSON schema, for the tool loop and for the probe.

Checks types, required and unknown properties, enumerations, elements, unions and local references.  Patterns,
ranges and formats are left to the tool.
"""

from typing import Any, Final

import msgspec

from dragoman.toolcalls.schema_types import resolved

_DEPTH: Final = 64  # deeper values are taken as they are
_SHOWN: Final = 8  # values of an enumeration that a message names
_SHOWN_CHARS: Final = 100  # of a property's name in a message

# Types of JSON Schema in Python.  `bool` is a subclass of `int`, but not a JSON number.
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def misfit(value: Any, schema: Any) -> str:
    """Return the first reason why a value does not fit its schema; empty: it does."""
    root = schema if isinstance(schema, dict) else {}
    return _misfit(value, schema, root, "", _DEPTH)


def _misfit(value: Any, declared: Any, root: dict[str, Any], path: str, depth: int) -> str:
    schema = resolved(declared, root)
    if schema is False:
        return f"{_named(path)} is not allowed"
    if not isinstance(schema, dict) or not depth:
        return ""
    return (
        _wrong_type(value, schema, path)
        or _not_listed(value, schema, path)
        or _no_branch(value, schema, root, path, depth)
        or _inside(value, schema, root, path, depth)
    )


def _wrong_type(value: Any, schema: dict[str, Any], path: str) -> str:
    wanted = schema.get("type")
    stated = wanted if isinstance(wanted, list) else [wanted]
    names = [name for name in stated if isinstance(name, str) and name in _TYPES]
    if not names or len(names) < len(stated):
        return ""  # no type is stated, or one that JSON Schema does not have
    if any(_is_of(value, name) for name in names):
        return ""
    return f"{_named(path)} must be {' or '.join(names)}"


def _is_of(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _not_listed(value: Any, schema: dict[str, Any], path: str) -> str:
    values = schema.get("enum")
    listed = values if isinstance(values, list) else None
    if "const" in schema:
        listed = [schema["const"]]
    if listed is None or any(_same(value, one) for one in listed):
        return ""
    allowed = ", ".join(msgspec.json.encode(one).decode() for one in listed[:_SHOWN])
    more = ", …" if len(listed) > _SHOWN else ""
    return f"{_named(path)} must be one of {allowed}{more}"


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _no_branch(
    value: Any, schema: dict[str, Any], root: dict[str, Any], path: str, depth: int
) -> str:
    """Check unions: one branch must fit, or each of `allOf`."""
    every = schema.get("allOf")
    for branch in every if isinstance(every, list) else ():
        if reason := _misfit(value, branch, root, path, depth - 1):
            return reason
    for union in ("anyOf", "oneOf"):
        branches = schema.get(union)
        if not isinstance(branches, list) or not branches:
            continue
        reasons = [_misfit(value, branch, root, path, depth - 1) for branch in branches]
        if all(reasons):
            return reasons[0] if len(set(reasons)) == 1 else "; or ".join(dict.fromkeys(reasons))
    return ""


def _inside(value: Any, schema: dict[str, Any], root: dict[str, Any], path: str, depth: int) -> str:
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for at, one in enumerate(value):
                if reason := _misfit(one, items, root, f"{path}[{at}]", depth - 1):
                    return reason
    if not isinstance(value, dict):
        return ""
    required = schema.get("required")
    missing = [
        _named(_below(path, name))
        for name in (required if isinstance(required, list) else ())
        if isinstance(name, str) and name not in value
    ]
    if missing:
        return f"required and missing: {', '.join(missing)}"
    declared = schema.get("properties")
    properties = declared if isinstance(declared, dict) else {}
    others = schema.get("additionalProperties", {})
    if schema.get("patternProperties"):
        others = {}
    for name, one in value.items():
        if reason := _misfit(
            one, properties.get(name, others), root, _below(path, name), depth - 1
        ):
            return reason
    return ""


def _below(path: str, name: str) -> str:
    return f"{path}.{name[:_SHOWN_CHARS]}" if path else name[:_SHOWN_CHARS]


def _named(path: str) -> str:
    return f"`{path}`" if path else "the value"
