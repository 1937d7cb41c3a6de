"""Calls as dicts of Python: `[{'name': 'f', 'arguments': {'a': True}}]`.

Only what begins in single quotation marks is Python; the rest is JSON.
"""

from collections.abc import Iterable
from typing import Final

from dragoman.toolcalls.format import ANYWHERE, Literals, Pattern, Rule, Run, Where, call, one_of

_BODY: Final = Literals(style="python", closer="}", outer="}]")
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
