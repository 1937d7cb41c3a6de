"""Answers of upstreams.  What whole streams show is in the corpus; here are the odd corners."""

from typing import Any

import msgspec
import pytest

from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.framing import StreamReader, read_answer
from dragoman.errors import MalformedError
from dragoman.profiles.profile import Profile
from dragoman.turn.answer import Answer, fold
from dragoman.turn.events import (
    BlockKind,
    BlockStart,
    Event,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.server_tools import ServerKind, ServerResult
from dragoman.wire.sse import Frame
from tests.support.messages import exchange, read

START = {
    "type": "message_start",
    "message": {"id": "msg_1", "model": "claude", "usage": {"input_tokens": 1, "output_tokens": 1}},
}
END = [
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]


def begin(index: Any, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: Any, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def losses(events: list[Event]) -> list[str]:
    return [event.code for event in events if isinstance(event, Loss)]


def whole(body: Any, **fields: Any) -> Answer:
    frames = DIALECT.frame_reader(exchange(**fields))
    read_answer(frames, msgspec.json.encode(body))
    return fold(frames.assembler.take())


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        ("end_turn", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("stop_sequence", FinishReason.STOP_SEQUENCE),
        ("pause_turn", FinishReason.PAUSE),
        ("refusal", FinishReason.CONTENT_FILTER),
        ("model_context_window_exceeded", FinishReason.CONTEXT_FULL),
        ("compaction", FinishReason.COMPACTION),
        ("tired", FinishReason.STOP),
    ],
)
def test_stop_reason_is_read(wire: str, reason: FinishReason) -> None:
    events = read(
        START, {"type": "message_delta", "delta": {"stop_reason": wire}}, {"type": "message_stop"}
    )

    assert isinstance(events[-1], Finish)
    assert reason is events[-1].reason
    assert (["finish_reason_unknown"] if wire == "tired" else []) == losses(events)


def test_message_stop_without_a_reason_ends_the_turn() -> None:
    events = read(START, {"type": "message_stop"})

    assert FinishReason.STOP is events[-1].reason  # type: ignore[union-attr]


def test_empty_stream_is_reported_as_such() -> None:
    (fault,) = read()

    assert isinstance(fault, Fault)
    assert (FaultKind.UPSTREAM_BAD, "upstream_empty") == (fault.kind, fault.code)


def test_g2_end_without_a_reason_is_a_failure() -> None:
    events = read(START, begin(0, type="text", text=""), delta(0, "text_delta", text="a"), stop(0))

    assert "upstream_truncated" == events[-1].code  # type: ignore[union-attr]


@pytest.mark.parametrize(("arguments", "ending"), [("{}", Finish), ('{"a":', Fault)])
def test_end_after_whole_calls_counts_where_the_profile_allows_it(
    arguments: str, ending: type
) -> None:
    events = read(
        START,
        begin(0, type="tool_use", id="t1", name="ls", input={}),
        delta(0, "input_json_delta", partial_json=arguments),
        profile=Profile(name="p", lenient_eof=True),
    )

    assert isinstance(events[-1], ending)


def test_g_7_a10_counts_may_follow_the_reason() -> None:
    events = read(
        START,
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {
            "type": "message_delta",
            "delta": {},
            "usage": {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}},
        },
        {"type": "message_stop"},
    )

    assert Usage(1, 9, reasoning_tokens=4, final=True) == events[-2]


