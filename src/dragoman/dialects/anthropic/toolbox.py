"""The tools of any client, and its tool choice, for an upstream that speaks Messages."""

from msgspec import Raw

from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.definitions import Audience, Definitions, define
from dragoman.dialects.anthropic.marks import CacheMarks, marked_tools
from dragoman.dialects.paths import path_of
from dragoman.errors import Untranslatable
from dragoman.exchange import Target
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request, ToolChoice
from dragoman.turn.tools import wire_name


class Toolbox:
    """The tools of one request, for one upstream."""

    def __init__(
        self, request: Request, target: Target, marks: CacheMarks, losses: list[Loss]
    ) -> None:
        self._request = request
        self._profile = target.profile
        self._marks = marks
        self._losses = losses

    def encode(self) -> tuple[Raw | None, schema.ToolChoice | None]:
        """Return the definitions, if there are any, and the choice.

        Raises:
            Untranslatable: a tool has no form that the upstream takes, or a choice forces one that is
                not there.
        """
        choice, tools = self._request.tool_choice, self._request.tools
        if choice is not None and choice.allowed:
            allowed = frozenset(choice.allowed)
            tools = tuple(
                tool
                for tool in tools
                if {tool.name, wire_name(tool.name, tool.namespace)} & allowed
            )
        if choice is not None and choice.mode == "tool" and self._narrows:
            named = (choice.name, choice.namespace)
            tools = tuple(tool for tool in tools if (tool.name, tool.namespace) == named)
        marked = marked_tools(self._request.tools, None)
        sent = define(tools, Audience(self._profile, self._marks.skipped if marked else 0))
        if marked:
            self._marks.skipped = sent.skipped
        self._losses += sent.losses
        encoded = self._choice(sent)
        if encoded is not None and encoded.type == "none" and not self._profile.tool_choice_none:
            return self._without_none(sent), None
        return sent.json, encoded

    @property
    def _narrows(self) -> bool:
        """The upstream cannot be told which tool to call: the others are left out."""
        return self._profile.tool_choice == "strings_only"

    def _choice(self, sent: Definitions) -> schema.ToolChoice | None:
        request = self._request
        choice = request.tool_choice
        path = path_of(request, "tool_choice")
        serial = self._serial(has_tools=sent.json is not None)
        if choice is not None and choice.mode in ("tool", "required"):
            self._check_forced(choice, sent, path)
        if sent.json is None:
            if choice is not None:
                self._losses.append(Loss("tool_choice_dropped", path))
            return None
        if choice is None:
            return schema.ToolChoice("auto", disable_parallel_tool_use=True) if serial else None
        match choice.mode:
            case "none":
                return schema.ToolChoice("none")
            case "auto":
                return schema.ToolChoice("auto", disable_parallel_tool_use=serial)
            case "required":
                wanted = schema.ToolChoice("any", disable_parallel_tool_use=serial)
            case "tool":
                name = wire_name(choice.name, choice.namespace)
                wanted = schema.ToolChoice("tool", name, serial)
        return self._weakened(wanted, path)

    def _weakened(self, wanted: schema.ToolChoice, path: str) -> schema.ToolChoice:
        """Bring a forced choice to what the upstream takes."""
        serial = wanted.disable_parallel_tool_use
        if self._profile.tool_choice == "auto_only":
            self._losses.append(Loss("tool_choice_adjusted", path, f"{wanted.type} became auto"))
            return schema.ToolChoice("auto", disable_parallel_tool_use=serial)
        if self._narrows and wanted.type == "tool":
            self._losses.append(Loss("tool_choice_narrowed", path, wanted.name or ""))
            return schema.ToolChoice("any", disable_parallel_tool_use=serial)
        return wanted

    def _serial(self, *, has_tools: bool) -> bool | None:
        if self._request.parallel is not False or not has_tools:
            return None
        if self._profile.supports_parallel_flag:
            return True
        self._losses.append(Loss("parallel_not_enforced", path_of(self._request, "parallel")))
        return None

    def _check_forced(self, choice: ToolChoice, sent: Definitions, path: str) -> None:
        """Refuse to force a tool that was left out; a choice without any tools is merely dropped."""
        name = choice.name
        wire = wire_name(name, choice.namespace)
        missing = wire not in sent.names if name else sent.json is None
        if self._request.tools and missing:
            reason = (
                f"the forced tool `{name}` is not available at the target"
                if name
                else ("tool use is forced, and none of the tools is available at the target")
            )
            raise Untranslatable(reason, path=path, code="unsupported_tool")

    def _without_none(self, sent: Definitions) -> Raw | None:
        """Say `none` to an upstream that has no word for it: by leaving the tools out, if it can be."""
        if not self._request.has_calls:
            return None
        path = path_of(self._request, "tool_choice")
        self._losses.append(Loss("tool_choice_adjusted", path, "none became auto"))
        return sent.json
