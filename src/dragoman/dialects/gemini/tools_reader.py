"""Decodes a client's tool definitions and tool choice.

Functions come with a schema in one of two languages: JSON Schema, or Google's subset of OpenAPI.  Both become JSON
Schema; Gemini CLI writes the type names of the second into the field of the first.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from dragoman.dialects.decoding import decode_at
from dragoman.dialects.encoding import encode
from dragoman.dialects.gemini.schema import (
    VENDOR,
    FunctionCallingConfig,
    FunctionDeclaration,
    McpServerIn,
    fields_of,
    given,
)
from dragoman.dialects.server_tools import kind_of, read_headers, read_options
from dragoman.errors import MalformedError
from dragoman.turn.request import Tool, ToolChoice
from dragoman.turn.server_tools import McpServer, ServerOptions
from dragoman.turn.tools import ToolLists
from dragoman.wire.json_values import decode_any

_TOOLS: Final[msgspec.json.Decoder[list[dict[str, Raw]] | None]] = msgspec.json.Decoder(
    list[dict[str, Raw]] | None
)
_DECLARATIONS: Final[msgspec.json.Decoder[list[Raw] | None]] = msgspec.json.Decoder(
    list[Raw] | None
)
_DECLARATION: Final = msgspec.json.Decoder(FunctionDeclaration)
# Tools that Google runs, by the kind that other vendors' tools of the sort have.
SERVER_KINDS: Final = {
    "googleSearch": "web_search",
    "urlContext": "web_fetch",
    "codeExecution": "code_execution",
}
MCP_FIELD: Final = "mcpServers"
_CAPITAL: Final = re.compile(r"(?<!^)[A-Z]")
# What a function has in every dialect; everything else is an option of Google's.
_COMMON: Final = frozenset({"name", "description", "parameters", "parametersJsonSchema"})


def _decode_tools(definitions: bytes) -> tuple[Tool, ...]:
    """Return the declared tools.

    Raises:
        MalformedError: a definition is not one.
    """
    tools: list[Tool] = []
    entries = decode_at(_TOOLS, definitions, "$.tools")
    for at, entry in enumerate(entries or ()):
        for name, raw in entry.items():
            path = f"$.tools[{at}].{name}"
            if not given(raw):
                continue
            if name != "functionDeclarations":
                tools.append(_server_tool(name, raw, path))
                continue
            declared = decode_at(_DECLARATIONS, raw, path)
            for position, one in enumerate(declared or ()):
                tools.append(_function(one, f"{path}[{position}]"))
    return tuple(tools)


TOOL_LISTS: Final = ToolLists(_decode_tools)


def _function(raw: Raw, path: str) -> Tool:
    declaration = decode_at(_DECLARATION, raw, path)
    if not declaration.name:
        raise MalformedError("a function needs a name", path=f"{path}.name")
    parameters, other = declaration.parameters, declaration.parameters_json_schema
    if given(parameters) and given(other):
        reason = "a function has `parameters` or `parametersJsonSchema`, not both"
        raise MalformedError(reason, path=path)
    schema: Raw | None = None
    if given(other):
        schema = json_schema(other, f"{path}.parametersJsonSchema", openapi=False)
    elif given(parameters):
        schema = json_schema(parameters, f"{path}.parameters", openapi=True)
    options = (name for name, value in fields_of(raw).items() if given(value))
    return Tool(
        name=declaration.name,
        description=declaration.description or "",
        schema=schema,
        options=tuple(name[:40] for name in options if name not in _COMMON),
        path=path,
    )


def _server_tool(name: str, raw: Raw, path: str) -> Tool:
    kind = SERVER_KINDS.get(name) or _CAPITAL.sub(lambda one: f"_{one[0].lower()}", name)
    return Tool(
        name=kind,
        server=True,
        does=kind_of(kind),
        server_options=_mcp_options(raw) if name == MCP_FIELD else read_options(raw),
        kind=kind,
        vendor=VENDOR,
        raw=raw.copy(),
        path=path,
    )


_SERVERS: Final = msgspec.json.Decoder(list[McpServerIn])


def _mcp_options(raw: Raw) -> ServerOptions:
    """Read the definitions of MCP servers; nothing, if they cannot be read."""
    try:
        defined = _SERVERS.decode(raw)
    except (msgspec.DecodeError, UnicodeError):
        return ServerOptions()
    servers: list[McpServer] = []
    rest: dict[str, None] = {}
    for one in defined:
        to = one.streamable_http_transport
        token, headers = read_headers(to.headers)
        servers.append(McpServer(name=one.name, url=to.url, token=token, headers=headers))
        rest |= dict.fromkeys(name for name in _TRANSPORT if given(getattr(to, name)))
    return ServerOptions(servers=tuple(servers), rest=tuple(rest))


# Settings of a connection to an MCP server that no other vendor has.
_TRANSPORT: Final = ("timeout", "sse_read_timeout", "terminate_on_close")


def decode_choice(config: FunctionCallingConfig | None, tools: Sequence[Tool]) -> ToolChoice | None:
    """Return what the client demands of tool use; None if it says nothing.

    Raises:
        MalformedError: it names a mode that does not exist, or allows a function that is not declared.
    """
    path = "$.toolConfig.functionCallingConfig"
    names = tuple(config.allowed_function_names or ()) if config is not None else ()
    if config is None or (config.mode is None and not names):
        return None
    declared = {tool.name for tool in tools}
    for name in names:
        if name not in declared:
            reason = f"the allowed function `{name[:80]}` is not declared"
            raise MalformedError(reason, path=f"{path}.allowedFunctionNames")
    mode = "AUTO" if config.mode is None else config.mode
    # Enums may come as numbers.
    match str(mode).upper():
        case "AUTO" | "VALIDATED" | "MODE_UNSPECIFIED" | "0" | "1" | "4":
            return ToolChoice("auto", allowed=names)
        case "ANY" | "2":
            if len(names) == 1:
                return ToolChoice("tool", names[0])
            return ToolChoice("required", allowed=names)
        case "NONE" | "3":
            return ToolChoice("none")
    raise MalformedError(f"there is no mode `{str(mode)[:40]}`", path=f"{path}.mode")


# --- schemas ----------------------------------------------------------------------------------------

# In the order of their numbers in Google's language, from 1.
_NUMBERED: Final = ("string", "number", "integer", "boolean", "array", "object", "null")
_TYPES: Final = frozenset(_NUMBERED)
_SHOUTED: Final = re.compile(rb'"type"\s*:\s*(?:\[\s*)?"[A-Z]')
# Keywords whose value is a schema, a list of schemas, or schemas by name.
_SCHEMAS: Final = frozenset(
    {"items", "additionalProperties", "not", "contains", "if", "then", "else"}
)
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
# Names in the other spelling, and in the other language.
_KEYWORDS: Final = {
    "property_ordering": "propertyOrdering",
    "any_of": "anyOf",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "additional_properties": "additionalProperties",
    "ref": "$ref",
    "defs": "$defs",
}
_BOUNDS: Final = frozenset({"minimum", "maximum"})
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_DEFS: Final = "#/defs/"  # the beginning of a reference in Google's language
_COUNTS: Final = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
)


def json_schema(raw: Raw, path: str, *, openapi: bool) -> Raw:
    """Return a schema as JSON Schema; the same object if it is that already.

    Raises:
        MalformedError: it is not an object, or nests too deeply.
    """
    text = bytes(raw)
    if text[:1] != b"{":
        raise MalformedError("a schema is an object", path=path)
    # Gemini CLI writes Google's names of types into JSON Schema.  Case: requests/gemini_cli_3.
    if not openapi and _SHOUTED.search(text) is None:
        return raw.copy()
    try:
        before = decode_any(text)
        after = _walk(before, _openapi_node if openapi else _fold_types)
        return raw.copy() if after == before else Raw(encode(after))
    except RecursionError:
        raise MalformedError("the schema nests too deeply", path=path) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedError(f"the schema is not JSON: {error}", path=path) from None


def _walk(node: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    if not isinstance(node, dict):
        return node
    out: dict[str, Any] = {}
    for key, value in change(node).items():
        if key in _SCHEMAS:
            inner: Any = _walk(value, change)
        elif key in _LISTS and isinstance(value, list):
            inner = [_walk(one, change) for one in value]
        elif key in _MAPS and isinstance(value, dict):
            inner = {name: _walk(one, change) for name, one in value.items()}
        else:
            inner = value
        out[key] = inner
    return out


def _fold_types(node: dict[str, Any]) -> dict[str, Any]:
    kind = node.get("type")
    if isinstance(kind, list):
        return {**node, "type": [_folded(one) for one in kind]}
    return {**node, "type": _folded(kind)} if isinstance(kind, str) else node


def _folded(kind: object) -> object:
    lower = kind.lower() if isinstance(kind, str) else kind
    return lower if lower in _TYPES else kind


def _openapi_node(node: dict[str, Any]) -> dict[str, Any]:
    """Return one node of Google's language as JSON Schema."""
    known = {**node}
    number = known.get("type")
    if type(number) is int and 0 < number <= len(_NUMBERED):
        known["type"] = _NUMBERED[number - 1]
    for key in node:
        name = _KEYWORDS.get(key)
        if name is not None and name not in known:
            known = {name if one == key else one: value for one, value in known.items()}
    out: dict[str, Any] = {}
    for key, value in _fold_types(known).items():
        if key in ("nullable", "propertyOrdering") or (key, value) == ("format", "enum"):
            continue
        if key == "type" and value == "TYPE_UNSPECIFIED":
            continue
        if key == "example":
            out["examples"] = [value]
        elif key == "$ref" and isinstance(value, str) and value.startswith(_DEFS):
            out[key] = f"#/$defs/{value[len(_DEFS) :]}"  # `defs` became `$defs`
        elif key in _COUNTS and isinstance(value, str) and value.isdigit():
            out[key] = int(value[:18])  # int64 may come as a string
        elif key in _BOUNDS and isinstance(value, str) and _NUMBER.fullmatch(value):
            out[key] = float(value) if "." in value else int(value)
        else:
            out[key] = value
    if known.get("nullable") is True:
        _allow_null(out)
    order, properties = known.get("propertyOrdering"), out.get("properties")
    if isinstance(order, list) and isinstance(properties, dict):
        out["properties"] = _ordered(properties, order)
    return out


def _allow_null(node: dict[str, Any]) -> None:
    """Let a node of JSON Schema accept null, too."""
    if "$ref" in node:
        node["anyOf"] = [{"$ref": node.pop("$ref")}, {"type": "null"}]
        return
    kind = node.get("type")
    if isinstance(kind, str) and kind != "null":
        node["type"] = [kind, "null"]
    elif isinstance(node.get("anyOf"), list):
        node["anyOf"] = [*node["anyOf"], {"type": "null"}]
    if isinstance(node.get("enum"), list) and None not in node["enum"]:
        node["enum"] = [*node["enum"], None]


def _ordered(properties: Mapping[str, Any], order: Sequence[object]) -> dict[str, Any]:
    listed = list(dict.fromkeys(one for one in order if isinstance(one, str)))
    first = {name: properties[name] for name in listed if name in properties}
    return first | {name: one for name, one in properties.items() if name not in first}
