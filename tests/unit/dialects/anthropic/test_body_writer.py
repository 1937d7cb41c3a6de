"""Whole answers for clients: what the vendor's SDK accumulates from the stream is what the body says."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman.dialects.anthropic import DIALECT
from dragoman.turn.answer import fold
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
    InputDelta,
    Opaque,
    OpaqueKind,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    Usage,
)
from tests.support.messages import exchange
from tests.support.sdks import accumulate, parse_body

TEXT: list[Event] = [
    BlockStart(0, BlockKind.TEXT),
    TextDelta(0, "Hel"),
    TextDelta(0, "lo."),
    BlockEnd(0),
]
EVERYTHING: list[Event] = [
    BlockStart(0, BlockKind.REASONING),
    ReasoningDelta(0, "One.", Channel.SUMMARY, 0),
    ReasoningDelta(0, "Two.", Channel.SUMMARY, 1),
    Opaque(0, OpaqueKind.ENCRYPTED, "gAAA", "openai"),
    BlockEnd(0),
    BlockStart(1, BlockKind.REASONING),
    Opaque(1, OpaqueKind.REDACTED, "Emw", "anthropic"),
    BlockEnd(1),
    BlockStart(2, BlockKind.REASONING),
    Opaque(2, OpaqueKind.SIGNATURE, "EqQB", "anthropic"),
    BlockEnd(2),
    BlockStart(3, BlockKind.TEXT),
    TextDelta(3, "Cited."),
    Citation(
        3,
        vendor="anthropic",
        raw=Raw(
            b'{"type":"web_search_result_location","cited_text":"c","url":"u","title":"t","encrypted_index":"i"}'
        ),
    ),
    Citation(3, url="dropped"),
    BlockEnd(3),
    BlockStart(
        4,
        BlockKind.SERVER_CALL,
        vendor="anthropic",
        raw=Raw(b'{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"q"}}'),
    ),
    BlockEnd(4),
    BlockStart(5, BlockKind.OPAQUE, vendor="openai", raw=Raw(b"{}")),
    BlockEnd(5),
    BlockStart(6, BlockKind.TOOL_CALL, "functions.ls:0", "ls"),
    Opaque(6, OpaqueKind.TOOL_SIGNATURE, "sig", "gemini"),
    ArgsDelta(6, '{"path": '),
    ArgsDelta(6, '"."}'),
    BlockEnd(6),
    BlockStart(7, BlockKind.CUSTOM_CALL, "c2", "patch", flavor=Flavor.CUSTOM),
    InputDelta(7, 'a "b"\n'),
    BlockEnd(7),
    BlockStart(8, BlockKind.TOOL_CALL, "c3", "spawn", "agents"),
    ArgsDelta(8, "{}"),
    BlockEnd(8),
]


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    return value


CASES: dict[str, list[Event]] = {
    "text": [*TEXT, Usage(5, 7, 2, reasoning_tokens=3, final=True), Finish(FinishReason.STOP)],
    "empty": [Finish(FinishReason.STOP)],
    "everything": [*EVERYTHING, Usage(5, 7, final=True), Finish(FinishReason.TOOL_CALLS)],
    "refusal": [
        BlockStart(0, BlockKind.REFUSAL),
        RefusalDelta(0, "No."),
        BlockEnd(0),
        Usage(5, 7, final=True),
        Finish(FinishReason.STOP),
    ],
    "filtered": [*TEXT, Finish(FinishReason.CONTENT_FILTER, category="bio", explanation="Why.")],
    "stop sequence": [*TEXT, Finish(FinishReason.STOP_SEQUENCE, "END")],
}


@pytest.mark.parametrize("events", CASES.values(), ids=CASES.keys())
def test_a8b_sdk_accumulates_from_the_stream_what_the_body_holds(events: list[Event]) -> None:
    events = [Start("kimi", "up"), *events]
    known = exchange()
    writer = DIALECT.writer(known)
    stream = b"".join(writer.send(event) for event in events)

    body = DIALECT.encode_body(fold(events), known, [])

    expected = without_nulls(msgspec.json.decode(body))
    assert expected == without_nulls(accumulate("anthropic", stream))
    assert expected == without_nulls(parse_body("anthropic", body))


@pytest.mark.parametrize("kind", [BlockKind.TOOL_CALL, BlockKind.CUSTOM_CALL])
def test_b10_a_body_has_text_in_the_place_of_a_call_that_is_not_complete(kind: BlockKind) -> None:
    half = '{"t":"ab'
    delta = ArgsDelta(0, half) if kind is BlockKind.TOOL_CALL else InputDelta(0, half)
    events: list[Event] = [
        Start("kimi", "up"),
        BlockStart(0, kind, "c1", "save"),
        delta,
        BlockEnd(0, complete=False),
        Finish(FinishReason.LENGTH),
    ]

    body = parse_body("anthropic", DIALECT.encode_body(fold(events), exchange(), []))

    assert [{"type": "text", "text": body["content"][0]["text"]}] == without_nulls(body["content"])
    assert half in body["content"][0]["text"]
    assert "save" in body["content"][0]["text"]
    assert "max_tokens" == body["stop_reason"]


def test_body_has_every_field_of_the_vendors() -> None:
    body = DIALECT.encode_body(fold([Start("kimi", "up"), *CASES["text"]]), exchange(), [])

    assert {
        "type": "message",
        "role": "assistant",
        "model": "kimi",
        "content": [{"type": "text", "text": "Hello."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "usage": {
            "input_tokens": 5,
            "cache_read_input_tokens": 2,
            "cache_creation_input_tokens": 0,
            "output_tokens": 7,
            "output_tokens_details": {"thinking_tokens": 3},
        },
    } == {key: value for key, value in msgspec.json.decode(body).items() if key != "id"}


def test_arguments_stand_in_the_body_byte_for_byte() -> None:
    events = [Start(), *CASES["everything"]]

    assert b'"input":{"path": "."}' in DIALECT.encode_body(fold(events), exchange(), [])


def test_failed_answer_is_an_error_body() -> None:
    body = DIALECT.encode_body(
        fold([Start(), *TEXT, Fault(FaultKind.TIMEOUT, "too slow")]), exchange(), []
    )

    assert {
        "type": "error",
        "error": {"type": "timeout_error", "message": "too slow"},
    } == msgspec.json.decode(body)


def test_state_that_cannot_be_carried_leaves_no_block() -> None:
    events = [
        Start(),
        BlockStart(0, BlockKind.REASONING),
        Opaque(0, OpaqueKind.ENCRYPTED, "x", "openai"),
        BlockEnd(0),
        BlockStart(1, BlockKind.TOOL_CALL, "c1", "ls"),
        Opaque(1, OpaqueKind.TOOL_SIGNATURE, "x", "gemini"),
        ArgsDelta(1, "{}"),
        BlockEnd(1),
        Finish(FinishReason.TOOL_CALLS),
    ]
    body = DIALECT.encode_body(fold(events), exchange(sealer=None), [])

    assert ["tool_use"] == [block["type"] for block in msgspec.json.decode(body)["content"]]
