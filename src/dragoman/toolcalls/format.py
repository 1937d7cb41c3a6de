"""A family of native tool calls as data: its markers, what they do, and how its arguments are written.

A family is a `Format`: a list of rules.  A rule has a pattern (the marker), the positions where it counts, and
an action; the rule of a call also has a body spec, which describes how the arguments are written.  The engine in
`machine.py` runs all families.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, StrEnum
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

# --- patterns of markers -------------------------------------------------------------------------------
#
# A pattern is a sequence of strings, runs of characters and choices: `<invoke name="`, a name, `">`.
# Every part has a maximum length, so every marker has one too.


class Run(Struct, frozen=True, gc=False):
    """A bounded run of characters of one class.

    Attributes:
        chars: A character class, as regular expressions write it.
        least: 0 or 1.
        most: The maximum length: a longer run is not the marker.
        name: The group under which the matched text is reported; empty: not reported.
    """

    chars: str
    least: int = 0
    most: int = 64
    name: str = ""


class OneOf(Struct, frozen=True):
    """One of several sequences.

    Attributes:
        choices: The sequences.
    """

    choices: tuple["Pattern", ...]


class Ahead(Struct, frozen=True, gc=False):
    """Lookahead: the rest of the pattern must match, but is not consumed.

    Attributes:
        or_end: The end of the text matches too.
    """

    or_end: bool = False


Part: TypeAlias = str | Run | OneOf | Ahead
Pattern: TypeAlias = tuple[Part, ...]

AHEAD: Final = Ahead()
AHEAD_OR_END: Final = Ahead(or_end=True)
EXCERPT_CHARS: Final = 200  # of dropped text, quoted in a problem
BLANKS: Final = Run(r"[ \t\r\n]")
_FEW_BLANKS: Final = Run(r"[ \t\r\n]", 0, 16)
FEW_BLANKS: Final = Run(BLANKS.chars, 0, 16)

_MOST_LEADS: Final = 4  # characters of one class: as many as BLANKS has
# Sample characters: enough to compare the character classes that formats use.
_SAMPLE: Final = "".join(map(chr, range(0x180))) + "\uff5c\u2581\u25c1\u25b7\u2028\u3000\u6f22"


def one_of(*choices: str | Pattern) -> OneOf:
    """Return a choice between strings or patterns."""
    return OneOf(tuple((choice,) if isinstance(choice, str) else choice for choice in choices))


def normalized(pattern: Pattern) -> Pattern:
    """Return the pattern without empty strings and with adjacent strings joined."""
    parts: list[Part] = []
    for part in pattern:
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        elif part != "":
            parts.append(part)
    return tuple(parts)


def length(pattern: Pattern) -> int:
    """Return the length of the longest text that matches."""
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
    """Return whether the empty text matches."""
    return all(
        (isinstance(part, Run) and not part.least)
        or (isinstance(part, OneOf) and any(map(may_be_empty, part.choices)))
        or isinstance(part, Ahead)
        or not part
        for part in pattern
    )


def before_lookahead(pattern: Pattern) -> Pattern:
    """Return the part of a pattern that is consumed; all of it if it begins with lookahead."""
    places = [place for place, part in enumerate(pattern) if isinstance(part, Ahead)]
    return pattern[: places[0]] if places and places[0] else pattern


def first_classes(pattern: Pattern) -> Iterator[str]:
    """Yield the character classes that a matching text may begin with."""
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


def strings_of(pattern: Pattern) -> Iterator[str]:
    """Yield the strings of a pattern."""
    for part in pattern:
        if isinstance(part, str):
            yield part
        elif isinstance(part, OneOf):
            for choice in part.choices:
                yield from strings_of(choice)


def groups_of(pattern: Pattern) -> Iterator[str]:
    """Yield the names of the runs whose text is reported."""
    for part in pattern:
        if isinstance(part, Run) and part.name:
            yield part.name
        elif isinstance(part, OneOf):
            for choice in part.choices:
                yield from groups_of(choice)


@cache
def chars_of(chars: str) -> frozenset[str]:
    """Return the sample characters that belong to a class."""
    return frozenset(re.findall(chars, _SAMPLE))


def is_disjoint(run: Run, following: Pattern) -> bool:
    """Return whether no text that may follow a run could also be part of the run."""
    return all(
        chars_of(run.chars).isdisjoint(chars_of(first)) for first in first_classes(following)
    )


def leads(patterns: Sequence[Pattern]) -> str | None:
    """Return the characters that matching texts begin with, or None if there are too many."""
    found: set[str] = set()
    for first in {first for pattern in patterns for first in first_classes(pattern)}:
        chars = chars_of(first)
        if len(chars) > _MOST_LEADS:
            return None
        found |= chars
    return "".join(sorted(found))


# --- rules ---------------------------------------------------------------------------------------------


class Where(StrEnum):
    """The machine's position in an answer, outside of calls.

    Attributes:
        START: Nothing but blanks so far.
        OPENED: The same, in an answer that begins inside reasoning; all of `THINK` counts too.
        TEXT: Text, before any call.
        THINK: Inside reasoning tags in the text.
        ANSWER: Blanks after such reasoning.
        TAIL: Directly after a call's arguments, before its closer.
        AFTER: Blanks after a call or after a section's opener.
        LATER: Text again, after a call.
        MESSAGE: Text of a message that a marker opened and another marker ends.
    """

    START = "start"
    OPENED = "opened"
    TEXT = "text"
    THINK = "think"
    ANSWER = "answer"
    TAIL = "tail"
    AFTER = "after"
    LATER = "later"
    MESSAGE = "message"


ANYWHERE: Final = frozenset(Where)
CALLED: Final = frozenset({Where.TAIL, Where.AFTER, Where.LATER})
FIRST: Final = frozenset({Where.START, Where.OPENED})
AT_START: Final = frozenset({Where.START, Where.ANSWER, Where.TAIL, Where.AFTER})
IN_PROSE: Final = frozenset({Where.TEXT, Where.LATER, Where.MESSAGE})


class Action(Enum):
    """What a marker does.

    Attributes:
        CALL: Begin a call.
        SKIP: Drop the marker: it is part of the format.
        DROP: Drop the marker and report it as noise.
        START_REASONING: The following text is reasoning.
        START_TEXT: The following text is text for the user.
        NOT_A_CALL: Keep the marker as text and report an invalid call.
        SHOW: Drop the marker at the end of the text; else keep it, and closers after it are text too.
        KEEP: Keep the marker as text, so that no other rule matches inside it.
        TRY_FAMILIES: Continue with the first of `families` whose rules match here.
        END_REASONING: Drop a closer of reasoning that has already ended.
    """

    CALL = "call"
    SKIP = "skip"
    DROP = "drop"
    START_REASONING = "start reasoning"
    START_TEXT = "start text"
    NOT_A_CALL = "not a call"
    SHOW = "show"
    KEEP = "keep"
    TRY_FAMILIES = "try families"
    END_REASONING = "end reasoning"


# --- how arguments are written -----------------------------------------------------------------------


class JsonSpec(Struct, frozen=True, gc=False):
    """One JSON object, emitted as it arrives.  Body: `bodies/json.py`."""


class TagsSpec(Struct, frozen=True, kw_only=True):
    """Parameters between tags, converted to JSON as they arrive.  Body: `bodies/tags.py`.

    A closer counts only before a legal continuation, because a value may contain one.

    Attributes:
        param: Begin a parameter.  Group `key` is its key.  Group `type` or `string`, if the format has one, states the
            value's type; group `verbatim` means that nothing is trimmed.
        nameless: Begin a parameter without a name, which is dropped.
        value_end: End a value; consumed.
        value_cut: End a value whose closer is missing; lookahead.
        next_call: The header of another call and its first parameter: they end a call that was cut inside a value.
        verbatim_end: The only end of a verbatim value; consumed.
        call_end: End the call; consumed.
        special: The tags are special tokens, which no value contains.
        tokens: Parts of tags.  A value may contain a whole closer or a whole tag, but one of these alone shows that a
            tag of the call is broken.
        skip: Stray markup between parameters: dropped and reported.
        trim: What is trimmed around a string: one line feed, or all blanks.
        json: The body may be one JSON object instead.
        replaces: A repeated parameter replaces the earlier one, within `MAX_REPLACED_CHARS`.
        entities: Names and keys escape quotation marks as `&quot;`.
    """

    param: tuple[Pattern, ...]
    nameless: tuple[Pattern, ...] = ()
    value_end: tuple[Pattern, ...]
    value_cut: tuple[Pattern, ...] = ()
    next_call: tuple[Pattern, ...] = ()
    verbatim_end: tuple[Pattern, ...] = ()
    call_end: tuple[Pattern, ...]
    special: bool = False
    tokens: tuple[Pattern, ...] = ()
    skip: tuple[Pattern, ...] = ()
    trim: Literal["none", "line", "blank"] = "none"
    json: bool = False
    replaces: bool = False
    entities: bool = False


class ObjectsSpec(Struct, frozen=True, kw_only=True):
    """JSON objects with name and arguments: one, several, or an array.  Body: `bodies/json_objects.py`.

    Attributes:
        name_keys: Keys whose value is the tool's name.
        argument_keys: Keys whose value are the arguments.
        id_keys: Keys whose value is the call's id.
        single_key: Each object's one key is the name, its value the arguments.
        declared: An object is a call only if it names a declared tool.
        prose: In the middle of text: held no longer than `MAX_HEADER_CHARS`.
        separators: Characters between objects, besides blanks.
    """

    name_keys: tuple[str, ...] = ("name",)
    argument_keys: tuple[str, ...] = ("arguments", "parameters")
    id_keys: tuple[str, ...] = ()
    single_key: bool = False
    declared: bool = False
    prose: bool = False
    separators: str = ","


class LiteralsSpec(Struct, frozen=True, kw_only=True):
    """Arguments as literals of Python or Gemma, converted to JSON as they arrive.  Body: `bodies/literals.py`.

    Attributes:
        style: Whose literals they are.
        closer: Ends the arguments.
        outer: Closers of the surrounding object and list; each may be missing.
        quote: Gemma: the format's quotation mark.
        typed: Quoted values are typed by the schema.
        next_call: What follows a string that was never closed: the end of this call and the header of another one,
            whose name is the group `next`.  Groups `key` and `quote`: its first parameter and the quotation mark of that.
    """

    style: Literal["python", "gemma"]
    closer: str
    outer: str = ""
    quote: str = ""
    typed: bool = False
    next_call: tuple[Pattern, ...] = ()


class ElementsSpec(Struct, frozen=True, gc=False):
    """Nested elements; every tag follows the format's mark.  Body: `bodies/elements.py`.

    Attributes:
        mark: The format's mark.
    """

    mark: str


BodySpec: TypeAlias = JsonSpec | TagsSpec | ObjectsSpec | LiteralsSpec | ElementsSpec


class Rule(Struct, frozen=True, kw_only=True):
    """A marker, the positions where it counts, and what it does.

    Attributes:
        pattern: The marker.  That of a call has a group `name`, a group `id`, or both; an id alone contains the name, as
            Kimi's do.  A group `recipient` is part of the marker if it names a declared tool, and text if not.
        action: What the marker does.
        at: The positions where it counts.
        then: The next position; None: unchanged.
        section: True: a section of calls begins; False: it ends.
        inside: It counts only inside a section.
        body: Calls: how the arguments are written.
        declared: Calls: only if the name is a declared tool's.
        prose: Calls in the middle of text: not in reasoning or code.  If the tools are unknown, only where a group `line`
            has matched the line feed before the call; the blanks there are text.
        empty: Calls: the marker is a whole call without arguments.
        stray: A special token outside of calls and messages: it shows no family.
        unquoted: It does not count in code, although it is a special token.
        echo: It counts only if the same text is directly before it.
        families: `TRY_FAMILIES`: the families that share the marker.
    """

    pattern: Pattern
    action: Action
    at: frozenset[Where] = ANYWHERE
    then: Where | None = None
    section: bool | None = None
    inside: bool = False
    body: BodySpec | None = None
    declared: bool = False
    prose: bool = False
    empty: bool = False
    stray: bool = False
    unquoted: bool = False
    echo: bool = False
    families: tuple["Format", ...] = ()


Arguments: TypeAlias = dict[str, Any]
SampleCall: TypeAlias = tuple[str, Arguments]  # name and arguments
CallWriter: TypeAlias = Callable[[Sequence[SampleCall]], str]


class Format(Struct, frozen=True, kw_only=True, cache_hash=True):
    """A format in which models write tool calls as text: a table of markers, which one engine runs.

    It can be given wherever the name of a built-in format can: `ToolCallParser(format=…)`, `Translator`,
    `translate_body` and the clients (`native_format=…`).  `json_format` and `tags_format` build the common shapes;
    `dragoman.toolcalls.format` has the parts of others.  The first use checks the table and raises `ConfigError` if
    it is not legal; `dragoman formats check` tests what it does.

    Attributes:
        key: The name: letters, digits, `_`, `-` and `.`.
        description: Which models write it, in one line.
        models: Globs of model ids that write it, such as `acme-*`.  They choose the format for `auto` if it is
            declared in the settings or installed; the models of built-in families are in `detection.py`.
        opens: How calls begin, for display only.
        rules: The markers, in order of precedence: `call(…)`, `closes(…)`, `markers(…)`, `opens_section(…)`.
        think: Pairs of tags around reasoning.
        trim_think: A line feed before the closing tag of reasoning is part of the tag.
        reasoning_continues: Reasoning continues after a call inside it.
        starts_thinking: An answer may begin inside reasoning.
        special: Special tokens that end a call, a section or a message.  Alone in the text they are dropped, unless
            the text talks about them.
        special_openers: Special tokens that begin a call, a section or a message; alone in the text the same holds.
        joint: The text between two messages of text, or two of reasoning.
        bare: The format has no unmistakable marker, so `auto` does not look for it.
        write: Writes calls as models do, for `dragoman formats check`; None derives that from the rules.
    """

    key: str
    description: str = ""
    models: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()
    rules: tuple[Rule, ...]
    think: tuple[tuple[Part, Part], ...] = (("<think>", "</think>"),)
    trim_think: bool = False
    reasoning_continues: bool = False
    starts_thinking: bool = False
    special: tuple[str | Pattern, ...] = ()
    special_openers: tuple[str | Pattern, ...] = ()
    joint: str = ""
    bare: bool = False
    write: CallWriter | None = None


def call(
    *pattern: Pattern,
    body: BodySpec,
    at: Iterable[Where] = ANYWHERE,
    declared: bool = False,
    prose: bool = False,
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
            prose=prose,
            empty=empty,
        )
        for one in pattern
    )


def markers(
    *patterns: Pattern, action: Action, at: Iterable[Where] = ANYWHERE, then: Where | None = None
) -> tuple[Rule, ...]:
    """Return rules for markers with the same action."""
    return tuple(Rule(pattern=one, action=action, at=frozenset(at), then=then) for one in patterns)


def opens_section(*patterns: Pattern, noisy: bool = False) -> tuple[Rule, ...]:
    """Return rules for markers that open a section.  The patterns look ahead to the first call."""
    action = Action.DROP if noisy else Action.SKIP
    return tuple(
        Rule(pattern=pattern, action=action, then=Where.AFTER, section=True) for pattern in patterns
    )


# A word follows, directly or on another line: the marker before it is neither quoted nor mentioned.
_WORD: Final = Run(r"[^\W_]", 1, 1)
WORD_AHEAD: Final[Pattern] = (AHEAD, one_of((_WORD,), (Run(r"\n", 1, 4), _WORD)))


def empty_pair(opener: Pattern, closer: Pattern, *, special: bool = False) -> tuple[Rule, ...]:
    """Return rules that drop an opener and its closer with nothing, or an empty array, between them.

    In the middle of text they are dropped at the end, before another opener and, if they are special tokens
    (`special`), before a word; elsewhere they are a mention.
    Cases: hermes/n0_2_empty, hermes/n0_2_empty_in_prose, lfm2/n0_2_empty_between_text.
    """
    pairs: tuple[Pattern, ...] = (
        (*opener, _FEW_BLANKS, *closer),
        (*opener, _FEW_BLANKS, "[", _FEW_BLANKS, "]", _FEW_BLANKS, *closer),
    )
    first = AT_START | FIRST
    rules: list[Rule] = []
    for pair in pairs:
        rules += markers((*pair, _FEW_BLANKS), action=Action.DROP, at=first)
        if special:
            rules += markers((*pair, *WORD_AHEAD), action=Action.DROP, at=ANYWHERE - first)
        last: Pattern = (*pair, _FEW_BLANKS, AHEAD_OR_END, *opener)
        rules += markers(last, action=Action.DROP, at=ANYWHERE - first)
    return tuple(rules)


def closes(*patterns: Pattern, section: bool = False, stray: bool = True) -> tuple[Rule, ...]:
    """Return rules for markers that close a call or a section.

    `stray`: they are special tokens, so strays in the text after a call are dropped and reported.  Before the
    first call they are text.
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
