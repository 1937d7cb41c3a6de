"""Tool names on the wire: legal for the target, and back again without state.

The table is rebuilt from the declared tools of each request, so the way back needs no memory.
"""

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import UntranslatableError
from dragoman.turn.events import Flavor
from dragoman.turn.known import made_once
from dragoman.turn.request import Tool

_LEGAL: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ILLEGAL_CHAR: Final = re.compile(r"[^A-Za-z0-9_-]")
_KEPT_CHARS: Final = 55  # of a name that must be shortened: leaves room for `_` and eight digits
# Prefixes that models put before a declared name.
_PREFIXES: Final = ("functions.", "functions:", "default_api.", "default_api:", "tools.")


class _Schema(Struct, gc=False):
    required: list[str] = []


_REQUIRED: Final = msgspec.json.Decoder(_Schema)


class ToolName(Struct, frozen=True, gc=False):
    """A tool as its client knows it."""

    name: str
    namespace: str = ""
    flavor: Flavor = Flavor.FUNCTION


@lru_cache(maxsize=4096)  # the same few names come with every request
def wire_name(name: str, namespace: str = "") -> str:
    """Return the name that every target takes: `[A-Za-z0-9_-]{1,64}`, the same for the same tool."""
    full = f"{namespace}__{name}" if namespace else name
    if _LEGAL.fullmatch(full):
        return full
    digest = hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_ILLEGAL_CHAR.sub('_', full)[:_KEPT_CHARS]}_{digest}"


class ToolTable:
    """The declared tools, by the name they have on the wire."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        """Index `tools`.

        Raises:
            UntranslatableError: two tools have the same name on the wire.
        """
        self._by_wire = by_wire = dict[str, ToolName]()
        # Tools of a namespace by the name that they have in it; None if there are several.
        self._by_bare: dict[str, ToolName | None] = {}
        self._schemas: dict[ToolName, Raw | None] = {}
        for tool in tools:
            if tool.server:
                continue
            known = ToolName(tool.name, tool.namespace, tool.flavor)
            wire = wire_name(tool.name, tool.namespace)
            other = by_wire.setdefault(wire, known)
            self._schemas[known] = tool.schema
            if other is not known and other != known:
                reason = f"two tools are called `{wire}` once namespaces are flattened"
                raise UntranslatableError(reason, path=tool.path, code="tool_name_collision")
            if tool.namespace:
                same = self._by_bare.setdefault(tool.name, known) == known
                self._by_bare[tool.name] = known if same else None

    @staticmethod
    def of(tools: tuple[Tool, ...]) -> "ToolTable":
        """Return the table of a request's tools: the same one for tools that are known.

        Raises:
            UntranslatableError: two tools have the same name on the wire.
        """
        return _table(tools, None)

    def __contains__(self, wire: str) -> bool:
        return wire in self._by_wire

    def __len__(self) -> int:
        return len(self._by_wire)

    def settles(self, wire: str) -> bool:
        """Say whether `wire` is a declared name that no longer declared name begins with."""
        return wire in self._by_wire and not any(
            other != wire and other.startswith(wire) for other in self._by_wire
        )

    def required(self, tool: ToolName) -> frozenset[str]:
        """Return the parameters that a function must be given; none if it is not declared."""
        schema = self._schemas.get(tool)
        if schema is None or tool.flavor is not Flavor.FUNCTION:
            return frozenset()
        try:
            return frozenset(_REQUIRED.decode(schema).required)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return frozenset()

    def resolve(self, wire: str) -> ToolName:
        """Return the tool that the upstream calls `wire`; an unknown name is kept as it is.

        Prompts name the tools of a namespace without it, and so do models: where one tool alone has the
        name, it is meant.
        """
        known = self._by_wire.get(wire)
        if known is not None:
            return known
        stripped = wire.strip()
        names = [stripped[len(one) :] for one in ("", *_PREFIXES) if stripped.startswith(one)]
        for table in (self._by_wire, self._by_bare):
            for name in names:
                known = table.get(name)
                if known is not None:
                    return known
        return ToolName(wire)


@made_once
def _table(tools: tuple[Tool, ...], _target: None) -> ToolTable:
    return ToolTable(tools)


NO_TOOLS: Final = ToolTable()
