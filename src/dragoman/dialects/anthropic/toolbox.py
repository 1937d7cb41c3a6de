"""The tools of any client, and its tool choice, for an upstream that speaks Messages."""

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.marks import CacheMarks
from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.errors import Untranslatable
from dragoman.exchange import Target
from dragoman.turn.events import Flavor
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request, Tool
from dragoman.turn.tools import wire_name

OutTool: TypeAlias = schema.ToolDefinition | Raw

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_NO_ARGUMENTS: Final = Raw(b'{"type":"object","properties":{}}')
_FREE_INPUT: Final = Raw(
    b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],'
    b'"additionalProperties":false}'
)


class _Place(Struct, frozen=True, gc=False, tag="approximate", omit_defaults=True):
    city: str | None = None
    country: str | None = None
    region: str | None = None
    timezone: str | None = None


class _Filters(Struct, frozen=True, gc=False):
    allowed_domains: list[str] | None = None


class _ForeignSearch(Struct, frozen=True):
    """What a web search of another dialect may ask for and this one can say."""

    filters: _Filters | None = None
    user_location: _Place | None = None


class _WebSearch(Struct, frozen=True, tag="web_search_20250305", omit_defaults=True):
    name: str
    allowed_domains: list[str] | None = None
    user_location: _Place | None = None


_FOREIGN_SEARCH: Final = msgspec.json.Decoder(_ForeignSearch)


