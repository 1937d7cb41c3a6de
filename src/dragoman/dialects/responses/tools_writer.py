"""Encodes tools and tool choice for a Responses upstream."""

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import fitted_schema
from dragoman.dialects.responses.request_reader import ResponsesRequest
from dragoman.dialects.responses.tools_reader import BY_FLAVOR, namespace_descriptions
from dragoman.dialects.server_tools import (
    base_kind,
    kept_options,
    limited_domains,
    may_search,
    mcp_label,
    mcp_obstacle,
    options_of,
    written_place,
)
from dragoman.dialects.tool_policy import (
    FREE_INPUT,
    NO_ARGUMENTS,
    declared_tools,
    flat_name,
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
from dragoman.turn.request import Request, Tool, ToolChoice
from dragoman.turn.server_tools import McpServer, ServerKind
from dragoman.turn.tools import ToolTable, made_once, wire_name

# --- definitions ----------------------------------------------------------------------------------

_Definition: TypeAlias = dict[str, object] | Raw

_VENDOR: Final = "openai"
_OWN_TYPES: Final = {
    ServerKind.WEB_SEARCH: "web_search",
    ServerKind.CODE: "code_interpreter",
    ServerKind.WEB_FETCH: "web_extractor",  # of Qwen alone
    ServerKind.IMAGE: "image_generation",
}


class Definitions(Struct, frozen=True, gc=False):
    """The tools of a request as an upstream gets them."""

    sent: dict[tuple[str, str], Tool]  # by name and namespace
    json: Raw  # all of them, as a list
    max_calls: int | None  # how often the vendor-run tool may be used
    losses: tuple[Loss, ...]


class Audience(Struct, frozen=True, gc=False):
    """The upstream that gets the definitions."""

    profile: Profile
    native: bool  # the upstream has the dialect's own tools and namespaces
    namespaces: tuple[tuple[str, str], ...]  # their names and descriptions


@made_once
def define(tools: tuple[Tool, ...], audience: Audience) -> Definitions:
    """Return the definitions.

    Raises:
        UntranslatableError: a tool has no form that the upstream takes.
    """
    definer = _Definer(audience, alone=sum(tool.server for tool in tools) == 1)
    for tool in tools:
        definer.define(tool)
    definer.end()
    json = Raw(encode(definer.tools))
    return Definitions(definer.sent, json, definer.max_calls, tuple(definer.losses))


class _Definer:
    """Define one tool after the other."""

    def __init__(self, audience: Audience, *, alone: bool) -> None:
        self.max_calls: int | None = None
        self._alone = alone  # one tool at most runs at the vendor
        self.tools: list[_Definition] = []
        self.sent: dict[tuple[str, str], Tool] = {}
        self.losses: list[Loss] = []
        self._profile = audience.profile
        self._native = audience.native
        self._namespaces: dict[str, list[_Definition]] = {}
        self._descriptions = dict(audience.namespaces)

    def define(self, tool: Tool) -> None:
        """Add a tool, unless the upstream does not have it."""
        if tool.server and tool.does is ServerKind.MCP:
            for server in self._mcp(tool):
                self._add(tool, server)
        elif (definition := self._definition(tool)) is not None:
            self._add(tool, definition)

    def end(self) -> None:
        """Add the search without which Qwen reads no pages."""
        does = {tool.does for tool in self.sent.values()}
        if ServerKind.WEB_FETCH in does and ServerKind.WEB_SEARCH not in does:
            self.tools.append({"type": "web_search"})

    def _add(self, tool: Tool, definition: _Definition) -> None:
        self.sent[tool.name, tool.namespace] = tool
        if not (tool.namespace and self._native):
            self.tools.append(definition)
            return
        group = self._namespaces.get(tool.namespace)
        if group is None:
            group = self._namespaces[tool.namespace] = []
            self.tools.append(
                {
                    "type": "namespace",
                    "name": tool.namespace,
                    "description": self._descriptions.get(tool.namespace, ""),
                    "tools": group,
                }
            )
        group.append(definition)

    def _definition(self, tool: Tool) -> _Definition | None:
        if tool.server:
            return self._server_tool(tool)
        for option in tool.options:
            self.losses.append(Loss("tool_option_dropped", tool.path, option))
        if tool.flavor in BY_FLAVOR and self._native and tool.raw is not None:
            return tool.raw
        if tool.flavor is Flavor.CUSTOM and self._native:
            return self._custom(tool)
        return self._function(tool)

    def _function(self, tool: Tool) -> _Definition:
        refuse_schemaless(tool)
        description = function_description(tool, self.losses)
        schema = FREE_INPUT if tool.flavor is Flavor.CUSTOM else tool.schema or NO_ARGUMENTS
        schema = fitted_schema(
            without_meta(schema), self._profile, self.losses, path=tool.path, name=tool.name
        )
        item: dict[str, object] = {"type": "function", "name": self._name(tool)}
        if description:
            item["description"] = description
        item["parameters"] = schema
        # An absent value is read as true by OpenAI.
        item["strict"] = bool(strict_flag(tool, self._profile, self.losses))
        return item

    def _custom(self, tool: Tool) -> _Definition:
        item: dict[str, object] = {"type": "custom", "name": self._name(tool)}
        if tool.description:
            item["description"] = tool.description
        if tool.grammar is not None:
            syntax, definition = tool.grammar
            item["format"] = {"type": "grammar", "syntax": syntax, "definition": definition}
        else:
            item["format"] = {"type": "text"}
        return item

    def _name(self, tool: Tool) -> str:
        if self._native and tool.namespace:
            return tool.name
        return flat_name(tool, self.losses)

    def _mcp(self, tool: Tool) -> list[_Definition]:
        """Return one definition for each MCP server.  No other vendor's client can approve calls."""
        own = tool.vendor == _VENDOR and tool.raw is not None
        if own and tool.raw is not None and self._native:
            return [tool.raw]
        runs = self._profile.runs(ServerKind.MCP, "responses")
        why = mcp_obstacle(tool, "responses", self._profile) if runs else ""
        if why or not runs:
            detail = f"mcp: {why}" if why else tool.kind
            self.losses.append(Loss("server_tool_dropped", tool.path, detail))
            return []
        if own and tool.raw is not None:
            return [tool.raw]
        asked = kept_options(tool, (), self.losses)
        self.losses.append(Loss("server_tool_mapped", tool.path, "mcp"))
        return [_mcp_definition(one) for one in asked.servers]

    def _server_tool(self, tool: Tool) -> _Definition | None:
        does = tool.does or ServerKind.OTHER
        own = tool.vendor == _VENDOR and tool.raw is not None
        runs = self._profile.runs(does, "responses")
        if own and (self._native or runs):
            return tool.raw
        if runs and does is ServerKind.WEB_SEARCH and may_search(tool, self._profile):
            return self._mapped(tool, self._search(tool))
        if runs and does is ServerKind.CODE:
            kept_options(tool, (), self.losses)
            return self._mapped(tool, {"type": "code_interpreter", "container": {"type": "auto"}})
        if runs and does in (ServerKind.WEB_FETCH, ServerKind.IMAGE):
            kept_options(tool, (), self.losses)
            return self._mapped(tool, {"type": _OWN_TYPES[does]})
        detail = tool.kind if options_of(tool).live else "cached search only"
        self.losses.append(Loss("server_tool_dropped", tool.path, detail))
        return None

    def _mapped(self, tool: Tool, item: dict[str, object]) -> _Definition:
        self.losses.append(Loss("server_tool_mapped", tool.path, str(item["type"])))
        return item

    def _search(self, tool: Tool) -> dict[str, object]:
        kept = [one for one in self._profile.search_options if one != "max_uses" or self._alone]
        asked = kept_options(tool, kept, self.losses)
        asked = limited_domains(tool, asked, self._profile.search_domains, self.losses)
        item: dict[str, object] = {"type": "web_search"}
        filters: dict[str, object] = {}
        if asked.allowed:
            filters["allowed_domains"] = asked.allowed
        if asked.blocked:
            filters["excluded_domains"] = asked.blocked
        if filters:
            item["filters"] = filters
        if asked.place is not None:
            item["user_location"] = written_place(asked.place)
        if asked.context:
            item["search_context_size"] = asked.context
        self.max_calls = asked.max_uses
        return item


def _mcp_definition(server: McpServer) -> dict[str, object]:
    item: dict[str, object] = {
        "type": "mcp",
        "server_label": mcp_label(server.name),
        "server_url": server.url,
        "require_approval": "never",
    }
    if server.allowed is not None:
        item["allowed_tools"] = server.allowed
    if server.token:
        item["authorization"] = server.token
    if server.headers:
        item["headers"] = dict(server.headers)
    return item


# --- tools and tool choice ------------------------------------------------------------------------

_LIST: Final = msgspec.json.Decoder(list[Raw] | None)


class Toolset:
    """The tools of one request as the upstream gets them, and which of them it must call."""

    def __init__(
        self, request: Request, profile: Profile, losses: list[Loss], *, native: bool
    ) -> None:
        self._request = request
        self._losses = losses
        self._native = native
        if not native:
            ToolTable.of(request.tools)  # refuses two tools that have one name once flattened
        takes_allowed = profile.tool_choice == "full"
        tools = declared_tools(request, profile, takes_allowed=takes_allowed)
        namespaces = _namespaces(request) if native else ()
        defined = define(tools, Audience(profile, native, namespaces))
        losses += defined.losses
        self._sent = defined.sent
        self.max_calls: int | None = defined.max_calls
        has_tools = bool(defined.sent)
        choice = request.tool_choice
        named = choice is not None and bool(choice.name)
        has_forced = has_tools
        if choice is not None and named:
            has_forced = (choice.name, choice.namespace) in defined.sent
        written = written_choice(
            request, profile, losses, has_tools=has_tools, has_forced=has_forced
        )
        self.forced: bool = written.forced  # a tool must be called
        self.tools: Raw | None = defined.json if has_tools and written.with_tools else None
        # What the vendor-run tools do that the upstream gets.
        self.runs: list[ServerKind] = [
            tool.does for tool in defined.sent.values() if tool.does and self.tools is not None
        ]
        self.choice: object = written.mode
        if choice is not None and written.mode == "tool":
            self.choice = self._named(choice)
        elif choice is not None and choice.allowed and takes_allowed and written.mode != "none":
            references = [self._reference(name) for name in choice.allowed]
            self.choice = {"type": "allowed_tools", "mode": written.mode, "tools": references}
        self.parallel: bool | None = parallel_flag(
            request, profile, losses, has_tools=self.tools is not None
        )

    def _named(self, choice: ToolChoice) -> object:
        tool = self._sent.get((choice.name, choice.namespace))
        if tool is not None and tool.server and len(self._sent) == 1:
            return "required"  # every host knows that
        mcp = tool is not None and tool.does is ServerKind.MCP
        if tool is not None and tool.server and (mcp or not self._native):
            path = path_of(self._request, "tool_choice")
            self._losses.append(Loss("tool_choice_adjusted", path, f"{tool.name} became required"))
            return "required"
        if tool is not None and tool.server:
            does = tool.does
            word = _OWN_TYPES.get(does or ServerKind.OTHER) if tool.vendor != _VENDOR else None
            searches = does is ServerKind.WEB_SEARCH
            return {"type": word or ("web_search" if searches else tool.kind)}
        if tool is not None and self._native and tool.flavor in BY_FLAVOR:
            return {"type": base_kind(tool.kind)}
        custom = self._native and tool is not None and tool.flavor is Flavor.CUSTOM
        if self._native and choice.namespace:
            name = choice.name
        else:
            name = wire_name(choice.name, choice.namespace)
        return {"type": "custom" if custom else "function", "name": name}

    def _reference(self, name: str) -> object:
        for tool in self._sent.values():
            if tool.name == name:
                return self._named(ToolChoice("tool", tool.name, tool.namespace))
        return {"type": "function", "name": wire_name(name)}


def _namespaces(request: Request) -> tuple[tuple[str, str], ...]:
    """Return names and descriptions of the namespaces that the client declared."""
    if not isinstance(request, ResponsesRequest) or "tools" not in request.settings:
        return ()
    if not any(tool.namespace for tool in request.tools):
        return ()
    raws = _LIST.decode(request.settings["tools"]) or ()
    return tuple(namespace_descriptions(raws).items())
