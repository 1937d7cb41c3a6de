"""Converts untyped values to JSON by the types that a tool's schema declares.

    to_json("3", {"integer"})  ->  3          to_json("3", {"string"})  ->  "3"

Numbers keep their digits.  A value that fits none of its declared types becomes a string; no call is lost for it.
"""

import ast
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from dragoman.errors import TooLargeError
from dragoman.turn.request import Tool
from dragoman.wire.json_scanner import JsonScanner
from dragoman.wire.json_values import decode_any, read_float

STRING_ONLY: Final = frozenset({"string"})
STRING_OR_NULL: Final = frozenset({"string", "null"})

# Type names of other languages, which hand-written schemas contain.
_ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("str", "text", "varchar", "char", "enum", "uuid", "date", "datetime"), "string"
    ),
    **dict.fromkeys(("int", "long", "short", "unsigned", "bigint"), "integer"),
    **dict.fromkeys(("double", "decimal", "num"), "number"),
    "bool": "boolean",
    **dict.fromkeys(("dict", "map"), "object"),
    **dict.fromkeys(("list", "arr", "tuple", "set", "sequence"), "array"),
}
_ALIAS_PREFIXES: Final = (("int", "integer"), ("uint", "integer"), ("float", "number"))
_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_LOOSE_INTEGER: Final = re.compile(r"([+-]?)0*(0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LOOSE_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEANS: Final[Mapping[str, str]] = {"true": "true", "1": "true", "false": "false", "0": "false"}
# Longer Python literals are not evaluated.
_MAX_LITERAL_CHARS: Final = 64 * 1024
_MAX_REFS: Final = 16  # hops from `$ref` to `$ref`: more is a cycle


_SCHEMA: Final[msgspec.json.Decoder[dict[str, Any]]] = msgspec.json.Decoder(
    dict[str, Any], float_hook=read_float
)


@cache
def text_without(chars: str | None, *, json: bool) -> Callable[[str], re.Match[str] | None]:
    """Return a function that matches text without any of these characters; None: all of them.

    `json`: nor with characters that a JSON string must escape.
    """
    if chars is None:
        return re.compile("").fullmatch
    escapes = '"\\\\\x00-\x1f\ud800-\udfff' if json else ""
    return re.compile(f"[^{escapes}{re.escape(chars)}]*").fullmatch


# Text that needs no escapes in a JSON string.
PLAIN: Final = text_without("", json=True)


class ToolParameters:
    """The declared parameters of one tool."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._schema: dict[str, Any] | None = None
        self._types: dict[str, frozenset[str]] = {}

    @property
    def schema(self) -> dict[str, Any]:
        if self._schema is None:
            try:
                self._schema = _SCHEMA.decode(self._tool.schema or b"{}")
            except msgspec.DecodeError:
                self._schema = {}
        return self._schema

    @property
    def properties(self) -> dict[str, Any]:
        found = self.schema.get("properties")
        return found if isinstance(found, dict) else {}

    @property
    def required(self) -> frozenset[str]:
        found = self.schema.get("required")
        return (
            frozenset(key for key in found if isinstance(key, str))
            if isinstance(found, list)
            else frozenset()
        )

    def declared_types(self, key: str) -> frozenset[str]:
        """Return the types that the schema declares for a parameter; empty if it declares none."""
        return frozenset(_collect(self.properties.get(key), self.schema, _MAX_REFS))

    def types(self, key: str) -> frozenset[str]:
        """Return the types that a parameter may have; string if the schema declares none."""
        known = self._types.get(key)
        if known is None:
            known = types_of(self.properties.get(key), self.schema)
            if key in self.properties:  # keys that models invent are not cached
                self._types[key] = known
        return known


def types_of(declared: Any, root: dict[str, Any]) -> frozenset[str]:
    """Return the types that a schema allows; string if it declares none."""
    return frozenset(_collect(declared, root, _MAX_REFS)) or STRING_ONLY


def resolved(declared: Any, root: dict[str, Any]) -> Any:
    """Follow local `$ref`s to the schema that they name."""
    for _ in range(_MAX_REFS):
        if not isinstance(declared, dict) or not isinstance(declared.get("$ref"), str):
            break
        declared = _follow(declared["$ref"], root)
    return declared


def element_schema(declared: Any, key: str, root: dict[str, Any], *, array: bool) -> Any:
    """Return the schema of a property, or of an array's elements; None if there is none."""
    declared = resolved(declared, root)
    if not isinstance(declared, dict):
        return None
    if array:
        return declared.get("items")
    properties = declared.get("properties")
    return properties.get(key) if isinstance(properties, dict) else None


def _collect(declared: Any, root: dict[str, Any], hops: int) -> set[str]:
    if not isinstance(declared, dict):
        return set()
    reference = declared.get("$ref")
    if isinstance(reference, str):
        return _collect(_follow(reference, root), root, hops - 1) if hops else set()
    types: set[str] = set()
    stated = declared.get("type")
    for one in stated if isinstance(stated, list) else [stated]:
        if isinstance(one, str):
            types.add(_named(one))
    if types:
        return types
    values = declared.get("enum")
    if isinstance(values, list):
        types.update(_type_of(value) for value in values)
    if "const" in declared:
        types.add(_type_of(declared["const"]))
    for union in ("anyOf", "oneOf", "allOf"):
        branches = declared.get(union)
        if isinstance(branches, list) and hops:
            for branch in branches:
                types |= _collect(branch, root, hops - 1)
    if not types and "properties" in declared:
        types.add("object")
    if not types and "items" in declared:
        types.add("array")
    return types


def _follow(reference: str, root: dict[str, Any]) -> Any:
    if not reference.startswith("#/"):
        return None
    found: Any = root
    for step in reference[2:].split("/"):
        found = (
            found.get(step.replace("~1", "/").replace("~0", "~"))
            if isinstance(found, dict)
            else None
        )
    return found


def _named(word: str) -> str:
    word = word.partition("(")[0].strip().lower()
    if word in _TYPES:
        return word
    if word in _ALIASES:
        return _ALIASES[word]
    for prefix, meaning in _ALIAS_PREFIXES:
        if word.startswith(prefix):
            return meaning
    return "string"


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def to_json(text: str, types: frozenset[str]) -> str:
    """Return the JSON for a value written as text, converted to one of `types`."""
    if types != STRING_ONLY:
        bare = text.strip()
        for kind, convert in _CONVERTERS:
            if kind in types:
                value = convert(bare)
                if value is not None:
                    return value
        if "string" not in types:
            if bare.lower() == "null":
                return "null"
            value = _any(bare)
            if value is not None:
                return value
    return quoted(text)


def json_of_types(text: str, allowed: frozenset[str]) -> str:
    """Return text as JSON, or as a string if the schema allows a string and not the JSON value's type."""
    bare = text.strip()
    value = _decoded(bare)
    if value is None and bare != "null":
        return quoted(text)
    kind = _type_of(value)
    fits = kind in allowed or (kind == "integer" and "number" in allowed)
    return quoted(text) if "string" in allowed and not fits else bare


def loose_number(text: str) -> str | None:
    """Return the JSON for a number with a plus sign, leading zeros or a bare point, or None."""
    return _integer(text) or _number(text)


def quoted(text: str) -> str:
    """Return a JSON string."""
    return f'"{escaped(text)}"'


def truncated(text: str) -> str:
    """Return JSON for a value that was cut: what there is of it, and never a whole string.

    Case: qwen3_coder/n0_4_cut_inside_an_object.
    """
    try:
        is_json = JsonScanner().feed(text) == len(text)
    except TooLargeError:
        is_json = False
    return text if is_json else f'"{escaped(text)}'


def escaped(text: str) -> str:
    """Return the inside of a JSON string; lone surrogates become escapes."""
    if PLAIN(text):
        return text
    try:
        return msgspec.json.encode(text)[1:-1].decode()
    except UnicodeEncodeError:
        return "".join(
            f"\\u{ord(char):04x}"
            if "\ud800" <= char <= "\udfff"
            else msgspec.json.encode(char)[1:-1].decode()
            for char in text
        )


def _null(text: str) -> str | None:
    return "null" if text.lower() == "null" else None


def _integer(text: str) -> str | None:
    if _INTEGER.fullmatch(text):
        return text
    match = _LOOSE_INTEGER.fullmatch(text)
    return match and ("-" if match[1] == "-" else "") + match[2]


def _number(text: str) -> str | None:
    if not _LOOSE_NUMBER.fullmatch(text):
        return None
    value = float(text)
    if not math.isfinite(value):
        return None
    return text if _NUMBER.fullmatch(text) else repr(value)


def _boolean(text: str) -> str | None:
    return _BOOLEANS.get(text.lower())


def _object(text: str) -> str | None:
    return _container(text, dict)


def _array(text: str) -> str | None:
    return _container(text, list)


def _container(text: str, kind: type) -> str | None:
    if isinstance(_decoded(text), kind):
        return text
    unescaped = _unescaped(text)
    if unescaped is not None and isinstance(_decoded(unescaped), kind):
        return unescaped  # case: glm47/n2_2_escaped_array
    value = _literal(text)
    return msgspec.json.encode(value).decode() if isinstance(value, kind) else None


def _unescaped(text: str) -> str | None:
    """Return text with one level of JSON escapes removed, or None if it has none."""
    if '\\"' not in text:
        return None
    value = _decoded(f'"{text}"')
    return value if isinstance(value, str) else None


def _any(text: str) -> str | None:
    return None if _decoded(text) is None else text


def _decoded(text: str) -> Any:
    try:
        return decode_any(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def python_literal(text: str) -> Any:
    """Evaluate a Python literal; sets become lists, in the order of the text.  Raises `ValueError` if it is not one."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return ast.literal_eval(_SetsToLists().visit(tree))
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(str(error)) from error


class _SetsToLists(ast.NodeTransformer):
    """Case: qwen3_coder/n5_2_set."""

    def visit_Set(self, node: ast.Set) -> ast.List:
        self.generic_visit(node)
        return ast.List(node.elts, ast.Load())


def _literal(text: str) -> Any:
    """Evaluate a Python container; tuples and sets become lists."""
    if len(text) > _MAX_LITERAL_CHARS or not text.startswith(("{", "[", "(", "set(")):
        return None
    try:
        # A round trip turns tuples into lists and rejects values that JSON cannot express.
        return decode_any(msgspec.json.encode(python_literal(text)))
    except (ValueError, TypeError, RecursionError, msgspec.DecodeError):
        return None


_CONVERTERS: Final = (
    ("null", _null),
    ("integer", _integer),
    ("number", _number),
    ("boolean", _boolean),
    ("object", _object),
    ("array", _array),
)
