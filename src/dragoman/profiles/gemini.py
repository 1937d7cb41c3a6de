"""Rewrites schemas for Gemini, which accepts an older and smaller language than JSON Schema.

It refuses a whole request because of one keyword that it does not know.  So keywords that have an equivalent are
rewritten (references, `const`, `allOf`, exclusive bounds, unions with null), and the others are left out.
"""

from typing import Final

import msgspec

from dragoman.profiles.keywords import (
    Json,
    Node,
    as_list,
    as_map,
    distinct,
    inferred_type,
    json_type,
    lookup,
    object_root,
)

# The fields of the endpoint's own schema type; any other name refuses the whole request.
_FIELDS: Final = frozenset(
    {
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "items",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "pattern",
        "minimum",
        "maximum",
        "anyOf",
        "default",
    }
)
_FORMATS: Final = frozenset({"date-time", "enum", "float", "double", "int32", "int64"})
# References may fan out; past this a schema is an attack or a mistake.
_MAX_NODES: Final = 20_000
_EXCLUSIVE: Final = (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1))


def gemini(schema: Json) -> Json:
    """Return `schema` in the endpoint's language."""
    root = as_map(schema)
    merged = _Writer(root).merged(dict(root), ())
    return _Writer(root).node(object_root(merged), ())


class _Writer:
    """Write a schema with nothing but the fields that the endpoint knows."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._nodes = 0

    def node(self, value: Json, refs: tuple[str, ...]) -> Node:
        """Return one schema; `refs` are the references around it."""
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise OverflowError
        if not isinstance(value, dict):
            return {"type": "string"}  # `true`: anything; it must have some type
        node, refs = self._resolved(dict(value), refs)
        node = self.merged(node, refs)
        _one_type(node)
        _const_to_enum(node)
        _inclusive_bounds(node)
        self._union(node, refs)
        _string_enum(node)
        if "type" not in node and "anyOf" not in node:
            node = {"type": inferred_type(node) or "string", **node}
        self._children(node, refs)
        if node.get("format") not in _FORMATS:
            node.pop("format", None)
        return {key: child for key, child in node.items() if key in _FIELDS}

    def _resolved(self, node: Node, refs: tuple[str, ...]) -> tuple[Node, tuple[str, ...]]:
        """Put what a reference names in its place; one that goes round is any object."""
        ref = node.pop("$ref", None)
        while isinstance(ref, str):
            target = None if ref in refs else lookup(self._root, ref)
            if target is None:
                return {"type": "object", **node}, refs
            refs = (*refs, ref)
            node = {**target, **node}
            ref = target.get("$ref")
            node.pop("$ref", None)
        return node, refs

    def merged(self, node: Node, refs: tuple[str, ...]) -> Node:
        """Fold the members of `allOf` into the schema itself."""
        members = node.pop("allOf", None)
        for member in members if isinstance(members, list) else ():
            if not isinstance(member, dict):
                continue
            part, inner = self._resolved(dict(member), refs)
            part = self.merged(part, inner)
            for key, child in part.items():
                if key == "properties":
                    node[key] = {**as_map(child), **as_map(node.get(key))}
                elif key == "required":
                    node[key] = distinct([*as_list(node.get(key)), *as_list(child)])
                else:
                    node.setdefault(key, child)
        return node

    def _union(self, node: Node, refs: tuple[str, ...]) -> None:
        members = [*as_list(node.pop("anyOf", None)), *as_list(node.pop("oneOf", None))]
        if not members:
            return
        real = [member for member in members if member != {"type": "null"}]
        if len(real) < len(members):
            node["nullable"] = True
        written: list[Json] = distinct([self.node(member, refs) for member in real])
        if len(written) == 1:
            only = as_map(written[0])
            node.update({key: child for key, child in only.items() if key not in node})
        elif written:
            node["anyOf"] = written
            kinds = distinct([as_map(member).get("type") for member in written])
            if len(kinds) == 1 and kinds[0]:
                node.setdefault("type", kinds[0])

    def _children(self, node: Node, refs: tuple[str, ...]) -> None:
        properties = node.get("properties")
        if isinstance(properties, dict):
            node["properties"] = {name: self.node(one, refs) for name, one in properties.items()}
            if "required" in node:
                # A name that is not among the properties is refused.
                required = as_list(node.pop("required"))
                known: list[Json] = [name for name in required if name in properties]
                if known:
                    node["required"] = known
        if node.get("type") == "array":
            node["items"] = self._items(node, refs)

    def _items(self, node: Node, refs: tuple[str, ...]) -> Node:
        """Write what an array holds, which is required; a tuple holds any of its members."""
        items = node.get("items")
        several = [*as_list(node.get("prefixItems")), *as_list(items)]
        return self.node({"anyOf": several} if several else items, refs)


def _one_type(node: Node) -> None:
    """Turn a list of types into one type, `nullable`, or a union."""
    kinds = node.get("type")
    if not isinstance(kinds, list):
        return
    real = [kind for kind in kinds if kind != "null"]
    if len(real) < len(kinds):
        node["nullable"] = True
    del node["type"]
    if len(real) == 1:
        node["type"] = real[0]
    elif real and "anyOf" not in node:
        node["anyOf"] = [{"type": kind} for kind in real]


def _const_to_enum(node: Node) -> None:
    if "const" in node:
        node.setdefault("enum", [node.pop("const")])


def _inclusive_bounds(node: Node) -> None:
    """Let bounds include what they exclude: exact for integers, close for the rest."""
    for exclusive, inclusive, step in _EXCLUSIVE:
        bound = node.pop(exclusive, None)
        if isinstance(bound, (int, float)) and not isinstance(bound, bool):
            node.setdefault(inclusive, bound + step if node.get("type") == "integer" else bound)


def _string_enum(node: Node) -> None:
    """Only strings can be enumerated; other values go into the description."""
    values = node.get("enum")
    if not isinstance(values, list):
        node.pop("enum", None)
        return
    if None in values:
        node["nullable"] = True
        values = [value for value in values if value is not None]
    node.pop("enum")
    if values and all(isinstance(value, str) for value in values):
        node["enum"] = values
        node.setdefault("type", "string")
    elif values:
        shown = ", ".join(msgspec.json.encode(value).decode() for value in values)
        given = node.get("description")
        node["description"] = f"{given} (one of {shown})" if given else f"one of {shown}"
        node.setdefault("type", json_type(values[0]))