class Toolbox:
    """The tools of one request, for one upstream."""

    def __init__(
        self, request: Request, target: Target, marks: CacheMarks, losses: list[Loss]
    ) -> None:
        self._request = request
        self._target = target
        self._profile = target.profile
        self._native = target.profile.origin == schema.VENDOR
        self._marks = marks
        self._losses = losses
        self._sent: set[str] = set()  # names on the wire

    def encode(self) -> tuple[list[OutTool], schema.ToolChoice | None]:
        """Return the definitions and the choice.

        Raises:
            Untranslatable: a tool has no form that the upstream takes, or a choice forces one that is
                not there.
        """
        choice = self._request.tool_choice
        allowed = frozenset(choice.allowed) if choice is not None else frozenset()
        definitions: list[OutTool] = []
        for tool in self._request.tools:
            if allowed and not {tool.name, wire_name(tool.name, tool.namespace)} & allowed:
                continue
            definition = self._tool(tool)
            if definition is not None:
                definitions.append(definition)
        encoded = self._choice(definitions)
        if encoded is not None and encoded.type == "none" and not self._profile.tool_choice_none:
            return self._without_none(definitions)
        return definitions, encoded

    # --- definitions ------------------------------------------------------------------------------

    def _tool(self, tool: Tool) -> OutTool | None:
        if tool.server:
            return self._server_tool(tool)
        name = wire_name(tool.name, tool.namespace)
        self._sent.add(name)
        if tool.raw is not None and tool.vendor == schema.VENDOR and self._native:
            self._marks.take(tool.cache)
            return tool.raw
        if tool.kind and tool.schema is None and tool.flavor is Flavor.FUNCTION:
            reason = f"the tool `{tool.kind}` is not available at the target"
            raise Untranslatable(reason, path=tool.path, code="unsupported_tool")
        if not tool.namespace and name != tool.name:
            self._losses.append(Loss("tool_renamed", tool.path, f"{tool.name} became {name}"))
        custom = tool.flavor is Flavor.CUSTOM
        options = self._options(tool)
        return schema.ToolDefinition(
            name=name,
            description=self._description(tool) or None,
            input_schema=_FREE_INPUT if custom else _object_schema(tool.schema),
            strict=self._strict(tool),
            defer_loading="defer_loading" in options or None,
            eager_input_streaming="eager_input_streaming" in options or None,
            input_examples=list(tool.examples) or None,
            cache_control=self._marks.take(tool.cache),
        )

    def _description(self, tool: Tool) -> str:
        if tool.grammar is None:
            return tool.description
        self._losses.append(Loss("grammar_not_enforced", tool.path, tool.name))
        syntax, definition = tool.grammar
        rule = f"The input must match this {syntax} grammar:\n{definition}"
        return f"{tool.description}\n\n{rule}" if tool.description else rule

    def _strict(self, tool: Tool) -> bool | None:
        if not tool.strict:
            return None
        if self._profile.supports_strict:
            return True
        self._losses.append(Loss("tool_option_dropped", tool.path, "strict"))
        return None

    def _options(self, tool: Tool) -> frozenset[str]:
        """Return the options of a tool that are said again; the others are told as lost."""
        kept: set[str] = set()
        for option in tool.options:
            # Only the vendor searches the tools that it is to hold back.
            if option == "eager_input_streaming" or (option == "defer_loading" and self._native):
                kept.add(option)
            else:
                self._losses.append(Loss("tool_option_dropped", tool.path, option))
        return frozenset(kept)

    def _server_tool(self, tool: Tool) -> OutTool | None:
        known = tool.kind in self._profile.server_tools
        if tool.vendor == schema.VENDOR and tool.raw is not None and (known or self._native):
            self._marks.take(tool.cache)
            self._sent.add(tool.name)
            return tool.raw
        if tool.kind == "web_search" and known:
            self._sent.add("web_search")
            return Raw(encode(self._web_search(tool)))
        self._marks.take(tool.cache)
        self._losses.append(Loss("server_tool_dropped", tool.path, tool.kind or tool.name))
        return None

    def _web_search(self, tool: Tool) -> _WebSearch:
        try:
            asked = _FOREIGN_SEARCH.decode(tool.raw if tool.raw is not None else b"{}")
        except msgspec.DecodeError:
            self._losses.append(Loss("tool_option_dropped", tool.path, tool.kind))
            asked = _ForeignSearch()
        domains = None if asked.filters is None else asked.filters.allowed_domains
        return _WebSearch("web_search", domains, asked.user_location)

    # --- choice -----------------------------------------------------------------------------------

    def _choice(self, definitions: list[OutTool]) -> schema.ToolChoice | None:
        request = self._request
        choice = request.tool_choice
        path = path_of(request, "tool_choice")
        serial = self._serial(bool(definitions))
        if choice is not None and choice.mode in ("tool", "required"):
            self._check_forced(choice.name, choice.namespace, definitions, path)
        if not definitions:
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
        if self._profile.tool_choice == "strings_only" and wanted.type == "tool":
            self._losses.append(Loss("tool_choice_adjusted", path, "tool became any"))
            return schema.ToolChoice("any", disable_parallel_tool_use=serial)
        return wanted

    def _serial(self, has_tools: bool) -> bool | None:  # noqa: FBT001 -- one private use
        if self._request.parallel is not False or not has_tools:
            return None
        if self._profile.supports_parallel_flag:
            return True
        self._losses.append(Loss("parallel_not_enforced", path_of(self._request, "parallel")))
        return None

    def _check_forced(
        self, name: str, namespace: str, definitions: list[OutTool], path: str
    ) -> None:
        """Refuse to force a tool that was left out; a choice without any tools is merely dropped."""
        declared = bool(self._request.tools)
        missing = wire_name(name, namespace) not in self._sent if name else not definitions
        if declared and missing:
            reason = (
                f"the forced tool `{name}` is not available at the target"
                if name
                else ("tool use is forced, and none of the tools is available at the target")
            )
            raise Untranslatable(reason, path=path, code="unsupported_tool")

    def _without_none(
        self, definitions: list[OutTool]
    ) -> tuple[list[OutTool], schema.ToolChoice | None]:
        """Say `none` to an upstream that has no word for it: by leaving the tools out, if it can be."""
        if self._request.has_calls:
            path = path_of(self._request, "tool_choice")
            self._losses.append(Loss("tool_choice_adjusted", path, "none became auto"))
            return definitions, None
        return [], None


def _object_schema(parameters: Raw | None) -> Raw:
    """Return a schema that says `"type": "object"`, as this dialect demands; its bytes if it does."""
    if parameters is None:
        return _NO_ARGUMENTS
    try:
        fields = _OBJECT.decode(parameters)
    except msgspec.DecodeError:
        return _NO_ARGUMENTS
    if bytes(fields.get("type", Raw(b""))) == b'"object"':
        return parameters
    return Raw(encode({"type": "object", **{key: fields[key] for key in fields if key != "type"}}))