@pytest.mark.parametrize(
    ("usage", "short", "long"),
    [
        ({"cache_creation_input_tokens": 7}, 7, 0),
        (
            {"cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}},
            3,
            4,
        ),
        (
            {
                "cache_creation_input_tokens": 7,
                "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
            },
            3,
            4,
        ),
    ],
)
def test_h5_cache_writes_are_kept_apart(usage: dict[str, Any], short: int, long: int) -> None:
    events = read(START | {"message": {"usage": usage}}, *END)

    assert (short, long) == (events[-2].cache_write_5m_tokens, events[-2].cache_write_1h_tokens)  # type: ignore[union-attr]


def test_pending_holds_a_relay_until_a_block_is_emitted_and_from_the_reason_on() -> None:
    reader = DIALECT.frame_reader(exchange())
    seen = []
    for data in (
        START,
        begin(0, type="text", text=""),
        delta(0, "text_delta", text="a"),
        stop(0),
        begin(1, type="thinking", thinking=""),
        delta(1, "thinking_delta", thinking="b"),
        delta(1, "signature_delta", signature="s"),
        stop(1),
        begin(2, type="server_tool_use", id="s1", name="web_search"),
        delta(2, "input_json_delta", partial_json="{}"),
        stop(2),
        begin(3, type="tool_use", id="t1", name="ls", input={}),
        delta(3, "input_json_delta", partial_json=""),
        delta(3, "input_json_delta", partial_json="{"),
        delta(3, "input_json_delta", partial_json="}"),
        stop(3),
        *END,
    ):
        reader.read(Frame(msgspec.json.encode(data)))
        seen.append(reader.pending)

    text, thinking, server = [True, False, False], [True, False, True, False], [True, True, False]
    call = [True, True, False, False, False]
    assert [False, *text, *thinking, *server, *call, True, False] == seen


# --- blocks -----------------------------------------------------------------------------------------


def test_unknown_block_is_kept_as_its_vendors_and_reported() -> None:
    events = read(
        START, begin(0, type="hologram", shape="cube"), delta(0, "hologram_delta"), stop(0), *END
    )

    (start,) = [event for event in events if isinstance(event, BlockStart)]
    assert (BlockKind.OPAQUE, "anthropic") == (start.kind, start.vendor)
    assert {"type": "hologram", "shape": "cube"} == msgspec.json.decode(start.raw)
    assert ["part_unknown"] == losses(events)


def test_compaction_is_put_together_from_its_deltas() -> None:
    events = read(
        START,
        begin(0, type="compaction", content=None),
        delta(0, "compaction_delta", content="So ", encrypted_content=None),
        delta(0, "compaction_delta", content="far.", encrypted_content="gAAA"),
        stop(0),
        *END,
    )

    (start,) = [event for event in events if isinstance(event, BlockStart)]
    assert {
        "type": "compaction",
        "content": "So far.",
        "encrypted_content": "gAAA",
    } == msgspec.json.decode(start.raw)


def test_a7_call_without_a_name_is_a_failure() -> None:
    events = read(START, begin(0, type="tool_use", id="t1"), *END)

    assert isinstance(events[-1], Fault)
    assert [] == losses(events)


def test_call_without_an_id_gets_one() -> None:
    events = read(START, begin(0, type="tool_use", name="ls"), stop(0), *END)

    (start,) = [event for event in events if isinstance(event, BlockStart)]
    assert start.call_id.startswith("call_")


def test_cut_input_of_a_vendors_call_is_wrapped() -> None:
    events = read(
        START,
        begin(0, type="server_tool_use", id="s1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":"os'),
        *END,
    )

    start, failed = [event for event in events if isinstance(event, BlockStart)]
    assert ServerResult(ServerKind.WEB_SEARCH, error="unavailable") == failed.server
    assert {"_raw": '{"query":"os'} == msgspec.json.decode(start.raw)["input"]
    assert ["block_unclosed", "args_invalid"] == losses(events)


def test_text_behind_the_input_of_a_vendors_call_is_reported() -> None:
    events = read(
        START,
        begin(0, type="server_tool_use", id="s1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":"oslo"} and Rome'),
        stop(0),
        *END,
    )

    start = next(event for event in events if isinstance(event, BlockStart))
    assert {"query": "oslo"} == msgspec.json.decode(start.raw)["input"]
    assert ["args_trailing"] == losses(events)


def test_whole_message_without_content_inside_a_stream_does_not_end_it() -> None:
    events = read(START, {"type": "message"}, begin(0, type="text", text="Hi."), stop(0), *END)

    assert "Hi." == fold(events).text
    assert ["chunk_malformed"] == losses(events)


@pytest.mark.parametrize(
    "stray",
    [
        [delta(0, "input_json_delta", partial_json="{}")],
        [stop(0)],
    ],
    ids=["input", "stop"],
)
def test_stray_events_are_reported(stray: list[dict[str, Any]]) -> None:
    events = read(START, *stray, *END)

    assert isinstance(events[-1], Finish)
    assert ["late_delta_dropped"] == losses(events)


def test_deltas_without_a_start_are_read_by_their_type() -> None:
    answer = fold(
        read(
            START,
            delta(0, "thinking_delta", thinking="Hm."),
            delta(0, "signature_delta", signature="s"),
            delta(0, "text_delta", text="Hi."),
            delta(0, "citations_delta", citation={"url": "u"}),
            delta(0, "citations_delta"),
            delta(0, "compaction_delta", content="x"),
            *END,
        )
    )

    kinds = ["reasoning", "text", "server_call", "server_result"]  # an address proves a search
    assert kinds == [block.kind for block in answer.blocks]
    assert "s" == answer.blocks[0].opaque[0].data
    assert "u" == answer.blocks[1].citations[0].url


def test_stop_without_an_index_ends_the_latest_block() -> None:
    events = read(
        START,
        begin(0, type="text", text="a"),
        stop(None),
        begin(None, type="text", text="b"),
        stop(1),
        *END,
    )

    assert ["a", "b"] == [event.text for event in events if isinstance(event, TextDelta)]
    assert ["block_index_fixed"] == losses(events)


def test_empty_blocks_are_dropped_and_reported() -> None:
    events = read(
        START,
        begin(0, type="thinking", thinking="", signature=""),
        stop(0),
        begin(1, type="redacted_thinking", data=""),
        stop(1),
        *END,
    )

    assert ["block_empty", "block_empty"] == losses(events)
    assert () == fold(events).blocks


def test_half_of_a_surrogate_pair_costs_no_text() -> None:
    known = exchange()
    reader = StreamReader(DIALECT.frame_reader(known), known)
    events = reader.feed(
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\ud83d"}}\n\n'
    )

    assert TextDelta(0, "a\ufffd") == events[-1]
    assert ["surrogate_replaced"] == losses(events)


@pytest.mark.parametrize(
    "data",
    [
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_start", "index": 0, "content_block": None},
        {"type": "content_block_delta", "index": 0},
        {"type": "message_start"},
        {"type": "content_block_stop", "index": "zero"},
    ],
)
def test_malformed_event_is_skipped_and_reported_or_refused_if_strict(data: dict[str, Any]) -> None:
    assert "chunk_malformed" in losses(read(START, data, *END))
    with pytest.raises(MalformedError):
        read(START, data, *END, strict=True)


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (
            {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}},
            FaultKind.RATE_LIMIT,
            "slow",
        ),
        ({"type": "error", "error": "bad"}, FaultKind.SERVER, "bad"),
        ({"type": "error", "message": "worse"}, FaultKind.SERVER, "worse"),
        ({"error": {"message": "proxy", "code": 429}}, FaultKind.RATE_LIMIT, "proxy"),
        ({"error": [1]}, FaultKind.SERVER, "[1]"),
    ],
)
def test_errors_inside_a_stream_end_it(data: dict[str, Any], kind: FaultKind, message: str) -> None:
    fault = read(START, data)[-1]

    assert isinstance(fault, Fault)
    assert (kind, message) == (fault.kind, fault.message)


