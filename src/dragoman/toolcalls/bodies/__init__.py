"""How a call's arguments are written: from text, cut anywhere, to JSON fragments.

A body takes the text after a call's header.  It says through the machine what it found, and returns how
far it read; what it did not read comes again with the next piece.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, assert_never
from weakref import proxy

from dragoman.toolcalls.bodies.elements import ElementsBody
from dragoman.toolcalls.bodies.json import JsonBody
from dragoman.toolcalls.bodies.json_objects import ObjectsBody
from dragoman.toolcalls.bodies.literals import LiteralsBody
from dragoman.toolcalls.bodies.tags import TagsBody, unescaped
from dragoman.toolcalls.format import (
    ElementsSpec,
    JsonSpec,
    LiteralsSpec,
    ObjectsSpec,
    Rule,
    TagsSpec,
)

if TYPE_CHECKING:
    from dragoman.toolcalls.machine import Machine


class CallBody(Protocol):
    """The open call."""

    @property
    def holding(self) -> bool:
        """Something of the call has come and not left, apart from what the machine holds."""
        ...

    @property
    def held(self) -> str:
        """The text that is not known to be a call: all of it, from its header on."""
        ...

    def start(self) -> None:
        """Begin, after the machine knows this body."""
        ...

    def feed(self, text: str, at: int, /) -> int:
        """Read on from `at`; return where reading stopped."""
        ...

    def stop(self) -> None:
        """End the call as it stands: a limit was passed."""
        ...

    def close(self, text: str, at: int, /, *, cut: bool) -> int:
        """Read the last of the text and end the call; `cut` says that the model was stopped."""
        ...


def make_body(
    machine: "Machine", rule: Rule, groups: Mapping[str, str], raw: str
) -> CallBody | None:
    """Return the body for a call that a rule begins, or None if it is no call after all."""
    declared = machine.declared
    # The machine refers to the body that is open.  A plain reference back would be a cycle, which keeps a
    # call that was never closed in memory.
    machine = proxy(machine)
    call_id = groups.get("id", "")
    name: str | None = None
    if "name" in groups:
        entities = isinstance(rule.body, TagsSpec) and rule.body.entities
        name = declared.resolve_name(unescaped(groups["name"]) if entities else groups["name"])
    elif "id" in groups:
        name = declared.name_from_id(call_id)
    if rule.declared and declared.known and name not in declared:
        return None
    match rule.body:
        case JsonSpec():
            return JsonBody(machine, call_id, name, raw, ended=rule.empty)
        case TagsSpec() as spec if name:
            return TagsBody(machine, spec, call_id, name, ended=rule.empty)
        case ObjectsSpec() as spec:
            return ObjectsBody(machine, spec, raw)
        case LiteralsSpec() as spec if name:
            return LiteralsBody(machine, spec, call_id, name)
        case ElementsSpec() as spec if name:
            return ElementsBody(machine, spec, call_id, name)
        case TagsSpec() | LiteralsSpec() | ElementsSpec() | None:
            return None
        case _:
            assert_never(rule.body)
