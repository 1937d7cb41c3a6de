"""Calls of vendor-run tools that an upstream returns for the client to run are dropped."""

from dragoman.turn.answer import fold
from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    Start,
    TextDelta,
)
from dragoman.turn.losses import Loss
from dragoman.turn.server_tools import ServerCall, ServerKind, ServerResult
from dragoman.turn.stages import ServerTools

NAMES = frozenset({"web_search"})
CALLS = Finish(FinishReason.TOOL_CALLS)


def call(index: int, name: str) -> list[Event]:
    start = BlockStart(index, BlockKind.TOOL_CALL, f"c{index}", name)
    return [start, ArgsDelta(index, "{}"), BlockEnd(index)]


def text(index: int) -> list[Event]:
    return [BlockStart(index, BlockKind.TEXT), TextDelta(index, "Hi."), BlockEnd(index)]


def test_an_answer_of_nothing_else_fails() -> None:
    events = ServerTools(NAMES, needed=True).feed([Start(), *call(0, "web_search"), CALLS])

    assert isinstance(events[-1], Fault)
    assert FaultKind.UPSTREAM_BAD is events[-1].kind
    assert "server_tool_unrun" == events[-1].code
    assert not any(isinstance(event, BlockStart) for event in events)


def test_what_else_there_is_moves_up() -> None:
    stage = ServerTools(NAMES, needed=False)
    events = stage.feed([Start(), *call(0, "web_search"), *text(1), *call(2, "run"), CALLS])

    answer = fold(events)
    assert [BlockKind.TEXT, BlockKind.TOOL_CALL] == [block.kind for block in answer.blocks]
    assert FinishReason.TOOL_CALLS is answer.finish_reason
    assert (Loss("server_tool_unrun", "block 0", "web_search"),) == answer.losses


def test_an_answer_whose_only_call_is_dropped_has_ended() -> None:
    stage = ServerTools(NAMES, needed=False)
    answer = fold(stage.feed([Start(), *text(0), *call(1, "web_search"), CALLS]))

    assert FinishReason.STOP is answer.finish_reason


def test_a_needed_tool_that_did_not_run_is_reported() -> None:
    end = Finish(FinishReason.STOP)
    events = ServerTools(NAMES, needed=True).feed([Start(), *text(0), end])

    assert [Loss("server_tool_unused", detail="web_search"), end] == events[-2:]


def test_a_tool_that_ran_changes_nothing() -> None:
    does = ServerKind.WEB_SEARCH
    start = BlockStart(0, BlockKind.SERVER_CALL, "a", server=ServerCall(does))
    result = BlockStart(1, BlockKind.SERVER_RESULT, "a", server=ServerResult(does))
    events = [Start(), start, BlockEnd(0), result, BlockEnd(1), *text(2), Finish(FinishReason.STOP)]

    out = ServerTools(NAMES, needed=True).feed(events)
    assert [id(event) for event in events] == [id(event) for event in out]
