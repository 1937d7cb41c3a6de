"""The tools of any client, and its tool choice, for a Chat Completions upstream."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.chat.schema import EMPTY
from dragoman.dialects.chat.tools import VENDOR
from dragoman.dialects.paths import path_of
from dragoman.errors import Untranslatable
from dragoman.exchange import Target
from dragoman.profiles.schema import rewrite, without_meta
from dragoman.turn.events import Flavor
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request, Tool, ToolCallPart, ToolChoice
from dragoman.turn.tools import wire_name

_NO_ARGUMENTS: Final = Raw(b'{"type":"object","properties":{}}')
_FREE_INPUT: Final = Raw(
    b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],'
    b'"additionalProperties":false}'
)


class _Function(Struct, omit_defaults=True):
    name: str
    description: str = ""
    parameters: Raw = EMPTY
    strict: bool | None = None


class _FunctionTool(Struct):
    type: str
    function: _Function


class _Grammar(Struct):
    definition: str
    syntax: str


class _Format(Struct):
    type: str
    grammar: _Grammar


class _Custom(Struct, omit_defaults=True):
    name: str
    description: str = ""
    format: _Format | None = None


class _CustomTool(Struct):
    type: str
    custom: _Custom


class _Place(Struct, omit_defaults=True):
    city: str | None = None
    country: str | None = None
    region: str | None = None
    timezone: str | None = None


class _Location(Struct):
    type: str
    approximate: _Place


class _SearchOptions(Struct, omit_defaults=True):
    search_context_size: str | None = None
    user_location: _Location | None = None


class _ForeignSearch(Struct):
    """What a web search of another dialect may ask for and this one can say."""

    search_context_size: str | None = None
    user_location: _Place | None = None


OutTool: TypeAlias = _FunctionTool | _CustomTool | Raw
OutChoice: TypeAlias = str | dict[str, object]
_FOREIGN_SEARCH: Final = msgspec.json.Decoder(_ForeignSearch)


class Toolbox:
    """The tools of one request, for one upstream."""

    def __init__(self, request: Request, target: Target, losses: list[Loss]) -> None:
        self.search: Raw | _SearchOptions | None = None  # for `web_search_options`
        self._request = request
        self._profile = target.profile
        self._losses = losses
        self._native = request.dialect == "chat"
        self._path = path_of(request, "tool_choice")

    def encode(self) -> tuple[list[OutTool], OutChoice | None]:
        """Return the definitions and the choice.

        Raises:
            Untranslatable: a tool has no form that the upstream takes, or the choice forces one that is
                not there.
        """
        choice = self._request.tool_choice
        tools: Sequence[Tool] = self._request.tools
        if choice is not None and choice.allowed:
            tools = [tool for tool in tools if self._is_allowed(tool, choice)]
        sent: dict[str, OutTool] = {}
        for tool in tools:
            name = wire_name(tool.name, tool.namespace)
            out = self._tool(tool, name)
            if out is not None:
                sent[name] = out
        if choice is None:
            return list(sent.values()), None
        if choice.mode in ("tool", "required"):
            self._check_forced(choice, sent)
        if not sent:
            self._losses.append(Loss("tool_choice_dropped", self._path))
            return [], None
        return self._choose(choice, sent)

    # --- definitions ------------------------------------------------------------------------------

    def _is_allowed(self, tool: Tool, choice: ToolChoice) -> bool:
        if self._says_allowed(choice):
            return True
        return bool({tool.name, wire_name(tool.name, tool.namespace)} & set(choice.allowed))

    def _says_allowed(self, choice: ToolChoice) -> bool:
        """Say whether the upstream itself can be told which of the tools may be used."""
        return bool(choice.allowed) and self._profile.supports_store

    def _tool(self, tool: Tool, name: str) -> OutTool | None:
        if tool.server:
            return self._server_tool(tool)
        if tool.kind and tool.schema is None and tool.flavor is Flavor.FUNCTION:
            reason = f"the tool `{tool.kind}` is not available at the target"
            raise Untranslatable(reason, path=tool.path, code="unsupported_tool")
        if not tool.namespace and name != tool.name:
            self._losses.append(Loss("tool_renamed", tool.path, f"{tool.name} became {name}"))
        if tool.options:
            self._losses += [Loss("tool_option_dropped", tool.path, one) for one in tool.options]
        if tool.flavor is Flavor.CUSTOM:
            return self._custom(tool, name)
        function = _Function(name, self._description(tool), self._schema(tool), self._strict(tool))
        return _FunctionTool("function", function)

    def _custom(self, tool: Tool, name: str) -> OutTool:
        if self._profile.supports_custom_tools:
            form = None
            if tool.grammar is not None:
                form = _Format("grammar", _Grammar(tool.grammar[1], tool.grammar[0]))
            return _CustomTool("custom", _Custom(name, tool.description, form))
        description = tool.description
        if tool.grammar is not None:
            self._losses.append(Loss("grammar_not_enforced", tool.path, tool.name))
            syntax, definition = tool.grammar
            rule = f"The input must match this {syntax} grammar:\n{definition}"
            description = f"{description}\n\n{rule}" if description else rule
        return _FunctionTool("function", _Function(name, description, _FREE_INPUT))

    def _description(self, tool: Tool) -> str:
        if not tool.examples:
            return tool.description
        examples = "\n".join(bytes(example).decode() for example in tool.examples)
        head = f"{tool.description}\n\n" if tool.description else ""
        return f"{head}Examples of input:\n{examples}"

    def _schema(self, tool: Tool) -> Raw:
        if tool.schema is None:
            return _NO_ARGUMENTS
        schema = tool.schema if self._native else without_meta(tool.schema)
        if self._profile.schema_dialect == "any":
            return schema
        rewritten = rewrite(schema, self._profile.schema_dialect, path=tool.path)
        if rewritten is not schema:
            self._losses.append(Loss("schema_rewritten", tool.path, tool.name))
        return rewritten

    def _strict(self, tool: Tool) -> bool | None:
        if self._profile.supports_strict:
            return tool.strict
        if tool.strict:
            self._losses.append(Loss("tool_option_dropped", tool.path, "strict"))
        return None

    def _server_tool(self, tool: Tool) -> OutTool | None:
        own = self._native and tool.vendor == VENDOR
        if tool.path == "$.web_search_options" and own:
            self.search = tool.raw
        elif own:
            return tool.raw
        elif tool.kind.startswith("web_search") and "web_search" in self._profile.server_tools:
            self.search = self._search_options(tool)
        else:
            self._losses.append(Loss("server_tool_dropped", tool.path, tool.kind or tool.name))
        return None

    def _search_options(self, tool: Tool) -> _SearchOptions:
        try:
            asked = _FOREIGN_SEARCH.decode(tool.raw if tool.raw is not None else b"{}")
        except msgspec.DecodeError:
            self._losses.append(Loss("tool_option_dropped", tool.path, tool.kind))
            asked = _ForeignSearch()
        place = asked.user_location
        location = None if place is None else _Location("approximate", place)
        return _SearchOptions(asked.search_context_size, location)

    # --- choice -----------------------------------------------------------------------------------

    def _choose(
        self, choice: ToolChoice, sent: dict[str, OutTool]
    ) -> tuple[list[OutTool], OutChoice | None]:
        tools = list(sent.values())
        strength = self._profile.tool_choice
        match choice.mode:
            case "none":
                return self._none(tools)
            case "auto":
                return tools, self._allowed(choice, sent, "auto")
            case "required":
                if strength == "auto_only":
                    return tools, self._weakened("required")
                return tools, self._allowed(choice, sent, "required")
            case "tool":
                name = wire_name(choice.name, choice.namespace)
                only = sent[name]
                if strength == "full":
                    kind = "custom" if isinstance(only, _CustomTool) else "function"
                    return tools, {"type": kind, kind: {"name": name}}
                # The others are left out, so that only this one can be meant.
                if strength == "strings_only":
                    return [only], "required"
                return [only], self._weakened("a forced tool")

    def _allowed(self, choice: ToolChoice, sent: dict[str, OutTool], mode: str) -> OutChoice:
        if not self._says_allowed(choice):
            return mode
        tools = [
            {"type": "custom" if isinstance(sent[name], _CustomTool) else "function"}
            | {"custom" if isinstance(sent[name], _CustomTool) else "function": {"name": name}}
            for name in choice.allowed
            if name in sent
        ]
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}

    def _weakened(self, what: str) -> str:
        self._losses.append(Loss("tool_choice_adjusted", self._path, f"{what} became auto"))
        return "auto"

    def _none(self, tools: list[OutTool]) -> tuple[list[OutTool], OutChoice | None]:
        """Say `none`, to an upstream without a word for it by leaving the tools out, if it can be."""
        if self._profile.tool_choice_none:
            return tools, "none"
        if any(
            isinstance(part, ToolCallPart) for turn in self._request.turns for part in turn.parts
        ):
            self._losses.append(Loss("tool_choice_adjusted", self._path, "none became auto"))
            return tools, None
        return [], None

    def _check_forced(self, choice: ToolChoice, sent: dict[str, OutTool]) -> None:
        """Refuse to force a tool that was left out; a choice without any tools is merely dropped."""
        name = choice.name
        missing = wire_name(name, choice.namespace) not in sent if name else not sent
        if self._request.tools and missing and not (self.search is not None and not name):
            what = f"the forced tool `{name}`" if name else "every tool that could be used"
            raise Untranslatable(
                f"{what} is not available at the target", path=self._path, code="unsupported_tool"
            )
