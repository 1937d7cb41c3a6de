"""From events to an answer and back: nothing is lost on the way."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from dragoman.errors import IllegalOrderError, TruncatedError
from dragoman.turn.answer import CUT_CALL, INVALID_CALL, Answer, Block, Folder, fold, unfold
from dragoman.turn.events import (
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
    Opaque,
    OpaqueKind,
    Ping,
    ReasoningDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.request import ReasoningSegment
from dragoman.turn.state import DELTAS, Legality

words = st.text(min_size=1, max_size=5)


@st.composite
def blocks(draw: st.DrawFn, index: int) -> Block:
    kind = draw(st.sampled_from(BlockKind))
    deltas = DELTAS[kind]
    text = draw(words) if deltas & {TextDelta} or kind is BlockKind.REFUSAL else ""
    segments: tuple[ReasoningSegment, ...] = ()
    if kind is BlockKind.REASONING:
        segments = tuple(
            draw(st.lists(st.builds(ReasoningSegment, words, st.sampled_from(Channel)), max_size=3))
        )
    call: dict[str, object] = {}
    if kind in (BlockKind.TOOL_CALL, BlockKind.CUSTOM_CALL):
        text = draw(st.sampled_from(["{}", '{"a":1}']))
        call = {
            "call_id": draw(words),
            "name": draw(words),
            "namespace": draw(st.sampled_from(["", "ns"])),
            "flavor": draw(st.sampled_from(Flavor)),
        }
        if draw(st.booleans()):
            call |= {"complete": False}
    opaque = st.builds(Opaque, st.just(index), st.sampled_from(OpaqueKind), words, words, words)
    citation = st.builds(Citation, st.just(index), words, words, words)
    whole = kind in (BlockKind.SERVER_CALL, BlockKind.SERVER_RESULT, BlockKind.OPAQUE)
    return Block(
        kind=kind,
        text=text,
        segments=segments,
        opaque=tuple(draw(st.lists(opaque, max_size=2))) if Opaque in deltas else (),
        citations=tuple(draw(st.lists(citation, max_size=2))) if Citation in deltas else (),
        vendor="v" if whole else "",
        **call,
    )


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    found = tuple(draw(blocks(index)) for index in range(draw(st.integers(0, 4))))
    calls = [block for block in found if block.call_id]
    reasons = {FinishReason.LENGTH, FinishReason.CONTENT_FILTER}
    if all(block.complete for block in calls):
        reasons |= {FinishReason.TOOL_CALLS} if calls else {FinishReason.STOP, FinishReason.PAUSE}
    finish = Finish(draw(st.sampled_from(sorted(reasons))), draw(st.none() | words), raw="x")
    fault = Fault(draw(st.sampled_from(FaultKind)), "m", 500, "c", "p", 1.5)
    failed = draw(st.booleans())
    return Answer(
        start=Start(draw(words), draw(words), 7),
        blocks=found,
        usage=draw(st.none() | st.just(Usage(1, 2, 3, final=True))),
        finish=None if failed else finish,
        fault=fault if failed else None,
        losses=tuple(draw(st.lists(st.just(Loss("usage_missing", "p", "d")), max_size=2))),
    )


@given(answers())
def test_what_is_unfolded_folds_into_the_same(answer: Answer) -> None:
    assert answer == fold(unfold(answer))


@given(answers())
def test_what_is_unfolded_is_legal_and_has_no_empty_delta(answer: Answer) -> None:
    legality = Legality()
    for event in unfold(answer):
        legality.check(event)
        match event:
            case TextDelta(text=text) | ReasoningDelta(text=text) | ArgsDelta(json=text):
                assert text
            case _:
                pass

    assert legality.state == "ended"


def test_a_cut_call_of_which_nothing_came_unfolds_without_a_delta() -> None:
    block = Block(BlockKind.TOOL_CALL, call_id="c", name="f", complete=False)
    answer = Answer(Start(), (block,), finish=Finish(FinishReason.LENGTH))

    assert [type(event) for event in unfold(answer)] == [Start, BlockStart, BlockEnd, Finish]
    assert answer == fold(unfold(answer))


def test_deltas_are_joined_and_parts_of_a_summary_kept_apart() -> None:
    answer = fold(
        [
            Start(),
            BlockStart(0, BlockKind.REASONING),
            ReasoningDelta(0, "a", Channel.SUMMARY, 0),
            ReasoningDelta(0, "b", Channel.SUMMARY, 0),
            Ping(),
            ReasoningDelta(0, "c", Channel.SUMMARY, 1),
            ReasoningDelta(0, "d", Channel.FULL, 1),
            BlockEnd(0),
            BlockStart(1, BlockKind.TEXT),
            TextDelta(1, "x", Raw(b"[1]")),
            Citation(1, "u"),
            TextDelta(1, "y"),
            TextDelta(1, "z", Raw(b"[ 2 ]")),
            BlockEnd(1),
            Usage(1),
            Usage(2),
            Finish(FinishReason.STOP),
        ]
    )

    assert answer.blocks[0].segments == (
        ReasoningSegment("ab", Channel.SUMMARY),
        ReasoningSegment("c", Channel.SUMMARY),
        ReasoningSegment("d", Channel.FULL),
    )
    assert answer.blocks[1].text == "xyz"
    assert answer.blocks[1].citations == (Citation(1, "u"),)
    assert [bytes(one) for one in answer.blocks[1].logprobs] == [b"[1]", b"[ 2 ]"]
    assert answer.usage == Usage(2)
    deltas = [event for event in unfold(answer) if isinstance(event, TextDelta)]
    assert [(delta.text, bytes(delta.logprobs or b"")) for delta in deltas] == [("xyz", b"[1,2]")]


def test_g2_a_block_that_a_fault_left_open_is_not_part_of_the_answer() -> None:
    answer = fold(
        [
            Start(),
            BlockStart(0, BlockKind.TEXT),
            TextDelta(0, "a"),
            BlockEnd(0),
            BlockStart(1, BlockKind.TOOL_CALL, "c", "f"),
            ArgsDelta(1, "{"),
            Fault(FaultKind.UPSTREAM_BAD, "cut"),
        ]
    )

    assert [block.text for block in answer.blocks] == ["a"]
    assert answer.fault == Fault(FaultKind.UPSTREAM_BAD, "cut")
    assert answer.finish is None


def test_g1_a_fault_alone_is_an_answer() -> None:
    assert fold([Fault(FaultKind.SERVER, "x")]) == Answer(
        Start(), fault=Fault(FaultKind.SERVER, "x")
    )


@pytest.mark.parametrize("events", [[], [Start()], [Start(), BlockStart(0, BlockKind.TEXT)]])
def test_s_11_a_stream_without_an_end_is_no_answer(events: list) -> None:
    with pytest.raises(TruncatedError):
        fold(events)


def test_an_illegal_stream_is_no_answer() -> None:
    with pytest.raises(IllegalOrderError):
        fold([TextDelta(0, "x")])


# --- tool calls of an answer --------------------------------------------------------------------------


def call_block(text: str = '{"a":1}', **changes: Any) -> Block:
    return Block(
        **{"kind": BlockKind.TOOL_CALL, "text": text, "call_id": "c", "name": "f", **changes}
    )


def ended(*blocks: Block, reason: FinishReason = FinishReason.TOOL_CALLS) -> Answer:
    return Answer(Start(), blocks, finish=Finish(reason))


@pytest.mark.parametrize(
    ("text", "changes", "args"),
    [
        ('{"a":1}', {}, {"a": 1}),
        ("[1]", {}, {}),
        ("{", {}, {}),
        ('{"a":1}', {"kind": BlockKind.CUSTOM_CALL, "flavor": Flavor.CUSTOM}, {}),
        ('{"a":1}', {"complete": False}, {}),
    ],
    ids=["an object", "a list", "not JSON", "free text", "incomplete"],
)
def test_args_are_the_decoded_object_of_a_call_that_can_be_run(
    text: str, changes: dict[str, Any], args: dict[str, object]
) -> None:
    (call,) = ended(call_block(text, **changes)).tool_calls

    assert ("c", "f", text) == (call.id, call.name, call.arguments)
    assert args == call.args


WHOLE = call_block()
HALF = call_block(complete=False)


@pytest.mark.parametrize(
    ("answer", "errors"),
    [
        (ended(WHOLE, WHOLE), ["", ""]),
        (ended(HALF, WHOLE), [INVALID_CALL, ""]),
        (ended(WHOLE, WHOLE, reason=FinishReason.LENGTH), ["", CUT_CALL]),
        (ended(HALF, WHOLE, reason=FinishReason.LENGTH), [CUT_CALL, CUT_CALL]),
        (Answer(Start(), (WHOLE, WHOLE), fault=Fault(FaultKind.SERVER, "down")), ["", "down"]),
    ],
    ids=["whole", "half", "last before a limit", "half before a limit", "last before a failure"],
)
def test_a_call_that_may_be_incomplete_has_an_error(answer: Answer, errors: list[str]) -> None:
    # Equal blocks are different calls: only the last one may be incomplete.
    blocks = tuple(structs.replace(block) for block in answer.blocks)

    assert errors == [call.error for call in structs.replace(answer, blocks=blocks).tool_calls]


def test_a_text_in_thousands_of_pieces_is_one_text() -> None:
    start: list[Event] = [Start(), BlockStart(0, BlockKind.TEXT)]
    deltas: list[Event] = [TextDelta(0, f"{number} ") for number in range(2000)]
    answer = fold([*start, *deltas, BlockEnd(0), Finish(FinishReason.STOP)])

    assert "".join(f"{number} " for number in range(2000)) == answer.text


def test_an_unfinished_answer_has_its_open_block() -> None:
    folder = Folder()
    folder.feed([Start(), BlockStart(0, BlockKind.TEXT), TextDelta(0, "Hel")])
    answer = folder.so_far(Fault(FaultKind.TIMEOUT, "too slow"))

    assert ("Hel", False) == (answer.text, answer.blocks[0].complete)
    assert answer.finish is None


def test_events_after_the_end_are_ignored() -> None:
    folder = Folder()
    folder.feed([Start(), Finish(FinishReason.STOP)])
    folder.feed([BlockStart(0, BlockKind.TEXT)])

    assert () == folder.answer().blocks
