"""Encodes tools and tool choice for a Gemini upstream."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.context import Target
from dragoman.dialects.decoding import decode_or_none
from dragoman.dialects.encoding import encode
from dragoman.dialects.gemini.schema import (
    NO_RAW,
    VENDOR,
    FunctionCallingConfig,
    FunctionDeclaration,
    McpServerIn,
    McpTransport,
)
from dragoman.dialects.gemini.tools_reader import MCP_FIELD, SERVER_KINDS
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import fitted_schema
from dragoman.dialects.server_tools import (
    kept_options,
    may_search,
    mcp_obstacle,
    options_of,
    written_headers,
)
from dragoman.dialects.tool_policy import (
    FREE_INPUT,
    declared_tools,
    function_description,
    parallel_flag,
    refuse_schemaless,
    strict_flag,
    written_choice,
)
from dragoman.profiles.profile import Profile
from dragoman.profiles.schema import without_meta
from dragoman.turn.events import Flavor
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request, Tool
from dragoman.turn.server_tools import ServerKind
from dragoman.turn.tools import made_once, wire_name

_FIELDS: Final[msgspec.json.Decoder[dict[str, Raw]]] = msgspec.json.Decoder(dict[str, Raw])
_OWN_NAMES: Final = {kind: name for name, kind in SERVER_KINDS.items()}
_EMPTY: Final = frozenset({b"{}", b"null", b""})
# Keywords with which a schema without properties still says something.
_MEANT: Final = ("properties", "$ref", "anyOf", "oneOf", "allOf")
# Keywords that mean nothing for an object without properties.
_WITHOUT_MEANING: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "title"}
    | {"$schema", "$id", "$defs", "definitions"}
)

# --- names ----------------------------------------------------------------------------------------
# Google takes dots and colons, which no other vendor does, and no digit or hyphen at the beginning.

_LEGAL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")


def google_name(name: str, namespace: str = "") -> str:
    """Return the name that a function has at Google: the client's own, if Google takes it."""
    if not namespace and _LEGAL.fullmatch(name):
        return name
    wire = wire_name(name, namespace)
    return wire if _LEGAL.fullmatch(wire) else wire_name(f".{wire}")


@made_once
def wire_names(tools: tuple[Tool, ...], _target: None) -> Mapping[str, str]:
    """Return the names of functions in a turn by those at Google, where the two differ."""
    named = ((tool.name, tool.namespace) for tool in tools if not tool.server)
    pairs = ((google_name(*one), wire_name(*one)) for one in named)
    return {google: wire for google, wire in pairs if google != wire}


# --- definitions ----------------------------------------------------------------------------------


class Definitions(Struct, frozen=True, gc=False):
    """The tools of a request as an upstream gets them."""

    names: frozenset[str]  # on the wire
    json: Raw | None  # all of them, as a list; None: there are none
    losses: tuple[Loss, ...]


@made_once
def define(tools: tuple[Tool, ...], profile: Profile) -> Definitions:
    """Return the definitions: all functions in one entry, then the tools that Google runs.

    Raises:
        UntranslatableError: a tool has no form that the upstream takes.
    """
    losses: list[Loss] = []
    names: set[str] = set()
    functions: list[FunctionDeclaration] = []
    others: list[dict[str, Raw]] = []
    for tool in tools:
        if tool.does is ServerKind.IMAGE and _excludes(tools, profile):
            losses.append(Loss("server_tool_dropped", tool.path, f"{tool.kind} beside functions"))
            continue
        if tool.server:
            written = _server_tool(tool, profile, losses)
            if written is not None:
                others.append(written)
                names.add(tool.name)
            continue
        refuse_schemaless(tool)
        functions.append(_function(tool, profile, losses))
        names.add(functions[-1].name)
    if others and _excludes(tools, profile):
        losses += [
            Loss("server_tool_dropped", "$.tools", f"{next(iter(one))} beside functions")
            for one in others
        ]
        names -= {tool.name for tool in tools if tool.server}
        others = []
    entries: list[object] = [{"functionDeclarations": functions}] if functions else []
    entries += others
    return Definitions(frozenset(names), Raw(encode(entries)) if entries else None, tuple(losses))


def _function(tool: Tool, profile: Profile, losses: list[Loss]) -> FunctionDeclaration:
    name = google_name(tool.name, tool.namespace)
    if not tool.namespace and name != tool.name:
        losses.append(Loss("tool_renamed", tool.path, f"{tool.name} became {name}"))
    strict_flag(tool, profile, losses)
    losses += [Loss("tool_option_dropped", tool.path, option) for option in tool.options]
    schema = FREE_INPUT if tool.flavor is Flavor.CUSTOM else tool.schema
    parameters = json = NO_RAW
    if schema is not None and _takes_arguments(schema):
        if profile.schema_dialect == "any":
            json = without_meta(schema)
        else:
            parameters = fitted_schema(
                without_meta(schema), profile, losses, path=tool.path, name=tool.name
            )
    elif schema is not None and _has_more_keywords(schema):
        losses.append(Loss("schema_rewritten", tool.path, "an object without properties"))
    return FunctionDeclaration(
        name=name,
        description=function_description(tool, losses) or None,
        parameters=parameters,
        parameters_json_schema=json,
    )


