"""Decodes a client's tools and tool choice, and the tools that a host ran for its answer."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.dialects.chat.schema import (
    AnswerImageIn,
    CustomTool,
    ExecutedTool,
    FoundSource,
    FunctionTool,
    Named,
    NamedTool,
    RequestIn,
    ToolChoiceIn,
    ToolDefinition,
)
from dragoman.dialects.decoding import decode, decode_at, decode_or_none
from dragoman.dialects.server_tools import base_kind, kind_of, read_options
from dragoman.errors import MalformedError
from dragoman.profiles.profile import ChatSearch
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import Citation, Flavor
from dragoman.turn.request import Tool, ToolChoice
from dragoman.turn.server_tools import (
    MAX_SOURCES,
    MadeImage,
    ServerCall,
    ServerKind,
    ServerResult,
    SourceRef,
)
from dragoman.turn.tools import ToolLists
from dragoman.wire.surrogates import join_surrogates

VENDOR: Final = "chat"  # of tools that some unknown host of this dialect runs

_TOOLS: Final[msgspec.json.Decoder[list[ToolDefinition] | None]] = msgspec.json.Decoder(
    list[ToolDefinition] | None
)

_RAW_TOOLS: Final[msgspec.json.Decoder[list[dict[str, Raw]]]] = msgspec.json.Decoder(
    list[dict[str, Raw]]
)

_MODES: Final = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def decode_tools(
    given: RequestIn, tools: tuple[Tool, ...], fields: Mapping[str, Raw]
) -> tuple[Tool, ...]:
    """Return all declared tools; `tools` are those of the list of them, `fields` those of the request.

    Raises:
        MalformedError: a definition is not one.
    """
    others = [
        _function(function, f"$.functions[{at}]")
        for at, function in enumerate(given.functions or ())
    ]
    if not SEARCH_FIELDS.keys().isdisjoint(fields) or given.model.endswith(_ONLINE):
        others += _switched_on(given.model, fields)
    return (*tools, *others) if others else tools


# --- searches that a field switches on ----------------------------------------------------------------

# The vendor of these tools is the host whose fields declare them, as `Profile.chat_search` names it.

# Fields that ask for a search, with the host whose field each is.
SEARCH_FIELDS: Final[dict[str, ChatSearch]] = {
    "web_search_options": "options",
    "plugins": "openrouter",
    "enable_search": "qwen",
    "search_parameters": "xai",
    "compound_custom": "compound",
}

# Types of tools in the list, with the host whose tool each is.
_LISTED_STYLES: Final[dict[str, ChatSearch]] = {
    "$web_search": "kimi",
    "web_search": "zai",
    "browser_search": "browser",
    "code_interpreter": "browser",
}

_ONLINE: Final = ":online"  # the end of a model's name, at OpenRouter
_OFF: Final = frozenset({b"null", b"false", b"[]", b""})


class _Plugin(Struct, gc=False):
    id: str = ""


class _Live(Struct, gc=False):
    """`search_parameters`, as xAI takes them."""

    mode: str = "auto"


class _Forced(Struct, gc=False):
    """`search_options`, as Qwen takes them."""

    forced_search: bool = False


class _Compound(Struct, gc=False):
    """`compound_custom`, as Groq takes it."""

    tools: dict[str, list[str]] = {}


_PLUGINS: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])


def _switched_on(model: str, fields: Mapping[str, Raw]) -> list[Tool]:
    """Return the searches that fields of some hosts, or the end of a model's name, switch on."""
    found: list[Tool] = []
    for name in SEARCH_FIELDS:
        raw = fields.get(name, Raw(b""))
        if bytes(raw) not in _OFF and (asked := _asked(name, raw, fields)) is not None:
            found.append(_search(f"$.{name}", asked[0], always=asked[1], raw=raw))
    if model.endswith(_ONLINE) and not found:
        found.append(_search("$.model", Raw(b"{}"), always=True, raw=None))
    return found


