"""The blocks of an answer are opened and ended one after another."""

import pytest

from dragoman.turn.block_builder import BlockBuilder, half_input
from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    FaultKind,
    FinishReason,
    Flavor,
    InputDelta,
    Opaque,
    OpaqueKind,
)
from dragoman.turn.losses import Loss
from dragoman.turn.tools import ToolName

TEXT = BlockStart(0, BlockKind.TEXT)
REASONING = BlockStart(0, BlockKind.REASONING)
FUNCTION = ToolName("look", "", Flavor.FUNCTION)
CUSTOM = ToolName("patch", "", Flavor.CUSTOM)


def test_blocks_get_the_next_index_whatever_index_they_are_given() -> None:
    builder = BlockBuilder()
    builder.begin_block(TEXT)
    builder.end_block()
    builder.begin_block(TEXT)

    assert [TEXT, BlockEnd(0), BlockStart(1, BlockKind.TEXT)] == builder.take()
    assert [] == builder.take()


def test_ending_without_an_open_block_emits_nothing() -> None:
    builder = BlockBuilder()
    builder.end_block()

    assert [] == builder.take()


@pytest.mark.parametrize(("seal_plain", "sealed"), [(True, False), (True, True), (False, False)])
def test_unsigned_reasoning_is_marked_where_its_upstream_expects_it_back(
    seal_plain: bool, sealed: bool
) -> None:
    builder = BlockBuilder(seal_plain=seal_plain, origin="deepseek")
    builder.begin_block(REASONING)
    builder.sealed = sealed
    builder.end_block()

    mark = [Opaque(0, OpaqueKind.PLAIN, "", "deepseek")] if seal_plain and not sealed else []
    assert [REASONING, *mark, BlockEnd(0)] == builder.take()


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize(
    ("tool", "kind", "delta"),
    [
        (FUNCTION, BlockKind.TOOL_CALL, ArgsDelta(1, "{}")),
        (CUSTOM, BlockKind.CUSTOM_CALL, InputDelta(1, "{}")),
    ],
)
def test_a_call_ends_the_block_before_it_and_has_deltas_of_its_kind(
    tool: ToolName, kind: BlockKind, delta: ArgsDelta | InputDelta, complete: bool
) -> None:
    builder = BlockBuilder()
    builder.begin_block(TEXT)
    builder.begin_call("c1", tool)
    builder.call_delta("{}")
    builder.end_call_block(tool.name, complete=complete)

    start = BlockStart(1, kind, "c1", tool.name, "", tool.flavor)
    assert [TEXT, BlockEnd(0), start, delta, BlockEnd(1, complete)] == builder.take()
    assert builder.kind is None
    truncated_input = kind is BlockKind.CUSTOM_CALL and not complete
    assert ("patch" if truncated_input else "") == builder.half_input


@pytest.mark.parametrize("reason", FinishReason)
def test_only_an_ordinary_end_becomes_tool_calls(reason: FinishReason) -> None:
    builder = BlockBuilder()
    ordinary = reason in (FinishReason.STOP, FinishReason.STOP_SEQUENCE)

    assert (FinishReason.TOOL_CALLS if ordinary else reason) == builder.reason_with_calls(reason)
    detail = f"{reason} although calls were made"
    assert ([Loss("finish_reason_fixed", "", detail)] if ordinary else []) == builder.take()


def test_truncated_free_form_input_is_a_failure_of_the_upstream() -> None:
    fault = half_input("patch")

    assert (FaultKind.UPSTREAM_BAD, "invalid_arguments") == (fault.kind, fault.code)
    assert "`patch`" in fault.message
