"""The tools of a request: parses a repeated list only once, makes names legal for a target, and restores them.

The table of names is built from the declared tools of each request, so the way back needs no memory.
"""

import hashlib
import re
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import UntranslatableError
from dragoman.limits import KIB
from dragoman.turn.events import Flavor
from dragoman.turn.request import Tool

# --- lists of tools that come again -----------------------------------------------------------------
# Agents send the same list with every request of a conversation.  A list is decoded once, and what is made of it
# (a table of names, definitions for an upstream) is made once.  Only time depends on this cache: what it keeps is
# a pure function of its arguments.

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

_LISTS: Final = 64  # lists that are kept: the agents that use one process at the same time
_MAX_BYTES: Final = 256 * KIB  # of a list that is kept; an agent with many servers has half of it
_SAMPLE: Final = 64  # bytes at either end of a list that make its hash


class _Definitions:
    """The JSON of a list as a key: the hash covers a sample, because comparing is cheaper than hashing."""

    __slots__ = ("raw",)

    def __init__(self, raw: Raw) -> None:
        self.raw = raw

    def __hash__(self) -> int:
        view = memoryview(self.raw)
        return hash((view.nbytes, bytes(view[:_SAMPLE]), bytes(view[-_SAMPLE:])))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Definitions) and self.raw == other.raw


class KnownTools(tuple[Tool, ...]):
    """A list of tools that is kept.

    It equals any tuple of the same tools, but its hash is its identity: to make something again for an
    equal list costs less than to compare two lists.
    """

    __slots__ = ()
    if not TYPE_CHECKING:  # a type checker wants a function, which costs twenty times as much
        __hash__ = object.__hash__


class ToolLists:
    """The lists that clients of one dialect sent lately; larger ones than `_MAX_BYTES` are decoded each time."""

    def __init__(self, decode: Callable[[bytes], tuple[Tool, ...]]) -> None:
        self._decode = decode
        self._known = lru_cache(maxsize=_LISTS)(self._read)

    def read(self, raw: Raw) -> tuple[Tool, ...]:
        """Return the tools of a list.

        Raises:
            MalformedError: it is not a list of tools.
        """
        if memoryview(raw).nbytes > _MAX_BYTES:
            return self._decode(bytes(raw))
        return self._known(_Definitions(raw))

    def _read(self, definitions: _Definitions) -> KnownTools:
        # The key and the tools are kept: they must not hold on to the bytes of the whole request.
        definitions.raw = definitions.raw.copy()
        return KnownTools(self._decode(bytes(definitions.raw)))


def made_once(make: Callable[[tuple[Tool, ...], H], T]) -> Callable[[tuple[Tool, ...], H], T]:
    """Cache what `make` returns for a list that is kept, for each target that it is made for."""
    kept = lru_cache(maxsize=_LISTS)(make)

    def made(tools: tuple[Tool, ...], target: H, /) -> T:
        return kept(tools, target) if isinstance(tools, KnownTools) else make(tools, target)

    return made


# --- names on the wire ------------------------------------------------------------------------------

_LEGAL: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ILLEGAL_CHAR: Final = re.compile(r"[^A-Za-z0-9_-]")
_KEPT_CHARS: Final = 55  # of a name that must be shortened: leaves room for `_` and eight digits
# Prefixes that models put before a declared name.
NAME_PREFIXES: Final = ("functions.", "functions:", "default_api.", "default_api:", "tools.")


class _Schema(Struct, gc=False):
    required: list[str] = []
    properties: dict[str, msgspec.Raw] = {}


_SCHEMA: Final = msgspec.json.Decoder(_Schema)


class ToolName(Struct, frozen=True, gc=False):
    """A tool as its client knows it."""

    name: str
    namespace: str = ""
    flavor: Flavor = Flavor.FUNCTION


@lru_cache(maxsize=4096)  # the same few names come with every request
def wire_name(name: str, namespace: str = "") -> str:
    """Return a name that every target takes (`[A-Za-z0-9_-]{1,64}`), always the same for one tool."""
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
        """Return the table of a request's tools, cached for a list that is kept.

        Raises:
            UntranslatableError: two tools have the same name on the wire.
        """
        return _table(tools, None)

    def __contains__(self, wire: str) -> bool:
        return wire in self._by_wire

    def __len__(self) -> int:
        return len(self._by_wire)

    def is_complete_name(self, wire: str) -> bool:
        """Return whether `wire` is a declared name, and no other declared name begins with it."""
        return wire in self._by_wire and not any(
            other != wire and other.startswith(wire) for other in self._by_wire
        )

    def parameters(self, tool: ToolName) -> tuple[frozenset[str], frozenset[str]]:
        """Return the required parameters of a function, and all of them; none if it is not declared."""
        schema = self._schemas.get(tool)
        if schema is None or tool.flavor is not Flavor.FUNCTION:
            return frozenset(), frozenset()
        try:
            found = _SCHEMA.decode(schema)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return frozenset(), frozenset()
        return frozenset(found.required), frozenset(found.properties)

    def resolve(self, wire: str) -> ToolName:
        """Return the tool that the upstream calls `wire`; an unknown name is kept as it is.

        Prompts name the tools of a namespace without it (Codex writes `exec` for `functions__exec`), and so
        do models: a bare name that only one tool has means that tool.
        """
        known = self._by_wire.get(wire)
        if known is not None:
            return known
        stripped = wire.strip()
        names = [stripped[len(one) :] for one in ("", *NAME_PREFIXES) if stripped.startswith(one)]
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
