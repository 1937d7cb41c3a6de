"""Rewrites schemas to the part of JSON Schema that an upstream accepts.

Pure and deterministic: the same schema gives the same bytes, and one that needs no change is returned
as the same object, so that prefix caches stay warm.  Knows keywords; must not know any dialect.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Raw

from dragoman.errors import MalformedError, MisuseError, UntranslatableError
from dragoman.profiles.gemini import gemini
from dragoman.profiles.keywords import (
    UNIONS,
    Json,
    Node,
    inferred_type,
    object_root,
    walk,
    without,
)
from dragoman.wire.json_values import decode_any

# What picky servers refuse and no model misses.
_NOT_PLAIN: Final = frozenset({"$schema", "format", "additionalProperties", "default"})


def rewrite(schema: Raw, dialect: str, *, path: str = "") -> Raw:
    """Return `schema` as the flavour `dialect` wants it; the same object if it is so already.

    Raises:
        MalformedError: it is not JSON.
        UntranslatableError: it nests too deeply, or grows too large once its references are written out.
    """
    if dialect == "any":
        return schema
    change = _DIALECTS.get(dialect)
    if change is None:
        raise MisuseError(f"no schema dialect `{dialect}`")
    try:
        before: Json = decode_any(schema)
        after = change(before)
    except msgspec.DecodeError as error:
        raise MalformedError(f"the schema is not valid JSON: {error}", path=path) from None
    except RecursionError:
        raise UntranslatableError("the schema nests too deeply", path=path) from None
    except OverflowError:
        raise UntranslatableError("the schema's references grow too large", path=path) from None
    return schema if after == before else Raw(msgspec.json.encode(after))


# --- plain ----------------------------------------------------------------------------------------


def _plain(schema: Json) -> Json:
    return walk(
        schema,
        lambda node: {key: value for key, value in node.items() if key not in _NOT_PLAIN},
    )


# --- moonshot -------------------------------------------------------------------------------------


def _moonshot(schema: Json) -> Json:
    """Kimi's validator: an object at the root, `type` inside the members of a union, no tuples."""
    return walk(object_root(schema), _moonshot_node)


def _moonshot_node(node: Node) -> Node:
    items = node.get("items")
    if isinstance(items, list):
        before = node.get("prefixItems")
        node = without(node, "items", "additionalItems", "prefixItems")
        node["prefixItems"] = [*(before if isinstance(before, list) else []), *items]
    elif isinstance(items, bool):
        node = without(node, "items")
    union = node.get("anyOf")
    if not isinstance(union, list):
        return node
    kind = node.get("type")
    node = without(node, "type")
    node["anyOf"] = [_typed(member, kind) for member in union]
    return node


def _typed(member: Json, kind: Json) -> Json:
    """Give a member of a union a type, if one can be inferred."""
    if not isinstance(member, dict) or "type" in member or "$ref" in member:
        return member
    if any(union in member for union in UNIONS):
        return member
    kind = kind or inferred_type(member)
    return {"type": kind, **member} if kind else member


_DIALECTS: Final[dict[str, Callable[[Json], Json]]] = {
    "plain": _plain,
    "moonshot": _moonshot,
    "gemini": gemini,
}


# --- `$schema` --------------------------------------------------------------------------------------

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],]', re.DOTALL)


def without_meta(schema: Raw) -> Raw:
    """Return `schema` without its `$schema` keyword, every other byte as it was.

    Only the keyword of the schema itself goes: a property of that name is the tool's own.
    """
    text = bytes(schema)
    # `in` would first take what is looked for as a number, and that fails, at some cost.
    if text.find(b'"$schema"') < 0 or not text.lstrip().startswith(b"{"):
        return schema
    members = list(_members(text))
    for at, (key, start, end) in enumerate(members):
        if key != b'"$schema"':
            continue
        if at + 1 < len(members):
            return Raw(text[:start] + text[members[at + 1][1] :])
        if at:
            return Raw(text[: members[at - 1][2]] + text[end:])
        return Raw(text[:start] + text[end:])
    return schema


def _members(text: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield key, start and end of each member of the object that `text` is."""
    depth = 0
    key = b""
    start = end = 0
    for token in _TOKEN.finditer(text):
        char = token.group()[:1]
        if char in b"{[":
            depth += 1
        elif char in b"}]":
            depth -= 1
        elif depth == 1 and char == b'"' and not key:
            key, start = token.group(), token.start()
        if key and (depth == 0 or (depth == 1 and char == b",")):
            end = start + len(text[start : token.start()].rstrip())
            yield key, start, end
            key = b""