def _takes_arguments(schema: Raw) -> bool:
    """Return whether a function takes arguments: Google refuses an object without properties."""
    fields = decode_or_none(_FIELDS, schema)
    if fields is None:
        return False
    if bytes(fields.get("additionalProperties", b"")).startswith(b"{"):
        return True
    return any(bytes(fields.get(name, b"")) not in _EMPTY for name in _MEANT)


def _has_more_keywords(schema: Raw) -> bool:
    """Return whether a schema without properties has keywords that are lost with it, such as a description."""
    return bool((decode_or_none(_FIELDS, schema) or {}).keys() - _WITHOUT_MEANING)


def _server_tool(tool: Tool, profile: Profile, losses: list[Loss]) -> dict[str, Raw] | None:
    own = tool.vendor == VENDOR
    does = tool.does or ServerKind.OTHER
    known = profile.runs(does, "gemini")
    if own and tool.raw is not None and (known or profile.vendor_tools):
        return {_own_name(tool): tool.raw}
    if known and does is ServerKind.MCP:
        return _mcp(tool, profile, losses)
    if known and does is ServerKind.IMAGE:
        kept_options(tool, (), losses)
        losses.append(Loss("server_tool_mapped", tool.path, "responseModalities"))
        return None  # no tool: the request asks for images
    name = _OWN_NAMES.get(does)
    if name is not None and known and may_search(tool, profile):
        searches = does is ServerKind.WEB_SEARCH
        kept = [one for one in profile.search_options if searches and one == "blocked"]
        asked = kept_options(tool, kept, losses)
        losses.append(Loss("server_tool_mapped", tool.path, name))
        return {name: Raw(encode({"excludeDomains": asked.blocked} if asked.blocked else {}))}
    detail = tool.kind or tool.name if options_of(tool).live else "cached search only"
    losses.append(Loss("server_tool_dropped", tool.path, detail))
    return None


def makes_images(request: Request, profile: Profile) -> bool:
    """Return whether a request asks a model for images that makes them without a tool."""
    known = profile.runs(ServerKind.IMAGE, "gemini") and not _excludes(request.tools, profile)
    return known and any(tool.does is ServerKind.IMAGE for tool in request.tools)


def _excludes(tools: Sequence[Tool], profile: Profile) -> bool:
    """Return whether the functions of a request exclude its vendor-run tools."""
    return not profile.server_tools_beside_functions and any(not one.server for one in tools)


def _mcp(tool: Tool, profile: Profile, losses: list[Loss]) -> dict[str, Raw] | None:
    why = mcp_obstacle(tool, "gemini", profile)
    if why:
        losses.append(Loss("server_tool_dropped", tool.path, f"mcp: {why}"))
        return None
    asked = kept_options(tool, (), losses)
    losses.append(Loss("server_tool_mapped", tool.path, MCP_FIELD))
    servers = [
        McpServerIn(one.name, McpTransport(one.url, written_headers(one))) for one in asked.servers
    ]
    return {MCP_FIELD: Raw(encode(servers))}


def _own_name(tool: Tool) -> str:
    """Return the field of a tool of Google's, which is the end of its path."""
    return _OWN_NAMES.get(tool.kind) or tool.path.rpartition(".")[2]


# --- tools and tool choice ------------------------------------------------------------------------


def encode_tools(
    request: Request, target: Target, losses: list[Loss]
) -> tuple[Raw | None, FunctionCallingConfig | None]:
    """Return the definitions, if there are any, and the choice.

    Raises:
        UntranslatableError: a tool has no form that the upstream takes, or the choice forces one that the
            upstream does not have.
    """
    profile = target.profile
    choice = request.tool_choice
    # A list of allowed functions goes with a forced choice only; else the others are not declared.
    forced = choice is not None and choice.mode == "required"
    declared = declared_tools(request, profile, takes_allowed=forced)
    if choice is not None and choice.allowed and len(declared) < len(request.tools):
        path = path_of(request, "tool_choice")
        losses.append(Loss("tool_choice_narrowed", path, "only allowed tools are declared"))
    sent = define(declared, profile)
    losses += sent.losses
    has_tools = sent.json is not None
    parallel_flag(request, profile, losses, has_tools=has_tools)
    # A schema is enforced for all functions of a request or for none.
    auto = (
        "VALIDATED" if profile.supports_strict and any(one.strict for one in declared) else "AUTO"
    )
    if choice is None:
        return sent.json, None if auto == "AUTO" else FunctionCallingConfig(auto)
    asked = has_tools or makes_images(request, profile)
    if choice.mode in ("required", "tool") and asked and request.needed_tools:
        # Only functions can be forced.
        path = path_of(request, "tool_choice")
        losses.append(Loss("tool_choice_adjusted", path, "a forced tool became auto"))
        return sent.json, None
    if has_tools and choice.mode == "auto" and all(tool.server for tool in request.tools):
        return sent.json, None  # Google refuses a choice where there are no functions
    wire = google_name(choice.name, choice.namespace) if choice.name else ""
    written = written_choice(
        request,
        profile,
        losses,
        has_tools=has_tools,
        has_forced=wire in sent.names if wire else has_tools,
    )
    names = [wire] if written.mode == "tool" else []
    if written.mode == "required" and forced:
        names = [name for name in map(google_name, choice.allowed) if name in sent.names]
    tools = sent.json if written.with_tools else None
    if written.mode is None:
        return tools, None
    return tools, FunctionCallingConfig(_MODES.get(written.mode, auto), names or None)


_MODES: Final = {"required": "ANY", "tool": "ANY", "none": "NONE"}
