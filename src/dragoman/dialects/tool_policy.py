"""Decisions about tools that every dialect's writer makes in the same way.

* definitions: free-form tools as functions, descriptions, arguments of earlier calls
* tool choice: which tools are declared, what a choice becomes that the upstream lacks, `none`, parallel calls
* a forced tool while the model thinks
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.decoding import decode
from dragoman.dialects.encoding import encode
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import is_off
from dragoman.errors import UntranslatableError
from dragoman.limits import Limits
from dragoman.profiles.profile import Profile
from dragoman.turn.arguments import JsonArguments
from dragoman.turn.events import Flavor
from dragoman.turn.losses import Loss
from dragoman.turn.request import ReasoningSettings, Request, Tool, ToolCallPart, ToolChoice
from dragoman.turn.tools import wire_name

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_ENTRIES: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])

# --- definitions ------------------------------------------------------------------------------------

NO_ARGUMENTS: Final = Raw(b'{"type":"object","properties":{}}')
# A free-form tool, for upstreams that know functions only.
FREE_INPUT: Final = Raw(
    b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],'
    b'"additionalProperties":false}'
)
_CUSTOM: Final = Flavor.CUSTOM


def refuse_schemaless(tool: Tool) -> None:
    """Refuse a vendor's own client-side tool that has no schema, such as Anthropic's computer use.

    Raises:
        UntranslatableError: only the vendor's models know how to call it.
    """
    if tool.kind and tool.schema is None and tool.flavor is Flavor.FUNCTION:
        reason = f"the tool `{tool.kind}` is not available at the target"
        raise UntranslatableError(reason, path=tool.path, code="unsupported_tool")


def flat_name(tool: Tool, losses: list[Loss]) -> str:
    """Return the name of a tool for upstreams without namespaces; an illegal name is changed and reported."""
    name = wire_name(tool.name, tool.namespace)
    if not tool.namespace and name != tool.name:
        losses.append(Loss("tool_renamed", tool.path, f"{tool.name} became {name}"))
    return name


def function_description(tool: Tool, losses: list[Loss], *, examples: bool = True) -> str:
    """Return the description of a tool that becomes a plain function.

    A vendor's own tool that the client runs, such as a shell, gets the schema that the vendor publishes for it.
    The grammar of a free-form tool and, with `examples`, examples of its input become part of the text.
    """
    description = tool.description
    if tool.kind and tool.flavor is Flavor.FUNCTION:
        losses.append(Loss("schema_rewritten", tool.path, f"{tool.kind} became a function"))
    if tool.grammar is not None:
        losses.append(Loss("grammar_not_enforced", tool.path, tool.name))
        syntax, definition = tool.grammar
        rule = f"The input must match this {syntax} grammar:\n{definition}"
        description = f"{description}\n\n{rule}" if description else rule
    if examples and tool.examples:
        lines = "\n".join(bytes(example).decode() for example in tool.examples)
        head = f"{description}\n\n" if description else ""
        description = f"{head}Examples of input:\n{lines}"
    return description


def strict_flag(tool: Tool, profile: Profile, losses: list[Loss]) -> bool | None:
    """Return `strict` of a function for the upstream, None to leave it out: not every upstream enforces schemas."""
    if profile.supports_strict:
        return tool.strict
    if tool.strict:
        losses.append(Loss("tool_option_dropped", tool.path, "strict"))
    return None


# --- arguments of earlier calls ---------------------------------------------------------------------


class _AnyObject(Struct, gc=False):
    """Any JSON object: decoding checks the syntax and builds nothing."""


_OBJECT: Final = msgspec.json.Decoder(_AnyObject)


def wrapped_text(text: str) -> str:
    """Return a JSON object that holds arguments which are not an object."""
    return encode({"_raw": text}).decode()


def object_arguments(part: ToolCallPart, limits: Limits, losses: list[Loss], path: str) -> str:
    """Return the arguments of a call in the history as an object, for upstreams that take nothing else.

    Arguments that cannot be repaired without inventing their end are wrapped as `{"_raw": …}`: agents send
    back the calls that they could not parse.
    """
    if part.flavor is _CUSTOM:
        return encode({"input": part.arguments}).decode()
    try:
        _OBJECT.decode(part.arguments)
    except (msgspec.DecodeError, UnicodeEncodeError):
        arguments = JsonArguments(limits=limits)
        text = arguments.feed(part.arguments)
        ending = arguments.end()
        if part.arguments.strip():
            losses.append(Loss("args_repaired", path, f"call {part.id}"))
        if not ending.whole:
            return wrapped_text(part.arguments)
        return text + ending.text
    return part.arguments


# --- tool choice ------------------------------------------------------------------------------------

ChoiceMode: TypeAlias = Literal["auto", "required", "none", "tool"]


class WrittenChoice(Struct, frozen=True, gc=False):
    """What the upstream gets for a client's tool choice."""

    mode: ChoiceMode | None = None  # None: no choice is written
    with_tools: bool = True  # False: the tools are left out, because nothing else means `none`

    @property
    def forced(self) -> bool:
        """A tool must be called."""
        return self.mode in ("required", "tool")