def _asked(name: str, raw: Raw, fields: Mapping[str, Raw]) -> tuple[Raw, bool] | None:
    """Return the options of the search that a field asks for, and whether it always searches; None: it asks for none."""
    try:
        match name:
            case "plugins":
                listed = (one for one in _PLUGINS.decode(raw))
                web = [one for one in listed if msgspec.json.decode(one, type=_Plugin).id == "web"]
                return (web[0], True) if web else None
            case "enable_search":
                options = fields.get("search_options", Raw(b"{}"))
                return options, msgspec.json.decode(options, type=_Forced).forced_search
            case "search_parameters":
                mode = msgspec.json.decode(raw, type=_Live).mode
                return None if mode == "off" else (raw, mode == "on")
            case "compound_custom":
                enabled = msgspec.json.decode(raw, type=_Compound).tools.get("enabled_tools", [])
                return (
                    (fields.get("search_settings", raw), False) if "web_search" in enabled else None
                )
            case _:
                return raw, False
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # of no known shape: it is a field like others


def _search(path: str, options: Raw, *, always: bool, raw: Raw | None) -> Tool:
    return Tool(
        name="web_search",
        server=True,
        does=ServerKind.WEB_SEARCH,
        server_options=read_options(options, always=always),
        kind="web_search",
        vendor=SEARCH_FIELDS.get(path.removeprefix("$."), "openrouter"),
        raw=raw,
        path=path,
    )


def _listed(definitions: bytes) -> tuple[Tool, ...]:
    listed = decode_at(_TOOLS, definitions, "$.tools")
    tools: list[Tool] = []
    raws: list[dict[str, Raw]] = []
    for at, definition in enumerate(listed or ()):
        path = f"$.tools[{at}]"
        if definition.type == "function" and definition.function is not None:
            tools.append(_function(definition.function, f"{path}.function"))
        elif definition.type == "custom" and definition.custom is not None:
            tools.append(_custom(definition.custom, path))
        else:
            raws = raws or decode(_RAW_TOOLS, definitions)
            tools.append(_vendor_tool(definition, raws[at], path))
    return tuple(tools)


TOOL_LISTS: Final = ToolLists(_listed)


def _function(function: FunctionTool, path: str) -> Tool:
    if not function.name:
        raise MalformedError("a tool needs a name", path=f"{path}.name")
    parameters = bytes(function.parameters)
    if parameters not in (b"", b"null") and not parameters.startswith(b"{"):
        raise MalformedError("a tool's schema must be an object", path=f"{path}.parameters")
    return Tool(
        name=function.name,
        description=function.description or "",
        schema=function.parameters if parameters.startswith(b"{") else None,
        strict=function.strict,
        path=path.removesuffix(".function"),
    )


def _custom(custom: CustomTool, path: str) -> Tool:
    if not custom.name:
        raise MalformedError("a tool needs a name", path=f"{path}.custom.name")
    grammar = custom.format.grammar if custom.format is not None else None
    return Tool(
        name=custom.name,
        description=custom.description or "",
        flavor=Flavor.CUSTOM,
        grammar=None if grammar is None else (grammar.syntax, grammar.definition),
        path=path,
    )


def _vendor(kind: str) -> str:
    """Return the host whose fields declare a tool of the list."""
    if kind.startswith("openrouter:"):
        return "openrouter"
    return _LISTED_STYLES.get(base_kind(kind), "") or VENDOR


def _vendor_tool(definition: ToolDefinition, raw: dict[str, Raw], path: str) -> Tool:
    """Read a tool that only a compatible vendor has: the key of its settings is the tool's type."""
    kind = definition.type
    if kind in ("function", "custom"):
        raise MalformedError(f"a tool of type {kind} needs its `{kind}`", path=path)
    known = kind_of(kind) is not ServerKind.OTHER or kind.startswith("openrouter:")
    if kind not in raw and kind != "builtin_function" and not known:
        raise MalformedError(f"there are no tools of type `{kind}`", path=f"{path}.type")
    name = definition.function.name if definition.function is not None else kind
    kind = name if kind == "builtin_function" else kind
    options = raw.get("parameters", raw.get(kind, Raw(b"{}")))
    return Tool(
        name=name,
        server=True,
        does=kind_of(kind),
        server_options=read_options(options),
        kind=kind,
        vendor=_vendor(kind),
        raw=Raw(msgspec.json.encode(raw)),
        path=path,
    )


