"""Streams for clients."""

from typing import Any

import pytest
from msgspec import Raw

from dragoman.context import Rendering
from dragoman.dialects.anthropic import DIALECT
from dragoman.errors import IllegalOrderError
from dragoman.profiles import profile
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
    Ping,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import Loss
from tests.support.messages import SEALER, decode, exchange, parts, written

START = Start("kimi", "up-1")
END: list[Event] = [Usage(12, 3, final=True), Finish(FinishReason.STOP)]
CALLED: list[Event] = [Usage(12, 3, final=True), Finish(FinishReason.TOOL_CALLS)]


def block(
    kind: BlockKind, *inside: Event, index: int = 0, end: BlockEnd | None = None, **fields: Any
) -> list[Event]:
    return [BlockStart(index, kind, **fields), *inside, end or BlockEnd(index)]


def call(*inside: Event, index: int = 0, call_id: str = "c1", **fields: Any) -> list[Event]:
    return block(BlockKind.TOOL_CALL, *inside, index=index, call_id=call_id, name="ls", **fields)


def content(*events: Event, end: list[Event] = END, **fields: Any) -> list[dict[str, Any]]:
    """Return what is written between the start and the end of the message."""
    return written([START, *events, *end], **fields)[1:-2]


def deltas(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["delta"] for one in data if one["type"] == "content_block_delta"]


def starts(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["content_block"] for one in data if one["type"] == "content_block_start"]


def test_g_1_g_2_a2_text_is_one_block_in_one_message() -> None:
    text = block(BlockKind.TEXT, TextDelta(0, "Hel"), TextDelta(0, 'lo."\n'))
    data = written([START, Ping(), *text, *END])

    assert [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ] == [one["type"] for one in data]
    assert {"type": "text", "text": ""} == data[2]["content_block"]
    assert {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": 'lo."\n'},
    } == data[4]


def test_a8_counts_are_estimated_first_and_exact_at_the_end() -> None:
    usage = Usage(12, 30, 64, 5, 6, reasoning_tokens=7, final=True)
    data = written([START, usage, Finish(FinishReason.STOP)])

    assert {"input_tokens": 20, "output_tokens": 0} == data[0]["message"]["usage"]
    assert {
        "input_tokens": 12,
        "cache_read_input_tokens": 64,
        "cache_creation_input_tokens": 11,
        "output_tokens": 30,
        "output_tokens_details": {"thinking_tokens": 7},
    } == data[1]["usage"]


def test_counts_are_there_even_if_nobody_counted() -> None:
    usage = written([START, Finish(FinishReason.STOP)])[1]["usage"]

    assert (20, 0) == (usage["input_tokens"], usage["output_tokens"])


def test_message_has_an_id_of_its_own_and_the_clients_model() -> None:
    message = written([START, *END], model="claude-opus")[0]["message"]

    assert message["id"].startswith("msg_")
    assert "claude-opus" == message["model"]
    assert written([START, *END], seed="other")[0]["message"]["id"] != message["id"]
    assert "kimi" == written([START, *END])[0]["message"]["model"]


def test_relay_keeps_the_upstreams_identity() -> None:
    message = written([START, *END], model="claude", keep_identity=True)[0]["message"]

    assert ("up-1", "kimi") == (message["id"], message["model"])


@pytest.mark.parametrize(
    ("finish", "stop_reason"),
    [
        (Finish(FinishReason.STOP), "end_turn"),
        (Finish(FinishReason.STOP_SEQUENCE, "END"), "stop_sequence"),
        (Finish(FinishReason.LENGTH), "max_tokens"),
        (Finish(FinishReason.CONTEXT_FULL), "model_context_window_exceeded"),
        (Finish(FinishReason.CONTENT_FILTER), "refusal"),
        (Finish(FinishReason.REFUSAL), "refusal"),
        (Finish(FinishReason.PAUSE), "pause_turn"),
        (Finish(FinishReason.COMPACTION), "compaction"),
    ],
)
def test_every_reason_is_written(finish: Finish, stop_reason: str) -> None:
    delta = written([START, finish])[1]["delta"]

    assert {"stop_reason": stop_reason, "stop_sequence": finish.stop_sequence} == delta


def test_details_of_a_refusal_are_written() -> None:
    finish = Finish(FinishReason.CONTENT_FILTER, category="cyber", explanation="No.")

    assert {"type": "refusal", "category": "cyber", "explanation": "No."} == written(
        [START, finish]
    )[1]["delta"]["stop_details"]


def test_refusal_is_text_and_its_own_reason() -> None:
    data = written([START, *block(BlockKind.REFUSAL, RefusalDelta(0, "No.")), *END])

    assert {"type": "text_delta", "text": "No."} == data[2]["delta"]
    assert "refusal" == data[-2]["delta"]["stop_reason"]


# --- calls -------------------------------------------------------------------------------------------


