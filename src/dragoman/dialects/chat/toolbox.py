"""The tools of any client, and its tool choice, for a Chat Completions upstream."""

from typing import TypeAlias

from msgspec import Raw

from dragoman.dialects.chat.definitions import (
    Audience,
    CustomTool,
    Definitions,
    SearchOptions,
    define,
)
from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.errors import Untranslatable
from dragoman.profiles.profile import Profile
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request, Tool, ToolChoice
from dragoman.turn.tools import wire_name

OutChoice: TypeAlias = str | dict[str, object]


def encode_tools(
    request: Request, profile: Profile, losses: list[Loss]
) -> tuple[Raw | None, OutChoice | None, Raw | SearchOptions | None]:
    """Return the definitions, if there are any, the choice, and what goes into `web_search_options`.

    Raises:
        Untranslatable: a tool has no form that the upstream takes, or the choice forces one that is
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
            raise Untranslatable(
                f"{what} is not available at the target", path=self._path, code="unsupported_tool"
            )


def _is_allowed(tool: Tool, choice: ToolChoice) -> bool:
    return bool({tool.name, wire_name(tool.name, tool.namespace)} & set(choice.allowed))


def _named(sent: Definitions, name: str) -> dict[str, object]:
    kind = "custom" if isinstance(sent.by_name[name], CustomTool) else "function"
    return {"type": kind, kind: {"name": name}}
