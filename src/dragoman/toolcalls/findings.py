"""What the parser of native tool calls found in an answer, for logs, metrics and recordings.

`Translator`, `AnswerReader` and `translate_body` offer one list of `NativeFinding` per answer, in the order of
the answer; `summarize` counts it by family and channel.  An answer without native calls has an empty list, and text
that holds no marker costs nothing.

There are no positions in the text, because most deltas pass without being counted.  A caller that needs them parses the
text again with `marker_positions.py`.
"""

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.turn.losses import CODES, Loss

TextChannel: TypeAlias = Literal["content", "reasoning"]

MAX_PROBLEMS: Final = 20  # different ones that a summary lists for one family and channel


class NativeFinding(Struct, frozen=True, gc=False):
    """A call that a model wrote as text, or a problem with one.

    Attributes:
        family: The key of the format, such as `kimi_k2`; `auto` while no family was recognized.
        channel: The field of the answer that the text comes from.
        block: The index of the call's block in the client's answer, or of the block at the problem.
        name: The tool that is called; empty for a problem outside of calls.
        problem: What was dropped, repaired or not understood; None: this is a call.
    """

    family: str
    channel: TextChannel
    block: int
    name: str = ""
    problem: Loss | None = None


class NativeProblem(Struct, frozen=True):
    """A kind of problem, and how often it occurred."""

    code: str
    meaning: str  # in words
    detail: str = ""  # names and numbers, never content
    count: int = 1


class NativeSummary(Struct, frozen=True):
    """What was found of one family in one channel."""

    family: str
    channel: str  # a `TextChannel`
    calls: int = 0
    problems: tuple[NativeProblem, ...] = ()


def summarize(findings: Iterable[NativeFinding]) -> tuple[NativeSummary, ...]:
    """Count findings by family and channel, in the order of their first occurrence."""
    calls: dict[tuple[str, TextChannel], int] = {}
    problems: dict[tuple[str, TextChannel], dict[tuple[str, str], int]] = {}
    for finding in findings:
        place = finding.family, finding.channel
        found = calls.setdefault(place, 0)
        loss = finding.problem
        if loss is None:
            calls[place] = found + 1
            continue
        counted = problems.setdefault(place, {})
        kind = loss.code, loss.detail
        if kind in counted or len(counted) < MAX_PROBLEMS:
            counted[kind] = counted.get(kind, 0) + 1
    return tuple(
        NativeSummary(
            *place,
            number,
            tuple(
                NativeProblem(code, CODES[code], detail, count)
                for (code, detail), count in problems.get(place, {}).items()
            ),
        )
        for place, number in calls.items()
    )
