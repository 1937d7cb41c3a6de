"""Encodes tools and tool choice for a Responses upstream."""

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.encoding import encode
from dragoman.dialects.functions import FREE_INPUT, NO_ARGUMENTS, description_with_grammar
from dragoman.dialects.paths import path_of
from dragoman.dialects.responses.history_writer import Report
from dragoman.dialects.responses.request_reader import ResponsesRequest
from dragoman.dialects.responses.schema import NULL
from dragoman.dialects.responses.tools_reader import BY_FLAVOR, namespace_descriptions
from dragoman.dialects.server_tools import CHAT_SEARCH, base_kind, dropped_options, search_location
from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.profiles.schema import rewrite, without_meta
from dragoman.turn.events import Flavor
from dragoman.turn.known import made_once
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request, Tool, ToolChoice
from dragoman.turn.tools import ToolTable, wire_name

# --- definitions ----------------------------------------------------------------------------------

_Definition: TypeAlias = dict[str, object] | Raw

_VENDOR: Final = "openai"


class _Search(Struct, frozen=True):
    """What two vendors' definitions of a web search have in common."""

    allowed_domains: list[str] | None = None
    search_context_size: str | None = None
    user_location: Raw = NULL


_SEARCH: Final = msgspec.json.Decoder(_Search)


class Definitions(Struct, frozen=True, gc=False):
    """The tools of a request as an upstream is told them."""

    sent: dict[tuple[str, str], Tool]  # by name and namespace
    json: Raw  # all of them, as a list
    losses: tuple[Loss, ...]


class Audience(Struct, frozen=True, gc=False):
    """Whom tools are defined for."""

    profile: Profile
    native: bool  # the upstream has the dialect's own tools and namespaces
    strict: bool  # a loss is refused
    namespaces: tuple[tuple[str, str], ...]  # their names and descriptions


@made_once
def define(tools: tuple[Tool, ...], audience: Audience) -> Definitions:
    """Return the definitions.

    Raises:
        UntranslatableError: something is lost, and the target is strict.
    """
    definer = _Definer(audience)
    for tool in tools:
        definer.define(tool)
    return Definitions(definer.sent, Raw(encode(definer.tools)), tuple(definer.report.losses))


class _Definer:
    """Define one tool after the other."""

    def __init__(self, audience: Audience) -> None:
        self.tools: list[_Definition] = []
        self.sent: dict[tuple[str, str], Tool] = {}
        self.report = Report(strict=audience.strict)
        self._profile = audience.profile
        self._native = audience.native
        self._namespaces: dict[str, list[_Definition]] = {}
        self._descriptions = dict(audience.namespaces)

    def define(self, tool: Tool) -> None:
        """Add a tool, unless the upstream does not have it."""
        definition = self._definition(tool)
        if definition is not None:
            self._add(tool, definition)

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
            self.report.note(Loss("tool_option_dropped", tool.path, option))
        if tool.flavor in BY_FLAVOR and self._native and tool.raw is not None:
            return tool.raw
        if tool.flavor is Flavor.CUSTOM and self._native:
            return self._custom(tool)
        return self._function(tool)

    def _function(self, tool: Tool) -> _Definition:
        description = tool.description
        schema = tool.schema or NO_ARGUMENTS
        if tool.flavor is Flavor.CUSTOM:
            schema = FREE_INPUT
            description = description_with_grammar(tool)
            if tool.grammar is not None:
                self.report.lose(Loss("grammar_not_enforced", tool.path))
        for example in tool.examples:
            description += f"\n\nExample input: {bytes(example).decode()}"
        schema = rewrite(
            without_meta(schema), self._profile.schema_dialect, path=f"{tool.path}.parameters"
        )
        item: dict[str, object] = {"type": "function", "name": self._name(tool)}
        if description:
            item["description"] = description
        item["parameters"] = schema
        # An absent value is read as true by OpenAI.
        item["strict"] = bool(tool.strict)
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
        name = wire_name(tool.name, tool.namespace)
        if name != tool.name and not tool.namespace:
            self.report.note(Loss("tool_renamed", tool.path, f"{tool.name} became {name}"))
        return name

    def _server_tool(self, tool: Tool) -> _Definition | None:
        kind = base_kind(tool.kind)
        # Chat's search has options where this dialect has a tool.
        own = tool.vendor == _VENDOR and tool.raw is not None and tool.path != CHAT_SEARCH
        runs = self._profile.runs(kind, "responses")
        if own and (self._native or runs):
            return tool.raw
        if kind == "web_search" and runs and tool.raw is not None:
            return self._search(tool, tool.raw)
        self.report.lose(Loss("server_tool_dropped", tool.path, tool.kind))
        return None

    def _search(self, tool: Tool, raw: Raw) -> _Definition:
        try:
            given = _SEARCH.decode(raw)
        except msgspec.MsgspecError:
            given = _Search()
        item: dict[str, object] = {"type": "web_search"}
        if given.allowed_domains:
            item["filters"] = {"allowed_domains": given.allowed_domains}
        if given.user_location != NULL:
            item["user_location"] = search_location(given.user_location)
        if given.search_context_size is not None:
            item["search_context_size"] = given.search_context_size
        carried = ("allowed_domains", "search_context_size", "user_location")
        for name in dropped_options(tool, carried):
            self.report.lose(Loss("tool_option_dropped", tool.path, name))
        return item


