"""Rules that several families share: JSON objects with name and arguments, Python dicts, answer tags."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from dragoman.toolcalls.format import (
    AHEAD,
    ANYWHERE,
    AT_START,
    BLANKS,
    FEW_BLANKS,
    IN_PROSE,
    Action,
    LiteralsSpec,
    ObjectsSpec,
    Pattern,
    Rule,
    Run,
    Where,
    call,
    closes,
    empty_pair,
    markers,
    one_of,
)

# --- JSON objects with name and arguments -------------------------------------------------------------
#
# `{"name": "f", "arguments": {"a": 1}}`, one or several, or in an array.

_IN_TAIL = frozenset({Where.TAIL})


def tagged_objects(
    opener: str,
    closer: str,
    *,
    body: ObjectsSpec | None = None,
    special: bool = False,
    at: frozenset[Where] = ANYWHERE,
) -> tuple[Rule, ...]:
    """Return rules for JSON objects (one, several or an array) between two tags.

    `special`: the tags are special tokens, so stray closers after a call are dropped.
    `at`: where the opening tag counts.
    """
    return (
        *empty_pair((opener,), (closer,), special=special),
        *objects_after((opener,), body=body, at=at),
        # A doubled opener.  Case: hermes/opener_twice.
        *objects_after((opener, BLANKS, opener), body=body, at=at),
        *further_objects(body=body),
        *closes((closer,), stray=special),
        # Surplus brackets or commas before the closer.
        Rule(
            pattern=(Run(r"[\]},\s]", 1, 16, name="noise"), closer),
            action=Action.DROP,
            at=_IN_TAIL,
            then=Where.AFTER,
        ),
    )


def bare_array(body: ObjectsSpec | None = None) -> tuple[Rule, ...]:
    """Return the rule for an array whose opening tag is missing, at the start: only declared tools count.

    Cases: n6_3_bare_array of each family.
    """
    spec = replace(body or ObjectsSpec(), declared=True)
    return call((AHEAD, "[", BLANKS, "{"), body=spec, at=AT_START - {Where.TAIL})


def objects_after(
    opener: Pattern, *, body: ObjectsSpec | None = None, at: frozenset[Where] = ANYWHERE
) -> tuple[Rule, ...]:
    """Return the rule for an object or array after a marker."""
    return call((*opener, BLANKS, AHEAD, one_of("{", "[")), body=body or ObjectsSpec(), at=at)


def further_objects(*, body: ObjectsSpec | None = None, separator: str = ",") -> tuple[Rule, ...]:
    """Return the rule for further objects that follow the first one without a marker."""
    return call(
        (AHEAD, "{"),
        (Run(rf"[{separator}\s]", 1, 16), AHEAD, "{"),
        body=body or ObjectsSpec(),
        at=_IN_TAIL,
    )


def objects_in_prose(*begins: Pattern, body: ObjectsSpec) -> tuple[Rule, ...]:
    """Return rules for an object or an array in the middle of text that names a declared tool.

    An object that is part of another one is not a call.  Cases: llama3_json/n6_1_prose_before,
    llama3_json/n6_1_part_of_a_document.
    """
    inner = Run(r"[{\[ \t\r\n]", 1, 128)
    body = replace(body, declared=True, prose=True)
    return (
        *markers(
            ('"', FEW_BLANKS, ":", inner),
            ("}", FEW_BLANKS, ",", inner),
            ("{", FEW_BLANKS, one_of("{", "["), Run(inner.chars, 0, 128)),
            ("[", FEW_BLANKS, "[", Run(inner.chars, 0, 128)),
            action=Action.KEEP,
            at=IN_PROSE,
        ),
        # Line feeds before the call are not part of the text.
        *call(
            *(("\n", BLANKS, AHEAD, *begin) for begin in begins),
            *((AHEAD, *begin) for begin in begins),
            body=body,
            at=IN_PROSE,
            prose=True,
        ),
    )


def functools_array() -> tuple[Rule, ...]:
    """Return the rule for an array after the word `functools`."""
    return call(("functools", BLANKS, AHEAD, "[", BLANKS, "{"), body=ObjectsSpec())


# --- Python dicts with name and arguments -------------------------------------------------------------
#
# `[{'name': 'f', 'arguments': {'a': True}}]`.  An object whose first key is in double quotation marks is JSON.

_QUOTE: Final = Run(r"[\"']", 1, 1)
_COLON: Final[Pattern] = (FEW_BLANKS, ":", FEW_BLANKS)
_COMMA: Final[Pattern] = (FEW_BLANKS, ",", FEW_BLANKS)


def _header(name: str) -> Pattern:
    """Return everything up to the brace of the arguments."""
    return (
        *("{", FEW_BLANKS, Run("'", 1, 1, name="quote"), "name'", *_COLON),
        *(_QUOTE, Run(r"[^\"'\s]", 1, 128, name=name), _QUOTE, *_COMMA),
        *(one_of("'arguments'", "'parameters'"), *_COLON, "{"),
    )


_HEADER: Final = _header("name")
_BODY: Final = LiteralsSpec(
    style="python",
    closer="}",
    outer="}]",
    next_call=(
        (
            *("}", FEW_BLANKS, "}", FEW_BLANKS, one_of("]", ""), FEW_BLANKS),
            *(one_of(",", ";", "<|tool_calls|>"), FEW_BLANKS, one_of("[", ""), FEW_BLANKS),
            *_header("next"),
        ),
    ),
)


def python_objects(
    opener: Pattern, *, at: Iterable[Where] = ANYWHERE, declared: bool = False
) -> tuple[Rule, ...]:
    """Return rules for a list of dicts, or one dict, after `opener`."""
    return (
        *call(
            (*opener, FEW_BLANKS, "[", FEW_BLANKS, *_HEADER), body=_BODY, at=at, declared=declared
        ),
        *call((*opener, FEW_BLANKS, *_HEADER), body=_BODY, at=at, declared=declared),
        *call((Run(r"[,;\s]", 1, 16), *_HEADER), body=_BODY, at={Where.TAIL}),
    )


# --- tags around an answer ----------------------------------------------------------------------------
#
# `<answer>text</answer>`.


def answer_tags(tag: str) -> tuple[Rule, ...]:
    """Return rules for tags around an answer; they include the line feeds next to them."""
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
        # After a call inside the answer, the machine no longer knows that the tag was opened.
        # Case: hunyuan_a13b/call_in_the_answer.
        *markers(closer, action=Action.DROP, at={Where.TAIL, Where.AFTER, Where.LATER}),
    )
