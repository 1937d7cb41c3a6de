"""The keywords of JSON Schema: which of them hold schemas, and what a schema allows.

Schemas and data look alike: a property may be called `format`, and `enum` may hold an object with a
`type`.  The tables say which keywords hold schemas; nothing else is walked.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Node: TypeAlias = dict[str, Json]

# Keywords whose value is a map of schemas, a list of schemas, a schema.
_MAPS: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
_SINGLE: Final = frozenset(
    {
        "items",
        "additionalItems",
        "additionalProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "propertyNames",
        "contains",
        "not",
        "if",
        "then",
        "else",
    }
)

UNIONS: Final = ("anyOf", "oneOf")


def walk(value: Json, change: Callable[[Node], Node]) -> Json:
    """Change every schema in `value`, innermost first."""
    if not isinstance(value, dict):
        return value
    node: Node = {}
    for key, child in value.items():
        if key in _MAPS and isinstance(child, dict):
            node[key] = {name: walk(one, change) for name, one in child.items()}
        elif key in _LISTS and isinstance(child, list):
            node[key] = [walk(one, change) for one in child]
        elif key in _SINGLE:
            node[key] = walk(child, change)
        else:
            node[key] = child
    return change(node)


def object_root(schema: Json) -> Node:
    """Make the root a plain object: a union there becomes one object with all its properties."""
    root = dict(schema) if isinstance(schema, dict) else {}
    ref = root.pop("$ref", None)
    if isinstance(ref, str):
        root = {**as_map(lookup(root, ref)), **root}
        root.pop("$ref", None)  # of a reference to a reference nothing is known
    if root.get("type") != "object":
        root = {"type": "object", **without(root, "type")}
    members = _members(root, root, ())
    if not members:
        return without(root, *UNIONS)
    variants: dict[str, list[Json]] = {}
    for one in (root, *members):
        for name, schema_of in as_map(one.get("properties")).items():
            variants.setdefault(name, []).append(schema_of)
    shared = [
        name
        for name in as_list(members[0].get("required"))
        if all(name in as_list(member.get("required")) for member in members)
    ]
    required = distinct([*as_list(root.get("required")), *shared])
    root = without(root, *UNIONS, "required")
    root["properties"] = {name: any_of(found) for name, found in variants.items()}
    if required:
        root["required"] = required
    return root


def _members(root: Node, node: Node, refs: tuple[str, ...]) -> list[Node]:
    """Return all that a union may be, references followed, unions inside unions too."""
    members: list[Node] = []
    for member in (one for union in UNIONS for one in as_list(node.get(union))):
        found, inside = as_map(member), refs
        ref = found.get("$ref")
        if isinstance(ref, str):
            found = {} if ref in refs else as_map(lookup(root, ref))
            inside = (*refs, ref)
        members.append(found)
        members.extend(_members(root, found, inside))
    return members


def any_of(variants: list[Json]) -> Json:
    found = distinct(variants)
    return found[0] if len(found) == 1 else {"anyOf": found}


def inferred_type(node: Node) -> str:
    """Return a schema's type by its other keywords; empty if they do not show it."""
    if "properties" in node or "required" in node or "additionalProperties" in node:
        return "object"
    if "items" in node or "prefixItems" in node:
        return "array"
    values = [node["const"]] if "const" in node else as_list(node.get("enum"))
    kinds = distinct([json_type(value) for value in values])
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], str) else ""


def json_type(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    return _TYPES.get(type(value), "string")


_TYPES: Final[dict[type, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def lookup(root: Node, ref: str) -> Node | None:
    """Return the schema that a local reference (`#/$defs/name`) names."""
    if not ref.startswith("#"):
        return None
    found: Json = root
    for step in ref[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or name not in found:
            return None
        found = found[name]
    return found if isinstance(found, dict) else None


def without(node: Node, *keys: str) -> Node:
    return {key: value for key, value in node.items() if key not in keys}


def as_map(value: Json) -> Node:
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def distinct(values: list[Json]) -> list[Json]:
    out: list[Json] = []
    for value in values:
        if value not in out:
            out.append(value)
    return out
