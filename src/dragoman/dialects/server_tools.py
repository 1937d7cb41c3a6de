"""Vendor-run tools across dialects: their options, which upstreams run them, and how their state comes back.

* options: every vendor's spelling to `ServerOptions`; which of them a target does not have
* MCP servers: which of them another vendor may get, and what they are called there
* capability: whether an upstream runs what a request needs, and the refusal if it does not
* replay: a call and its result travel through a client of another dialect in an envelope, and return to the
  upstream that sent them
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.context import Exchange
from dragoman.dialects.decoding import decode_or_none
from dragoman.dialects.dialect import Dialect
from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.dialects.sealing import seal
from dragoman.envelopes import Sealer, is_envelope
from dragoman.errors import UntranslatableError
from dragoman.ids import derived_id
from dragoman.profiles.profile import RETURNED_SEARCHES, Profile
from dragoman.turn.events import Opaque, OpaqueKind
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request, ServerToolPart, Tool
from dragoman.turn.server_tools import (
    NO_OPTIONS,
    McpServer,
    Place,
    ServerCall,
    ServerKind,
    ServerOptions,
)
from dragoman.turn.tools import made_once

_FIELDS: Final[msgspec.json.Decoder[dict[str, Raw]]] = msgspec.json.Decoder(dict[str, Raw])
NULL: Final = Raw(b"null")

# --- kinds --------------------------------------------------------------------------------------------

_VARIANT: Final = re.compile(r"_preview(_\d{4}_\d{2}_\d{2})?\Z|_\d{4}_\d{2}_\d{2}\Z|_\d{8}\Z")

# What a tool does, by its vendor's type without the date.
_KINDS: Final[dict[str, ServerKind]] = {
    "web_search": ServerKind.WEB_SEARCH,
    "web_search_premium": ServerKind.WEB_SEARCH,
    "openrouter:web_search": ServerKind.WEB_SEARCH,
    "$web_search": ServerKind.WEB_SEARCH,
    "browser_search": ServerKind.WEB_SEARCH,
    "google_search": ServerKind.WEB_SEARCH,
    "google_search_retrieval": ServerKind.WEB_SEARCH,
    "enterprise_web_search": ServerKind.WEB_SEARCH,
    "web_fetch": ServerKind.WEB_FETCH,
    "openrouter:web_fetch": ServerKind.WEB_FETCH,
    "url_context": ServerKind.WEB_FETCH,
    "web_extractor": ServerKind.WEB_FETCH,
    "code_execution": ServerKind.CODE,
    "code_interpreter": ServerKind.CODE,
    "openrouter:code_interpreter": ServerKind.CODE,
    "file_search": ServerKind.FILE_SEARCH,
    "image_generation": ServerKind.IMAGE,
    "openrouter:image_generation": ServerKind.IMAGE,
    "mcp": ServerKind.MCP,
    "mcp_toolset": ServerKind.MCP,
    "mcp_servers": ServerKind.MCP,
    "tool_search": ServerKind.TOOL_SEARCH,
    "google_maps": ServerKind.MAPS,
}


# Fields that set up tools which are declared elsewhere: the loss of the tool is reported there.
SET_UP_BESIDE: Final = frozenset({"mcp_servers"})


def base_kind(kind: str) -> str:
    """Return the kind of a vendor-run tool without the date or stage of its version."""
    return _VARIANT.sub("", kind)


def kind_of(vendor_type: str) -> ServerKind:
    """Return the kind of a vendor-run tool from the type that its vendor gives it."""
    return _KINDS.get(base_kind(vendor_type), ServerKind.OTHER)


# --- options ------------------------------------------------------------------------------------------


class _Filters(Struct, gc=False):
    allowed_domains: list[str] | None = None
    blocked_domains: list[str] | None = None
    excluded_domains: list[str] | None = None  # xAI


class _Location(Struct, gc=False):
    type: str | None = None
    city: str | None = None
    region: str | None = None
    country: str | None = None
    timezone: str | None = None
    approximate: "_Location | None" = None  # Chat nests the place


class _Options(Struct, gc=False):
    """The options of all vendors in one type: no name has two meanings among them."""

    max_uses: int | None = None
    allowed_domains: list[str] | None = None
    blocked_domains: list[str] | None = None
    excluded_domains: list[str] | None = None
    include_domains: list[str] | None = None  # OpenRouter's plugin, Groq
    exclude_domains: list[str] | None = None
    filters: _Filters | None = None
    user_location: _Location | None = None
    search_context_size: str | None = None
    max_results: int | None = None
    count: int | str | None = None  # Z.ai
    max_content_tokens: int | None = None
    external_web_access: bool | None = None
    excludeDomains: list[str] | None = None  # noqa: N815 -- Google's name


_OPTIONS: Final = msgspec.json.Decoder(_Options, strict=False)

# Fields of a definition that are not options, or that every search does.
_NO_OPTIONS: Final = frozenset(
    {"type", "name", "cache_control", "enable", "search_result", "engine", "search_engine", "id"}
)
_KNOWN: Final = frozenset(_Options.__struct_fields__) | _NO_OPTIONS
_EMPTY: Final = frozenset({b"null", b"[]", b"{}", b'""'})


def read_options(raw: Raw, *, always: bool = False) -> ServerOptions:
    """Read the options of a vendor-run tool, in the spelling of any vendor.

    An option that cannot be read counts as one without a place.
    """
    fields = decode_or_none(_FIELDS, raw)
    if fields is None:
        return ServerOptions(always=always)
    given = {name: value for name, value in fields.items() if bytes(value) not in _EMPTY}
    rest = [name for name in given if name not in _KNOWN]
    asked = decode_or_none(_OPTIONS, raw)
    if asked is None:
        return ServerOptions(always=always, rest=(*rest, *(given.keys() & _KNOWN - _NO_OPTIONS)))
    filters = asked.filters or _Filters()
    count = asked.count if isinstance(asked.count, int) else None
    return ServerOptions(
        max_uses=asked.max_uses,
        allowed=_domains(asked.allowed_domains, asked.include_domains, filters.allowed_domains),
        blocked=_domains(
            asked.blocked_domains,
            asked.excluded_domains,
            asked.exclude_domains,
            asked.excludeDomains,
            filters.blocked_domains,
            filters.excluded_domains,
        ),
        place=_place(asked.user_location),
        context=asked.search_context_size or "",
        max_results=asked.max_results or count,
        max_tokens=asked.max_content_tokens,
        live=asked.external_web_access is not False,
        always=always,
        rest=tuple(rest),
    )


def _domains(*spellings: list[str] | None) -> tuple[str, ...]:
    return tuple(next((one for one in spellings if one), ()))


def _place(location: _Location | None) -> Place | None:
    if location is None:
        return None
    place = location.approximate or location
    found = Place(place.city or "", place.region or "", place.country or "", place.timezone or "")
    return None if found == Place() else found


# The options by the names that a loss shows, with what an absent one is.
_NAMES: Final[dict[str, str]] = {
    "max_uses": "max_uses",
    "allowed": "allowed_domains",
    "blocked": "blocked_domains",
    "place": "user_location",
    "context": "search_context_size",
    "max_results": "max_results",
    "max_tokens": "max_content_tokens",
    "live": "external_web_access",
}


def options_of(tool: Tool) -> ServerOptions:
    """Return how a vendor-run tool is set up."""
    return tool.server_options or NO_OPTIONS


def kept_options(tool: Tool, kept: Collection[str], losses: list[Loss]) -> ServerOptions:
    """Return the options of a tool that a target has fields for; the others are reported.

    `kept` are fields of `ServerOptions`.
    """
    asked = options_of(tool)
    dropped: dict[str, object] = {}
    for field, name in _NAMES.items():
        absent = getattr(NO_OPTIONS, field)
        if field not in kept and getattr(asked, field) != absent:
            dropped[field] = absent
            losses.append(Loss("tool_option_dropped", tool.path, name))
    losses += [Loss("tool_option_dropped", tool.path, name) for name in asked.rest]
    return structs.replace(asked, **dropped) if dropped else asked


def limited_domains(
    tool: Tool, asked: ServerOptions, most: int, losses: list[Loss]
) -> ServerOptions:
    """Return the options without a list of domains that is longer than the target takes.

    Some of the domains would be another limit than the one that was asked for, so none is kept.
    """
    long: dict[str, object] = {
        field: () for field in ("allowed", "blocked") if len(getattr(asked, field)) > most
    }
    losses += [
        Loss("tool_option_dropped", tool.path, f"{_NAMES[field]}: more than {most}")
        for field in long
    ]
    return structs.replace(asked, **long) if long else asked


def written_place(place: Place | None) -> dict[str, object] | None:
    """Return a place as most vendors write it."""
    if place is None:
        return None
    given = {name: value for name, value in structs.asdict(place).items() if value}
    return {"type": "approximate", **given}


# --- MCP servers --------------------------------------------------------------------------------------
# A definition may hold keys of the user for a third party, and limits to what may be called there.  Another vendor gets
# it only if nothing of that is lost and the operator trusts the vendor with the keys; else the tool is not declared.

# What the dialects can say of a server, as `McpServer` names it.
_MCP_WORDS: Final = {
    "anthropic": frozenset({"allowed", "blocked", "token"}),
    "responses": frozenset({"allowed", "token", "headers"}),
    "gemini": frozenset({"token", "headers"}),
}
_BEARER: Final = re.compile(r"bearer\s+(\S+)", re.IGNORECASE)
_NO_LABEL: Final = re.compile(r"[^A-Za-z0-9_-]")


def read_headers(headers: Mapping[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the bearer token among the headers for an MCP server, and the other headers."""
    token, others = "", []
    for name, value in headers.items():
        found = _BEARER.fullmatch(value.strip()) if name.lower() == "authorization" else None
        if found:
            token = found[1]
        else:
            others.append((name, value))
    return token, tuple(others)


