"""The strict grammar of Messages: legal streams, and every small way to spoil them."""

from typing import Any

from dragoman.checker.checker import Ending
from tests.support.checker import (
    LEGAL,
    GrammarTests,
    changed,
    judge,
    outcome,
    render,
)

D = "anthropic"


def start(**more: Any) -> dict[str, Any]:
    message = {
        "id": "msg_7",
        "type": "message",
        "role": "assistant",
        "model": "kimi",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 31, "output_tokens": 0},
    }
    return {"type": "message_start", "message": {**message, **more}}


def opened(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    block = {"type": kind, **fields}
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stopped(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ending(reason: str | None, output: int = 9) -> list[dict[str, Any]]:
    return [
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"input_tokens": 30, "output_tokens": output},
        },
        {"type": "message_stop"},
    ]


def call(index: int, call_id: str, *fragments: str) -> list[dict[str, Any]]:
    return [
        opened(index, "tool_use", id=call_id, name="weather", input={}),
        *(delta(index, "input_json_delta", partial_json=one) for one in fragments),
        stopped(index),
    ]


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    return [
        opened(index, "text", text=""),
        *(delta(index, "text_delta", text=piece) for piece in pieces),
        stopped(index),
    ]


def thinking(index: int, thought: str, signature: str = "sig") -> list[dict[str, Any]]:
    return [
        opened(index, "thinking", thinking="", signature=""),
        delta(index, "thinking_delta", thinking=thought),
        delta(index, "signature_delta", signature=signature),
        stopped(index),
    ]


PING = {"type": "ping"}
ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "too many askers"}}

TEXT = [start(), *text(0, "Good ", "day."), *ending("end_turn")]
CALLS = [
    start(),
    *thinking(0, "Two towns."),
    *call(1, "toolu_1", '{"town":"Bergen"}'),
    *call(2, "toolu_2", '{"town":', '"Siena"}'),
    *ending("tool_use"),
]
MIXED = [
    start(),
    *thinking(0, "Look."),
    PING,
    *text(1, "One moment."),
    *call(2, "toolu_3", "", "{}"),
    *ending("tool_use"),
]
FAILED = [start(), *text(0, "Half")[:-1], ERROR]

LEGAL_STREAMS = {
    "text": TEXT,
    "calls": CALLS,
    "mixed": MIXED,
    "failed": FAILED,
    "empty": [start(), *ending("end_turn")],
    "call without input": [start(), *call(0, "c"), *ending("tool_use")],
    "call cut by the limit": [start(), *call(0, "c", '{"t":"ab'), *ending("max_tokens")],
    "call mended after a cut": [start(), *call(0, "c", '{"t":"ab', '"}'), *ending("max_tokens")],
    "a5 text before thinking": [
        start(),
        *text(0, "\n"),
        *thinking(1, "Hm."),
        *ending("end_turn"),
    ],
    "ping before the start": [PING, *TEXT],
    "ping inside a block": [*TEXT[:2], PING, *TEXT[2:]],
    "redacted thinking": [
        start(),
        opened(0, "redacted_thinking", data="x"),
        stopped(0),
        *ending("end_turn"),
    ],
    "a vendor's own tool": [
        start(),
        opened(0, "server_tool_use", id="srvtoolu_1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":"x"}'),
        stopped(0),
        opened(1, "web_search_tool_result", tool_use_id="srvtoolu_1", content=[]),
        stopped(1),
        opened(2, "text", text=""),
        delta(2, "citations_delta", citation={"type": "web_search_result_location"}),
        stopped(2),
        *ending("end_turn"),
    ],
    "a block of unknown type": [start(), opened(0, "hologram"), stopped(0), *ending("end_turn")],
    "counts reported twice": [start(), ending(None, 4)[0], *ending("end_turn")],
    "error before anything": [ERROR],
    "error and a last stop": [*FAILED, {"type": "message_stop"}],
}

SPOILED = [TEXT, CALLS, MIXED, FAILED]  # the streams that are mutated

