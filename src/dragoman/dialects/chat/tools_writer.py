"""Encodes tools and tool choice for a Chat Completions upstream."""

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.chat.schema import EMPTY
from dragoman.dialects.chat.tools_reader import VENDOR
from dragoman.dialects.encoding import encode
from dragoman.dialects.functions import FREE_INPUT, NO_ARGUMENTS, description_with_grammar
from dragoman.dialects.paths import path_of
from dragoman.dialects.server_tools import CHAT_SEARCH, dropped_options
from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.profiles.schema import rewrite, without_meta
from dragoman.turn.events import Flavor
from dragoman.turn.known import made_once
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request, Tool, ToolChoice
from dragoman.turn.tools import wire_name

# --- definitions ----------------------------------------------------------------------------------

_CUSTOM: Final = Flavor.CUSTOM


class _Function(Struct, gc=False, omit_defaults=True):
    name: str
    description: str = ""
    parameters: Raw = EMPTY
    strict: bool | None = None


class _FunctionTool(Struct, gc=False):
    type: str
    function: _Function


class _Grammar(Struct, gc=False):
    definition: str
    syntax: str


class _Format(Struct, gc=False):
    type: str
    grammar: _Grammar


class _Custom(Struct, gc=False, omit_defaults=True):
    name: str
    description: str = ""
    format: _Format | None = None


class CustomTool(Struct, gc=False):
    type: str
    custom: _Custom


class _Place(Struct, gc=False, omit_defaults=True):
    city: str | None = None
    country: str | None = None
    region: str | None = None
    timezone: str | None = None


class _Location(Struct, gc=False):
    type: str
    approximate: _Place


class SearchOptions(Struct, gc=False, omit_defaults=True):
    search_context_size: str | None = None
    user_location: _Location | None = None


class _ForeignSearch(Struct, gc=False):
    """What a web search of another dialect may ask for and this one can say."""

    search_context_size: str | None = None
    user_location: _Place | None = None


OutTool: TypeAlias = _FunctionTool | CustomTool | Raw

_FOREIGN_SEARCH: Final = msgspec.json.Decoder(_ForeignSearch)


class Definitions(Struct, gc=False, frozen=True):
    """The tools of a request as an upstream is told them."""

    by_name: dict[str, OutTool]  # by the name on the wire
    json: Raw  # all of them, as a list
    search: Raw | SearchOptions | None  # for `web_search_options`
    losses: tuple[Loss, ...]


class Audience(Struct, frozen=True, gc=False):
    """Whom tools are defined for."""

    profile: Profile
    native: bool  # the client speaks this dialect too


@made_once
def define(tools: tuple[Tool, ...], audience: Audience) -> Definitions:
    """Return the definitions.

    Raises:
        UntranslatableError: a tool has no form that the upstream takes.
    """
    definer = _Definer(audience)
    by_name: dict[str, OutTool] = {}
    for tool in tools:
        name = wire_name(tool.name, tool.namespace)
        out = definer.define(tool, name)
        if out is not None:
            by_name[name] = out
    json = Raw(encode(list(by_name.values())))
    return Definitions(by_name, json, definer.search, tuple(definer.losses))


class _Definer:
    """Define one tool after the other."""

    def __init__(self, audience: Audience) -> None:
        self.search: Raw | SearchOptions | None = None
        self.losses: list[Loss] = []
        self._profile = audience.profile
        self._native = audience.native

    def define(self, tool: Tool, name: str) -> OutTool | None:
        if tool.server:
            return self._server_tool(tool)
        if tool.kind and tool.schema is None and tool.flavor is Flavor.FUNCTION:
            reason = f"the tool `{tool.kind}` is not available at the target"
            raise UntranslatableError(reason, path=tool.path, code="unsupported_tool")
        if not tool.namespace and name != tool.name:
            self.losses.append(Loss("tool_renamed", tool.path, f"{tool.name} became {name}"))
        if tool.options:
            self.losses += [Loss("tool_option_dropped", tool.path, one) for one in tool.options]
        if tool.flavor is _CUSTOM:
            return self._custom(tool, name)
        description = self._description(tool) if tool.examples else tool.description
        strict = None if tool.strict is None else self._strict(tool.path, strict=tool.strict)
        function = _Function(name, description, self._schema(tool), strict)
        return _FunctionTool("function", function)

    def _custom(self, tool: Tool, name: str) -> OutTool:
        if self._profile.supports_custom_tools:
            form = None
            if tool.grammar is not None:
                form = _Format("grammar", _Grammar(tool.grammar[1], tool.grammar[0]))
            return CustomTool("custom", _Custom(name, tool.description, form))
        if tool.grammar is not None:
            self.losses.append(Loss("grammar_not_enforced", tool.path, tool.name))
        description = description_with_grammar(tool)
        return _FunctionTool("function", _Function(name, description, FREE_INPUT))

    def _description(self, tool: Tool) -> str:
        examples = "\n".join(bytes(example).decode() for example in tool.examples)
        head = f"{tool.description}\n\n" if tool.description else ""
        return f"{head}Examples of input:\n{examples}"

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

    def _strict(self, path: str, *, strict: bool) -> bool | None:
        if self._profile.supports_strict:
            return strict
        if strict:
            self.losses.append(Loss("tool_option_dropped", path, "strict"))
        return None

    def _server_tool(self, tool: Tool) -> OutTool | None:
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

    def _search_options(self, tool: Tool) -> SearchOptions:
        try:
            asked = _FOREIGN_SEARCH.decode(tool.raw if tool.raw is not None else b"{}")
        except msgspec.DecodeError:
            self.losses.append(Loss("tool_option_dropped", tool.path, tool.kind))
            asked = _ForeignSearch()
        for name in dropped_options(tool, ("search_context_size", "user_location")):
            self.losses.append(Loss("tool_option_dropped", tool.path, name))
        place = asked.user_location
        location = None if place is None else _Location("approximate", place)
        return SearchOptions(asked.search_context_size, location)


