"""Finds the declared tool that a call means: by the name in its header, or else by its arguments."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from dragoman.toolcalls.schema_types import ToolParameters
from dragoman.turn.request import Tool
from dragoman.turn.tools import NAME_PREFIXES, made_once, wire_name
from dragoman.wire.json_values import decode_any

_COUNTER: Final = re.compile(r":[0-9]+\Z")
# Ids that contain no name.
_NAMELESS: Final = re.compile(r"(?:call_.*|toolu_.*|[0-9]*)", re.DOTALL)
_FOLDED: Final = re.compile(r"[^a-z0-9]")
_NO_PARAMETERS: Final = ToolParameters(Tool(name=""))


class ResolvedCall(Struct, frozen=True, gc=False):
    """A call whose tool was identified by its arguments."""

    name: str
    arguments: str


class DeclaredTools:
    """The declared tools, by their names on the wire.

    `tools` is None if the declared tools are unknown: every name is then accepted.
    """

    def __init__(self, tools: Sequence[Tool] | None) -> None:
        self.known: bool = tools is not None
        self._parameters: dict[str, ToolParameters] = {}
        # By normalized spelling; None: several tools share it.
        self._folded: dict[str, str | None] = {}
        for tool in tools or ():
            if tool.server:
                continue
            wire = wire_name(tool.name, tool.namespace)
            self._parameters[wire] = ToolParameters(tool)
            for spelling in (wire,) if tool.namespace else (wire, tool.name):
                folded = _fold(spelling)
                self._folded[folded] = wire if self._folded.get(folded, wire) == wire else None

    @staticmethod
    def for_tools(tools: Sequence[Tool] | None) -> "DeclaredTools":
        """Return the shared `DeclaredTools` of a request's tools."""
        return _declared(tools, None) if isinstance(tools, tuple) else DeclaredTools(tools)

    def __contains__(self, name: str | None) -> bool:
        return name in self._parameters

    def parameters(self, name: str) -> ToolParameters:
        """Return the declared parameters of a tool; none if the tool is unknown."""
        return self._parameters.get(name, _NO_PARAMETERS)

    def takes_nothing(self, name: str) -> bool:
        """Return whether a tool is declared and has no required parameter."""
        return name in self._parameters and not self._parameters[name].required

    def find(self, name: str) -> str | None:
        """Return the declared name that matches a spelling, or None."""
        if name in self._parameters:
            return name
        for prefix in NAME_PREFIXES:
            if name.startswith(prefix) and name[len(prefix) :] in self._parameters:
                return name[len(prefix) :]
        return self._folded.get(_fold(name))

    def resolve_name(self, written: str) -> str:
        """Return the declared name for a header's name; an unknown name is kept, without control tokens."""
        name = written.partition("<|")[0].strip()
        found = self.find(name)
        if found is not None:
            return found
        name = name.removeprefix("functions.")
        first, _, second = name.partition(".")
        return (
            first if first == second else name
        )  # some models write the name twice: muse_glimmer/doubled_name

    def name_from_id(self, call_id: str) -> str | None:
        """Return the name in an id such as `functions.bash:15`, or None if the id has no name."""
        bare = call_id.removeprefix("functions.")
        name = _COUNTER.sub("", bare)
        found = self.find(name) if name else None
        if found is not None:
            return found
        if _NAMELESS.fullmatch(name):
            return None
        named = bare != call_id or name != bare  # it has a prefix or a counter
        return name if named or not self.known else None

    def resolve_by_arguments(self, arguments: str) -> ResolvedCall | None:
        """Return the only tool that the arguments of a call without a name fit, or None."""
        try:
            fields = msgspec.json.decode(arguments, type=dict[str, Raw])
        except (msgspec.DecodeError, UnicodeError):
            return None
        named = self._by_field(fields, arguments)
        if named is not None:
            return named
        if len(self._parameters) == 1:
            return ResolvedCall(next(iter(self._parameters)), arguments)
        fitting = [
            name
            for name, parameters in self._parameters.items()
            if parameters.required <= fields.keys()
            and fields.keys() <= parameters.properties.keys()
        ]
        return ResolvedCall(fitting[0], arguments) if len(fitting) == 1 else None

    def _by_field(self, fields: dict[str, Raw], arguments: str) -> ResolvedCall | None:
        """Find the name among the arguments; remove it if the tool has no parameter `name`."""
        value = _string(fields.get("name"))
        name = self.find(value) if value else None
        if name is None:
            return None
        properties = self.parameters(name).properties
        if "name" in properties:
            return ResolvedCall(name, arguments)
        del fields["name"]
        inner = fields.get("arguments")
        if len(fields) == 1 and inner is not None and "arguments" not in properties:
            return ResolvedCall(name, bytes(inner).decode())
        return ResolvedCall(name, _object(fields))


@made_once
def _declared(tools: tuple[Tool, ...], _target: None) -> DeclaredTools:
    return DeclaredTools(tools)


def _object(fields: dict[str, Raw]) -> str:
    return msgspec.json.encode(fields).decode()


def _string(raw: Raw | None) -> str | None:
    if raw is None:
        return None
    value: Any = decode_any(raw)
    return value if isinstance(value, str) else None


def _fold(name: str) -> str:
    return _FOLDED.sub("", name.lower())