# What the judge says when an event of this kind is removed, doubled, or changes places with the next.
# `LEGAL` is a mutation that no client can notice: text is text, an empty input is an input, a ping is
# nothing, and counts may be reported twice.
REMOVED = {
    "message_start": {"event-order"},
    "content_block_start/text": {"event-order"},
    "content_block_start/thinking": {"event-order"},
    "content_block_start/tool_use": {"event-order"},
    "content_block_delta/text_delta": {LEGAL},
    "content_block_delta/thinking_delta": {LEGAL},
    "content_block_delta/signature_delta": {LEGAL},
    "content_block_delta/input_json_delta": {LEGAL, "arguments-whole", "partial-json-prefix"},
    "content_block_stop": {"event-order"},
    "message_delta": {"event-order"},
    "message_stop": {"truncated"},
    "ping": {LEGAL},
    "error": {"truncated"},
}
DOUBLED = {
    "message_start": {"event-order"},
    "content_block_start/text": {"event-order"},
    "content_block_start/thinking": {"event-order"},
    "content_block_start/tool_use": {"event-order"},
    "content_block_delta/text_delta": {LEGAL},
    "content_block_delta/thinking_delta": {LEGAL},
    "content_block_delta/signature_delta": {"signature-last"},
    "content_block_delta/input_json_delta": {LEGAL, "arguments-whole", "partial-json-prefix"},
    "content_block_stop": {"event-order"},
    "message_delta": {LEGAL},
    "message_stop": {"nothing-after-end"},
    "ping": {LEGAL},
    "error": {"nothing-after-end"},
}
SWAPPED = {
    "message_start | content_block_start/text": {"event-order"},
    "message_start | content_block_start/thinking": {"event-order"},
    "content_block_start/text | content_block_delta/text_delta": {"event-order"},
    "content_block_start/thinking | content_block_delta/thinking_delta": {"event-order"},
    "content_block_start/tool_use | content_block_delta/input_json_delta": {"event-order"},
    "content_block_delta/text_delta | content_block_delta/text_delta": {LEGAL},
    "content_block_delta/text_delta | content_block_stop": {"event-order"},
    "content_block_delta/text_delta | error": {"nothing-after-end"},
    "content_block_delta/thinking_delta | content_block_delta/signature_delta": {"signature-last"},
    "content_block_delta/signature_delta | content_block_stop": {"event-order"},
    "content_block_delta/input_json_delta | content_block_delta/input_json_delta": {
        LEGAL,
        "partial-json-prefix",
    },
    "content_block_delta/input_json_delta | content_block_stop": {"event-order", "arguments-whole"},
    "content_block_stop | content_block_start/tool_use": {"event-order"},
    "content_block_stop | message_delta": {"event-order"},
    "content_block_stop | ping": {LEGAL},
    "ping | content_block_start/text": {LEGAL},
    "message_delta | message_stop": {"event-order"},
}
# Fields whose absence breaks another rule than `required-field`.
FIELDS = {
    "message_start: message.id": "message-id",
    "message_start: message.content": "message-starts-empty",
    "message_start: message.stop_reason": "message-starts-empty",
    "message_start: message.stop_sequence": "message-starts-empty",
    "message_start: message.usage": "usage-in-message-start",
    "message_start: message.usage.input_tokens": "usage-in-message-start",
    "message_start: message.usage.output_tokens": "usage-in-message-start",
    "content_block_start/text: content_block.text": "block-starts-empty",
    "content_block_start/thinking: content_block.thinking": "block-starts-empty",
    "content_block_start/thinking: content_block.signature": "block-starts-empty",
    "content_block_start/tool_use: content_block.input": "block-starts-empty",
    "message_delta: delta.stop_reason": "stop-reason",
    "message_delta: usage": "usage-in-message-delta",
    "message_delta: usage.input_tokens": LEGAL,  # reported in `message_start` already
    "message_delta: usage.output_tokens": "usage-in-message-delta",
}

