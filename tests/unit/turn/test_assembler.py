"""The assembler: whatever order a peer speaks in, the events are legal and nothing is lost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dragoman.errors import TooLargeError
from dragoman.limits import Limits
from dragoman.turn.answer import Answer, Block, fold
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import (
    CUT_REASONS,
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Channel,
    Citation,
    Event,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    Flavor,
    InputDelta,
    Opaque,
    OpaqueKind,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import CODES, Loss
from dragoman.turn.request import Tool
from dragoman.turn.state import Legality
from dragoman.turn.tools import ToolTable

USED = Usage(1, 2)


def open_call(assembler: Assembler, key: object, name: str = "f", **more: object) -> None:
    assembler.open_call(key, call_id=f"id {key}", name=name, **more)


def said(assembler: Assembler) -> list[Event]:
    """Take the events, without the first and the last ones that every turn has."""
    events = assembler.take()
    return [event for event in events if not isinstance(event, (Start, Usage, Finish))]


def answer(assembler: Assembler, reason: FinishReason | None = FinishReason.STOP) -> Answer:
    assembler.usage(USED)
    if not assembler.ended:
        assembler.finish(reason)
    return fold(assembler.take())


def losses(one: Answer) -> list[str]:
    return [loss.code for loss in one.losses]


def calls(one: Answer) -> list[tuple[str, str, bool]]:
    return [(block.call_id, block.text, block.complete) for block in one.call_blocks]


# --- blocks -----------------------------------------------------------------------------------------


def test_a2_blocks_open_when_content_arrives_and_end_when_other_content_does() -> None:
    assembler = Assembler()
    assembler.start(model="m", id="i", created=3)
    assembler.start(model="other")
    assembler.reasoning("a")
    assembler.reasoning("b")
    assembler.text("c")
    assembler.refusal("d")
    assembler.usage(USED)
    assembler.finish(FinishReason.STOP)

    assert assembler.take() == [
        Start("m", "i", 3),
        BlockStart(0, BlockKind.REASONING),
        ReasoningDelta(0, "a"),
        ReasoningDelta(0, "b"),
        BlockEnd(0),
        BlockStart(1, BlockKind.TEXT),
        TextDelta(1, "c"),
        BlockEnd(1),
        BlockStart(2, BlockKind.REFUSAL),
        RefusalDelta(2, "d"),
        BlockEnd(2),
        Usage(1, 2, final=True),
        Finish(FinishReason.STOP),
    ]
    assert assembler.ended


def test_a5_r11_any_order_of_kinds_is_kept() -> None:
    assembler = Assembler()
    assembler.text("\n")
    assembler.reasoning("a")
    assembler.text("b")
    assembler.reasoning("c", Channel.SUMMARY, 1)

    assert [block.kind for block in answer(assembler).blocks] == [
        BlockKind.TEXT,
        BlockKind.REASONING,
        BlockKind.TEXT,
        BlockKind.REASONING,
    ]


def test_a_long_text_becomes_several_deltas_of_one_block() -> None:
    assembler = Assembler()
    long = "0123456789" * 150_000
    assembler.reasoning(long, Channel.SUMMARY, 1)
    assembler.text(long)
    events = said(assembler)
    deltas = [one for one in events if isinstance(one, (ReasoningDelta, TextDelta))]

    assert max(len(one.text) for one in deltas) <= 512 * 1024
    assert 2 == sum(isinstance(one, BlockStart) for one in events)
    assert long * 2 == "".join(one.text for one in deltas)
    assert {(Channel.SUMMARY, 1)} == {
        (one.channel, one.part) for one in deltas if isinstance(one, ReasoningDelta)
    }


def test_a_split_makes_two_blocks_of_one_kind() -> None:
    assembler = Assembler()
    assembler.text("a")
    assembler.split()
    assembler.split()
    assembler.text("b")

    assert [block.text for block in answer(assembler).blocks] == ["a", "b"]


def test_a_citation_finds_its_text_block() -> None:
    assembler = Assembler()
    assembler.citation(Citation(99, url="u"))

    assert said(assembler) == [BlockStart(0, BlockKind.TEXT), Citation(0, url="u")]


def test_opaque_state_finds_its_reasoning_block() -> None:
    assembler = Assembler(origin="o")
    assembler.opaque(OpaqueKind.ENCRYPTED, "x", "item")

    assert said(assembler) == [
        BlockStart(0, BlockKind.REASONING),
        Opaque(0, OpaqueKind.ENCRYPTED, "x", "o", "item"),
    ]


def test_e1_unsigned_reasoning_is_marked_to_be_given_back_if_its_upstream_wants_that() -> None:
    assembler = Assembler(origin="o", seal_plain=True)
    assembler.reasoning("a")
    assembler.text("b")
    assembler.reasoning("c")
    assembler.opaque(OpaqueKind.SIGNATURE, "s")
    one = answer(assembler)

    assert [[opaque.kind for opaque in block.opaque] for block in one.blocks] == [
        [OpaqueKind.PLAIN],
        [],
        [OpaqueKind.SIGNATURE],
    ]


def test_a_whole_block_is_alone() -> None:
    assembler = Assembler()
    assembler.text("a")
    assembler.whole_block(BlockKind.SERVER_CALL, "v", Raw(b"{}"))
    assembler.text("b")

    assert [block.kind for block in answer(assembler).blocks] == [
        BlockKind.TEXT,
        BlockKind.SERVER_CALL,
        BlockKind.TEXT,
    ]


def test_g1_a_fault_before_anything_else_is_alone() -> None:
    assembler = Assembler()
    assembler.fault(Fault(FaultKind.SERVER, "x"))

    assert assembler.take() == [Fault(FaultKind.SERVER, "x")]
    assert assembler.ended


def test_g2_a_fault_leaves_a_half_call_open() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.args(0, "{")
    assembler.fault(Fault(FaultKind.UPSTREAM_BAD, "cut"))

    assert [type(event) for event in assembler.take()] == [Start, BlockStart, ArgsDelta, Fault]


def test_g2_what_waited_when_a_fault_came_is_reported_as_lost() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.text("waits")
    assembler.fault(Fault(FaultKind.UPSTREAM_BAD, "cut"))

    assert said(assembler)[-2:] == [Loss("held_content_lost"), Fault(FaultKind.UPSTREAM_BAD, "cut")]


# --- calls ------------------------------------------------------------------------------------------


def test_a1_t3_a_call_and_its_arguments_leave_at_once() -> None:
    assembler = Assembler()
    open_call(assembler, 0, "Bash")
    assembler.args(0, '{"command":"ls"}')

    assert said(assembler) == [
        BlockStart(0, BlockKind.TOOL_CALL, "id 0", "Bash"),
        ArgsDelta(0, '{"command":"ls"}'),
    ]


def test_a6_t13_alternating_calls_are_serial_and_the_second_streams_once_the_first_is_whole() -> (
    None
):
    assembler = Assembler()
    open_call(assembler, 0)
    open_call(assembler, 1)
    assembler.args(0, '{"a"')
    assembler.args(1, '{"b"')
    assert [type(event) for event in said(assembler)] == [BlockStart, ArgsDelta]

    assembler.args(0, ":1}")
    assert said(assembler) == [
        ArgsDelta(0, ":1}"),
        BlockEnd(0),
        BlockStart(1, BlockKind.TOOL_CALL, "id 1", "f"),
        ArgsDelta(1, '{"b"'),
    ]

    assembler.args(1, ":2")
    assert said(assembler) == [ArgsDelta(1, ":2")]


def test_a6_whole_calls_that_waited_leave_together_up_to_the_one_that_is_not() -> None:
    assembler = Assembler()
    for key in range(4):
        open_call(assembler, key)
    for key in (1, 2):
        assembler.args(key, "{}")
    assembler.args(3, '{"x":')
    assembler.text("after")
    assembler.take()

    assembler.args(0, "{}")
    assert [
        (type(event).__name__, event.index)
        for event in said(assembler)
        if not isinstance(event, Loss)
    ] == [
        ("ArgsDelta", 0),
        ("BlockEnd", 0),
        ("BlockStart", 1),
        ("ArgsDelta", 1),
        ("BlockEnd", 1),
        ("BlockStart", 2),
        ("ArgsDelta", 2),
        ("BlockEnd", 2),
        ("BlockStart", 3),
        ("ArgsDelta", 3),
    ]

    assembler.args(3, "1}")
    assert said(assembler)[-1] == TextDelta(4, "after")


def test_a6_content_of_every_kind_waits_for_an_unfinished_call_in_order() -> None:
    assembler = Assembler(origin="o")
    open_call(assembler, 0)
    assembler.text("a")
    assembler.split()
    assembler.text("b")
    assembler.reasoning("c")
    assembler.opaque(OpaqueKind.SIGNATURE, "s")
    assembler.refusal("d")
    assembler.whole_block(BlockKind.OPAQUE, "v", Raw(b"1"))
    assembler.citation(Citation(0, url="u"))
    assembler.args(0, "{}")
    one = answer(assembler)

    assert [(block.kind, block.text or bool(block.segments)) for block in one.blocks] == [
        (BlockKind.TOOL_CALL, "{}"),
        (BlockKind.TEXT, "a"),
        (BlockKind.TEXT, "b"),
        (BlockKind.REASONING, True),
        (BlockKind.REFUSAL, "d"),
        (BlockKind.OPAQUE, False),
        (BlockKind.TEXT, False),
        (BlockKind.SERVER_CALL, False),  # an address proves a search
        (BlockKind.SERVER_RESULT, False),
    ]


def test_a9_content_after_a_whole_call_needs_no_waiting() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.args(0, "{}")
    assembler.text("a")

    assert said(assembler)[-3:] == [BlockEnd(0), BlockStart(1, BlockKind.TEXT), TextDelta(1, "a")]


def test_t13_a_late_fragment_of_an_ended_call_is_reported_and_blanks_are_not() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.args(0, "{}")
    assembler.text("a")
    assembler.take()
    assembler.args(0, " \n")
    assembler.args(0, "}")
    assembler.call_opaque(0, OpaqueKind.TOOL_SIGNATURE, "s")

    assert said(assembler) == [
        Loss("late_delta_dropped", "call id 0"),
        Loss("late_delta_dropped", "call id 0"),
    ]


def test_b2_a_call_knows_when_its_arguments_are_whole_also_while_it_waits() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    open_call(assembler, 1)
    assembler.args(1, '{"a":')

    assert not assembler.call_is_whole(0)
    assert not assembler.call_is_whole(1)
    assembler.args(1, "1}")
    assert assembler.call_is_whole(1)
    assembler.args(0, "{}")
    assert assembler.call_is_whole(0)
    assert assembler.knows_call(1)
    assert not assembler.knows_call(2)
    assert assembler.has_calls is True


def test_b5_arguments_of_the_call_after_an_empty_one_are_kept() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    open_call(assembler, 1)
    assembler.args(1, '{"a":1}')

    assert calls(answer(assembler)) == [("id 0", "{}", True), ("id 1", '{"a":1}', True)]


def test_c8_two_calls_of_one_tool_are_two() -> None:
    assembler = Assembler()
    for key in (0, 1):
        open_call(assembler, key, "same")
        assembler.args(key, f'{{"n":{key}}}')

    assert calls(answer(assembler)) == [("id 0", '{"n":0}', True), ("id 1", '{"n":1}', True)]


def test_t6_a_call_without_an_id_gets_one_that_depends_on_nothing_but_the_answer() -> None:
    ids = []
    for seed in ("s", "s", "t"):
        assembler = Assembler(seed=seed)
        assembler.open_call(0, call_id="", name="f")
        assembler.open_call(1, call_id="", name="f")
        ids.append([block.call_id for block in answer(assembler).blocks])

    assert ids[0] == ids[1]
    assert len({*ids[0], *ids[2]}) == 4
    assert all(one.startswith("call_") and len(one) == 29 for one in ids[0])


def test_t9_b4_a_call_without_arguments_has_an_empty_object() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.args(0, "")

    assert calls(answer(assembler)) == [("id 0", "{}", True)]


def test_t10_arguments_encoded_twice_are_unwrapped_and_reported() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.args(0, '"{\\"a\\":1}"')
    one = answer(assembler)

    assert calls(one) == [("id 0", '{"a":1}', True)]
    assert losses(one) == ["args_repaired", "finish_reason_fixed"]


def test_t11_garbage_after_the_arguments_is_reported() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.args(0, '{"a":1}}')
    one = answer(assembler, FinishReason.TOOL_CALLS)

    assert calls(one) == [("id 0", '{"a":1}', True)]
    assert losses(one) == ["args_trailing"]


def test_b3_arguments_sent_twice_are_reported() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.args(0, '{"command":"pwd"')
    assembler.args(0, '{"command": "pwd"}')
    one = answer(assembler, FinishReason.TOOL_CALLS)

    assert calls(one) == [("id 0", '{"command":"pwd"}', True)]
    assert losses(one) == ["args_repeated"]


@pytest.mark.parametrize("text", ['{"a": foo}', "ls -l", "[1]", '{"a" "b"}'])
def test_p_9_arguments_beyond_mending_leave_as_they_came_and_the_reason_stays(text: str) -> None:
    assembler = Assembler()
    open_call(assembler, 0, "Bash")
    assembler.args(0, text)
    one = answer(assembler, FinishReason.TOOL_CALLS)

    assert FinishReason.TOOL_CALLS is one.finish_reason
    assert calls(one) == [("id 0", text, False)]
    assert losses(one) in (["args_invalid"], ["args_not_object"])


def test_p_9_what_comes_after_a_broken_call_follows_it() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.args(0, '{"a": foo}')
    assembler.end_call(0)
    assembler.text("x")
    open_call(assembler, 1)
    assembler.args(1, "{}")
    one = answer(assembler, FinishReason.TOOL_CALLS)

    assert calls(one) == [("id 0", '{"a": foo}', False), ("id 1", "{}", True)]
    assert "x" == one.text


def test_the_last_bracket_is_added_and_reported() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.args(0, '{"a":["x"]')
    one = answer(assembler, FinishReason.TOOL_CALLS)

    assert calls(one) == [("id 0", '{"a":["x"]}', True)]
    assert losses(one) == ["args_repaired"]


REQUIRES = ToolTable([Tool(name="f", schema=Raw(b'{"required":["path","content"]}'))])


@pytest.mark.parametrize(
    ("text", "left", "complete"),
    [
        ('{"path":"a","content":"b"', '{"path":"a","content":"b"}', True),
        ('{"path":"a"', '{"path":"a"', False),
        ("", "{", False),
        ("{}", "{}", True),  # the peer's own word
    ],
)
def test_b10_a_call_without_a_required_parameter_is_never_completed_here(
    text: str,
    left: str,
    complete: bool,
) -> None:
    assembler = Assembler(tools=REQUIRES)
    open_call(assembler, 0, "f")
    assembler.args(0, text)

    assert calls(answer(assembler, FinishReason.TOOL_CALLS)) == [("id 0", left, complete)]


@pytest.mark.parametrize("reason", sorted(CUT_REASONS))
@pytest.mark.parametrize(
    "arguments", ["", "{", '{"a":["x"', '{"a":1,', '{"a":"x', '{"a": None', "ls"]
)
def test_b10_a_call_that_was_cut_is_never_whole(reason: FinishReason, arguments: str) -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.args(0, arguments)
    one = answer(assembler, reason)

    assert one.finish is not None
    assert one.finish.reason is reason
    assert [block.complete for block in one.blocks] == [False]
    assert "call_cut" in losses(one)
    assert (arguments or "{") == one.blocks[0].text.replace("null", "None")


@pytest.mark.parametrize("reason", [None, FinishReason.STOP, FinishReason.TOOL_CALLS])
def test_b10_a_call_that_stops_inside_a_value_is_cut_whatever_the_peer_reports(
    reason: FinishReason | None,
) -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.args(0, '{"a":"x')
    one = answer(assembler, reason)

    assert one.finish is not None
    assert one.finish.reason is FinishReason.TOOL_CALLS
    assert calls(one) == [("id 0", '{"a":"x', False)]
    fixed = ["finish_reason_fixed"] if reason is FinishReason.STOP else []
    assert losses(one) == ["call_cut", *fixed]


def test_b10_calls_before_the_one_that_was_cut_are_whole() -> None:
    assembler = Assembler()
    open_call(assembler, 0)  # no arguments, but others came after it
    open_call(assembler, 1)
    assembler.args(1, '{"a":1}')
    open_call(assembler, 2)
    assembler.args(2, '{"a":')
    one = answer(assembler, FinishReason.LENGTH)

    assert [complete for _, _, complete in calls(one)] == [True, True, False]


def test_b10_a_call_without_arguments_is_whole_unless_a_limit_ended_the_answer_there() -> None:
    for reason, expected in (
        (FinishReason.TOOL_CALLS, ("id 0", "{}", True)),
        (FinishReason.LENGTH, ("id 0", "{", False)),  # peers end the block all the same
    ):
        assembler = Assembler()
        open_call(assembler, 0)
        assembler.end_call(0)

        assert calls(answer(assembler, reason)) == [expected]


@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.TOOL_CALLS, None])
def test_b10_half_a_free_form_input_fails_unless_a_limit_explains_it(
    reason: FinishReason | None,
) -> None:
    tools = ToolTable([Tool(name="patch", flavor=Flavor.CUSTOM)])

    def half(end: FinishReason | None) -> Answer:
        assembler = Assembler(tools=tools)
        open_call(assembler, 0, "patch")
        assembler.args(0, '{"input": "*** Begin Pa')
        return answer(assembler, end)

    failed = half(reason).fault
    assert failed is not None
    assert (failed.kind, failed.code) == (FaultKind.UPSTREAM_BAD, "invalid_arguments")
    assert "`patch`" in failed.message
    assert calls(half(FinishReason.LENGTH)) == [("id 0", "*** Begin Pa", False)]


def test_b10_a_peer_may_say_itself_that_a_call_was_cut() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.args(0, '{"a":"x"')
    assembler.end_call(0, cut=True)
    one = answer(assembler, FinishReason.STOP)

    assert calls(one) == [("id 0", '{"a":"x"', False)]


def test_a_call_that_its_peer_ended_leaves_at_once_when_it_is_whole() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.args(0, "{}")
    assembler.end_call(0)

    assert said(assembler)[-1] == BlockEnd(0)


def test_a_call_that_ended_while_it_waited_leaves_when_its_turn_comes() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    open_call(assembler, 1)
    assembler.args(1, "{}")
    assembler.call_opaque(1, OpaqueKind.TOOL_SIGNATURE, "s")
    assembler.end_call(1)
    assembler.args(0, "{}")
    assembler.end_call(0)

    assert said(assembler)[-4:] == [
        BlockStart(1, BlockKind.TOOL_CALL, "id 1", "f"),
        Opaque(1, OpaqueKind.TOOL_SIGNATURE, "s"),
        ArgsDelta(1, "{}"),
        BlockEnd(1),
    ]


# --- tools ------------------------------------------------------------------------------------------

TOOLS = ToolTable(
    [
        Tool(name="run", namespace="ns"),
        Tool(name="apply_patch", flavor=Flavor.CUSTOM),
    ]
)


def test_f6_a_call_carries_the_name_that_its_client_knows() -> None:
    assembler = Assembler(tools=TOOLS)
    open_call(assembler, 0, "ns__run")
    open_call(assembler, 1, "functions.ns__run")
    one = answer(assembler)

    assert [(block.name, block.namespace) for block in one.blocks] == [("run", "ns"), ("run", "ns")]


def test_f7_the_input_of_a_custom_tool_is_unwrapped() -> None:
    assembler = Assembler(tools=TOOLS)
    open_call(assembler, 0, "apply_patch")
    assembler.args(0, '{"input":"a\\n')
    assembler.args(0, 'b"}')

    assert said(assembler) == [
        BlockStart(0, BlockKind.CUSTOM_CALL, "id 0", "apply_patch", "", Flavor.CUSTOM),
        InputDelta(0, "a\n"),
        InputDelta(0, "b"),
    ]


def test_f7_free_text_from_a_peer_that_knows_custom_tools_passes_as_it_is() -> None:
    assembler = Assembler()
    open_call(assembler, 0, "x", flavor=Flavor.CUSTOM, raw_input=True)
    assembler.args(0, '{"input":')
    assembler.end_call(0)
    one = answer(assembler, FinishReason.TOOL_CALLS)

    assert one.blocks == (
        Block(
            BlockKind.CUSTOM_CALL,
            '{"input":',
            call_id="id 0",
            name="x",
            flavor=Flavor.CUSTOM,
        ),
    )


@pytest.mark.parametrize("raw_input", [True, False])
def test_b10_free_text_that_was_cut_is_not_whole(*, raw_input: bool) -> None:
    assembler = Assembler()
    open_call(assembler, 0, "x", flavor=Flavor.CUSTOM, raw_input=raw_input)
    assembler.args(0, "*** Begin Patch")
    one = answer(assembler, FinishReason.LENGTH)

    assert calls(one) == [("id 0", "*** Begin Patch", False)]


def test_f7_free_text_that_waited_leaves_when_its_turn_comes() -> None:
    assembler = Assembler()
    open_call(assembler, 0)
    open_call(assembler, 1, "x", flavor=Flavor.CUSTOM, raw_input=True)
    assembler.args(1, "free")
    assembler.end_call(1)
    assembler.text("after")
    assembler.args(0, "{}")

    assert said(assembler)[-1] == TextDelta(2, "after")


# --- the end ----------------------------------------------------------------------------------------


def with_call() -> Assembler:
    assembler = Assembler()
    open_call(assembler, 0)
    assembler.args(0, "{}")
    return assembler


@pytest.mark.parametrize(
    ("reason", "expected", "expected_losses"),
    [
        (FinishReason.STOP, FinishReason.TOOL_CALLS, ["finish_reason_fixed"]),
        (FinishReason.STOP_SEQUENCE, FinishReason.TOOL_CALLS, ["finish_reason_fixed"]),
        (None, FinishReason.TOOL_CALLS, []),
        (FinishReason.TOOL_CALLS, FinishReason.TOOL_CALLS, []),
        (FinishReason.LENGTH, FinishReason.LENGTH, []),
        (FinishReason.CONTEXT_FULL, FinishReason.CONTEXT_FULL, []),
        (FinishReason.CONTENT_FILTER, FinishReason.CONTENT_FILTER, []),
    ],
)
def test_b9_t14_calls_promote_a_stop_and_mask_no_cut(
    reason: FinishReason | None, expected: FinishReason, expected_losses: list[str]
) -> None:
    one = answer(with_call(), reason)

    assert one.finish == Finish(expected)
    assert expected_losses == losses(one)


@pytest.mark.parametrize(
    ("reason", "expected", "expected_losses"),
    [
        (None, FinishReason.STOP, []),
        (FinishReason.STOP, FinishReason.STOP, []),
        (FinishReason.TOOL_CALLS, FinishReason.STOP, ["finish_reason_fixed"]),
        (FinishReason.REFUSAL, FinishReason.REFUSAL, []),
        (FinishReason.PAUSE, FinishReason.PAUSE, []),
    ],
)
def test_t15_tool_calls_without_calls_are_a_stop(
    reason: FinishReason | None, expected: FinishReason, expected_losses: list[str]
) -> None:
    one = answer(Assembler(), reason)

    assert one.finish == Finish(expected)
    assert expected_losses == losses(one)


def test_the_finish_carries_the_peers_own_reason() -> None:
    assembler = Assembler()
    assembler.finish(
        FinishReason.STOP, stop_sequence="X", category="c", explanation="e", raw="end_turn"
    )

    assert assembler.take()[-1] == Finish(FinishReason.STOP, "X", "c", "e", "end_turn")


def test_s7_the_last_counts_are_reported_once_as_final() -> None:
    assembler = Assembler()
    assembler.usage(Usage(1, 1))
    assembler.usage(Usage(5, 6, 1, 2, 3, 4))
    assembler.finish(FinishReason.STOP)

    assert assembler.take()[1:-1] == [Usage(5, 6, 1, 2, 3, 4, final=True)]


def test_s7_counts_that_never_came_are_estimated_and_reported() -> None:
    assembler = Assembler(input_estimate=7)
    assembler.reasoning("12345")
    assembler.text("6789")
    assembler.finish(FinishReason.STOP)

    assert assembler.take()[-3:-1] == [
        Loss("usage_missing"),
        Usage(7, 3, estimated=True, final=True),
    ]


# --- limits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        lambda assembler: assembler.text("x" * 100),
        lambda assembler: assembler.reasoning("x" * 100),
        lambda assembler: assembler.refusal("x" * 100),
        lambda assembler: assembler.args(1, "x" * 100),
        lambda assembler: assembler.whole_block(BlockKind.OPAQUE, "", Raw(b"1" * 100)),
        lambda assembler: open_call(assembler, 2, "x" * 100),
    ],
)
def test_a6_what_may_wait_is_bounded_by_name(more) -> None:
    assembler = Assembler(limits=Limits(max_waiting_bytes=50))
    open_call(assembler, 0)
    open_call(assembler, 1)

    with pytest.raises(TooLargeError) as caught:
        more(assembler)
    assert caught.value.limit == "max_waiting_bytes"


def test_a6_what_has_left_waits_no_more() -> None:
    assembler = Assembler(limits=Limits(max_waiting_bytes=50))
    for key in range(10):
        open_call(assembler, key)
        assembler.text("x" * 30)
        assembler.args(key, "{}")

    assert len(answer(assembler).blocks) == 20


def test_blocks_are_bounded_by_name() -> None:
    assembler = Assembler(limits=Limits(max_blocks=2))
    assembler.text("a")
    assembler.reasoning("b")

    with pytest.raises(TooLargeError, match="max_blocks"):
        assembler.text("c")


def test_arguments_are_bounded_by_name_also_when_they_waited() -> None:
    assembler = Assembler(limits=Limits(max_tool_args_bytes=5))
    open_call(assembler, 0)
    open_call(assembler, 1)
    assembler.args(1, '{"a":1}')

    with pytest.raises(TooLargeError, match="max_tool_args_bytes"):
        assembler.args(0, "{}")


# --- any order --------------------------------------------------------------------------------------

CALLS = [
    '{"a":1}',
    '{"b":["x",{}]}',
    "{}",
    "",
    '{"c":"é\\n"}',
    '{"n":NaN}',
    '"{\\"d\\":2}"',
    '{"cut":"x',
    '{"short":[1 ',
    "no json",
]


@st.composite
def speeches(draw: st.DrawFn) -> list[tuple[str, int, str]]:
    """Calls cut into fragments and mixed with text, each call's parts in their order."""
    queues = []
    for key, text in enumerate(draw(st.lists(st.sampled_from(CALLS), max_size=4))):
        places = draw(st.lists(st.integers(0, len(text)), max_size=3).map(sorted))
        parts = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
        end = [("end", key, "")] if draw(st.booleans()) else []
        queues.append([("open", key, ""), *(("args", key, part) for part in parts), *end])
    others = st.sampled_from(["text", "reasoning", "refusal", "split", "whole", "opaque", "cite"])
    queues.append([(kind, 0, "t") for kind in draw(st.lists(others, max_size=5))])
    steps = []
    while queues := [queue for queue in queues if queue]:
        steps.append(draw(st.sampled_from(queues)).pop(0))
    return steps