# --- tools and tool choice ------------------------------------------------------------------------

_LIST: Final = msgspec.json.Decoder(list[Raw] | None)


class Toolset:
    """The tools of one request as the upstream is told them, and which of them it must use."""

    def __init__(self, request: Request, profile: Profile, report: Report, *, native: bool) -> None:
        self._request = request
        self._profile = profile
        self._report = report
        self._native = native
        if not native:
            ToolTable.of(request.tools)  # refuses two tools that have one name once flattened
        tools = request.tools
        chosen = self._chosen_only()
        if chosen:
            tools = tuple(tool for tool in tools if tool.server or tool.name in chosen)
        namespaces = _namespaces(request) if native else ()
        defined = define(tools, Audience(profile, native, report.strict, namespaces))
        report.losses += defined.losses
        self._sent = defined.sent
        self.tools: Raw | None = defined.json if defined.sent else None
        self.choice = self._choice()
        self.parallel = self._parallel()

    @property
    def forced(self) -> bool:
        """A tool must be used."""
        return self.choice is not None and self.choice not in ("auto", "none")

    def weaken(self) -> None:
        """Leave the choice to the model after all."""
        self._report.lose(Loss("tool_choice_adjusted", "$.tool_choice", "became auto"))
        self.choice = "auto"

    def _chosen_only(self) -> frozenset[str]:
        """Return the tools to send, for upstreams that cannot be told which to use; empty: all."""
        choice = self._request.tool_choice
        if choice is None or self._profile.tool_choice == "full":
            return frozenset()
        return frozenset((choice.name,) if choice.mode == "tool" else choice.allowed)

    def _choice(self) -> object:
        choice, profile = self._request.tool_choice, self._profile
        if choice is None:
            return None
        path = "$.tool_choice"
        if choice.mode == "tool" and self._request.tools:
            self._refuse_dropped(choice)
        if self.tools is None:
            self._report.note(Loss("tool_choice_dropped", path))
            return None
        if choice.mode == "none":
            return self._none(path)
        if profile.tool_choice == "auto_only" and choice.mode in ("required", "tool"):
            self._report.lose(Loss("tool_choice_adjusted", path, "became auto"))
            return "auto"
        if profile.tool_choice == "strings_only" and choice.mode == "tool":
            self._report.note(Loss("tool_choice_narrowed", path, choice.name))
            return "required"
        if choice.mode == "tool":
            return self._named(choice)
        if choice.allowed and profile.tool_choice == "full":
            tools = [self._reference(name) for name in choice.allowed]
            return {"type": "allowed_tools", "mode": choice.mode, "tools": tools}
        return choice.mode

    def _none(self, path: str) -> object:
        if self._profile.tool_choice_none:
            return "none"
        if not self._request.has_calls:
            self.tools = None
            return None
        self._report.lose(Loss("tool_choice_adjusted", path, "none is not known"))
        return None

    def _refuse_dropped(self, choice: ToolChoice) -> None:
        dropped = any(
            tool.server
            and tool.name == choice.name
            and (tool.name, tool.namespace) not in self._sent
            for tool in self._request.tools
        )
        if dropped:
            reason = f"the tool `{choice.name}` must be used and is not available at this upstream"
            raise UntranslatableError(reason, path="$.tool_choice")

    def _named(self, choice: ToolChoice) -> object:
        tool = self._sent.get((choice.name, choice.namespace))
        if tool is not None and (tool.server or (self._native and tool.flavor in BY_FLAVOR)):
            return {"type": "web_search" if base_kind(tool.kind) == "web_search" else tool.kind}
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

    def _parallel(self) -> bool | None:
        wish = self._request.parallel
        if wish is None or self.tools is None:
            return None
        if not self._profile.supports_parallel_flag:
            if not wish:
                self._report.lose(Loss("parallel_not_enforced", path_of(self._request, "parallel")))
            return None
        return wish


def _namespaces(request: Request) -> tuple[tuple[str, str], ...]:
    """Return names and descriptions of the namespaces that the client declared."""
    if not isinstance(request, ResponsesRequest) or "tools" not in request.settings:
        return ()
    if not any(tool.namespace for tool in request.tools):
        return ()
    raws = _LIST.decode(request.settings["tools"]) or ()
    return tuple(namespace_descriptions(raws).items())