def written_headers(server: McpServer) -> dict[str, str]:
    """Return the headers for an MCP server where a dialect has no field for a token."""
    token = {"Authorization": f"Bearer {server.token}"} if server.token else {}
    return {**token, **dict(server.headers)}


def mcp_obstacle(tool: Tool, dialect: str, profile: Profile) -> str:
    """Return why another vendor may not get the MCP servers of a tool; empty if it may."""
    servers = options_of(tool).servers
    if not servers:
        return "unreadable"
    return next((why for one in servers if (why := _obstacle(one, dialect, profile))), "")


def _obstacle(server: McpServer, dialect: str, profile: Profile) -> str:
    if server.own or not server.url:
        return server.own or "no address"
    if server.approval:
        return "approval"
    if server.has_credentials and not profile.mcp_credentials:
        return "credentials"
    words = _MCP_WORDS.get(dialect, frozenset())
    if server.headers and "headers" not in words:
        return "headers"
    limits = {"allowed": server.allowed is not None, "blocked": bool(server.blocked)}
    # Without its limits, the model could call what the client has excluded.
    return "limits of tools" if any(limits[one] and one not in words for one in limits) else ""


_MCP_HINT: Final = re.compile(rb'"mcp(?:_?[sS]ervers)?"')


def may_have_mcp(body: bytes) -> bool:
    """Return whether a request may define MCP servers: a fast check."""
    return _MCP_HINT.search(body) is not None


