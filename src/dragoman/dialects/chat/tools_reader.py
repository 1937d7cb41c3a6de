"""Tool definitions and the tool choice, as a client declares them."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from dragoman.dialects.chat.schema import (
    CustomTool,
    FunctionTool,
    Named,
    NamedTool,
    RequestIn,
    ToolChoiceIn,
    ToolDefinition,
)
from dragoman.dialects.decoding import decode, decode_at
from dragoman.dialects.tool_policy import CHAT_SEARCH
from dragoman.errors import MalformedError
from dragoman.turn.events import Flavor
from dragoman.turn.request import Tool, ToolChoice
from dragoman.turn.tools import ToolLists

VENDOR: Final = "openai"

_TOOLS: Final[msgspec.json.Decoder[list[ToolDefinition] | None]] = msgspec.json.Decoder(
    list[ToolDefinition] | None
)

_RAW_TOOLS: Final[msgspec.json.Decoder[list[dict[str, Raw]]]] = msgspec.json.Decoder(
    list[dict[str, Raw]]
)

_MODES: Final = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def decode_tools(given: RequestIn, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """Return all declared tools; `tools` are those of the list of them.

    Raises:
        MalformedError: a definition is not one.
    """
    if not given.functions and not given.web_search_options:
        return tools
    others = [
        _function(function, f"$.functions[{at}]")
        for at, function in enumerate(given.functions or ())
    ]
    if bytes(given.web_search_options) not in (b"", b"null"):
        others.append(
            Tool(
                name="web_search",
                server=True,
                kind="web_search",
                vendor=VENDOR,
                raw=given.web_search_options,
                path=CHAT_SEARCH,
            )
        )
    return (*tools, *others) if others else tools


def _listed(definitions: bytes) -> tuple[Tool, ...]:
    listed = decode_at(_TOOLS, definitions, "$.tools")
    tools: list[Tool] = []
    raws: list[dict[str, Raw]] = []
    for at, definition in enumerate(listed or ()):
        path = f"$.tools[{at}]"
        if definition.type == "function" and definition.function is not None:
            tools.append(_function(definition.function, f"{path}.function"))
        elif definition.type == "custom" and definition.custom is not None:
            tools.append(_custom(definition.custom, path))
        else:
            raws = raws or decode(_RAW_TOOLS, definitions)
            tools.append(_vendor_tool(definition, raws[at], path))
    return tuple(tools)


TOOL_LISTS: Final = ToolLists(_listed)


def _function(function: FunctionTool, path: str) -> Tool:
    if not function.name:
        raise MalformedError("a tool needs a name", path=f"{path}.name")
    parameters = bytes(function.parameters)
    if parameters not in (b"", b"null") and not parameters.startswith(b"{"):
        raise MalformedError("a tool's schema must be an object", path=f"{path}.parameters")
    return Tool(
        name=function.name,
        description=function.description or "",
        schema=function.parameters if parameters.startswith(b"{") else None,
        strict=function.strict,
        path=path.removesuffix(".function"),
    )


def _custom(custom: CustomTool, path: str) -> Tool:
    if not custom.name:
        raise MalformedError("a tool needs a name", path=f"{path}.custom.name")
    grammar = custom.format.grammar if custom.format is not None else None
    return Tool(
        name=custom.name,
        description=custom.description or "",
        flavor=Flavor.CUSTOM,
        grammar=None if grammar is None else (grammar.syntax, grammar.definition),
        path=path,
    )


def _vendor_tool(definition: ToolDefinition, raw: dict[str, Raw], path: str) -> Tool:
    """Read a tool that only a compatible vendor has: the key of its settings is the tool's type."""
    kind = definition.type
    if kind in ("function", "custom"):
        raise MalformedError(f"a tool of type {kind} needs its `{kind}`", path=path)
    if kind not in raw and kind != "builtin_function":
        raise MalformedError(f"there are no tools of type `{kind}`", path=f"{path}.type")
    name = definition.function.name if definition.function is not None else kind
    return Tool(
        name=name,
        server=True,
        kind=kind,
        vendor=VENDOR,
        raw=Raw(msgspec.json.encode(raw)),
        path=path,
    )


def decode_choice(given: RequestIn, tools: Sequence[Tool]) -> ToolChoice | None:
    """Return what the client demands of tool use.

    Raises:
        MalformedError: it is not valid, or forces a tool that is not declared.
    """
    choice = given.tool_choice
    if choice is None:
        legacy = given.function_call
        if legacy is None:
            return None
        path = "$.function_call"
        return _mode(legacy, path) if isinstance(legacy, str) else _named(legacy, tools, path)
    if isinstance(choice, str):
        return _mode(choice, "$.tool_choice")
    return _object(choice, tools)


def _mode(word: str, path: str) -> ToolChoice:
    if word not in _MODES:
        raise MalformedError(f"unknown tool choice `{word}`", path=path)
    return msgspec.convert({"mode": _MODES[word]}, ToolChoice)


def _object(choice: ToolChoiceIn, tools: Sequence[Tool]) -> ToolChoice:
    path = "$.tool_choice"
    if choice.allowed_tools is not None:
        allowed = choice.allowed_tools
        mode = _mode(allowed.mode, f"{path}.allowed_tools.mode").mode
        names = tuple(name for tool in allowed.tools if (name := _name(tool)))
        return ToolChoice(mode, allowed=names)
    if choice.type in _MODES:  # some clients write the modes as objects
        return _mode(choice.type, path)
    named = choice.function or choice.custom
    if named is None:
        raise MalformedError("a forced tool needs its name", path=path)
    return _named(named, tools, path)


def _named(named: Named, tools: Sequence[Tool], path: str) -> ToolChoice:
    if tools and named.name not in {tool.name for tool in tools}:
        raise MalformedError(f"the forced tool `{named.name}` is not declared", path=path)
    return ToolChoice("tool", named.name)


def _name(tool: NamedTool) -> str:
    named = tool.function or tool.custom
    return named.name if named is not None else ""