def test_a1_a8b_g_4_call_starts_empty_and_its_arguments_follow() -> None:
    data = content(*call(ArgsDelta(0, '{"a":'), ArgsDelta(0, "1}")), end=CALLED)

    assert [{"type": "tool_use", "id": "c1", "name": "ls", "input": {}}] == starts(data)
    assert ['{"a":', "1}"] == [delta["partial_json"] for delta in deltas(data)]


def test_a3_indexes_count_without_gaps() -> None:
    reasoning = block(BlockKind.REASONING, index=1)  # nothing in it, nothing written
    data = content(
        *block(BlockKind.TEXT, TextDelta(0, "a")),
        *reasoning,
        *call(ArgsDelta(2, "{}"), index=2),
        end=CALLED,
    )

    assert [0, 0, 0, 1, 1, 1] == [one["index"] for one in data]


def test_d2_ids_are_legal_and_no_two_alike() -> None:
    history = (
        {"role": "user", "content": "a"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "ls", "input": {}}],
        },
    )
    data = content(
        *call(ArgsDelta(0, "{}"), call_id="functions.ls:0"),
        *call(ArgsDelta(1, "{}"), call_id="functions.ls:0", index=1),
        *call(ArgsDelta(2, "{}"), call_id="c1", index=2),
        end=CALLED,
        request=decode(*history),
    )

    assert ["gx-functions-2els-3a0", "gx1-functions-2els-3a0", "gx1-c1"] == [
        one["id"] for one in starts(data)
    ]


@pytest.mark.parametrize(
    ("reason", "word"), [(FinishReason.LENGTH, "max_tokens"), (FinishReason.TOOL_CALLS, "tool_use")]
)
def test_b10_cut_call_is_never_closed(reason: FinishReason, word: str) -> None:
    cut = call(ArgsDelta(0, '{"t":"ab'), end=BlockEnd(0, complete=False))
    data = written([START, *cut, Finish(reason)])

    assert ['{"t":"ab'] == [delta["partial_json"] for delta in deltas(data)]
    assert word == data[-2]["delta"]["stop_reason"]


@pytest.mark.parametrize(
    "pieces", [["*** Add\n", 'a "b"\\', "\U0001f600"], []], ids=["text", "none"]
)
def test_f7_free_text_is_written_as_the_input_of_a_function(pieces: list[str]) -> None:
    import msgspec

    custom = block(
        BlockKind.CUSTOM_CALL,
        *(InputDelta(0, piece) for piece in pieces),
        call_id="c1",
        name="patch",
        flavor=Flavor.CUSTOM,
    )
    data = content(*custom, end=CALLED)

    joined = "".join(delta["partial_json"] for delta in deltas(data))
    assert {"input": "".join(pieces)} == msgspec.json.decode(joined)


def test_namespaced_call_has_a_legal_name() -> None:
    data = content(*call(ArgsDelta(0, "{}"), namespace="agents"), end=CALLED)

    assert "agents__ls" == starts(data)[0]["name"]


def test_a_call_that_nobody_signs_starts_at_once() -> None:
    (start,) = written([START, *call()[:1]], profile=profile("vllm"))[1:]

    assert "content_block_start" == start["type"]


def test_signature_of_a_call_is_before_it() -> None:
    signature = Opaque(0, OpaqueKind.TOOL_SIGNATURE, "sig", "gemini")
    data = content(*call(signature, Ping(), ArgsDelta(0, "{}")), end=CALLED)

    assert ["redacted_thinking", "tool_use"] == [one["type"] for one in starts(data)]
    (back,) = parts(*starts(data))
    assert ("c1", "sig", "gemini") == (back.id, back.opaque[0].data, back.opaque[0].origin)


def test_late_signature_of_a_call_is_behind_it() -> None:
    signature = Opaque(0, OpaqueKind.TOOL_SIGNATURE, "sig", "gemini")
    data = content(*call(ArgsDelta(0, "{}"), signature), end=CALLED)

    assert ["tool_use", "redacted_thinking"] == [one["type"] for one in starts(data)]
    assert [0, 0, 0, 1, 1] == [one["index"] for one in data]


# --- reasoning ---------------------------------------------------------------------------------------


def thinking(*inside: Event) -> list[dict[str, Any]]:
    return content(*block(BlockKind.REASONING, *inside))


def test_e6_genuine_signature_is_written_as_it_is() -> None:
    data = thinking(
        ReasoningDelta(0, "Hm."), Opaque(0, OpaqueKind.SIGNATURE, "EqQ/B==", "anthropic")
    )

    assert [{"type": "thinking", "thinking": "", "signature": ""}] == starts(data)
    assert [
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "EqQ/B=="},
    ] == deltas(data)