_LEAST_SECRET: Final = 8  # characters: a shorter value may be a word of the conversation


def mcp_secrets(request: Request) -> tuple[str, ...]:
    """Return the user's secrets in the MCP servers of a request."""
    tools = request.tools
    if not tools or not _has_server_tools(tools, None):
        return ()
    servers = (one for tool in tools for one in options_of(tool).servers)
    return tuple(one for server in servers for one in server.secrets if len(one) >= _LEAST_SECRET)


def mcp_label(name: str) -> str:
    """Return a server's name in the letters that every vendor takes."""
    legal = _NO_LABEL.sub("_", name)[:64]
    return legal if legal[:1].isalpha() else f"mcp_{legal}"


def client_server_name(call: ServerCall, request: Request | None) -> str:
    """Return the name that the client gave to the MCP server of a call."""
    for tool in request.tools if request is not None else ():
        for one in options_of(tool).servers:
            if call.server in (one.name, mcp_label(one.name)):
                return one.name
    return call.server


# --- which upstreams run it ---------------------------------------------------------------------------

# What translates: code of one vendor's container means the same in another's; stores do not.
TRANSLATED: Final = frozenset(
    {ServerKind.WEB_SEARCH, ServerKind.WEB_FETCH, ServerKind.CODE, ServerKind.IMAGE}
)


