"""Calls that are JSON objects with name and arguments: the rules that many families share."""

from dragoman.toolcalls.format import (
    AHEAD,
    ANYWHERE,
    BLANKS,
    Do,
    Objects,
    Pattern,
    Rule,
    Run,
    Where,
    call,
    closes,
    one_of,
)

_IN_TAIL = frozenset({Where.TAIL})


def tagged_objects(
    opener: str,
    closer: str,
    *,
    body: Objects | None = None,
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
            do=Do.NOISE,
            at=_IN_TAIL,
            then=Where.AFTER,
        ),
    )


def objects_after(
    opener: Pattern, *, body: Objects | None = None, at: frozenset[Where] = ANYWHERE
) -> tuple[Rule, ...]:
    """Return the rule of an object or an array after a marker."""
    return call((*opener, BLANKS, AHEAD, one_of("{", "[")), body=body or Objects(), at=at)


def further_objects(*, body: Objects | None = None, separator: str = ",") -> tuple[Rule, ...]:
    """Return the rule of further objects that follow the first without a marker."""
    return call(
        (AHEAD, "{"),
        (Run(rf"[{separator}\s]", 1, 16), AHEAD, "{"),
        body=body or Objects(),
        at=_IN_TAIL,
    )


def functools_array() -> tuple[Rule, ...]:
    """Return the rule of an array after the word `functools`."""
    return call(("functools", BLANKS, AHEAD, "[", BLANKS, "{"), body=Objects())
