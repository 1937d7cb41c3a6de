"""Stop sequences that the gateway applies, because the upstream cannot."""

from collections.abc import Sequence

import pytest

from dragoman.turn.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    Finish,
    FinishReason,
    TextDelta,
    Usage,
)
from dragoman.turn.stages import StopSequences

OPEN = BlockStart(0, BlockKind.TEXT)
END = (BlockEnd(0), Finish(FinishReason.STOP))


def fed(stage: StopSequences, pieces: Sequence[str]) -> list[Event]:
    out = stage.feed([OPEN])
    for piece in pieces:
        out += stage.feed([TextDelta(0, piece)])
    return out + stage.feed(END)


def text_of(events: list[Event]) -> str:
    return "".join(one.text for one in events if isinstance(one, TextDelta))


@pytest.mark.parametrize("size", range(1, 9))
@pytest.mark.parametrize(
    ("text", "kept", "sequence"),
    [
        ("one STOP two", "one ", "STOP"),
        ("STOP", "", "STOP"),
        ("one ENDSTOP", "one ", "END"),  # the first one in the text, not the first of the list
        ("STOSTOP", "STO", "STOP"),
        ("one STO", "one STO", None),
        ("one", "one", None),
    ],
)
def test_text_ends_before_the_first_sequence_however_it_is_cut(
    text: str, kept: str, sequence: str | None, size: int
) -> None:
    stage = StopSequences(["", "STOP", "END"])
    out = fed(stage, [text[at : at + size] for at in range(0, len(text), size)])

    assert kept == text_of(out)
    reason = FinishReason.STOP if sequence is None else FinishReason.STOP_SEQUENCE
    assert Finish(reason, sequence) == out[-1]
    assert BlockEnd(0) in out
    assert (sequence is not None, False) == (stage.done, stage.pending)


def test_only_the_beginning_of_a_sequence_is_held_back() -> None:
    stage = StopSequences(["STOP"])

    assert [OPEN, TextDelta(0, "one ")] == stage.feed([OPEN, TextDelta(0, "one ST")])
    assert stage.pending
    assert [TextDelta(0, "STAY")] == stage.feed([TextDelta(0, "AY")])
    assert not stage.pending


def test_a_cut_answer_reports_estimated_tokens_and_nothing_follows_it() -> None:
    stage = StopSequences(["STOP"], input_estimate=7)
    out = fed(stage, ["a" * 400 + "STOP", "more"])

    (usage,) = [one for one in out if isinstance(one, Usage)]
    assert (7, True, True) == (usage.input_tokens, usage.estimated, usage.final)
    assert usage.output_tokens > 50
    assert "a" * 400 == text_of(out)
    assert [] == stage.feed([TextDelta(0, "still more")])