_NO_CHOICE: Final = WrittenChoice()


def must_narrow(request: Request, profile: Profile) -> bool:
    """Return whether a tool is forced by its name, and the upstream has no way to name it."""
    choice = request.tool_choice
    return choice is not None and choice.mode == "tool" and profile.tool_choice == "strings_only"


def declared_tools(
    request: Request, profile: Profile, *, takes_allowed: bool = False
) -> tuple[Tool, ...]:
    """Return the tools to declare: all, unless leaving some out is the only way to express the choice.

    `takes_allowed`: the upstream takes a list of allowed tools beside the definitions.
    """
    choice, tools = request.tool_choice, request.tools
    if choice is None:
        return tools
    if choice.allowed and not takes_allowed:
        allowed = frozenset(choice.allowed)
        tools = tuple(
            tool for tool in tools if {tool.name, wire_name(tool.name, tool.namespace)} & allowed
        )
    if choice.mode == "tool" and profile.tool_choice != "full":
        named = (choice.name, choice.namespace)
        tools = tuple(tool for tool in tools if (tool.name, tool.namespace) == named)
    return tools


def written_choice(
    request: Request, profile: Profile, losses: list[Loss], *, has_tools: bool, has_forced: bool
) -> WrittenChoice:
    """Return what becomes of the client's tool choice.

    `has_tools`: the request declares tools to the upstream; `has_forced`: the forced tool is one of them.

    Raises:
        UntranslatableError: the choice forces a tool, or any tool, and the upstream has none to call.
    """
    choice = request.tool_choice
    if choice is None:
        return _NO_CHOICE
    path = path_of(request, "tool_choice")
    if choice.mode in ("required", "tool") and request.tools and not has_forced:
        what = f"the forced tool `{choice.name}`" if choice.name else "every tool that may be used"
        reason = f"{what} is not available at the target"
        raise UntranslatableError(reason, path=path, code="unsupported_tool")
    if not has_tools:
        losses.append(Loss("tool_choice_dropped", path))
        return _NO_CHOICE
    if choice.mode == "none" and not profile.tool_choice_none:
        if not request.has_calls:
            return WrittenChoice(None, with_tools=False)
        # Upstreams refuse calls in the history of tools that the request does not declare.
        losses.append(Loss("tool_choice_adjusted", path, "none became auto"))
        return _NO_CHOICE
    if choice.mode in ("required", "tool") and profile.tool_choice == "auto_only":
        return weakened(request, choice, losses)
    if must_narrow(request, profile):
        losses.append(Loss("tool_choice_narrowed", path, choice.name))
        return WrittenChoice("required")
    return WrittenChoice(choice.mode)


