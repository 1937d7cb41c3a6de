"""Tool definitions and the tool choice, as a client declares them."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from dragoman.dialects.decoding import decode_at
from dragoman.dialects.responses.schema import CHOICE, NULL, TOOL, TOOLS, ToolDefinition
from dragoman.dialects.responses.shells import SHELLS
from dragoman.dialects.server_tools import base_kind
from dragoman.errors import Malformed
from dragoman.turn.events import Flavor
from dragoman.turn.known import ToolLists
from dragoman.turn.request import Tool, ToolChoice

_VENDOR: Final = "openai"
_OPTIONS: Final = ("defer_loading", "allowed_callers", "output_schema")


def _declared_tools(definitions: bytes) -> tuple[Tool, ...]:
    """Read the `tools` of a request.

    Raises:
        Malformed: a definition is not valid; carries its path.
    """
    raws = decode_at(TOOLS, definitions, "$.tools")
    return decode_tools(raws or (), "$.tools")


TOOL_LISTS: Final = ToolLists(_declared_tools)


def decode_tools(raws: Sequence[Raw], path: str, namespace: str = "") -> tuple[Tool, ...]:
    """Read tool definitions; those of a namespace become tools that know it.

    Raises:
        Malformed: a definition is not valid; carries its path.
    """
    tools: list[Tool] = []
    for index, raw in enumerate(raws):
        at = f"{path}[{index}]"
        given = decode_at(TOOL, raw, at)
        if given.type == "namespace":
            if namespace:
                raise Malformed("a namespace inside a namespace", path=at)
            tools += decode_tools(given.tools or (), f"{at}.tools", _name(given, at))
        else:
            tools.append(_decode_tool(given, raw, at, namespace))
    return tuple(tools)


def namespace_descriptions(raws: Sequence[Raw]) -> dict[str, str]:
    """Return what the namespaces among valid definitions are for."""
    given = (TOOL.decode(raw) for raw in raws)
    return {
        tool.name: tool.description
        for tool in given
        if tool.type == "namespace" and tool.name and tool.description
    }


def _decode_tool(given: ToolDefinition, raw: Raw, path: str, namespace: str) -> Tool:
    options = tuple(name for name in _OPTIONS if getattr(given, name) not in (None, False, NULL))
    match given.type:
        case "function":
            return Tool(
                name=_name(given, path),
                description=given.description or "",
                schema=_schema(given.parameters, path),
                strict=given.strict,
                namespace=namespace,
                options=options,
                path=path,
            )
        case "custom":
            form = given.format
            grammar = form is not None and form.type == "grammar"
            return Tool(
                name=_name(given, path),
                description=given.description or "",
                flavor=Flavor.CUSTOM,
                namespace=namespace,
                grammar=(form.syntax, form.definition) if form is not None and grammar else None,
                options=options,
                path=path,
            )
        case "local_shell" | "shell" | "apply_patch" if not _in_container(given):
            shell = SHELLS[given.type]
            return Tool(
                name=given.type,
                description=shell.description,
                schema=shell.schema,
                flavor=shell.flavor,
                kind=given.type,
                vendor=_VENDOR,
                raw=raw,
                path=path,
            )
        case _:
            return Tool(
                name=given.name or given.type,
                server=True,
                kind=given.type,
                vendor=_VENDOR,
                raw=raw,
                path=path,
            )


def _in_container(given: ToolDefinition) -> bool:
    """Say whether a shell is one that the vendor runs."""
    return given.environment is not None and given.environment.type.startswith("container")


def _name(given: ToolDefinition, path: str) -> str:
    if not given.name:
        raise Malformed(f"a tool of type {given.type} needs a `name`", path=path)
    return given.name


def _schema(parameters: Raw, path: str) -> Raw | None:
    if parameters == NULL:
        return None
    if not bytes(parameters).startswith(b"{"):
        raise Malformed("a JSON schema is an object", path=f"{path}.parameters")
    return parameters


def decode_choice(raw: Raw, tools: Sequence[Tool]) -> ToolChoice | None:
    """Read the tool choice.

    Raises:
        Malformed: it is not valid, or names a tool that is not declared.
    """
    if raw == NULL:
        return None
    path = "$.tool_choice"
    given = decode_at(CHOICE, raw, path)
    match given:
        case "auto" | "required" | "none":
            return msgspec.convert({"mode": given}, ToolChoice)
        case str():
            raise Malformed(f"no tool choice `{given}`", path=path)
        case _ if given.type == "allowed_tools":
            allowed = tuple(tool.name or tool.type for tool in given.tools)
            return ToolChoice(given.mode, allowed=allowed)
        case _:
            return _named(given.name or given.type, given.namespace or "", tools, path)


def _named(name: str, namespace: str, tools: Sequence[Tool], path: str) -> ToolChoice:
    if not tools:
        return ToolChoice("tool", name, namespace)
    for tool in tools:
        same = tool.name == name or (tool.server and base_kind(tool.kind) == base_kind(name))
        if same and namespace in ("", tool.namespace):
            return ToolChoice("tool", tool.name, tool.namespace)
    raise Malformed(f"the tool `{name}` is not declared in `tools`", path=path)
