"""Calls in the syntax of Python: `[f(a="x", n=2), g()]`."""

from collections.abc import Iterable
from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    ANYWHERE,
    BLANKS,
    Literals,
    Pattern,
    Rule,
    Run,
    Where,
    call,
    one_of,
)

_BODY: Final = Literals(style="python", closer=")")
_KEYWORD: Final = Run(r"[\w\-]", 1, 128)
# What must follow a name to make it a call: a keyword, or nothing.
_HEADER: Final[Pattern] = (
    Run(r"[\w.\-]", 1, 128, name="name"),
    BLANKS,
    "(",
    AHEAD,
    BLANKS,
    one_of(")", (_KEYWORD, BLANKS, "=")),
)


def python_calls(
    opener: Pattern, *, at: Iterable[Where] = ANYWHERE, declared: bool = False
) -> tuple[Rule, ...]:
    """Return the rule of the first call, after `opener`."""
    return call((*opener, *_HEADER), body=_BODY, at=at, declared=declared)


def further_python_calls(separators: str = ",") -> tuple[Rule, ...]:
    """Return the rule of the calls that follow it."""
    return call((Run(rf"[{separators}\s]", 1, 16), *_HEADER), body=_BODY, at={Where.TAIL})