def weakened(request: Request, choice: ToolChoice, losses: list[Loss]) -> WrittenChoice:
    """Return `auto` in place of a forced choice that the upstream does not take."""
    what = "a forced tool" if choice.mode == "tool" else choice.mode
    losses.append(
        Loss("tool_choice_adjusted", path_of(request, "tool_choice"), f"{what} became auto")
    )
    return WrittenChoice("auto")


def parallel_flag(
    request: Request, profile: Profile, losses: list[Loss], *, has_tools: bool
) -> bool | None:
    """Return whether the upstream may make several calls at once; None: the request leaves it open."""
    if request.parallel is None or not has_tools:
        return None
    if profile.supports_parallel_flag:
        return request.parallel
    if not request.parallel:
        losses.append(Loss("parallel_not_enforced", path_of(request, "parallel")))
    return None


# --- a forced tool while the model thinks -----------------------------------------------------------


def forced_tool_with_thinking(
    request: Request, profile: Profile, losses: list[Loss]
) -> Literal["downgrade", "disable_thinking"]:
    """Return whether the forced tool or the thinking is given up, for an upstream that refuses both in one request.

    Raises:
        UntranslatableError: the profile wants the client to decide.
    """
    policy = profile.forced_tool_choice_policy
    if policy == "error":
        reason = "the target cannot combine a forced tool call with thinking"
        raise UntranslatableError(reason, path=path_of(request, "tool_choice"))
    if policy == "disable_thinking":
        losses.append(Loss("thinking_disabled_by_tool_choice", path_of(request, "thinking")))
    return policy


def thinking_beside_choice(
    request: Request, profile: Profile, losses: list[Loss], *, forced: bool
) -> tuple[ReasoningSettings, bool]:
    """Return the thinking to ask for, and whether the choice becomes `auto`, where an upstream may refuse both together.

    `forced`: the choice as it would be written forces a tool.  Some models think unless the request turns it
    off, so a request without settings counts as one with thinking.

    Raises:
        UntranslatableError: the profile wants the client to decide.
    """
    thinking, choice = request.reasoning, request.tool_choice
    if choice is None or not forced or is_off(thinking) or profile.forced_tool_choice_with_thinking:
        return thinking, False
    if forced_tool_with_thinking(request, profile, losses) == "downgrade":
        weakened(request, choice, losses)
        return thinking, True
    return ReasoningSettings(mode="off"), False


# --- a forced tool in a request that passes in its own dialect --------------------------------------
# llama.cpp reads a forced tool's name as `auto`, or calls any tool: the forced tool is the only one declared, and
# some tool is demanded.  Translated requests are written so from the start.

_TOOL_PATH: Final = re.compile(r"\$\.tools\[(\d+)\]")


def narrowed(
    fields: Mapping[str, Raw], request: Request, any_tool: bytes
) -> tuple[dict[str, Raw], tuple[Loss, ...]]:
    """Return the fields that declare the forced tool alone, and the loss; nothing if it is not there.

    `any_tool` is the dialect's choice of any tool, as JSON.
    """
    choice = request.tool_choice
    if choice is None or "tools" not in fields or "tool_choice" not in fields:
        return {}, ()
    named = (choice.name, choice.namespace)
    paths = (tool.path for tool in request.tools if (tool.name, tool.namespace) == named)
    entry = next((found for path in paths if (found := _TOOL_PATH.fullmatch(path))), None)
    if entry is None:
        return {}, ()  # declared inside another tool, or not at all
    only = bytes(decode(_ENTRIES, fields["tools"])[int(entry[1])])
    return {
        "tools": Raw(b"[%b]" % only),
        "tool_choice": _any_tool(bytes(fields["tool_choice"]), any_tool),
    }, (Loss("tool_choice_narrowed", "$.tool_choice", choice.name),)


def _any_tool(own: bytes, any_tool: bytes) -> Raw:
    """Return the choice of any tool; where that is an object, the client's other fields are kept."""
    if not any_tool.startswith(b"{"):
        return Raw(any_tool)
    kept = decode(_FIELDS, own)
    kept.pop("name", None)
    return Raw(encode(kept | decode(_FIELDS, any_tool)))
