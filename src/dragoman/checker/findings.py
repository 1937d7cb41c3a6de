"""The part that the strict grammars of all dialects share: findings, and the shapes of fields.

A reader repairs what it can; a grammar repairs nothing and reports everything that breaks a client.  Each
dialect has its own grammar in the module of its name; `checker.py` drives them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from hashlib import sha256
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from dragoman.errors import TooLargeError
from dragoman.limits import Limits
from dragoman.wire.json_scanner import JsonScanner

Json: TypeAlias = Mapping[str, object]

MAX_VIOLATIONS: Final = 100  # that are kept; a stream with more has been understood by then
# Ids of calls: of the characters that Messages takes, and any text that a client can send back.
WORD_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
TEXT_ID: Final = re.compile(r"[^\s\x00-\x1f\x7f]{1,64}\Z")
_SHOWN_CHARS: Final = 60  # of a foreign value, in a reason

# Rules that hold for every dialect: the framing, and that a stream has an end.
FRAMING_RULES: Final[dict[str, str]] = {
    "byte-order-mark": "the stream does not begin with a byte-order mark, which hides the first field",
    "utf-8": "the bytes of each event are UTF-8",
    "unknown-line": "each line is a comment or one of `data`, `event`, `id` and `retry`",
    "empty-frame": "each event has data: SDKs fail to parse an empty event; after an `id` they also make"
    " one of a comment with a blank line",
    "json": "the data of an event is one JSON object",
    "surrogate-pair": "an escaped surrogate pair is not cut in two: the halves cannot be encoded",
    "truncated": "the stream ends with a finish or a failure; it does not just stop",
    "nothing-after-end": "nothing but comments follows the end",
}
# Rules of a dialect whose streams may be one JSON list in place of events.
LIST_RULES: Final[dict[str, str]] = {
    "one-list": "a stream without events is one JSON list of chunks, with commas between them",
}


class Violation(Struct, frozen=True, gc=False):
    """One place where a stream breaks a rule.

    Attributes:
        rule: The rule's name, a stable word for programs; `dragoman check --rules` explains them.
        reason: What is wrong here, for people.  It contains at most the beginning of a value of the stream.
        frame: The event at fault, counted from 1; past the last one for what is missing at the end.
        offset: Where that event begins in the input, in bytes.
        path: JSON path of the field, if it is one.
    """

    rule: str
    reason: str
    frame: int
    offset: int
    path: str = ""


class Ending(StrEnum):
    """How a stream ended.

    Attributes:
        FINISH: With the dialect's normal end.
        FAILURE: With a failure in the dialect's own form, which is legal.
        TRUNCATED: Without an end.
    """

    FINISH = "finish"
    FAILURE = "failure"
    TRUNCATED = "truncated"


class Position(Struct, frozen=True, gc=False):
    frame: int
    offset: int


class Findings:
    """Collect violations, and know where in the input they are."""

    def __init__(self) -> None:
        self.here: Position = Position(0, 0)
        self.total: int = 0  # also those past `MAX_VIOLATIONS`
        self._new: list[Violation] = []

    def add(self, rule: str, reason: str, path: str = "", *, at: Position | None = None) -> None:
        """Note a violation, here or at an earlier position."""
        self.total += 1
        if self.total <= MAX_VIOLATIONS:
            where = at or self.here
            self._new.append(Violation(rule, reason, where.frame, where.offset, path))

    def take(self) -> list[Violation]:
        """Return what was noted since the last call."""
        new, self._new = self._new, []
        return new


class DialectGrammar(Protocol):
    """What a dialect demands of a stream.  Goes on after a violation, as well as it can."""

    @property
    def blocks(self) -> int:
        """Blocks, items or channels of the answer so far."""
        ...

    @property
    def calls(self) -> int:
        """Tool calls among them, for the client to run."""
        ...

    def read(self, name: str, event: Json, /) -> None:
        """Judge one event: its name in the framing, and its data."""
        ...

    def read_done(self) -> None:
        """Judge the marker `[DONE]`."""
        ...

    def end(self) -> Ending:
        """Judge the end of the input."""
        ...


# A dialect whose clients do not read every event stream has a function `judge_frame` beside its `GRAMMAR`: it gets
# the bytes of each frame, comments among them, and its lines that are not empty.
JudgeFrame: TypeAlias = Callable[[bytes, Sequence[bytes], Findings], None]


class ValueShape(Struct, frozen=True):
    """What a value must look like."""

    expected: str
    fits: Callable[[object], bool]


ANY: Final = ValueShape("anything", lambda _: True)
TEXT: Final = ValueShape("a string", lambda value: isinstance(value, str))
NAME: Final = ValueShape(
    "a string that is not empty", lambda value: isinstance(value, str) and value != ""
)
COUNT: Final = ValueShape("a whole number from 0", lambda value: type(value) is int and value >= 0)
NUMBER: Final = ValueShape("a number", lambda value: type(value) in (int, float))
OBJECT: Final = ValueShape("an object", lambda value: isinstance(value, dict))
LIST: Final = ValueShape("a list", lambda value: isinstance(value, list))
NULL: Final = ValueShape("null", lambda value: value is None)
EMPTY_TEXT: Final = ValueShape("an empty string", lambda value: value == "")
EMPTY_LIST: Final = ValueShape("an empty list", lambda value: value == [])
EMPTY_OBJECT: Final = ValueShape("an empty object", lambda value: value == {})


def one_of(*words: str) -> ValueShape:
    """Return the shape of a closed vocabulary."""
    return ValueShape(" or ".join(f"`{word}`" for word in words), lambda value: value in words)


def nullable(shape: ValueShape) -> ValueShape:
    return ValueShape(
        f"{shape.expected}, or null", lambda value: value is None or shape.fits(value)
    )


class Field(Struct, frozen=True):
    """A field that an event must have."""

    path: str  # keys joined by dots
    shape: ValueShape
    rule: str = "required-field"
    optional: bool = False  # may be absent, but not of another shape


def check_fields(
    fields: Sequence[Field], event: Json, findings: Findings, *, root: str = "$"
) -> None:
    """Note each field of the table that is missing or has another shape, but nothing below such."""
    bad: list[str] = []
    for field in fields:
        value = _value_at(event, field.path)
        if value is not _MISSING and field.shape.fits(value):
            continue
        known = any(field.path.startswith(f"{path}.") for path in bad)
        bad.append(field.path)
        if known or (value is _MISSING and field.optional):
            continue
        reason = f"`{field.path}` is missing"
        if value is not _MISSING:
            reason = f"`{field.path}` is {shown(value)} where {field.shape.expected} is expected"
        findings.add(field.rule, reason, f"{root}.{field.path}")


_MISSING: Final = object()


@cache  # paths are literals of the tables
def _keys(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


def _value_at(event: object, path: str) -> object:
    value: object = event
    for key in _keys(path):
        if not isinstance(value, dict) or key not in value:
            return _MISSING
        value = value[key]
    return value


def text_at(event: Json, path: str) -> str:
    """Return a string of the event, empty if there is none."""
    value = _value_at(event, path)
    return value if isinstance(value, str) else ""


def number_at(event: Json, path: str) -> int | None:
    """Return a whole number of the event, None if there is none."""
    value = _value_at(event, path)
    return value if type(value) is int else None


def object_at(event: Json, path: str) -> Json:
    """Return an object of the event, empty if there is none."""
    value = _value_at(event, path)
    return value if isinstance(value, dict) else {}


def list_at(event: Json, path: str) -> list[object]:
    """Return a list of the event, empty if there is none."""
    value = _value_at(event, path)
    return value if isinstance(value, list) else []


def shown(value: object) -> str:
    """Return a foreign value for a reason: short, on one line, without control characters."""
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = str(value)[: _SHOWN_CHARS + 1]
    tail = "…" if len(text) > _SHOWN_CHARS else ""
    return f"`{repr(text[:_SHOWN_CHARS])[1:-1]}{tail}`"


class Arguments:
    """Follow the arguments of one call: every prefix a prefix of a JSON object, the whole one."""

    def __init__(self, limits: Limits) -> None:
        self.empty: bool = True  # not one character but white space yet
        self.broken: bool = False  # a prefix was not JSON; reported once
        self._scanner = JsonScanner(limits=limits)

    @property
    def whole(self) -> bool:
        return self._scanner.done

    def feed(self, fragment: str, findings: Findings, path: str) -> None:
        """Note the first character that no JSON object can have at its place.

        Raises:
            TooLargeError: containers nest deeper than the limit.
        """
        if self.broken:
            return
        head = fragment.lstrip(" \t\r\n") if self.empty else ""
        if head:
            self.empty = False
        read = len(fragment) if not head or head[0] == "{" else len(fragment) - len(head)
        read = min(read, self._scanner.feed(fragment[:read]))
        if read < len(fragment):
            self.broken = True
            rest = shown(fragment[read : read + 20])
            where = "after the end of the object" if self.whole else "which no JSON object can have"
            findings.add("partial-json-prefix", f"the arguments go on with {rest}, {where}", path)


class UsedIds:
    """Remember the ids of calls or items, of which no two may be alike."""

    def __init__(self, rule: str, whose: str) -> None:
        self._rule = rule
        self._whose = whose
        self._used: set[str] = set()

    def add(self, used: str, findings: Findings, path: str) -> None:
        """Note an id that was used before; a missing one is another rule's."""
        if used and used in self._used:
            reason = f"the id {shown(used)} was used by an earlier {self._whose}"
            findings.add(self._rule, reason, path)
        self._used.add(used)


