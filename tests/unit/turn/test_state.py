"""The legality tables: every pair of state and event is a declared next state, or the end of it."""

from itertools import product

import pytest
from tests.support.tables import in_one_test

from dragoman.errors import IllegalOrderError
from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    DeltaRun,
    Event,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    InputDelta,
    Opaque,
    OpaqueKind,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.state import DELTAS, TURN, Legality, TurnState

# One of each kind of event, at home in block 0.
SAMPLES: list[Event] = [
    Start(),
    BlockStart(0, BlockKind.TEXT),
    TextDelta(0, "x"),
    DeltaRun(0, [b"x", b"y"], TextDelta(0, "xy")),
    ReasoningDelta(0, "x"),
    ArgsDelta(0, "{}"),
    InputDelta(0, "x"),
    RefusalDelta(0, "x"),
    Citation(0),
    Opaque(0, OpaqueKind.SIGNATURE),
    BlockEnd(0),
    Usage(),
    Finish(FinishReason.STOP),
    Fault(FaultKind.SERVER, "x"),
    Ping(),
    Loss("usage_missing"),
]
# Reasons that say that nothing is wanting.
NORMAL_ENDS = (FinishReason.STOP, FinishReason.STOP_SEQUENCE, FinishReason.TOOL_CALLS)
DELTA_TYPES = frozenset().union(*DELTAS.values())

# How to bring a machine into each state; inside a block, the block's kind matters too.
ROADS: dict[tuple[TurnState, BlockKind | None], list[Event]] = {
    (TurnState.IDLE, None): [],
    (TurnState.OPEN, None): [Start()],
    **{(TurnState.BLOCK, kind): [Start(), BlockStart(0, kind)] for kind in BlockKind},
    (TurnState.ENDED, None): [Start(), Finish(FinishReason.STOP)],
}


def legality(*events: Event) -> Legality:
    machine = Legality()
    for event in events:
        machine.check(event)
    return machine


def is_legal(events: list[Event]) -> bool:
    machine = Legality()
    return all(accepts(machine, event) for event in events)


def accepts(machine: Legality, event: Event) -> bool:
    try:
        machine.check(event)
    except IllegalOrderError:
        return False
    return True


def is_dead(machine: Legality) -> bool:
    """Nothing is accepted any more but one fault, so that the failure can be reported."""
    fault = Fault(FaultKind.GATEWAY, "x")
    ended = machine.state is TurnState.ENDED
    others = [event for event in SAMPLES if not isinstance(event, Fault)]
    return (
        not any(accepts(machine, event) for event in others)
        and accepts(machine, fault) is not ended
        and not any(accepts(machine, event) for event in SAMPLES)
    )


def test_the_tables_name_every_state_kind_and_event() -> None:
    assert set(TurnState) == set(TURN)
    assert set(BlockKind) == set(DELTAS)
    assert {type(event) for event in SAMPLES} == {event for row in TURN.values() for event in row}


@in_one_test
@pytest.mark.parametrize(
    ("place", "event"),
    list(product(ROADS, SAMPLES)),
    ids=lambda value: (
        type(value).__name__ if not isinstance(value, tuple) else str(value[1] or value[0])
    ),
)
def test_a4_every_pair_is_a_declared_next_state_or_the_end(
    place: tuple[TurnState, BlockKind | None], event: Event
) -> None:
    state, kind = place
    machine = legality(*ROADS[place])
    following = TURN[state].get(type(event))
    if kind is not None and type(event) in DELTA_TYPES - DELTAS[kind]:
        following = None

    if following is not None:
        machine.check(event)
        assert following is machine.state
    else:
        with pytest.raises(IllegalOrderError) as caught:
            machine.check(event)
        assert (caught.value.state, caught.value.event) == (str(state), type(event).__name__)
        assert is_dead(machine)


@pytest.mark.parametrize("kind", BlockKind)
def test_a_block_of_any_kind_follows_any_other_a5(kind: BlockKind) -> None:
    machine = legality(Start())
    for index, other in enumerate([*BlockKind, kind, kind]):
        machine.check(BlockStart(index, other))
        machine.check(BlockEnd(index))

    assert machine.state is TurnState.OPEN