def decode_choice(given: RequestIn, tools: Sequence[Tool]) -> ToolChoice | None:
    """Return what the client demands of tool use.

    Raises:
        MalformedError: it is not valid, or forces a tool that is not declared.
    """
    choice = given.tool_choice
    if choice is None:
        legacy = given.function_call
        if legacy is None:
            return None
        path = "$.function_call"
        return _mode(legacy, path) if isinstance(legacy, str) else _named(legacy, tools, path)
    if isinstance(choice, str):
        return _mode(choice, "$.tool_choice")
    return _object(choice, tools)


def _mode(word: str, path: str) -> ToolChoice:
    if word not in _MODES:
        raise MalformedError(f"unknown tool choice `{word}`", path=path)
    return msgspec.convert({"mode": _MODES[word]}, ToolChoice)


def _object(choice: ToolChoiceIn, tools: Sequence[Tool]) -> ToolChoice:
    path = "$.tool_choice"
    if choice.allowed_tools is not None:
        allowed = choice.allowed_tools
        mode = _mode(allowed.mode, f"{path}.allowed_tools.mode").mode
        names = tuple(name for tool in allowed.tools if (name := _name(tool)))
        return ToolChoice(mode, allowed=names)
    if choice.type in _MODES:  # some clients write the modes as objects
        return _mode(choice.type, path)
    named = choice.function or choice.custom
    if named is None and (server := [one for one in tools if one.kind == choice.type]):
        return ToolChoice("tool", server[0].name)
    if named is None:
        raise MalformedError("a forced tool needs its name", path=path)
    return _named(named, tools, path)


def _named(named: Named, tools: Sequence[Tool], path: str) -> ToolChoice:
    if tools and named.name not in {tool.name for tool in tools}:
        raise MalformedError(f"the forced tool `{named.name}` is not declared", path=path)
    return ToolChoice("tool", named.name)


def _name(tool: NamedTool) -> str:
    named = tool.function or tool.custom
    return named.name if named is not None else ""


# --- vendor-run tools -----------------------------------------------------------------------------
# What hosts show of their searches: a list of sources beside the choices (Perplexity, Z.ai), or the tools that ran
# (Groq).  What comes before the text goes before it; the rest follows the text, which is never held back.

_FOUND: Final[msgspec.json.Decoder[list[FoundSource]]] = msgspec.json.Decoder(list[FoundSource])

_EXECUTED: Final[msgspec.json.Decoder[list[ExecutedTool]]] = msgspec.json.Decoder(
    list[ExecutedTool]
)


class _Asked(Struct, gc=False):
    query: str | None = None
    url: str | None = None
    code: str | None = None


_ASKED: Final = msgspec.json.Decoder(_Asked)