# One stream for each rule, which breaks it first.
TRIGGERS = {
    "event-name-matches-type": render(D, TEXT).replace(b"event: content_block_stop\n", b""),
    "event-known": [*TEXT[:2], {"type": "content_block_hint"}, *TEXT[2:]],
    "done-marker": [*TEXT, "[DONE]"],
    "event-order": [*TEXT[:1], *TEXT],
    "required-field": changed(CALLS, 5, "content_block.name", ""),
    "message-id": [start(id=""), *TEXT[1:]],
    "message-starts-empty": [start(content=[{"type": "text", "text": "x"}]), *TEXT[1:]],
    "usage-in-message-start": [start(usage={"input_tokens": 1}), *TEXT[1:]],
    "usage-in-message-delta": changed(TEXT, 5, "usage", {"input_tokens": 4}),
    "usage-cumulative": [start(), ending(None, 9)[0], *ending("end_turn", 8)],
    "block-index-contiguous": [start(), *text(1, "x"), *ending("end_turn")],
    "block-index-open": changed(TEXT, 2, "index", 1),
    "block-starts-empty": changed(TEXT, 1, "content_block.text", "Go"),
    "delta-fits-block": changed(TEXT, 2, "delta", {"type": "thinking_delta", "thinking": "x"}),
    "signature-last": [*CALLS[:3], CALLS[3], *CALLS[3:]],
    "partial-json-prefix": changed(CALLS, 6, "delta.partial_json", '{"town":Bergen}'),
    "arguments-whole": changed(CALLS, 6, "delta.partial_json", '{"town":"Ber'),
    "call-id-characters": changed(CALLS, 5, "content_block.id", "functions.weather:0"),
    "call-id-once": changed(CALLS, 8, "content_block.id", "toolu_1"),
    "stop-reason": [*TEXT[:5], *ending(None)],
    "stop-reason-fits-calls": [*CALLS[:-2], *ending("end_turn")],
}
# How legal streams end: blocks and calls among them.
ENDINGS = (
    ("text", Ending.FINISH, 1, 0),
    ("calls", Ending.FINISH, 3, 2),
    ("failed", Ending.FAILURE, 1, 0),
    ("error and a last stop", Ending.FAILURE, 1, 0),
)


class TestMessages(GrammarTests):
    dialect = D
    plain = TEXT
    legal = LEGAL_STREAMS
    spoiled = SPOILED
    removed = REMOVED
    doubled = DOUBLED
    swapped = SWAPPED
    fields = FIELDS
    triggers = TRIGGERS
    endings = ENDINGS


def test_g2_half_call_that_is_closed_before_an_error_is_illegal():
    cut = [start(), *call(0, "c", '{"a":'), ERROR]

    assert outcome(D, cut) == "arguments-whole"


def test_g2_half_call_that_stays_open_before_an_error_is_legal():
    cut = [start(), *call(0, "c", '{"a":')[:-1], ERROR]

    assert outcome(D, cut) == LEGAL


def test_only_the_last_call_may_be_cut():
    cut = [start(), *call(0, "a", '{"a":'), *call(1, "b", "{}"), *ending("max_tokens")]

    assert outcome(D, cut) == "arguments-whole"


def test_cut_call_is_reported_at_its_stop_although_it_shows_later():
    cut = [start(), *call(0, "a", '{"a":'), *ending("tool_use")]
    verdict = judge(D, cut)

    assert [one.frame for one in verdict.violations] == [4]


def test_a2_thinking_in_a_text_block_is_illegal():
    events = [
        start(),
        opened(0, "text", text=""),
        delta(0, "thinking_delta", thinking="a"),
        stopped(0),
        *ending("end_turn"),
    ]

    assert outcome(D, events) == "delta-fits-block"


def test_delta_for_a_block_of_unknown_type_is_illegal():
    events = changed(TEXT, 1, "content_block.type", "hologram")

    assert outcome(D, events) == "delta-fits-block"


def test_a3_gap_in_the_indexes_is_one_violation():
    events = [start(), *text(0, "a"), *text(2, "b"), *text(3, "c"), *ending("end_turn")]
    verdict = judge(D, events)

    assert [one.rule for one in verdict.violations] == ["block-index-contiguous"]


def test_a6_overlapping_blocks_are_illegal():
    first, second = call(0, "a", "{}"), call(1, "b", "{}")
    events = [start(), first[0], second[0], *first[1:], *second[1:], *ending("tool_use")]

    assert outcome(D, events) == "event-order"
