"""Rules that several families share: JSON objects that hold name and arguments, Python dicts, answer tags."""

from collections.abc import Iterable
from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    ANYWHERE,
    BLANKS,
    Action,
    LiteralsSpec,
    ObjectsSpec,
    Pattern,
    Rule,
    Run,
    Where,
    call,
    closes,
    markers,
    one_of,
)

# --- json_objects -------------------------------------------------------------------------------------
#
# Calls that are JSON objects with name and arguments: the rules that many families share.

_IN_TAIL = frozenset({Where.TAIL})


def tagged_objects(
    opener: str,
    closer: str,
    *,
    body: ObjectsSpec | None = None,
    special: bool = False,
    at: frozenset[Where] = ANYWHERE,
) -> tuple[Rule, ...]:
    """Return the rules of objects between two tags, one or several of them, or an array.

    `special` says that the tags are special tokens: stray closers after a call are then dropped.
    `at` says where the opening tag counts.
    """
    return (
        *objects_after((opener,), body=body, at=at),
        # The opener twice.
        *objects_after((opener, BLANKS, opener), body=body, at=at),
        *further_objects(body=body),
        *closes((closer,), stray=special),
        # Surplus brackets, or none at all, before the closer.
        Rule(
            pattern=(Run(r"[\]},\s]", 1, 16, name="noise"), closer),
            action=Action.DROP,
            at=_IN_TAIL,
            then=Where.AFTER,
        ),
    )


def objects_after(
    opener: Pattern, *, body: ObjectsSpec | None = None, at: frozenset[Where] = ANYWHERE
) -> tuple[Rule, ...]:
    """Return the rule of an object or an array after a marker."""
    return call((*opener, BLANKS, AHEAD, one_of("{", "[")), body=body or ObjectsSpec(), at=at)


def further_objects(*, body: ObjectsSpec | None = None, separator: str = ",") -> tuple[Rule, ...]:
    """Return the rule of further objects that follow the first without a marker."""
    return call(
        (AHEAD, "{"),
        (Run(rf"[{separator}\s]", 1, 16), AHEAD, "{"),
        body=body or ObjectsSpec(),
        at=_IN_TAIL,
    )


def functools_array() -> tuple[Rule, ...]:
    """Return the rule of an array after the word `functools`."""
    return call(("functools", BLANKS, AHEAD, "[", BLANKS, "{"), body=ObjectsSpec())


# --- python_objects -----------------------------------------------------------------------------------
#
# Calls as dicts of Python: `[{'name': 'f', 'arguments': {'a': True}}]`.
#
# Only what begins in single quotation marks is Python; the rest is JSON.

_BODY: Final = LiteralsSpec(style="python", closer="}", outer="}]")
_QUOTE: Final = Run(r"[\"']", 1, 1)
_GAP: Final = Run(r"[ \t\r\n]", 0, 16)
_COLON: Final[Pattern] = (_GAP, ":", _GAP)
_COMMA: Final[Pattern] = (_GAP, ",", _GAP)
# Up to the brace of the arguments.
_HEADER: Final[Pattern] = (
    "{",
    _GAP,
    "'name'",
    *_COLON,
    _QUOTE,
    Run(r"[^\"'\s]", 1, 128, name="name"),
    _QUOTE,
    *_COMMA,
    one_of("'arguments'", "'parameters'"),
    *_COLON,
    "{",
)


def python_objects(
    opener: Pattern, *, at: Iterable[Where] = ANYWHERE, declared: bool = False
) -> tuple[Rule, ...]:
    """Return the rules of dicts in a list after `opener`; one may stand alone."""
    return (
        *call((*opener, _GAP, "[", _GAP, *_HEADER), body=_BODY, at=at, declared=declared),
        *call((*opener, _GAP, *_HEADER), body=_BODY, at=at, declared=declared),
        *call((*_COMMA, *_HEADER), body=_BODY, at={Where.TAIL}),
    )


# --- answers ------------------------------------------------------------------------------------------
#
# Answers that stand between tags of their own: `<answer>` and `</answer>`.


def answer_tags(tag: str) -> tuple[Rule, ...]:
    """Return the rules of the tags around an answer; the line feeds inside of them are theirs."""
    opener, closer = f"<{tag}>", (Run(r"\n", 0, 1), f"</{tag}>")
    return (
        *markers(
            (f"{opener}\n",),
            (opener,),
            action=Action.START_TEXT,
            at={Where.START, Where.ANSWER, Where.AFTER},
            then=Where.MESSAGE,
        ),
        *markers(closer, action=Action.SKIP, at={Where.MESSAGE}, then=Where.ANSWER),
        # A call inside the answer hides that the tag was opened.
        *markers(closer, action=Action.DROP, at={Where.TAIL, Where.AFTER, Where.LATER}),
    )
