"""What a family of native tool calls is: markers and what they mean, as data.

A family is a `Format`: rules that say which marker may stand where and what it does, and for each kind
of call how its arguments are written.  The one engine in `machine.py` runs all of them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, StrEnum
from functools import cache
from typing import Final, Literal, TypeAlias

from msgspec import Struct

# --- patterns of markers -------------------------------------------------------------------------------
#
# A marker is a sequence of strings, bounded runs of characters, and choices.  `<invoke name="`, a name,
# `">` is such a sequence.  Every part is bounded, and so is every marker.


class Run(Struct, frozen=True, gc=False):
    """A bounded run of characters of one class."""

    chars: str  # a character class, as regular expressions write it
    least: int = 0  # 0 or 1
    most: int = 64
    name: str = ""  # the run is wanted under this name


class OneOf(Struct, frozen=True):
    """One of several sequences."""

    choices: tuple["Pattern", ...]


class Ahead(Struct, frozen=True, gc=False):
    """What follows is looked at and not consumed."""

    or_end: bool = False  # the end of the text may stand in its place


Part: TypeAlias = str | Run | OneOf | Ahead
Pattern: TypeAlias = tuple[Part, ...]

AHEAD: Final = Ahead()
AHEAD_OR_END: Final = Ahead(or_end=True)
BLANKS: Final = Run(r"[ \t\r\n]")

_MOST_LEADS: Final = 4  # of one class: as many as there are blanks
# Characters of every kind that a class may tell apart.
_SAMPLE: Final = "".join(map(chr, range(0x180))) + "\uff5c\u2581\u25c1\u25b7\u2028\u3000\u6f22"


def one_of(*choices: str | Pattern) -> OneOf:
    """Return a choice between strings or patterns."""
    return OneOf(tuple((choice,) if isinstance(choice, str) else choice for choice in choices))


def normalized(pattern: Pattern) -> Pattern:
    """Return a pattern without empty strings, and with neighbouring strings made one."""
    parts: list[Part] = []
    for part in pattern:
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        elif part != "":
            parts.append(part)
    return tuple(parts)


def length(pattern: Pattern) -> int:
    """Return how long a text can be that fits."""
    total = 0
    for part in pattern:
        match part:
            case str():
                total += len(part)
            case Run():
                total += part.most
            case OneOf():
                total += max(length(choice) for choice in part.choices)
            case Ahead():
                pass
    return total


def may_be_empty(pattern: Pattern) -> bool:
    """Say whether the empty text fits."""
    return all(
        (isinstance(part, Run) and not part.least)
        or (isinstance(part, OneOf) and any(map(may_be_empty, part.choices)))
        or isinstance(part, Ahead)
        or not part
        for part in pattern
    )


def first_classes(pattern: Pattern) -> Iterator[str]:
    """Yield the classes and characters that a text may begin with if it fits."""
    for place, part in enumerate(pattern):
        match part:
            case str():
                if part:
                    yield re.escape(part[0])
                    return
            case Run():
                yield part.chars
                if part.least:
                    return
            case OneOf():
                for choice in part.choices:
                    yield from first_classes((*choice, *pattern[place + 1 :]))
                return
            case Ahead():
                pass


@cache
def chars_of(chars: str) -> frozenset[str]:
    """Return the characters of a class, as far as classes differ."""
    return frozenset(re.findall(chars, _SAMPLE))


def is_disjoint(run: Run, following: Pattern) -> bool:
    """Say whether nothing that may follow a run could also be part of it."""
    return all(
        chars_of(run.chars).isdisjoint(chars_of(first)) for first in first_classes(following)
    )


def leads(patterns: Sequence[Pattern]) -> str | None:
    """Return the characters that texts begin with which fit, or None if there are too many."""
    found: set[str] = set()
    for first in {first for pattern in patterns for first in first_classes(pattern)}:
        chars = chars_of(first)
        if len(chars) > _MOST_LEADS:
            return None
        found |= chars
    return "".join(sorted(found))


# --- rules ---------------------------------------------------------------------------------------------


class Where(StrEnum):
    """Where in an answer the machine is, outside of calls."""

    START = "start"  # nothing but blanks so far
    TEXT = "text"  # text, before any call
    THINK = "think"  # reasoning that tags mark within the text
    ANSWER = "answer"  # blanks after such reasoning
    TAIL = "tail"  # right after a call's arguments, before what closes the call
    AFTER = "after"  # blanks after a call or a section's opener
    LATER = "later"  # text again, after a call
    MESSAGE = "message"  # text of a message that a marker opened and a marker will end


ANYWHERE: Final = frozenset(Where)
CALLED: Final = frozenset({Where.TAIL, Where.AFTER, Where.LATER})
AT_START: Final = frozenset({Where.START, Where.ANSWER, Where.TAIL, Where.AFTER})


class Action(Enum):
    """What a marker does."""

    CALL = "begin a call"
    SKIP = "nothing: it is part of the grammar"
    DROP = "nothing: it is dropped, and told"
    START_REASONING = "what follows is reasoning"
    START_TEXT = "what follows is text"
    NOT_A_CALL = "nothing: it is text, and told to be no call"
    TRY_FAMILIES = "the family shows itself"
    END_REASONING = "a closer of reasoning that a call has already ended"


# --- how arguments are written -----------------------------------------------------------------------


class JsonSpec(Struct, frozen=True, gc=False):
    """One JSON object, passed on as it comes."""


class TagsSpec(Struct, frozen=True, kw_only=True):
    """Parameters between tags: converted to JSON while they come.

    `param` names the key as group `key`; group `type` or `string`, if the format has one, says how the
    value is written, and group `verbatim` that nothing is trimmed.  A closer counts only before a legal continuation, so that a value may hold one.
    """

    param: tuple[Pattern, ...]
    value_end: tuple[Pattern, ...]  # consumed
    value_cut: tuple[Pattern, ...] = ()  # looked at: what follows a value whose closer is missing
    verbatim_end: tuple[Pattern, ...] = ()  # consumed: what alone ends a value told verbatim
    call_end: tuple[Pattern, ...]  # consumed
    skip: tuple[Pattern, ...] = ()  # stray markup between parameters: dropped, and told
    trim: Literal["none", "line", "blank"] = "none"  # of a string: one line feed, or all blanks
    json: bool = False  # the body may be one JSON object instead
    entities: bool = False  # names and keys escape quotation marks as `&quot;`


class ObjectsSpec(Struct, frozen=True, kw_only=True):
    """JSON objects that hold name and arguments, one, several, or in an array."""

    name_keys: tuple[str, ...] = ("name",)
    argument_keys: tuple[str, ...] = ("arguments", "parameters")
    id_keys: tuple[str, ...] = ()  # whose value is the call's id
    single_key: bool = False  # each object's one key is the name, its value the arguments
    declared: bool = False  # only a declared tool makes it a call
    separators: str = ","  # between objects, besides blanks


class LiteralsSpec(Struct, frozen=True, kw_only=True):
    """Arguments in the syntax of a programming language, converted to JSON while they come."""

    style: Literal["python", "gemma"]
    closer: str  # ends the arguments
    outer: str = ""  # what closes that which stands around the arguments, as far as it is there
    quote: str = ""  # a quotation mark of the format's own
    typed: bool = False  # strings are typed by the schema


class ElementsSpec(Struct, frozen=True, gc=False):
    """Nested elements, each tag after a mark of the format's own."""

    mark: str


