"""Encodes tools and tool choice for a Messages upstream."""

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.context import Target
from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.history_writer import CacheMarks, marked_tools
from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.dialects.server_tools import (
    kept_options,
    may_search,
    mcp_obstacle,
    written_place,
)
from dragoman.dialects.tool_policy import (
    FREE_INPUT,
    NO_ARGUMENTS,
    WrittenChoice,
    declared_tools,
    flat_name,
    function_description,
    parallel_flag,
    refuse_schemaless,
    strict_flag,
    written_choice,
)
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Flavor
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request, Tool
from dragoman.turn.server_tools import McpServer, ServerKind
from dragoman.turn.tools import made_once, wire_name

# --- definitions ----------------------------------------------------------------------------------

_OutTool: TypeAlias = schema.ToolDefinition | Raw

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])

# The vendor's tools that replace others': the version that every host knows, and the options it takes.
_OWN_TOOLS: Final[dict[ServerKind, tuple[str, ...]]] = {
    ServerKind.WEB_SEARCH: ("web_search_20250305", "max_uses", "allowed", "blocked", "place"),
    ServerKind.WEB_FETCH: ("web_fetch_20250910", "max_uses", "allowed", "blocked", "max_tokens"),
    ServerKind.CODE: ("code_execution_20250825",),
}


class Definitions(Struct, frozen=True, gc=False):
    """The tools of a request as an upstream gets them."""

    names: dict[str, str]  # on the wire, by the name that the client's choice has there
    json: Raw | None  # all of them, as a list; None: there are none
    skipped: int  # how many of the cache marks that follow are too many
    losses: tuple[Loss, ...]
    servers: Raw | None = None  # MCP servers that the tools are of, as a list


class Audience(Struct, frozen=True, gc=False):
    """The upstream that gets the definitions."""

    profile: Profile
    skipped: int  # how many of the cache marks are too many


@made_once
def define(tools: tuple[Tool, ...], audience: Audience) -> Definitions:
    """Return the definitions.

    Raises:
        UntranslatableError: a tool has no form that the upstream takes.
    """
    definer = _Definer(audience)
    defined = [one for one in map(definer.define, tools) if one is not None]
    defined += definer.toolsets
    return Definitions(
        definer.names,
        Raw(encode(defined)) if defined else None,
        definer.marks.skipped,
        tuple(definer.losses),
        Raw(encode(definer.servers)) if definer.servers else None,
    )


class _Definer:
    """Define one tool after the other."""

    def __init__(self, audience: Audience) -> None:
        self.names: dict[str, str] = {}
        self.losses: list[Loss] = []
        self.marks = CacheMarks(audience.skipped)
        self.toolsets: list[_OutTool] = []  # of MCP servers
        self.servers: list[dict[str, str]] = []
        self._profile = audience.profile
        self._native = audience.profile.vendor_tools

    def define(self, tool: Tool) -> _OutTool | None:
        if tool.server:
            return self._server_tool(tool)
        if tool.raw is not None and tool.vendor == schema.VENDOR and self._native:
            self.names[tool.name] = tool.name
            self.marks.take(tool.cache)
            return tool.raw
        refuse_schemaless(tool)
        name = flat_name(tool, self.losses)
        self.names[name] = name
        custom = tool.flavor is Flavor.CUSTOM
        options = self._options(tool)
        return schema.ToolDefinition(
            name=name,
            description=function_description(tool, self.losses, examples=False) or None,
            input_schema=FREE_INPUT if custom else _object_schema(tool.schema),
            strict=strict_flag(tool, self._profile, self.losses) or None,
            defer_loading="defer_loading" in options or None,
            eager_input_streaming="eager_input_streaming" in options or None,
            input_examples=list(tool.examples) or None,
            cache_control=self.marks.take(tool.cache),
        )

    def _options(self, tool: Tool) -> frozenset[str]:
        """Return the options of a tool that the upstream takes; the others are reported."""
        kept: set[str] = set()
        for option in tool.options:
            # Only the vendor searches the tools that it is to hold back.
            if option == "eager_input_streaming" or (option == "defer_loading" and self._native):
                kept.add(option)
            else:
                self.losses.append(Loss("tool_option_dropped", tool.path, option))
        return frozenset(kept)

    def _server_tool(self, tool: Tool) -> _OutTool | None:
        does = tool.does or ServerKind.OTHER
        known = self._profile.runs(does, "anthropic")
        if tool.vendor == schema.VENDOR and tool.raw is not None and (known or self._native):
            self.marks.take(tool.cache)
            self.names[tool.name] = tool.name
            return tool.raw
        self.marks.take(tool.cache)
        if tool.vendor == schema.VENDOR and tool.raw is None and self._native:
            return None  # the field is sent as it is
        if known and does is ServerKind.MCP:
            self._mcp(tool)
            return None
        if known and does in _OWN_TOOLS and may_search(tool, self._profile):
            self.names[wire_name(tool.name)] = str(does)
            self.losses.append(Loss("server_tool_mapped", tool.path, _OWN_TOOLS[does][0]))
            return Raw(encode(self._own_tool(tool, does)))
        detail = "cached search only" if does in _OWN_TOOLS and known else tool.kind or tool.name
        self.losses.append(Loss("server_tool_dropped", tool.path, detail))
        return None

    def _mcp(self, tool: Tool) -> None:
        """Declare the tools of MCP servers: the servers have a separate list."""
        why = mcp_obstacle(tool, "anthropic", self._profile)
        if why:
            self.losses.append(Loss("server_tool_dropped", tool.path, f"mcp: {why}"))
            return
        asked = kept_options(tool, (), self.losses)
        for one in asked.servers:
            token = {"authorization_token": one.token} if one.token else {}
            self.servers.append({"type": "url", "name": one.name, "url": one.url, **token})
            self.toolsets.append(Raw(encode(_toolset(one))))
        self.names[wire_name(tool.name)] = ""  # a choice cannot name a server
        self.losses.append(Loss("server_tool_mapped", tool.path, "mcp_toolset"))

    def _own_tool(self, tool: Tool, does: ServerKind) -> dict[str, object]:
        """Return the vendor's tool that does the same as another vendor's."""
        kind, *kept = _OWN_TOOLS[does]
        asked = kept_options(tool, kept, self.losses)
        out: dict[str, object] = {"type": kind, "name": str(does)}
        if asked.max_uses is not None:
            out["max_uses"] = asked.max_uses
        # One list or the other, never both.
        if asked.allowed:
            out["allowed_domains"] = asked.allowed
            if asked.blocked:
                self.losses.append(Loss("tool_option_dropped", tool.path, "blocked_domains"))
        elif asked.blocked:
            out["blocked_domains"] = asked.blocked
        if asked.place is not None:
            out["user_location"] = written_place(asked.place)
        if asked.max_tokens is not None:
            out["max_content_tokens"] = asked.max_tokens
        return out