@pytest.mark.parametrize(
    "state",
    [
        Opaque(0, OpaqueKind.PLAIN, "", "moonshot"),
        Opaque(0, OpaqueKind.SIGNATURE, "sig", "minimax"),
        Opaque(0, OpaqueKind.ENCRYPTED, "gAAA", "openai", "rs_1"),
        Opaque(0, OpaqueKind.DETAILS, "[{}]", "openrouter"),
    ],
    ids=["plain", "signature", "encrypted", "details"],
)
def test_e1_e5_foreign_state_travels_in_an_envelope_and_comes_back(state: Opaque) -> None:
    data = thinking(ReasoningDelta(0, "Hm, "), ReasoningDelta(0, "yes."), state)

    signature = deltas(data)[-1]["signature"]
    assert signature.startswith("dgm1.")
    (back,) = parts({"type": "thinking", "thinking": "Hm, yes.", "signature": signature})
    assert "Hm, yes." == back.text
    assert (state.kind, state.data, state.origin, state.item_id) == (
        back.opaque[0].kind,
        back.opaque[0].data,
        back.opaque[0].origin,
        back.opaque[0].item_id,
    )


def test_thinking_without_state_has_an_empty_signature() -> None:
    assert {"type": "signature_delta", "signature": ""} == deltas(
        thinking(ReasoningDelta(0, "Hm."))
    )[-1]


def test_parts_of_a_summary_are_set_apart() -> None:
    state = Opaque(0, OpaqueKind.ENCRYPTED, "gAAA", "openai")
    data = thinking(
        ReasoningDelta(0, "One.", Channel.SUMMARY, 0),
        ReasoningDelta(0, "Two.", Channel.SUMMARY, 1),
        state,
    )

    assert ["One.", "\n\nTwo."] == [delta["thinking"] for delta in deltas(data)[:-1]]
    (back,) = parts(
        {"type": "thinking", "thinking": "One.\n\nTwo.", "signature": deltas(data)[-1]["signature"]}
    )
    assert back.opaque


@pytest.mark.parametrize(
    ("state", "genuine"),
    [
        (Opaque(0, OpaqueKind.REDACTED, "Emw", "anthropic"), True),
        (Opaque(0, OpaqueKind.ENCRYPTED, "gAAA", "openai"), False),
        (Opaque(0, OpaqueKind.SIGNATURE, "sig", "minimax"), False),
    ],
)
def test_state_without_text_is_redacted_thinking(state: Opaque, genuine: bool) -> None:
    (start,) = starts(thinking(state))

    assert "redacted_thinking" == start["type"]
    assert genuine == (start["data"] == state.data)
    (back,) = parts(start)
    assert (state.kind, state.data, state.origin) == (
        back.opaque[0].kind,
        back.opaque[0].data,
        back.opaque[0].origin,
    )


def test_genuine_signature_without_text_is_thinking_that_is_not_shown() -> None:
    data = thinking(Opaque(0, OpaqueKind.SIGNATURE, "EqQB", "anthropic"))

    assert [{"type": "thinking", "thinking": "", "signature": ""}] == starts(data)
    assert [{"type": "signature_delta", "signature": "EqQB"}] == deltas(data)


@pytest.mark.parametrize(
    ("sealer", "code"), [(None, "opaque_dropped"), (SEALER, "opaque_too_large")]
)
def test_state_that_cannot_be_carried_is_reported(sealer: Any, code: str) -> None:
    import os

    huge = os.urandom(300_000).hex()
    events = [
        START,
        *block(BlockKind.REASONING, Opaque(0, OpaqueKind.ENCRYPTED, huge, "openai")),
        *block(
            BlockKind.REASONING,
            ReasoningDelta(1, "Hm."),
            Opaque(1, OpaqueKind.ENCRYPTED, huge, "openai"),
            index=1,
        ),
        *END,
    ]
    writer = DIALECT.writer(exchange(sealer=sealer))
    out = b"".join(writer.send(event) for event in events)

    assert [code, code] == [loss.code for loss in writer.losses]
    assert b"redacted_thinking" not in out
    assert b'"signature_delta","signature":""' in out


# --- vendors' blocks, citations ---------------------------------------------------------------------------


def test_vendors_call_streams_its_input_and_results_come_whole() -> None:
    raw = Raw(
        b'{"type":"server_tool_use","id":"s1",\n"name":"web_search","input":{"query": "oslo"}}'
    )
    result = Raw(b'{"type":"web_search_tool_result",\r\n"tool_use_id":"s1","content":[]}')
    data = content(
        *block(BlockKind.SERVER_CALL, vendor="anthropic", raw=raw),
        *block(BlockKind.SERVER_RESULT, vendor="anthropic", raw=result, index=1),
    )

    assert {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}} == starts(
        data
    )[0]
    assert {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []} == starts(data)[1]
    assert ['{"query": "oslo"}'] == [delta["partial_json"] for delta in deltas(data)]


