"""Decodes a client's tools and tool choice."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.decoding import decode_at
from dragoman.dialects.responses.schema import (
    CHOICE,
    NULL,
    TOOL,
    TOOLS,
    Environment,
    McpAllowedTools,
    McpDefinition,
    ToolDefinition,
)
from dragoman.dialects.server_tools import base_kind, kind_of, read_headers, read_options
from dragoman.errors import MalformedError
from dragoman.turn.events import Flavor
from dragoman.turn.request import Tool, ToolChoice
from dragoman.turn.server_tools import McpServer, ServerOptions
from dragoman.turn.tools import ToolLists

# --- shell and patch tools ------------------------------------------------------------------------
# In the turn their calls have the arguments of a function, so that any model can make them; these are
# the schemas, and the way from an item's `action` or `operation` to arguments and back.


class Shell(Struct, frozen=True):
    """One built-in tool that the client runs."""

    flavor: Flavor
    call_type: str
    output_type: str
    id_prefix: str
    description: str
    schema: Raw


_LOCAL_SHELL_SCHEMA: Final = (
    b'{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}},'
    b'"workdir":{"type":"string"},"timeout_ms":{"type":"integer"},"env":{"type":"object",'
    b'"additionalProperties":{"type":"string"}}},"required":["command"]}'
)

_SHELL_SCHEMA: Final = (
    b'{"type":"object","properties":{"commands":{"type":"array","items":{"type":"string"}},'
    b'"timeout_ms":{"type":"integer"},"max_output_length":{"type":"integer"}},'
    b'"required":["commands"]}'
)

_PATCH_SCHEMA: Final = (
    b'{"type":"object","properties":{"operation":{"type":"object","properties":{"type":{"type":'
    b'"string","enum":["create_file","update_file","delete_file"]},"path":{"type":"string"},'
    b'"diff":{"type":"string"}},"required":["type","path"]}},"required":["operation"]}'
)

SHELLS: Final[dict[str, Shell]] = {
    "local_shell": Shell(
        Flavor.LOCAL_SHELL,
        "local_shell_call",
        "local_shell_call_output",
        "lsh_",
        "Run a command on the user's machine and return its output.",
        Raw(_LOCAL_SHELL_SCHEMA),
    ),
    "shell": Shell(
        Flavor.SHELL,
        "shell_call",
        "shell_call_output",
        "sh_",
        "Run shell commands and return their output.",
        Raw(_SHELL_SCHEMA),
    ),
    "apply_patch": Shell(
        Flavor.APPLY_PATCH,
        "apply_patch_call",
        "apply_patch_call_output",
        "apc_",
        "Create, update or delete a file; `diff` is a V4A diff of its content.",
        Raw(_PATCH_SCHEMA),
    ),
}

BY_FLAVOR: Final = {shell.flavor: shell for shell in SHELLS.values()}

NAME_BY_CALL: Final = {shell.call_type: name for name, shell in SHELLS.items()}

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])

_TEXTS: Final = msgspec.json.Decoder(list[str])


def arguments_of(flavor: Flavor, content: Raw) -> str:
    """Return the arguments in an item's `action` or `operation`."""
    if flavor is Flavor.APPLY_PATCH:
        return f'{{"operation":{bytes(content).decode()}}}'
    if flavor is Flavor.SHELL:
        return bytes(content).decode()
    try:
        action = _OBJECT.decode(content)
    except (msgspec.DecodeError, UnicodeError):
        return bytes(content).decode()
    renamed = {("workdir" if key == "working_directory" else key): action[key] for key in action}
    kept = {key: value for key, value in renamed.items() if key != "type" and value != NULL}
    return msgspec.json.encode(kept).decode()


def content_of(flavor: Flavor, arguments: str) -> Raw | None:
    """Return the `action` or `operation` that arguments say, or None if they do not fit."""
    try:
        given = _OBJECT.decode(arguments)
        if flavor is Flavor.LOCAL_SHELL:
            _TEXTS.decode(given["command"])
            return _local_action(given)
        if flavor is Flavor.SHELL:
            _TEXTS.decode(given["commands"])
            return Raw(msgspec.json.encode(given))
        operation = given.get("operation")
        if operation is None:  # the operation itself, without the object around it
            operation = Raw(msgspec.json.encode(given))
        fields = _OBJECT.decode(operation)
    except (msgspec.DecodeError, UnicodeError, KeyError):
        return None
    return operation if {"type", "path"} <= fields.keys() else None


def _local_action(given: dict[str, Raw]) -> Raw:
    action: dict[str, Raw] = {"type": Raw(b'"exec"'), "command": given["command"]}
    for name in ("env", "timeout_ms", "working_directory", "user"):
        if name in given:
            action[name] = given[name]
    if "workdir" in given:
        action["working_directory"] = given["workdir"]
    action.setdefault("env", Raw(b"{}"))
    return Raw(msgspec.json.encode(action))


# --- tools and tool choice ------------------------------------------------------------------------

_VENDOR: Final = "openai"

_OPTIONS: Final = ("defer_loading", "allowed_callers", "output_schema")


def _declared_tools(definitions: bytes) -> tuple[Tool, ...]:
    """Read the `tools` of a request.

    Raises:
        MalformedError: a definition is not valid; carries its path.
    """
    raws = decode_at(TOOLS, definitions, "$.tools")
    return decode_tools(raws or (), "$.tools")


TOOL_LISTS: Final = ToolLists(_declared_tools)