# --- whole answers ----------------------------------------------------------------------------------

MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [
        {
            "type": "text",
            "text": "Hi.",
            "citations": [{"type": "char_location", "document_title": "D"}],
        }
    ],
    "stop_reason": "stop_sequence",
    "stop_sequence": "END",
    "usage": {"input_tokens": 3, "output_tokens": 4},
}


def test_whole_answer_is_read() -> None:
    answer = whole(MESSAGE)

    assert Start("claude", "msg_1") == answer.start
    assert ("Hi.", "D") == (answer.blocks[0].text, answer.blocks[0].citations[0].title)
    assert Finish(FinishReason.STOP_SEQUENCE, "END") == answer.finish
    assert Usage(3, 4, final=True) == answer.usage


def test_whole_answer_inside_a_stream_is_read() -> None:
    assert whole(MESSAGE) == fold(read(MESSAGE))


def test_content_in_message_start_is_read() -> None:
    start = {
        "type": "message_start",
        "message": MESSAGE | {"stop_reason": None, "stop_sequence": None},
    }

    assert "Hi." == fold(read(start, *END)).blocks[0].text


def test_null_error_is_none() -> None:
    assert whole(MESSAGE | {"error": None}).finish


def test_error_body_is_a_fault() -> None:
    answer = whole(
        {"type": "error", "error": {"type": "not_found_error", "message": "no such model"}}
    )

    assert answer.fault is not None
    assert FaultKind.NOT_FOUND is answer.fault.kind


