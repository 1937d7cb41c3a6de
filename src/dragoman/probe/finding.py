"""The types of a check and of its finding."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.dialects import DIALECT_NAMES
from dragoman.probe.questions import Question
from dragoman.turn.request import DialectName

if TYPE_CHECKING:
    from dragoman.probe.probe import Probe

Judgement: TypeAlias = Literal["ok", "quirk", "fails", "unknown"]
Fact: TypeAlias = bool | int | float | str | tuple[str, ...]  # the value of a profile's field

CHAT: Final[tuple[DialectName, ...]] = ("chat",)
# Whose calls come in pieces, may be limited to one at a time, and whose conversations hold instructions.
WITHOUT_GEMINI: Final[tuple[DialectName, ...]] = ("chat", "anthropic", "responses")
OPENAI: Final[tuple[DialectName, ...]] = ("chat", "responses")


class Finding(Struct, frozen=True, kw_only=True):
    """The result of one check."""

    verdict: Judgement
    found: str  # one line
    implies: dict[str, Fact] = {}  # fields of a profile, with the values that fit the upstream
    format: str = ""  # the family of tool calls written as text


def ok(found: str, /, **implies: Fact) -> Finding:
    return Finding(verdict="ok", found=found, implies=implies)


def quirk(found: str, /, **implies: Fact) -> Finding:
    return Finding(verdict="quirk", found=found, implies=implies)


def fails(found: str, /, **implies: Fact) -> Finding:
    return Finding(verdict="fails", found=found, implies=implies)


def unknown(found: str, /) -> Finding:
    return Finding(verdict="unknown", found=found)


class Check(Struct, frozen=True, kw_only=True):
    """One row of the table."""

    name: str
    asks: str  # the question that it answers, for lists
    run: "Callable[[Probe], Awaitable[Finding]]"
    questions: tuple[Question, ...] = ()  # all that it may send; other checks may share them
    dialects: tuple[DialectName, ...] = DIALECT_NAMES
