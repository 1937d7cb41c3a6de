"""Bodies: parsers that turn a call's arguments into JSON fragments, however the text is cut.

A body receives the text after a call's header, reports calls and arguments to the machine's sink, and returns the
end of the text it consumed.  The rest is passed again with the next piece.

* `json`: one JSON object, emitted verbatim.
* `json_objects`: JSON objects that contain the name and the arguments.
* `tags`: parameters in XML-like tags (Qwen, GLM, DeepSeek DSML, MiniMax-M2, Kimi K3).
* `elements`: nested elements (MiniMax-M3).
* `literals`: Python and Gemma literals.
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
    """The parser of the open call."""

    @property
    def holding(self) -> bool:
        """Part of the call has arrived and was not emitted, apart from what the machine holds."""
        ...

    @property
    def held(self) -> str:
        """All text from the header on, while it is uncertain whether this is a call."""
        ...

    def start(self) -> None:
        """Begin the call; the machine already refers to this body."""
        ...

    def feed(self, text: str, at: int, /) -> int:
        """Parse from `at` on; return the end of the consumed text."""
        ...

    def stop(self) -> None:
        """End the call now, as incomplete: a limit was exceeded."""
        ...

    def close(self, text: str, at: int, /, *, cut: bool) -> int:
        """Parse the rest of the text and end the call; `cut`: the model was stopped early."""
        ...


def make_body(
    machine: "Machine", rule: Rule, groups: Mapping[str, str], raw: str
) -> CallBody | None:
    """Return the body for a call that a rule begins, or None if this is not a call."""
    declared = machine.declared
    # The machine refers to the open body.  A strong reference back would be a cycle, which would keep a call
    # that is never closed in memory until the collector runs.
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
    if "recipient" in groups and declared.known and declared.find(groups["recipient"]) is None:
        return None  # text before the marker: inkling/text_before_the_marker
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
