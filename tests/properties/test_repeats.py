"""A read that repeats the one before it with other words is read as any other."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Limits
from dragoman.dialects import repeats
from dragoman.errors import PeerError
from dragoman.reading import AnswerReader
from dragoman.turn.events import Event, Fault, FaultKind
from tests.properties.test_runs import FRAMES, HEADS, TAILS

_FRAME_END = re.compile(rb"(?<=\n\n)(?!$)")


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """Return a dialect, and reads of a stream in it: mostly one frame each, some cut or joined."""
    source = draw(st.sampled_from(("chat", "anthropic")))
    said = b"".join(draw(st.lists(FRAMES[source], max_size=12)))
    reads = [HEADS[source], *_FRAME_END.split(said)]
    if draw(st.booleans()):
        reads.append(TAILS[source])
    at = draw(st.integers(0, len(reads) - 1))
    cut = draw(st.integers(0, len(reads[at])))
    reads[at : at + 1] = [reads[at][:cut], reads[at][cut:]]
    return source, [read for read in reads if read]


def told(source: str, reads: list[bytes], **how: Any) -> list[list[Event] | str]:
    """Return what each read leads to, the end and a failure included."""
    reader = AnswerReader(source=source, seed="s", **how)
    found: list[list[Event] | str] = []
    try:
        found.extend(reader.feed(read) for read in reads)
        found.append(reader.close())
    except PeerError as error:
        found.append(str(error))
        found.append(reader.fail(Fault(FaultKind.UPSTREAM_BAD, "broken")))
    return found


@given(
    answers(),
    st.booleans(),
    st.sampled_from(("", "kimi-k2", "deepseek-r1")),
    st.sampled_from(((), ("stop here", "fox"))),
    st.sampled_from((Limits(), Limits(max_events=7), Limits(max_response_bytes=900))),
)
def test_reads_that_repeat_one_another_lead_to_the_same_events(
    answer: tuple[str, list[bytes]],
    strict: bool,
    model: str,
    stop: tuple[str, ...],
    limits: Limits,
) -> None:
    source, reads = answer
    how = {"strict": strict, "model": model, "stop": stop, "limits": limits}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "_MAX_SHAPES", 0)
        expected = told(source, reads, **how)

    assert expected == told(source, reads, **how)