def _toolset(server: McpServer) -> dict[str, object]:
    out: dict[str, object] = {"type": "mcp_toolset", "mcp_server_name": server.name}
    if server.allowed is not None:
        out["default_config"] = schema.McpToolConfig(enabled=False)
        out["configs"] = {name: schema.McpToolConfig(enabled=True) for name in server.allowed}
    elif server.blocked:
        out["configs"] = {name: schema.McpToolConfig(enabled=False) for name in server.blocked}
    return out


def _object_schema(parameters: Raw | None) -> Raw:
    """Return a schema with `"type": "object"`, which this dialect demands; unchanged if it has it."""
    if parameters is None:
        return NO_ARGUMENTS
    try:
        fields = _OBJECT.decode(parameters)
    except msgspec.DecodeError:
        return NO_ARGUMENTS
    if bytes(fields.get("type", Raw(b""))) == b'"object"':
        return parameters
    return Raw(encode({"type": "object", **{key: fields[key] for key in fields if key != "type"}}))


# --- tools and tool choice ------------------------------------------------------------------------


class WrittenTools(Struct, frozen=True, gc=False):
    """The fields of an upstream's request that declare tools; None: the field is left out."""

    tools: Raw | None
    choice: schema.ToolChoice | None
    servers: Raw | None  # MCP servers that the tools are of


def encode_tools(
    request: Request, target: Target, marks: CacheMarks, losses: list[Loss]
) -> WrittenTools:
    """Return the definitions, if there are any, and the choice.

    Raises:
        UntranslatableError: a tool has no form that the upstream takes, or the choice forces one that the
            upstream does not have.
    """
    profile = target.profile
    tools = declared_tools(request, profile)
    marked = marked_tools(request.tools, None)
    sent = define(tools, Audience(profile, marks.skipped if marked else 0))
    if marked:
        marks.skipped = sent.skipped
    losses += sent.losses
    has_tools = sent.json is not None
    parallel = parallel_flag(request, profile, losses, has_tools=has_tools)
    serial = True if parallel is False else None
    choice = request.tool_choice
    if choice is None:
        auto = schema.ToolChoice("auto", None, serial) if serial else None
        return WrittenTools(sent.json, auto, sent.servers)
    wire = wire_name(choice.name, choice.namespace) if choice.name else ""
    written = written_choice(
        request,
        profile,
        losses,
        has_tools=has_tools,
        has_forced=wire in sent.names if wire else has_tools,
    )
    name = sent.names.get(wire, wire)
    if written.mode == "tool" and not name:
        losses.append(
            Loss("tool_choice_adjusted", path_of(request, "tool_choice"), f"{wire} became any")
        )
    chosen = _choice(written, name, serial=serial)
    if not written.with_tools:
        return WrittenTools(None, chosen, None)
    return WrittenTools(sent.json, chosen, sent.servers)


def _choice(written: WrittenChoice, name: str, *, serial: bool | None) -> schema.ToolChoice | None:
    match written.mode:
        case None:
            return None
        case "none":
            return schema.ToolChoice("none")
        case "auto":
            return schema.ToolChoice("auto", None, serial)
        case "tool" if name:
            return schema.ToolChoice("tool", name, serial)
        case "required" | "tool":
            return schema.ToolChoice("any", None, serial)