# --- tools and tool choice ------------------------------------------------------------------------

OutChoice: TypeAlias = str | dict[str, object]


def encode_tools(
    request: Request, profile: Profile, losses: list[Loss]
) -> tuple[Raw | None, OutChoice | None, Raw | SearchOptions | None]:
    """Return the definitions, if there are any, the choice, and what goes into `web_search_options`.

    Raises:
        UntranslatableError: a tool has no form that the upstream takes, or the choice forces one that is
            not there.
    """
    if request.tool_choice is not None:
        return _Toolbox(request, profile, losses).encode(request.tool_choice)
    sent = define(request.tools, Audience(profile, request.dialect == "chat"))
    losses += sent.losses
    return sent.json if sent.by_name else None, None, sent.search


class _Toolbox:
    """The tools of one request that has a choice, for one upstream."""

    def __init__(self, request: Request, profile: Profile, losses: list[Loss]) -> None:
        self._request = request
        self._profile = profile
        self._losses = losses

    def encode(
        self, choice: ToolChoice
    ) -> tuple[Raw | None, OutChoice | None, Raw | SearchOptions | None]:
        tools = self._request.tools
        if choice.allowed and not self._says_allowed(choice):
            tools = tuple(tool for tool in tools if _is_allowed(tool, choice))
        sent = define(tools, Audience(self._profile, self._request.dialect == "chat"))
        self._losses += sent.losses
        if choice.mode in ("tool", "required"):
            self._check_forced(choice, sent)
        if not sent.by_name:
            self._losses.append(Loss("tool_choice_dropped", self._path))
            return None, None, sent.search
        return *self._choose(choice, sent), sent.search

    @property
    def _path(self) -> str:
        return path_of(self._request, "tool_choice")

    def _says_allowed(self, choice: ToolChoice) -> bool:
        """Say whether the upstream itself can be told which of the tools may be used."""
        return bool(choice.allowed) and self._profile.supports_store

    def _choose(self, choice: ToolChoice, sent: Definitions) -> tuple[Raw | None, OutChoice | None]:
        strength = self._profile.tool_choice
        match choice.mode:
            case "none":
                return self._none(sent)
            case "auto":
                return sent.json, self._allowed(choice, sent, "auto")
            case "required":
                if strength == "auto_only":
                    return sent.json, self._weakened("required")
                return sent.json, self._allowed(choice, sent, "required")
            case "tool":
                name = wire_name(choice.name, choice.namespace)
                if strength == "full":
                    return sent.json, _named(sent, name)
                # The others are left out, so that only this one can be meant.
                only = Raw(encode([sent.by_name[name]]))
                if strength == "strings_only":
                    self._losses.append(Loss("tool_choice_narrowed", self._path, name))
                    return only, "required"
                return only, self._weakened("a forced tool")

    def _allowed(self, choice: ToolChoice, sent: Definitions, mode: str) -> OutChoice:
        if not self._says_allowed(choice):
            return mode
        tools = [_named(sent, name) for name in choice.allowed if name in sent.by_name]
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}

    def _weakened(self, what: str) -> str:
        self._losses.append(Loss("tool_choice_adjusted", self._path, f"{what} became auto"))
        return "auto"

    def _none(self, sent: Definitions) -> tuple[Raw | None, OutChoice | None]:
        """Say `none`, to an upstream without a word for it by leaving the tools out, if it can be."""
        if self._profile.tool_choice_none:
            return sent.json, "none"
        if self._request.has_calls:
            self._losses.append(Loss("tool_choice_adjusted", self._path, "none became auto"))
            return sent.json, None
        return None, None

    def _check_forced(self, choice: ToolChoice, sent: Definitions) -> None:
        """Refuse to force a tool that was left out; a choice without any tools is merely dropped."""
        name = choice.name
        missing = (
            wire_name(name, choice.namespace) not in sent.by_name if name else not sent.by_name
        )
        if self._request.tools and missing and not (sent.search is not None and not name):
            what = f"the forced tool `{name}`" if name else "every tool that could be used"
            raise UntranslatableError(
                f"{what} is not available at the target", path=self._path, code="unsupported_tool"
            )


def _is_allowed(tool: Tool, choice: ToolChoice) -> bool:
    return bool({tool.name, wire_name(tool.name, tool.namespace)} & set(choice.allowed))


def _named(sent: Definitions, name: str) -> dict[str, object]:
    kind = "custom" if isinstance(sent.by_name[name], CustomTool) else "function"
    return {"type": kind, kind: {"name": name}}
