"""Calls that wait until they are whole."""

from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    Fault,
    FaultKind,
    InputDelta,
    Opaque,
    OpaqueKind,
    Ping,
    ReasoningDelta,
    Start,
    TextDelta,
)
from dragoman.turn.losses import Loss
from dragoman.turn.stages import WholeCalls

CALL = BlockStart(1, BlockKind.TOOL_CALL, "c", "bash")
CUSTOM = BlockStart(1, BlockKind.CUSTOM_CALL, "c", "patch")


def test_k2_2_a_call_leaves_at_once_when_it_is_complete() -> None:
    stage = WholeCalls()

    assert [] == stage.feed([CALL, ArgsDelta(1, '{"a":'), ArgsDelta(1, " 1")])
    assert stage.pending
    assert [] == stage.feed([ArgsDelta(1, "}")])
    assert [CALL, ArgsDelta(1, '{"a": 1}'), BlockEnd(1)] == stage.feed([BlockEnd(1)])
    assert not stage.pending


def test_k2_2_a_cut_call_leaves_as_one_that_was_cut() -> None:
    end = BlockEnd(1, complete=False)

    out = WholeCalls().feed([CALL, ArgsDelta(1, '{"a": "'), end])

    assert [CALL, ArgsDelta(1, '{"a": "'), end] == out


def test_a_call_of_an_answer_that_failed_does_not_leave_and_that_is_reported() -> None:
    fault = Fault(FaultKind.UPSTREAM_BAD, "cut")

    out = WholeCalls().feed([CALL, ArgsDelta(1, '{"a'), fault])

    assert [Loss("held_content_lost"), fault] == out


def test_free_text_and_the_state_that_signs_a_call_wait_with_it() -> None:
    signed = Opaque(1, OpaqueKind.TOOL_SIGNATURE, "sig", "x")
    stage = WholeCalls()

    held = stage.feed([CUSTOM, signed, InputDelta(1, "+a\n"), InputDelta(1, "-b")])

    assert [] == held
    assert [CUSTOM, signed, InputDelta(1, "+a\n-b"), BlockEnd(1)] == stage.feed([BlockEnd(1)])


def test_a_call_without_fragments_leaves_without_any() -> None:
    assert [CALL, BlockEnd(1)] == WholeCalls().feed([CALL, BlockEnd(1)])


def test_all_else_passes_at_once() -> None:
    events: list[Event] = [
        Start("m"),
        BlockStart(0, BlockKind.REASONING),
        ReasoningDelta(0, "hm"),
        Opaque(0, OpaqueKind.PLAIN, "", "x"),
        BlockEnd(0),
        TextDelta(1, "a"),
        Fault(FaultKind.SERVER, "no"),
    ]
    stage = WholeCalls()

    assert events == stage.feed(events)
    stage.feed([CALL])
    assert [Ping()] == stage.feed([Ping()])