def test_vendors_call_may_have_no_input() -> None:
    raw = Raw(b'{"type":"server_tool_use","id":"s1"}')

    assert [] == deltas(content(*block(BlockKind.SERVER_CALL, vendor="anthropic", raw=raw)))


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (BlockKind.SERVER_CALL, "server_block_dropped"),
        (BlockKind.SERVER_RESULT, "server_block_dropped"),
        (BlockKind.OPAQUE, "content_dropped"),
    ],
)
def test_blocks_of_other_vendors_are_dropped_and_reported(kind: BlockKind, code: str) -> None:
    writer = DIALECT.writer(exchange())
    events = [START, *block(kind, vendor="openai", raw=Raw(b"{}")), *END]
    out = b"".join(writer.send(event) for event in events)

    assert b"content_block" not in out
    assert [code] == [loss.code for loss in writer.losses]


def test_citations_of_the_vendor_are_written_and_others_reported() -> None:
    own = Citation(0, vendor="anthropic", raw=Raw(b'{"type":"char_location"}'))
    writer = DIALECT.writer(exchange())
    events = [
        START,
        *block(
            BlockKind.TEXT, TextDelta(0, "a"), own, Citation(0, url="u"), Citation(0, title="t")
        ),
        *END,
    ]
    out = b"".join(writer.send(event) for event in events)

    assert b'"delta":{"type":"citations_delta","citation":{"type":"char_location"}}' in out
    assert (
        b'"citation":{"type":"web_search_result_location","url":"u","title":"u","cited_text":"",'
        b'"encrypted_index":""}'
    ) in out
    assert ["citations_dropped"] == [loss.code for loss in writer.losses]


# --- failures ----------------------------------------------------------------------------------------

FAULT = Fault(FaultKind.OVERLOADED, "too much to do")
ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "too much to do"}}


@pytest.mark.parametrize(
    "inside",
    [
        [BlockStart(0, BlockKind.TEXT), TextDelta(0, "Par")],
        [BlockStart(0, BlockKind.REASONING), ReasoningDelta(0, "Hm")],
    ],
    ids=["text", "thinking"],
)
def test_g_6_open_text_stays_open_unless_it_is_to_be_closed(inside: list[Event]) -> None:
    left_open = written([START, *inside, FAULT])
    closed = written([START, *inside, FAULT], rendering=Rendering(stream_error_tail="close"))

    assert ["content_block_delta", "error"] == [one["type"] for one in left_open[-2:]]
    assert [{"type": "content_block_stop", "index": 0}, ERROR] == closed[-2:]


@pytest.mark.parametrize(
    "inside",
    [
        [BlockStart(0, BlockKind.TOOL_CALL, "c1", "ls"), ArgsDelta(0, "{")],
        [BlockStart(0, BlockKind.TOOL_CALL, "c1", "ls")],
        [BlockStart(0, BlockKind.CUSTOM_CALL, "c1", "ls"), InputDelta(0, "a")],
        [BlockStart(0, BlockKind.REASONING)],
        [],
    ],
    ids=["arguments", "start", "custom", "empty reasoning", "nothing"],
)
def test_g_6_half_a_call_is_never_closed(inside: list[Event]) -> None:
    data = written([START, *inside, FAULT])

    assert "content_block_stop" not in [one["type"] for one in data]
    assert ERROR == data[-1]


def test_p_10_message_stop_follows_the_error_if_wanted() -> None:
    rendering = Rendering(stream_error_tail="message_stop")

    assert [ERROR, {"type": "message_stop"}] == written([START, FAULT], rendering=rendering)[1:]


def test_failure_before_the_start_is_the_error_alone() -> None:
    assert [ERROR] == written([FAULT])


def test_a4_orphan_deltas_are_refused() -> None:
    writer = DIALECT.writer(exchange())
    writer.send(START)

    with pytest.raises(IllegalOrderError):
        writer.send(TextDelta(0, "a"))
    assert b"event: error" in writer.send(FAULT)


def test_losses_are_not_written() -> None:
    assert [] == content(Loss("chunk_malformed"))


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    custom = block(BlockKind.CUSTOM_CALL, InputDelta(1, "\ud83d"), index=1, call_id="c", name="x")
    data = content(*block(BlockKind.TEXT, TextDelta(0, "a\ud83d")), *custom, end=CALLED)

    assert "a\ufffd" == deltas(data)[0]["text"]
    assert "\ufffd" == deltas(data)[2]["partial_json"]


def test_state_of_a_clone_is_not_the_vendors() -> None:
    data = content(
        *block(
            BlockKind.REASONING,
            ReasoningDelta(0, "Hm."),
            Opaque(0, OpaqueKind.SIGNATURE, "sig", profile("minimax").origin),
        )
    )

    assert deltas(data)[-1]["signature"].startswith("dgm1.")
