"""Encodes tools and tool choice for a Messages upstream."""

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.context import Target
from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.history_writer import CacheMarks, marked_tools
from dragoman.dialects.encoding import encode
from dragoman.dialects.functions import FREE_INPUT, NO_ARGUMENTS, description_with_grammar
from dragoman.dialects.paths import path_of
from dragoman.dialects.server_tools import dropped_options, search_location
from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Flavor
from dragoman.turn.known import made_once
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request, Tool, ToolChoice
from dragoman.turn.tools import wire_name

# --- definitions ----------------------------------------------------------------------------------

_OutTool: TypeAlias = schema.ToolDefinition | Raw

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])


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
    user_location: Raw = Raw(b"null")


class _WebSearch(Struct, frozen=True, tag="web_search_20250305", omit_defaults=True):
    name: str
    allowed_domains: list[str] | None = None
    user_location: _Place | None = None


_PLACE: Final[msgspec.json.Decoder[_Place | None]] = msgspec.json.Decoder(_Place | None)

_FOREIGN_SEARCH: Final = msgspec.json.Decoder(_ForeignSearch)


class Definitions(Struct, frozen=True, gc=False):
    """The tools of a request as an upstream is told them."""

    names: frozenset[str]  # on the wire
    json: Raw | None  # all of them, as a list; None: there are none
    skipped: int  # how many of the cache marks that follow are too many
    losses: tuple[Loss, ...]


class Audience(Struct, frozen=True, gc=False):
    """Whom tools are defined for."""

    profile: Profile
    skipped: int  # how many of the cache marks are too many


@made_once
def define(tools: tuple[Tool, ...], audience: Audience) -> Definitions:
    """Return the definitions.

    Raises:
        UntranslatableError: a tool has no form that the upstream takes.
    """
    definer = _Definer(audience)
    defined = [one for one in map(definer.define, tools) if one is not None]
    return Definitions(
        frozenset(definer.names),
        Raw(encode(defined)) if defined else None,
        definer.marks.skipped,
        tuple(definer.losses),
    )


class _Definer:
    """Define one tool after the other."""

    def __init__(self, audience: Audience) -> None:
        self.names: set[str] = set()
        self.losses: list[Loss] = []
        self.marks = CacheMarks(audience.skipped)
        self._profile = audience.profile
        self._native = audience.profile.vendor_tools

    def define(self, tool: Tool) -> _OutTool | None:
        if tool.server:
            return self._server_tool(tool)
        name = wire_name(tool.name, tool.namespace)
        self.names.add(name)
        if tool.raw is not None and tool.vendor == schema.VENDOR and self._native:
            self.marks.take(tool.cache)
            return tool.raw
        if tool.kind and tool.schema is None and tool.flavor is Flavor.FUNCTION:
            reason = f"the tool `{tool.kind}` is not available at the target"
            raise UntranslatableError(reason, path=tool.path, code="unsupported_tool")
        if not tool.namespace and name != tool.name:
            self.losses.append(Loss("tool_renamed", tool.path, f"{tool.name} became {name}"))
        custom = tool.flavor is Flavor.CUSTOM
        options = self._options(tool)
        return schema.ToolDefinition(
            name=name,
            description=self._description(tool) or None,
            input_schema=FREE_INPUT if custom else _object_schema(tool.schema),
            strict=self._strict(tool),
            defer_loading="defer_loading" in options or None,
            eager_input_streaming="eager_input_streaming" in options or None,
            input_examples=list(tool.examples) or None,
            cache_control=self.marks.take(tool.cache),
        )

    def _description(self, tool: Tool) -> str:
        if tool.grammar is not None:
            self.losses.append(Loss("grammar_not_enforced", tool.path, tool.name))
        return description_with_grammar(tool)

    def _strict(self, tool: Tool) -> bool | None:
        if not tool.strict:
            return None
        if self._profile.supports_strict:
            return True
        self.losses.append(Loss("tool_option_dropped", tool.path, "strict"))
        return None

    def _options(self, tool: Tool) -> frozenset[str]:
        """Return the options of a tool that are said again; the others are told as lost."""
        kept: set[str] = set()
        for option in tool.options:
            # Only the vendor searches the tools that it is to hold back.
            if option == "eager_input_streaming" or (option == "defer_loading" and self._native):
                kept.add(option)
            else:
                self.losses.append(Loss("tool_option_dropped", tool.path, option))
        return frozenset(kept)

    def _server_tool(self, tool: Tool) -> _OutTool | None:
        known = self._profile.runs(tool.kind, "anthropic")
        if tool.vendor == schema.VENDOR and tool.raw is not None and (known or self._native):
            self.marks.take(tool.cache)
            self.names.add(tool.name)
            return tool.raw
        if tool.kind == "web_search" and known:
            self.names.add("web_search")
            return Raw(encode(self._web_search(tool)))
        self.marks.take(tool.cache)
        self.losses.append(Loss("server_tool_dropped", tool.path, tool.kind or tool.name))
        return None

    def _web_search(self, tool: Tool) -> _WebSearch:
        try:
            asked = _FOREIGN_SEARCH.decode(tool.raw if tool.raw is not None else b"{}")
        except msgspec.DecodeError:
            self.losses.append(Loss("tool_option_dropped", tool.path, tool.kind))
            asked = _ForeignSearch()
        for name in dropped_options(tool, ("filters", "user_location")):
            self.losses.append(Loss("tool_option_dropped", tool.path, name))
        domains = None if asked.filters is None else asked.filters.allowed_domains
        place = None
        if bytes(asked.user_location) != b"null":
            try:
                place = _PLACE.decode(search_location(asked.user_location))
            except msgspec.DecodeError:
                self.losses.append(Loss("tool_option_dropped", tool.path, "user_location"))
        return _WebSearch("web_search", domains, place)


def _object_schema(parameters: Raw | None) -> Raw:
    """Return a schema that says `"type": "object"`, as this dialect demands; its bytes if it does."""
    if parameters is None:
        return NO_ARGUMENTS
    try:
        fields = _OBJECT.decode(parameters)
    except msgspec.DecodeError:
        return NO_ARGUMENTS
    if bytes(fields.get("type", Raw(b""))) == b'"object"':
        return parameters
    return Raw(encode({"type": "object", **{key: fields[key] for key in fields if key != "type"}}))


# --- tools and tool choice ------------------------------------------------------------------------


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
            UntranslatableError: a tool has no form that the upstream takes, or a choice forces one that is
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
            raise UntranslatableError(reason, path=path, code="unsupported_tool")

    def _without_none(self, sent: Definitions) -> Raw | None:
        """Say `none` to an upstream that has no word for it: by leaving the tools out, if it can be."""
        if not self._request.has_calls:
            return None
        path = path_of(self._request, "tool_choice")
        self._losses.append(Loss("tool_choice_adjusted", path, "none became auto"))
        return sent.json