def decode_tools(raws: Sequence[Raw], path: str, namespace: str = "") -> tuple[Tool, ...]:
    """Read tool definitions; those of a namespace become tools that know it.

    Raises:
        MalformedError: a definition is not valid; carries its path.
    """
    tools: list[Tool] = []
    for index, raw in enumerate(raws):
        at = f"{path}[{index}]"
        given = decode_at(TOOL, raw, at)
        if given.type == "namespace":
            if namespace:
                raise MalformedError("a namespace inside a namespace", path=at)
            tools += decode_tools(given.tools or (), f"{at}.tools", _name(given, at))
        else:
            tools.append(_decode_tool(given, raw, at, namespace))
    return tuple(tools)


def namespace_descriptions(raws: Sequence[Raw]) -> dict[str, str]:
    """Return what the namespaces among valid definitions are for."""
    given = (TOOL.decode(raw) for raw in raws)
    return {
        tool.name: tool.description
        for tool in given
        if tool.type == "namespace" and tool.name and tool.description
    }


def _decode_tool(given: ToolDefinition, raw: Raw, path: str, namespace: str) -> Tool:
    options = tuple(name for name in _OPTIONS if getattr(given, name) not in (None, False, NULL))
    match given.type:
        case "function":
            return Tool(
                name=_name(given, path),
                description=given.description or "",
                schema=_schema(given.parameters, path),
                strict=given.strict,
                namespace=namespace,
                options=options,
                path=path,
            )
        case "custom":
            form = given.format
            grammar = form is not None and form.type == "grammar"
            return Tool(
                name=_name(given, path),
                description=given.description or "",
                flavor=Flavor.CUSTOM,
                namespace=namespace,
                grammar=(form.syntax, form.definition) if form is not None and grammar else None,
                options=options,
                path=path,
            )
        case "local_shell" | "shell" | "apply_patch" if not _in_container(given):
            shell = SHELLS[given.type]
            return Tool(
                name=given.type,
                description=shell.description,
                schema=shell.schema,
                flavor=shell.flavor,
                kind=given.type,
                vendor=_VENDOR,
                raw=raw,
                path=path,
            )
        case _:
            return Tool(
                name=given.name or given.type,
                server=True,
                does=kind_of(given.type),
                server_options=_mcp_options(raw) if given.type == "mcp" else read_options(raw),
                kind=given.type,
                vendor=_VENDOR,
                raw=raw,
                path=path,
            )


_MCP: Final = msgspec.json.Decoder(McpDefinition)
# Settings of an MCP server that no other vendor has.
_MCP_SETTINGS: Final = ("server_description", "defer_loading", "allowed_callers")


def _mcp_options(raw: Raw) -> ServerOptions:
    """Read the definition of an MCP server; nothing, if it cannot be read."""
    try:
        given, fields = _MCP.decode(raw), _OBJECT.decode(raw)
    except (msgspec.DecodeError, UnicodeError):
        return ServerOptions()
    allowed = given.allowed_tools
    own = "connector" if given.connector_id or given.tunnel_id else ""
    if isinstance(allowed, McpAllowedTools):
        own = own or ("read-only tools" if allowed.read_only is not None else "")
        allowed = allowed.tool_names
    token, headers = read_headers(given.headers or {})
    server = McpServer(
        name=given.server_label,
        url=given.server_url or "",
        allowed=None if allowed is None else tuple(allowed),
        token=given.authorization or token,
        headers=headers,
        approval=given.require_approval != "never",  # without a value, the vendor asks
        own=own,
    )
    rest = (name for name in _MCP_SETTINGS if bytes(fields.get(name, b"null")) not in _UNSET)
    return ServerOptions(servers=(server,), rest=tuple(rest))


_UNSET: Final = frozenset({b"null", b"false", b'""'})


def _in_container(given: ToolDefinition) -> bool:
    """Return whether a shell is one that the vendor runs."""
    where = given.environment
    return isinstance(where, Environment) and where.type.startswith("container")


def _name(given: ToolDefinition, path: str) -> str:
    if not given.name:
        raise MalformedError(f"a tool of type {given.type} needs a `name`", path=path)
    return given.name


def _schema(parameters: Raw, path: str) -> Raw | None:
    if parameters == NULL:
        return None
    if not bytes(parameters).startswith(b"{"):
        raise MalformedError("a JSON schema must be an object", path=f"{path}.parameters")
    return parameters


def decode_choice(raw: Raw, tools: Sequence[Tool]) -> ToolChoice | None:
    """Read the tool choice.

    Raises:
        MalformedError: it is not valid, or names a tool that is not declared.
    """
    if raw == NULL:
        return None
    path = "$.tool_choice"
    given = decode_at(CHOICE, raw, path)
    match given:
        case "auto" | "required" | "none":
            return msgspec.convert({"mode": given}, ToolChoice)
        case str():
            raise MalformedError(f"unknown tool choice `{given}`", path=path)
        case _ if given.type == "allowed_tools":
            allowed = tuple(tool.name or tool.type for tool in given.tools)
            return ToolChoice(given.mode, allowed=allowed)
        case _:
            return _named(given.name or given.type, given.namespace or "", tools, path)


def _named(name: str, namespace: str, tools: Sequence[Tool], path: str) -> ToolChoice:
    if not tools:
        return ToolChoice("tool", name, namespace)
    for tool in tools:
        same = tool.name == name or (tool.server and base_kind(tool.kind) == base_kind(name))
        if same and namespace in ("", tool.namespace):
            return ToolChoice("tool", tool.name, tool.namespace)
    raise MalformedError(f"the tool `{name}` is not declared in `tools`", path=path)
