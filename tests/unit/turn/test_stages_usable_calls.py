"""Answers whose calls a client's dialect must be able to show: they wait for their end, and fail with a broken call."""

import pytest

from dragoman.limits import Limits
from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    DeltaRun,
    Event,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    InputDelta,
    Ping,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.stages import UsableCalls

TEXT: list[Event] = [BlockStart(0, BlockKind.TEXT), TextDelta(0, "I look."), BlockEnd(0)]
GOOD: list[Event] = [
    BlockStart(1, BlockKind.TOOL_CALL, "c1", "look"),
    ArgsDelta(1, '{"a": 1}'),
    BlockEnd(1),
]
CUT: list[Event] = [
    BlockStart(2, BlockKind.TOOL_CALL, "c2", "write"),
    ArgsDelta(2, '{"path": "a'),
    BlockEnd(2, complete=False),
]
USAGE = Usage(3, 5, final=True)
CALLED = Finish(FinishReason.TOOL_CALLS)
UNUSABLE = Fault(
    FaultKind.UPSTREAM_BAD,
    "the arguments of tool call `write` are incomplete or not a JSON object",
    code="invalid_arguments",
)


def test_calls_leave_with_the_end_of_the_answer() -> None:
    stage = UsableCalls()

    assert [Start("m"), *TEXT] == stage.feed([Start("m"), *TEXT])
    assert not stage.pending
    assert [] == stage.feed(GOOD)
    assert stage.pending
    assert [*GOOD, USAGE, CALLED] == stage.feed([USAGE, CALLED])
    assert not stage.pending


@pytest.mark.parametrize(
    "calls", [[*CUT], [*GOOD, *CUT], [*CUT, *GOOD]], ids=["alone", "second", "first"]
)
@pytest.mark.parametrize(
    "reason", [FinishReason.TOOL_CALLS, FinishReason.STOP, FinishReason.STOP_SEQUENCE]
)
def test_finished_answer_with_a_cut_call_fails_and_gives_none_of_its_calls(
    calls: list[Event], reason: FinishReason
) -> None:
    loss = Loss("call_cut", "block 2")

    out = UsableCalls().feed([*TEXT, *calls, loss, USAGE, Finish(reason)])

    assert [*TEXT, loss, USAGE, Loss("held_content_lost"), UNUSABLE] == out


@pytest.mark.parametrize(
    "reason",
    [
        FinishReason.LENGTH,
        FinishReason.CONTEXT_FULL,
        FinishReason.CONTENT_FILTER,
        FinishReason.REFUSAL,
        FinishReason.PAUSE,
    ],
)
def test_answer_that_was_cut_for_a_reported_reason_keeps_its_ending(reason: FinishReason) -> None:
    events = [*GOOD, *CUT, USAGE, Finish(reason)]

    assert events == UsableCalls().feed(events)


def test_calls_of_an_answer_that_failed_do_not_leave_and_that_is_reported() -> None:
    fault = Fault(FaultKind.UPSTREAM_BAD, "cut")

    out = UsableCalls().feed([*TEXT, *GOOD, USAGE, fault])

    assert [*TEXT, USAGE, Loss("held_content_lost"), fault] == out


def test_content_that_two_stages_have_lost_is_reported_once() -> None:
    lost, fault = Loss("held_content_lost"), Fault(FaultKind.TIMEOUT, "slow")
    stage = UsableCalls()
    stage.feed(GOOD)

    assert [lost, fault] == stage.feed([lost, fault])


def test_more_calls_than_the_limit_fail_at_once_and_nothing_is_kept() -> None:
    stage = UsableCalls(Limits(max_calls=2))

    assert [] == stage.feed([*GOOD, *GOOD])
    (lost, fault) = stage.feed([*GOOD, *GOOD])

    assert Loss("held_content_lost") == lost
    assert isinstance(fault, Fault)
    assert "max_calls" == fault.code
    assert not stage.pending


def test_free_text_of_a_custom_tool_waits_too() -> None:
    custom = BlockStart(0, BlockKind.CUSTOM_CALL, "c", "patch")
    stage = UsableCalls()

    assert [] == stage.feed([custom, InputDelta(0, "+a\n-b")])
    assert [custom, InputDelta(0, "+a\n-b"), BlockEnd(0), CALLED] == stage.feed(
        [BlockEnd(0), CALLED]
    )


def test_what_follows_a_call_keeps_its_place_and_pings_pass() -> None:
    after: list[Event] = [
        BlockStart(2, BlockKind.TEXT),
        DeltaRun(2, [b"a", b"b"], TextDelta(2, "ab")),
        BlockEnd(2),
    ]
    stage = UsableCalls()

    assert [Ping()] == stage.feed([*GOOD, Ping(), *after])
    assert [*GOOD, *after, CALLED] == stage.feed([CALLED])