@pytest.mark.parametrize("index", [-1, 1, 2])
def test_a3_indexes_count_from_zero_without_gaps(index: int) -> None:
    machine = legality(Start())

    with pytest.raises(IllegalOrderError, match="where 0 is next"):
        machine.check(BlockStart(index, BlockKind.TEXT))
    assert is_dead(machine)


def test_a3_an_index_is_not_used_twice() -> None:
    machine = legality(Start(), BlockStart(0, BlockKind.TEXT), BlockEnd(0))

    with pytest.raises(IllegalOrderError, match="where 1 is next"):
        machine.check(BlockStart(0, BlockKind.TEXT))


def test_a3_an_end_names_the_open_block() -> None:
    machine = legality(Start(), BlockStart(0, BlockKind.TEXT))

    with pytest.raises(IllegalOrderError, match="block 1 is not open"):
        machine.check(BlockEnd(1))
    assert is_dead(machine)


@pytest.mark.parametrize("delta", [TextDelta(1, "x"), TextDelta(-1, "x")])
def test_a4_a_delta_for_a_block_that_is_not_open_is_refused(delta: TextDelta) -> None:
    machine = legality(Start(), BlockStart(0, BlockKind.TEXT))

    with pytest.raises(IllegalOrderError, match="is not open"):
        machine.check(delta)
    assert is_dead(machine)


def test_a_delta_of_another_kind_is_refused_with_both_named() -> None:
    machine = legality(Start(), BlockStart(0, BlockKind.TEXT))

    with pytest.raises(IllegalOrderError, match="does not fit a text block"):
        machine.check(ReasoningDelta(0, "x"))


@pytest.mark.parametrize("kind", BlockKind)
def test_only_a_call_can_end_cut(kind: BlockKind) -> None:
    machine = legality(Start(), BlockStart(0, kind))
    end = BlockEnd(0, complete=False)

    if kind in (BlockKind.TOOL_CALL, BlockKind.CUSTOM_CALL):
        machine.check(end)
        assert machine.calls == 1
    else:
        with pytest.raises(IllegalOrderError, match="only a call can be cut"):
            machine.check(end)


def test_no_block_is_open_at_the_finish_but_a_fault_may_leave_one() -> None:
    inside = [Start(), BlockStart(0, BlockKind.TEXT)]

    with pytest.raises(IllegalOrderError):
        legality(*inside, Finish(FinishReason.STOP))
    assert legality(*inside, Fault(FaultKind.SERVER, "x")).state is TurnState.ENDED


CALL = [BlockStart(0, BlockKind.TOOL_CALL), ArgsDelta(0, "{}"), BlockEnd(0)]
CUT = [BlockStart(0, BlockKind.TOOL_CALL), ArgsDelta(0, "{"), BlockEnd(0, complete=False)]


@pytest.mark.parametrize("reason", FinishReason)
def test_b9_the_reason_agrees_with_the_calls(reason: FinishReason) -> None:
    without, with_call, with_cut = (
        [Start(), Finish(reason)],
        [Start(), *CALL, Finish(reason)],
        [Start(), *CUT, Finish(reason)],
    )

    if reason is FinishReason.TOOL_CALLS:
        assert not is_legal(without)
        assert is_legal(with_call)
        assert is_legal(with_cut)
    else:
        assert is_legal(without)
        assert is_legal(with_call) is (
            reason not in (FinishReason.STOP, FinishReason.STOP_SEQUENCE)
        )
        assert is_legal(with_cut) is is_legal(with_call)


def test_final_counts_come_once() -> None:
    machine = legality(Start(), Usage(), Usage(final=True), Usage())

    with pytest.raises(IllegalOrderError, match="already reported"):
        machine.check(Usage(final=True))
    assert is_dead(machine)


def test_losses_are_reported_even_after_the_end() -> None:
    machine = legality(Loss("usage_missing"), Start(), Finish(FinishReason.STOP))
    machine.check(Loss("usage_missing"))

    assert machine.state is TurnState.ENDED
