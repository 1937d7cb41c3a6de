"""Tools and tool choice for a Responses upstream."""

from typing import Final

import msgspec
from msgspec import Raw

from dragoman.dialects.paths import path_of
from dragoman.dialects.responses.definitions import Audience, define
from dragoman.dialects.responses.report import Report
from dragoman.dialects.responses.request import ResponsesRequest
from dragoman.dialects.responses.shells import BY_FLAVOR
from dragoman.dialects.responses.tools import namespace_descriptions
from dragoman.dialects.server_tools import base_kind
from dragoman.errors import Untranslatable
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Flavor
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request, ToolChoice
from dragoman.turn.tools import ToolTable, wire_name

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
            raise Untranslatable(reason, path="$.tool_choice")

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