BodySpec: TypeAlias = JsonSpec | TagsSpec | ObjectsSpec | LiteralsSpec | ElementsSpec


class Rule(Struct, frozen=True, kw_only=True):
    """A marker, where it counts, and what it does.

    The pattern of a call names its `name`, its `id`, or both; an id alone holds the name, as Kimi's do.
    """

    pattern: Pattern
    action: Action
    at: frozenset[Where] = ANYWHERE
    then: Where | None = None  # where this leads; None: nowhere new
    section: bool | None = None  # a section of calls begins or ends
    inside: bool = False  # counts only inside a section
    body: BodySpec | None = None  # calls: how the arguments are written
    declared: bool = False  # calls: only if the name is that of a declared tool
    empty: bool = False  # calls: the marker is the whole call, without arguments
    families: tuple["Format", ...] = ()  # the families that may have written the marker


class Format(Struct, frozen=True, kw_only=True, cache_hash=True):
    """One family."""

    key: str
    description: str  # one line: which models write it
    models: tuple[str, ...]  # patterns of model ids, for people; `detection.py` decides
    opens: tuple[str, ...] = ()  # what calls begin with, for people; `rules` decides
    rules: tuple[Rule, ...]
    think: tuple[tuple[Part, Part], ...] = (("<think>", "</think>"),)  # tags around reasoning
    trim_think: bool = False  # a line feed before the closing tag belongs to it
    reasoning_continues: bool = False  # reasoning may hold calls, and goes on after them
    starts_thinking: bool = False  # a stream of this family may begin inside reasoning
    bare: bool = False  # has no marker of its own: never found by watching a stream


def call(
    *pattern: Pattern,
    body: BodySpec,
    at: Iterable[Where] = ANYWHERE,
    declared: bool = False,
    empty: bool = False,
) -> tuple[Rule, ...]:
    """Return rules for markers that begin a call."""
    return tuple(
        Rule(
            pattern=one,
            action=Action.CALL,
            at=frozenset(at),
            body=body,
            declared=declared,
            empty=empty,
        )
        for one in pattern
    )


def markers(
    *patterns: Pattern, action: Action, at: Iterable[Where] = ANYWHERE, then: Where | None = None
) -> tuple[Rule, ...]:
    """Return rules for markers that all do the same."""
    return tuple(Rule(pattern=one, action=action, at=frozenset(at), then=then) for one in patterns)


def opens_section(*patterns: Pattern, noisy: bool = False) -> tuple[Rule, ...]:
    """Return rules for markers that open a section; the patterns look ahead to its first call."""
    action = Action.DROP if noisy else Action.SKIP
    return tuple(
        Rule(pattern=pattern, action=action, then=Where.AFTER, section=True) for pattern in patterns
    )


def closes(*patterns: Pattern, section: bool = False, stray: bool = True) -> tuple[Rule, ...]:
    """Return rules for markers that close a call, or a section.

    In text after a call they are dropped and told if they are special tokens (`stray`); before the
    first call they are text like any other.
    """
    ends = False if section else None
    rules = [
        Rule(
            pattern=pattern,
            action=Action.SKIP,
            at=frozenset({Where.TAIL, Where.AFTER}),
            then=Where.AFTER,
            section=ends,
        )
        for pattern in patterns
    ]
    if stray:
        rules += [
            Rule(pattern=pattern, action=Action.DROP, at=frozenset({Where.LATER}))
            for pattern in patterns
        ]
    return tuple(rules)
