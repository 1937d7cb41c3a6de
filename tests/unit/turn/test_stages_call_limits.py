"""Calls and their arguments are counted, wherever they were found."""

import json

import pytest

from dragoman.answer_reader import AnswerReader, read_body
from dragoman.errors import TooLargeError
from dragoman.limits import Limits
from dragoman.translate import Translator, translate_body
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import ArgsDelta, BlockEnd, BlockKind, BlockStart, Fault, Finish
from dragoman.turn.request import Tool
from dragoman.turn.stages import CallLimits
from dragoman.wire.sse import SSEReader

KIMI = "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>"
CALL = '<|tool_call_begin|>functions.f:{}<|tool_call_argument_begin|>{{"a":1}}<|tool_call_end|>'
TOOLS = [Tool(name="f")]


def native(calls: int) -> str:
    return KIMI.format("".join(map(CALL.format, range(calls))))


def stream(text: str) -> bytes:
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": text}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    return (
        b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in chunks) + b"data: [DONE]\n\n"
    )


def body(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"choices": [choice]}).encode()


def test_calls_are_counted_up_to_the_limit_and_no_further() -> None:
    tally = CallLimits(Limits(max_calls=2))
    tally.count(BlockStart(0, BlockKind.TOOL_CALL))
    tally.count(BlockStart(1, BlockKind.TEXT))
    tally.count(BlockStart(2, BlockKind.CUSTOM_CALL))

    with pytest.raises(TooLargeError, match="max_calls"):
        tally.count(BlockStart(3, BlockKind.TOOL_CALL))


def test_arguments_are_counted_for_each_call_and_for_the_turn() -> None:
    tally = CallLimits(Limits(max_tool_args_bytes=4, max_turn_args_bytes=6))
    tally.count(BlockStart(0, BlockKind.TOOL_CALL))
    tally.count(ArgsDelta(0, "1234"))
    tally.count(BlockEnd(0))
    tally.count(BlockStart(1, BlockKind.TOOL_CALL))
    tally.count(ArgsDelta(1, "12"))

    with pytest.raises(TooLargeError, match="max_turn_args_bytes"):
        tally.count(ArgsDelta(1, "3"))


def test_arguments_of_one_call_are_counted() -> None:
    tally = CallLimits(Limits(max_tool_args_bytes=4))
    tally.count(BlockStart(0, BlockKind.TOOL_CALL))

    with pytest.raises(TooLargeError, match="max_tool_args_bytes"):
        tally.count(ArgsDelta(0, "12345"))


@pytest.mark.parametrize("calls", [2, 3])
def test_structural_calls_past_the_limit_are_refused_by_the_assembler(calls: int) -> None:
    assembler = Assembler(limits=Limits(max_calls=2))
    for key in range(2):
        assembler.open_call(key, call_id="", name="f")
        assembler.args(key, "{}")

    if calls > 2:
        with pytest.raises(TooLargeError, match="max_calls"):
            assembler.open_call(2, call_id="", name="f")


def test_arguments_of_all_calls_past_the_limit_are_refused_by_the_assembler() -> None:
    assembler = Assembler(limits=Limits(max_turn_args_bytes=4))
    for key in range(2):
        assembler.open_call(key, call_id="", name="f")
        assembler.args(key, "{}")

    assembler.open_call(2, call_id="", name="f")
    with pytest.raises(TooLargeError, match="max_turn_args_bytes"):
        assembler.args(2, "{")


@pytest.mark.parametrize(
    ("calls", "ending"), [(2, Finish), (3, Fault)], ids=["at the limit", "past it"]
)
def test_calls_in_text_past_the_limit_end_the_answer_with_a_fault(calls: int, ending: type) -> None:
    limits = Limits(max_calls=2)
    translator = Translator(
        source="chat", target="anthropic", model="kimi-k2", tools=TOOLS, limits=limits
    )
    out = translator.feed(stream(native(calls))) + translator.close()
    whole = translate_body(
        body(native(calls)),
        source="chat",
        target="anthropic",
        model="kimi-k2",
        tools=TOOLS,
        limits=limits,
    )

    assert type(translator.outcome) is ending
    assert (b"event: error" in out) is (ending is Fault)
    assert (whole.answer.fault is not None) is (ending is Fault)
    if whole.answer.fault:
        assert "max_calls" == whole.answer.fault.code


def test_a_reader_keeps_what_came_before_the_limit() -> None:
    reader = AnswerReader(source="chat", model="kimi-k2", tools=TOOLS, limits=Limits(max_calls=1))
    with pytest.raises(TooLargeError, match="max_calls"):
        reader.feed(stream(native(2)))
    whole = read_body(
        body(native(2)), source="chat", model="kimi-k2", tools=TOOLS, limits=Limits(max_calls=1)
    )
    fault = whole.fault
    events = reader.fail(fault)

    assert events[-1] is fault
    assert ["f"] == [event.name for event in events if isinstance(event, BlockStart)]
    assert "max_calls" == fault.code
    assert ["f"] == [block.name for block in whole.blocks]


@pytest.mark.parametrize(
    "event", [b"data: {}\n\n", b": x\n\n", b"data: 1\r\n\r\n", b"event: a\n\n"]
)
def test_events_of_a_stream_are_counted_with_data_or_without(event: bytes) -> None:
    reader = SSEReader(limits=Limits(max_events=3))
    reader.feed(event * 3)

    with pytest.raises(TooLargeError, match="max_events"):
        reader.feed(event)


def test_bytes_that_wait_for_the_end_of_their_event_are_bounded() -> None:
    reader = SSEReader(limits=Limits(max_sse_buffer_bytes=10))
    reader.feed(b"data: 123456789012345\n\n")
    reader.feed(b"data: 1234")

    with pytest.raises(TooLargeError, match="max_sse_buffer_bytes"):
        reader.feed(b"5")