@pytest.mark.parametrize("body", [{}, [], {"content": 5}, {"type": "message"}])
def test_body_that_is_no_answer_is_a_fault(body: Any) -> None:
    fault = whole(body).fault

    assert fault is not None
    assert "upstream_malformed" == fault.code


def test_nameless_call_in_a_whole_answer_is_a_fault() -> None:
    content = [{"type": "tool_use", "id": "t1", "input": {}}, {"type": "text", "text": "b"}]

    assert whole(MESSAGE | {"content": content}).fault


def test_arguments_beyond_mending_leave_as_they_came() -> None:
    events = read(
        START,
        begin(0, type="tool_use", id="t1", name="ls"),
        delta(0, "input_json_delta", partial_json='{"a" 5'),
        stop(0),
        begin(1, type="text", text="b"),
        stop(1),
        *END,
    )

    answer = fold(events)
    assert [('{"a" 5', False)] == [(one.text, one.complete) for one in answer.call_blocks]
    assert "b" == answer.text
    assert FinishReason.TOOL_CALLS is answer.finish_reason


@pytest.mark.parametrize(
    ("given", "arguments"),
    [({"a": "x", "b": [1]}, '{"a":"x","b":[1]'), ({}, "{")],
    ids=["some input", "none"],
)
def test_b10_the_last_call_of_a_complete_answer_that_ended_at_a_limit_may_be_half(
    given: dict[str, object], arguments: str
) -> None:
    one, two = (
        {"type": "tool_use", "id": name, "name": name, "input": value}
        for name, value in (("one", {"c": 1}), ("two", given))
    )
    body = {"type": "message", "content": [one, two], "stop_reason": "max_tokens"}
    reader = DIALECT.frame_reader(exchange())
    reader.read_body(msgspec.json.encode(body))
    answer = fold(reader.assembler.take())

    assert [('{"c":1}', True), (arguments, False)] == [
        (call.text, call.complete) for call in answer.call_blocks
    ]
    assert "input_uncertain" in [loss.code for loss in answer.losses]


@pytest.mark.parametrize(
    "arguments",
    [['{"a":"x\ny"}'], ["{", '"a":1,', "}"], [" ", '{"a":1}{"a":1}']],
    ids=["control character", "comma", "twice"],
)
def test_a_relay_that_takes_over_inside_a_call_starts_it_once(arguments: list[str]) -> None:
    from dragoman.checker.checker import Checker
    from dragoman.translate import Translator

    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    data = [
        {"type": "message_start", "message": message},
        begin(0, type="tool_use", id="t1", name="ls", input={}),
        *(delta(0, "input_json_delta", partial_json=one) for one in arguments),
        stop(0),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    ]
    translator = Translator(source="anthropic", target="anthropic", profile="anthropic")
    out = b""
    for one in data:
        out += translator.feed(
            b"event: %b\ndata: %b\n\n" % (str(one["type"]).encode(), msgspec.json.encode(one))
        )
    out += translator.close()
    checker = Checker("anthropic")

    assert [] == checker.feed(out) + checker.close()
    assert 1 == out.count(b'"type":"tool_use"')