def accepts_declared(tool: Tool, profile: Profile) -> bool:
    """Return whether a Chat host takes a vendor-run tool as a Chat client declared it.

    Nothing is known about a host without a profile: the client chose the host, and the fields that it understands.
    """
    style = tool.vendor
    if profile.vendor_models or style in (profile.chat_search, "chat"):
        return True
    # OpenAI itself refuses it for models that do not search.
    return style == "options" and (profile.vendor_tools or profile.chat_search == "perplexity")


def uses_host_fields(request: Request, upstream: Dialect, profile: Profile) -> bool:
    """Return whether a Chat host is asked for a tool in its own fields, which are not those of the Chat client.

    Each host also shows what it found in its own way: such a client could not read it.
    """
    own = request.dialect == upstream.name
    if not own or not upstream.host_fields or not _has_server_tools(request.tools, None):
        return False
    return any(
        profile.runs(tool.does or ServerKind.OTHER, upstream.name)
        and not accepts_declared(tool, profile)
        for tool in request.tools
        if tool.server
    )


def can_run(tool: Tool, request: Request, upstream: Dialect, profile: Profile) -> bool:
    """Return whether an upstream runs this tool of the request, in its API of a dialect."""
    own = request.dialect == upstream.name
    if own and upstream.host_fields and accepts_declared(tool, profile):
        return True
    if profile.vendor_tools and own and tool.vendor == upstream.tools_vendor != "":
        return True
    does = tool.does or ServerKind.OTHER
    if not profile.runs(does, upstream.name):
        return False
    if not profile.server_tools_beside_functions and any(not one.server for one in request.tools):
        return False
    if does is ServerKind.MCP:
        return not mcp_obstacle(tool, upstream.name, profile)
    return (own and not upstream.host_fields) or (does in TRANSLATED and may_search(tool, profile))


def may_search(tool: Tool, profile: Profile) -> bool:
    """Return whether a tool may become a live one of another vendor; Codex asks for a search of the cache alone."""
    return options_of(tool).live or profile.cached_search == "live"


def needed_tools(request: Request) -> tuple[Tool, ...]:
    """Return `Request.needed_tools`, without a look at each tool of a list that is known to have none."""
    tools = request.tools
    return request.needed_tools if tools and _has_server_tools(tools, None) else ()


@made_once
def _has_server_tools(tools: tuple[Tool, ...], _target: None) -> bool:
    return any(tool.server for tool in tools)


def runs_needed(request: Request, upstream: Dialect, profile: Profile) -> bool:
    """Return whether an upstream runs one of the vendor-run tools that a request needs, or it needs none."""
    needed = needed_tools(request)
    return not needed or any(can_run(tool, request, upstream, profile) for tool in needed)


def may_pause(request: Request, upstream: Dialect, profile: Profile) -> bool:
    """Return whether the upstream may pause its answer until a second request comes, which the shell has to send.

    A client that knows the upstream's way to pause sends that request itself.
    """
    tools = request.tools
    if profile.pauses:
        return request.dialect != upstream.name
    if not tools or not _has_server_tools(tools, None):
        return False
    if upstream.host_fields:
        return profile.chat_search in RETURNED_SEARCHES and not returns_search(tools)
    return upstream.pauses and request.dialect != upstream.name


def returns_search(tools: Sequence[Tool]) -> bool:
    """Return whether a client declares a search whose calls it sends back itself, as its host expects it."""
    return any(tool.vendor in RETURNED_SEARCHES for tool in tools)


def check_needed(request: Request, upstream: Dialect, profile: Profile) -> None:
    """Refuse a request that needs vendor-run tools of which the upstream has none.

    Raises:
        UntranslatableError: the upstream runs none of them; carries the path.
    """
    if runs_needed(request, upstream, profile):
        return
    _refuse_mcp(request, upstream.name, profile)
    kinds = [*dict.fromkeys(map(_shown_kind, request.needed_tools))]
    named = " or ".join(f"`{kind}`" for kind in kinds)
    reason = (
        f"this request needs the tool {named}, which runs at the model's provider, and the provider of "
        f"`{request.model[:100]}` does not offer it; use a model whose provider does, or add a route with "
        f'match = {{ server_tool = "{kinds[0]}" }}'
    )
    raise UntranslatableError(
        reason, path=path_of(request, "tools"), code="server_tool_unavailable"
    )


