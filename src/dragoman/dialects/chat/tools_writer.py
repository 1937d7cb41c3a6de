"""Encodes tools and tool choice for a Chat Completions upstream."""

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.chat.schema import (
    CustomFormatOut,
    CustomOut,
    CustomToolOut,
    ForeignSearch,
    FunctionOut,
    FunctionToolOut,
    GrammarOut,
    LocationOut,
    SearchOptionsOut,
    ToolOut,
)
from dragoman.dialects.chat.tools_reader import VENDOR
from dragoman.dialects.encoding import encode
from dragoman.dialects.tool_policy import (
    CHAT_SEARCH,
    FREE_INPUT,
    NO_ARGUMENTS,
    WrittenChoice,
    declared_tools,
    flat_name,
    function_description,
    refuse_schemaless,
    search_options,
    strict_flag,
    written_choice,
)
from dragoman.profiles.profile import Profile
from dragoman.profiles.schema import rewrite, without_meta
from dragoman.turn.events import Flavor
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request, Tool, ToolChoice
from dragoman.turn.tools import made_once, wire_name

# --- definitions ----------------------------------------------------------------------------------

_CUSTOM: Final = Flavor.CUSTOM


_FOREIGN_SEARCH: Final = msgspec.json.Decoder(ForeignSearch)


class Definitions(Struct, gc=False, frozen=True):
    """The tools of a request as an upstream gets them."""

    by_name: dict[str, ToolOut]  # by the name on the wire
    json: Raw  # all of them, as a list
    search: Raw | SearchOptionsOut | None  # for `web_search_options`
    losses: tuple[Loss, ...]


class Audience(Struct, frozen=True, gc=False):
    """The upstream that gets the definitions."""

    profile: Profile
    native: bool  # the client speaks this dialect too


@made_once
def define(tools: tuple[Tool, ...], audience: Audience) -> Definitions:
    """Return the definitions.

    Raises:
        UntranslatableError: a tool has no form that the upstream takes.
    """
    definer = _Definer(audience)
    by_name: dict[str, ToolOut] = {}
    for tool in tools:
        out = definer.define(tool)
        if out is not None:
            by_name[wire_name(tool.name, tool.namespace)] = out
    json = Raw(encode(list(by_name.values())))
    return Definitions(by_name, json, definer.search, tuple(definer.losses))


class _Definer:
    """Define one tool after the other."""

    def __init__(self, audience: Audience) -> None:
        self.search: Raw | SearchOptionsOut | None = None
        self.losses: list[Loss] = []
        self._profile = audience.profile
        self._native = audience.native

    def define(self, tool: Tool) -> ToolOut | None:
        if tool.server:
            return self._server_tool(tool)
        refuse_schemaless(tool)
        name = flat_name(tool, self.losses)
        if tool.options:
            self.losses += [Loss("tool_option_dropped", tool.path, one) for one in tool.options]
        if tool.flavor is _CUSTOM:
            return self._custom(tool, name)
        description = function_description(tool, self.losses)
        strict = strict_flag(tool, self._profile, self.losses)
        function = FunctionOut(name, description, self._schema(tool), strict)
        return FunctionToolOut("function", function)

    def _custom(self, tool: Tool, name: str) -> ToolOut:
        if self._profile.supports_custom_tools:
            form = None
            if tool.grammar is not None:
                form = CustomFormatOut("grammar", GrammarOut(tool.grammar[1], tool.grammar[0]))
            return CustomToolOut("custom", CustomOut(name, tool.description, form))
        description = function_description(tool, self.losses)
        return FunctionToolOut("function", FunctionOut(name, description, FREE_INPUT))

    def _schema(self, tool: Tool) -> Raw:
        if tool.schema is None:
            return NO_ARGUMENTS
        schema = tool.schema if self._native else without_meta(tool.schema)
        if self._profile.schema_dialect == "any":
            return schema
        rewritten = rewrite(schema, self._profile.schema_dialect, path=tool.path)
        if rewritten is not schema:
            self.losses.append(Loss("schema_rewritten", tool.path, tool.name))
        return rewritten

    def _server_tool(self, tool: Tool) -> ToolOut | None:
        own = self._native and tool.vendor == VENDOR
        if tool.path == CHAT_SEARCH and own:
            self.search = tool.raw
        elif own:
            return tool.raw
        elif tool.kind.startswith("web_search") and "web_search" in self._profile.server_tools:
            self.search = self._search_options(tool)
        else:
            self.losses.append(Loss("server_tool_dropped", tool.path, tool.kind or tool.name))
        return None

    def _search_options(self, tool: Tool) -> SearchOptionsOut:
        kept = ("search_context_size", "user_location")
        asked = search_options(tool, _FOREIGN_SEARCH, kept, self.losses)
        place = asked.user_location
        location = None if place is None else LocationOut("approximate", place)
        return SearchOptionsOut(asked.search_context_size, location)


# --- tools and tool choice ------------------------------------------------------------------------

OutChoice: TypeAlias = str | dict[str, object]


def encode_tools(
    request: Request, profile: Profile, losses: list[Loss]
) -> tuple[Raw | None, OutChoice | None, Raw | SearchOptionsOut | None]:
    """Return the definitions, if there are any, the choice, and the value of `web_search_options`.

    Raises:
        UntranslatableError: a tool has no form that the upstream takes, or the choice forces one that the
            upstream does not have.
    """
    choice = request.tool_choice
    # `allowed_tools` is OpenAI's own, as the fields of its platform are.
    takes_allowed = profile.supports_store
    tools = declared_tools(request, profile, takes_allowed=takes_allowed)
    sent = define(tools, Audience(profile, request.dialect == "chat"))
    losses += sent.losses
    has_tools = bool(sent.by_name)
    if choice is None:
        return sent.json if has_tools else None, None, sent.search
    if choice.name:
        has_forced = wire_name(choice.name, choice.namespace) in sent.by_name
    else:
        has_forced = has_tools or sent.search is not None
    written = written_choice(request, profile, losses, has_tools=has_tools, has_forced=has_forced)
    definitions = sent.json if has_tools and written.with_tools else None
    return definitions, _choice(choice, written, sent, takes_allowed=takes_allowed), sent.search


def _choice(
    choice: ToolChoice, written: WrittenChoice, sent: Definitions, *, takes_allowed: bool
) -> OutChoice | None:
    if written.mode == "tool":
        return _named(sent, wire_name(choice.name, choice.namespace))
    if choice.allowed and takes_allowed and written.mode in ("auto", "required"):
        tools = [_named(sent, name) for name in choice.allowed if name in sent.by_name]
        return {"type": "allowed_tools", "allowed_tools": {"mode": written.mode, "tools": tools}}
    return written.mode


def _named(sent: Definitions, name: str) -> dict[str, object]:
    kind = "custom" if isinstance(sent.by_name[name], CustomToolOut) else "function"
    return {"type": kind, kind: {"name": name}}
