"""Decodes a client's tool definitions and tool choice.

Three sorts of tools come under one list: functions of the client, the vendor's own tools that the
client runs (a shell, an editor, a memory), and tools that the vendor runs.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Raw, structs

from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.history_reader import cache_hint
from dragoman.dialects.decoding import decode, decode_at
from dragoman.dialects.paths import entry_paths
from dragoman.dialects.server_tools import kind_of, read_options
from dragoman.errors import MalformedError
from dragoman.turn.request import Tool, ToolChoice
from dragoman.turn.server_tools import McpServer, ServerKind, ServerOptions
from dragoman.turn.tools import ToolLists, made_once

_TOOLS: Final[msgspec.json.Decoder[list[schema.ToolDefinition] | None]] = msgspec.json.Decoder(
    list[schema.ToolDefinition] | None
)

_RAW_TOOLS: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])

_DATED: Final = re.compile(r"(?P<kind>[a-z][a-z0-9_]*?)_(?P<date>\d{8})")

# Kinds of the vendor's tools that a client runs itself and that no other vendor knows by themselves.
_TOOLSETS: Final = frozenset({"computer", "computer_toolset", "browser_toolset"})

# Kinds that have another name elsewhere.
_KINDS: Final = {"tool_search_tool_regex": "tool_search", "tool_search_tool_bm25": "tool_search"}

# Of functions, which no other dialect has.
_OPTIONS: Final = ("defer_loading", "eager_input_streaming", "allowed_callers")

_NO_OPTIONS: Final = (None, None, None)

_options_of: Final = attrgetter(*_OPTIONS)

# Server tools that come without a date in their type.
_UNDATED: Final = frozenset({"mcp_toolset"})

_EDIT_FIELDS: Final = (
    b'"path":{"type":"string","description":"Absolute path of the file or directory"},'
    b'"file_text":{"type":"string","description":"For create: the content of the file"},'
    b'"old_str":{"type":"string","description":"For str_replace: the text to replace"},'
    b'"new_str":{"type":"string","description":"For str_replace: the text to put there"},'
    b'"insert_line":{"type":"integer","description":"For insert: the line after which to insert"},'
    b'"insert_text":{"type":"string","description":"For insert: the text to insert"},'
    b'"view_range":{"type":"array","items":{"type":"integer"},"description":"For view: first and last'
    b' line"}'
)


def _commands(*names: bytes) -> bytes:
    return b'"command":{"type":"string","enum":[%b]}' % b",".join(b'"%b"' % name for name in names)


# What the vendor's client-run tools are and take, for upstreams that do not know them by their type.
BUILT_IN: Final[dict[str, tuple[str, Raw]]] = {
    "bash": (
        "Run a command in a persistent shell session, or restart the session.",
        Raw(
            b'{"type":"object","properties":{'
            b'"command":{"type":"string","description":"The command to run"},'
            b'"restart":{"type":"boolean","description":"Restart the session instead"}}}'
        ),
    ),
    "text_editor": (
        "View, create and edit text files.",
        Raw(
            b'{"type":"object","properties":{%b,%b},"required":["command","path"]}'
            % (_commands(b"view", b"create", b"str_replace", b"insert", b"undo_edit"), _EDIT_FIELDS)
        ),
    ),
    "memory": (
        "Keep notes in files under /memories that last between conversations.",
        Raw(
            b'{"type":"object","properties":{%b,%b,'
            b'"old_path":{"type":"string","description":"For rename: the present path"},'
            b'"new_path":{"type":"string","description":"For rename: the new path"}},'
            b'"required":["command"]}'
            % (
                _commands(b"view", b"create", b"str_replace", b"insert", b"delete", b"rename"),
                _EDIT_FIELDS,
            )
        ),
    ),
}


def _decode_tools(definitions: bytes) -> tuple[Tool, ...]:
    """Return the declared tools; definitions of the vendor's own tools keep their bytes.

    Raises:
        MalformedError: a definition is not one.
    """
    listed = decode_at(_TOOLS, definitions, "$.tools") or ()
    paths = entry_paths("tools", len(listed))
    raws: list[Raw] | None = None
    tools: list[Tool] = []
    for at, definition in enumerate(listed):
        path = paths[at]
        if definition.type is None or definition.type == "custom":
            tools.append(_function(definition, path))
        else:
            if raws is None:
                raws = decode(_RAW_TOOLS, definitions)
            tools.append(_vendor_tool(definition, raws[at], path))
    return tuple(tools)


TOOL_LISTS: Final = ToolLists(_decode_tools)


def _function(definition: schema.ToolDefinition, path: str) -> Tool:
    if not definition.name:
        raise MalformedError("a tool needs a name", path=f"{path}.name")
    parameters = definition.input_schema
    if parameters and not bytes(parameters).startswith(b"{"):
        raise MalformedError("a tool's schema must be an object", path=f"{path}.input_schema")
    examples, mark = definition.input_examples, definition.cache_control
    wanted = _options_of(definition)
    return Tool(
        name=definition.name,
        description=definition.description or "",
        schema=parameters or None,
        strict=definition.strict,
        examples=() if examples is None else tuple(examples),
        options=() if wanted == _NO_OPTIONS else tuple(compress(_OPTIONS, wanted)),
        cache=None if mark is None else cache_hint(mark),
        path=path,
    )


def _vendor_tool(definition: schema.ToolDefinition, raw: Raw, path: str) -> Tool:
    wire_type = definition.type or ""
    match = _DATED.fullmatch(wire_type)
    if match is None and wire_type not in _UNDATED:
        raise MalformedError(f"there are no tools of type `{wire_type}`", path=f"{path}.type")
    kind = match["kind"] if match else wire_type
    kind = _KINDS.get(kind, kind)
    description, parameters = BUILT_IN.get(kind, ("", None))
    server = parameters is None and kind not in _TOOLSETS
    return Tool(
        name=definition.name or kind,
        description=description,
        schema=parameters,
        server=server,
        does=kind_of(kind) if server else None,
        server_options=read_options(raw) if server and wire_type not in _UNDATED else None,
        kind=kind,
        vendor=schema.VENDOR,
        raw=raw,
        cache=cache_hint(definition.cache_control),
        path=path,
    )


@made_once
def without_deferred(tools: tuple[Tool, ...], references: tuple[str, ...]) -> tuple[Tool, ...]:
    """Leave out tools that the client defers until its own search has found them.

    If the vendor runs the search, all tools are kept.
    """
    if not any(tool.options for tool in tools) or any(tool.kind == "tool_search" for tool in tools):
        return tools
    return tuple(
        tool for tool in tools if "defer_loading" not in tool.options or tool.name in references
    )


# --- MCP servers ------------------------------------------------------------------------------------

_NO_SERVERS: Final = frozenset({b"", b"null", b"[]"})
_SERVERS: Final = msgspec.json.Decoder(list[schema.McpServerDefinition])
_TOOLSET: Final = msgspec.json.Decoder(schema.McpToolset)


def with_servers(tools: tuple[Tool, ...], servers: Raw) -> tuple[Tool, ...]:
    """Give each toolset its MCP server, which the request defines beside the tools.

    Servers that no toolset names become a tool: the vendor's older beta declares all of their tools so.
    """
    if bytes(servers) in _NO_SERVERS:
        return tools
    try:
        defined = _SERVERS.decode(servers)
    except (msgspec.DecodeError, UnicodeDecodeError):
        defined = []
    if any(tool.does is ServerKind.MCP for tool in tools):
        named = {one.name: one for one in defined}
        return tuple(_with_server(tool, named) for tool in tools)
    beside = Tool(
        name="mcp",
        server=True,
        does=ServerKind.MCP,
        kind="mcp_servers",
        vendor=schema.VENDOR,
        server_options=ServerOptions(servers=tuple(map(_server, defined))),
        path="$.mcp_servers",
    )
    return (*tools, beside)


def _with_server(tool: Tool, servers: Mapping[str, schema.McpServerDefinition]) -> Tool:
    if tool.does is not ServerKind.MCP or tool.raw is None:
        return tool
    try:
        toolset = _TOOLSET.decode(tool.raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return tool
    defined = servers.get(toolset.mcp_server_name)
    if defined is None:
        return tool
    everywhere = toolset.default_config or schema.McpToolConfig()
    configs = toolset.configs or {}
    server = _server(defined)
    if everywhere.enabled is False:
        allowed = tuple(name for name, one in configs.items() if one.enabled)
        server = structs.replace(server, allowed=allowed)
    else:
        blocked = tuple(name for name, one in configs.items() if one.enabled is False)
        server = structs.replace(server, blocked=blocked)
    deferred = any(one.defer_loading for one in (everywhere, *configs.values()))
    rest = (*["defer_loading"] * deferred, *["tools"] * bool(toolset.tools))
    return structs.replace(tool, server_options=ServerOptions(servers=(server,), rest=rest))


def _server(defined: schema.McpServerDefinition) -> McpServer:
    limits = defined.tool_configuration
    allowed = None if limits is None or limits.allowed_tools is None else limits.allowed_tools
    if limits is not None and limits.enabled is False:
        allowed = []
    return McpServer(
        name=defined.name,
        url=defined.url,
        allowed=None if allowed is None else tuple(allowed),
        token=defined.authorization_token or "",
    )


def decode_choice(choice: schema.ToolChoice, tools: Sequence[Tool]) -> ToolChoice:
    """Return what the client demands of tool use.

    Raises:
        MalformedError: it forces a tool that is not declared.
    """
    match choice.type:
        case "auto":
            return ToolChoice("auto")
        case "any":
            return ToolChoice("required")
        case "none":
            return ToolChoice("none")
        case "tool":
            name = choice.name or ""
            if not name:
                raise MalformedError("a forced tool needs its name", path="$.tool_choice.name")
            if tools and name not in {tool.name for tool in tools}:
                reason = f"the forced tool `{name}` is not declared"
                raise MalformedError(reason, path="$.tool_choice.name")
            return ToolChoice("tool", name)