def _refuse_mcp(request: Request, dialect: str, profile: Profile) -> None:
    """Refuse MCP servers that the upstream could call and may not get."""
    for tool in request.needed_tools:
        if tool.does is not ServerKind.MCP or not profile.runs(ServerKind.MCP, dialect):
            continue
        match mcp_obstacle(tool, dialect, profile):
            case "approval":
                reason = (
                    "the calls of this MCP server wait for the client's approval, which this model's provider does "
                    'not offer; only `require_approval = "never"` can be translated'
                )
                code = "approval_unavailable"
            case "credentials":
                reason = (
                    "this MCP server comes with credentials of the user, which go to no other provider; a route with "
                    "server_tools = { mcp = true } allows it"
                )
                code = "server_tool_unavailable"
            case why:
                reason = f"this MCP server cannot be declared to this model's provider: {why}"
                code = "server_tool_unavailable"
        raise UntranslatableError(reason, path=tool.path, code=code)


def _shown_kind(tool: Tool) -> str:
    known = tool.does not in (None, ServerKind.OTHER)
    return str(tool.does) if known else base_kind(tool.kind)


# --- replay -------------------------------------------------------------------------------------------
# What a client of another dialect gets is made here, and its ids show that: the vendor of the client's dialect
# never gave them, and must not get them.

MARK: Final = "dgm_"  # follows the prefix of an id that was made here


def minted_id(prefix: str, seed: str, call_id: str) -> str:
    """Return the id of a vendor-run tool's call for a client of another dialect."""
    return derived_id(f"{prefix}{MARK}", seed, f"server {call_id}", 20)


def is_minted(item_id: str, prefix: str) -> bool:
    """Return whether an id was made by `minted_id`."""
    return item_id.startswith(f"{prefix}{MARK}")


class _State(Struct, frozen=True):
    """What an envelope holds."""

    vendor: str
    blocks: list[tuple[str, Raw]]  # a summary and the vendor's JSON
    reasoned: bool = False


_STATE: Final = msgspec.json.Decoder(_State)


def seal_server(
    exchange: Exchange,
    blocks: Sequence[tuple[str, str, Raw]],
    losses: list[Loss],
    *,
    call_id: str,
    reasoned: bool,
) -> str:
    """Return an envelope of a call and its result; empty if there is nothing to send back.

    `blocks` are vendor, summary and JSON of each; `call_id` is the id that the client gets; `reasoned` is set if
    reasoning came right before the call.
    """
    kept: list[tuple[str, Raw]] = []
    for _, summary, raw in blocks:
        if raw != NULL:
            kept.append((summary, raw))
        elif kept:  # the result is in the vendor's call
            kept[-1] = (f"{kept[-1][0]}\n{summary}", kept[-1][1])
    if not kept or exchange.sealer is None:
        return ""
    data = encode(_State(blocks[0][0], kept, reasoned)).decode()
    state = Opaque(0, OpaqueKind.SERVER, data, exchange.profile.origin)
    sealed = seal(exchange, [state], "", call_id=call_id)
    if sealed is None:
        losses.append(Loss("opaque_too_large", detail="of a vendor-run tool"))
    return sealed or ""


def open_server(
    sealed: str, sealer: Sealer | None, call_id: str, losses: list[Loss], path: str
) -> list[ServerToolPart] | None:
    """Return the vendor's own call and result from an envelope; None if it is not one of this call."""
    if not is_envelope(sealed):
        return None
    envelope = sealer.open(sealed) if sealer is not None else None
    if envelope is None or envelope.kind is not OpaqueKind.SERVER or envelope.call_id != call_id:
        losses.append(Loss("opaque_invalid", path, "the envelope does not open"))
        return None
    return server_parts(envelope.data, envelope.origin)


def server_parts(data: str, origin: str) -> list[ServerToolPart] | None:
    """Return what the state of a vendor-run tool holds; None if it cannot be read."""
    try:
        state = _STATE.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return [
        ServerToolPart(state.vendor, summary, raw.copy(), origin, state.reasoned)
        for summary, raw in state.blocks
    ]