class Digest:
    """Remember a text in constant space, to compare it with another."""

    def __init__(self, text: str = "") -> None:
        self._hash = sha256()
        self.feed(text)

    def feed(self, text: str) -> None:
        self._hash.update(text.encode("utf-8", "surrogatepass"))

    def matches(self, text: str) -> bool:
        return self._hash.digest() == Digest(text).value

    @property
    def value(self) -> bytes:
        return self._hash.digest()


def kind_of_event(name: str, event: Json, findings: Findings) -> str:
    """Return the type of an event, and note one that its name in the framing does not repeat."""
    kind = text_at(event, "type") or name
    if name != kind or "type" not in event:
        reason = f"the event is named {shown(name)}, its type is {shown(event.get('type', ''))}"
        findings.add("event-name-matches-type", reason, "$.type")
    return kind


def refuse_done(findings: Findings) -> None:
    """Note the marker of another dialect."""
    findings.add("done-marker", "`[DONE]` is not an event of this dialect")


def check_call_id(
    call_id: str, findings: Findings, path: str, legal: re.Pattern[str] = WORD_ID
) -> None:
    """Note an id with characters that clients do not take."""
    if call_id and not legal.match(call_id):
        findings.add("call-id-characters", f"the id {shown(call_id)} is not legal", path)


def count_block(blocks: int, limits: Limits) -> int:
    """Return one block more.

    Raises:
        TooLargeError: more blocks than an answer may have.
    """
    if blocks >= limits.max_blocks:
        raise TooLargeError("max_blocks", limits.max_blocks)
    return blocks + 1