class HostTools:
    """The tools that a host ran for one answer."""

    def __init__(self, assembler: Assembler) -> None:
        self._assembler = assembler
        self._sources: tuple[SourceRef, ...] = ()  # of one search for the whole answer
        self.marks: dict[str, SourceRef] = {}  # the same, by how the text marks them
        self._listed = False  # they were emitted
        self._executed: dict[int, ExecutedTool] = {}
        self._emitted: set[int] = set()

    def sources(self, raw: Raw) -> None:
        """Take a list of what was found; every chunk may repeat it."""
        if self._sources:
            return
        listed = decode(_FOUND, bytes(raw))
        found = [_source(one) for one in listed]
        self._sources = tuple(one for one in found if one.url)
        for number, (one, source) in enumerate(zip(listed, found, strict=True), 1):
            if source.url:
                self.marks[str(number)] = self.marks[one.refer or f"ref_{number}"] = source

    def titled(self, citations: Sequence[Citation]) -> list[Citation]:
        """Return citations with the titles of what was found at the same addresses."""
        titles = {one.url: one.title for one in self._sources}
        return [
            structs.replace(one, title=one.title or titles.get(one.url, "")) for one in citations
        ]

    def cited(self, citations: Sequence[Citation]) -> None:
        """Take what the whole answer cites, unless a list of what was found is known."""
        if not self._sources:
            found = (SourceRef(one.url, one.title) for one in citations[:MAX_SOURCES] if one.url)
            self._sources = tuple(found)

    def executed(self, raw: Raw) -> None:
        """Take tools that ran: a later entry of the same index completes an earlier one."""
        for one in decode(_EXECUTED, bytes(raw)):
            known = self._executed.get(one.index)
            if known is not None:
                one = _merged(known, one)  # noqa: PLW2901 -- the same tool, with more of it
            self._executed[one.index] = one

    def images(self, raw: Raw) -> None:
        """Emit images that the model, or a tool of the host, made."""
        for one in decode(_IMAGES, bytes(raw)):
            if one.image_url is not None and one.image_url.url:
                call = self._assembler.server_call(ServerCall(ServerKind.IMAGE))
                made = ServerResult(ServerKind.IMAGE, image=_image(one.image_url.url))
                self._assembler.server_result(made, call_id=call)

    def emit(self, *, last: bool) -> None:
        """Emit what is known of tools that ran; with `last`, also of those that showed no result."""
        if self._sources and not self._listed:
            self._listed = True
            call = self._assembler.server_call(ServerCall(ServerKind.WEB_SEARCH))
            result = ServerResult(ServerKind.WEB_SEARCH, self._sources)
            self._assembler.server_result(result, call_id=call)
        for index, tool in self._executed.items():
            whole = tool.output or tool.search_results or tool.code_results
            if index not in self._emitted and (whole or last):
                self._emitted.add(index)
                self._emit(tool)

    def _emit(self, tool: ExecutedTool) -> None:
        does = _does(tool.type)
        asked = decode_or_none(_ASKED, tool.arguments or "{}") or _Asked()
        about = asked.query or asked.url
        call = ServerCall(does, (about,) if about else ())
        if does is ServerKind.CODE:
            code = Raw(msgspec.json.encode({"code": asked.code or ""}))
            call = ServerCall(does, arguments=code)
        listed = (tool.search_results.results if tool.search_results else None) or ()
        found = tuple(one for one in map(_source, listed) if one.url)
        printed = "".join(one.text or "" for one in tool.code_results or ())
        result = ServerResult(does, found, printed or ("" if found else tool.output or ""))
        self._assembler.server_result(result, call_id=self._assembler.server_call(call))


_IMAGES: Final = msgspec.json.Decoder(list[AnswerImageIn])
_DATA_URL: Final = re.compile(r"data:([^;,]+);base64,", re.IGNORECASE)


def _image(url: str) -> MadeImage:
    found = _DATA_URL.match(url)
    return MadeImage(url=url) if found is None else MadeImage(url[found.end() :], found[1])


def _source(found: FoundSource) -> SourceRef:
    return SourceRef(
        join_surrogates(found.url or found.link or ""),
        join_surrogates(found.title or ""),
        join_surrogates(found.snippet or found.content or ""),
        found.date or found.publish_date or "",
    )


def _merged(known: ExecutedTool, more: ExecutedTool) -> ExecutedTool:
    return ExecutedTool(
        known.index,
        more.type or known.type,
        more.arguments or known.arguments,
        more.output or known.output,
        more.search_results or known.search_results,
        more.code_results or known.code_results,
    )


def _does(kind: str) -> ServerKind:
    if "search" in kind:
        return ServerKind.WEB_SEARCH
    if "python" in kind or "code" in kind:
        return ServerKind.CODE
    return ServerKind.WEB_FETCH if "visit" in kind or "open" in kind else ServerKind.OTHER