def speak(assembler: Assembler, kind: str, key: int, text: str) -> None:
    actions = {
        "open": lambda: open_call(assembler, key),
        "args": lambda: assembler.args(key, text),
        "end": lambda: assembler.end_call(key),
        "text": lambda: assembler.text(text),
        "reasoning": lambda: assembler.reasoning(text),
        "refusal": lambda: assembler.refusal(text),
        "split": assembler.split,
        "whole": lambda: assembler.whole_block(BlockKind.OPAQUE, "v", Raw(b"1")),
        "opaque": lambda: assembler.opaque(OpaqueKind.SIGNATURE, "s"),
        "cite": lambda: assembler.citation(Citation(0, url="u")),
    }
    actions[kind]()


@given(speeches(), st.sampled_from([None, *FinishReason]))
def test_a4_any_interleaving_gives_a_legal_stream_that_loses_nothing(
    steps: list[tuple[str, int, str]], reason: FinishReason | None
) -> None:
    assembler = Assembler()
    events: list[Event] = []
    for step in steps:
        speak(assembler, *step)
        events += assembler.take()
    assembler.finish(reason)
    events += assembler.take()
    legality = Legality()
    for event in events:
        legality.check(event)
    one = fold(events)

    assert legality.state == "ended"
    assert all(loss.code in CODES for loss in one.losses)
    assert one.fault is None
    assert len(calls(one)) == sum(kind == "open" for kind, _, _ in steps)
    said_text = "".join(block.text for block in one.blocks if block.kind is BlockKind.TEXT)
    assert len(said_text) == sum(kind == "text" for kind, _, _ in steps)
    for _, text, complete in calls(one):
        assert not complete or isinstance(json.loads(text), dict)
    assert all(text for _, text, _ in calls(one))
