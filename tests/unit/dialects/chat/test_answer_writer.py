"""What clients get: streams, and bodies that say the same."""

import msgspec
import pytest
from msgspec import Raw

from dragoman.context import Exchange, Rendering
from dragoman.dialects.chat import DIALECT
from dragoman.errors import IllegalOrderError
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
    Ping,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request, Role, Tool, ToolCallPart, Turn
from tests.support.sdks import accumulate
from tests.unit.dialects.chat.support import codes, deltas, exchange, write

START = Start("up", "up-1", 7)
END = [
    Usage(3, 2, cache_read_tokens=1, cache_write_5m_tokens=1, reasoning_tokens=1, final=True),
    Finish(FinishReason.STOP),
]
CALLED = [Usage(3, 2, final=True), Finish(FinishReason.TOOL_CALLS)]


def client(*tools: Tool, history: tuple[Turn, ...] = (), **fields: object) -> Exchange:
    request = Request(dialect="chat", model="asked", tools=tools, turns=history, **fields)
    return exchange(request=request, model="asked")


def text(index: int, *pieces: str) -> list[Event]:
    return [
        BlockStart(index, BlockKind.TEXT),
        *(TextDelta(index, piece) for piece in pieces),
        BlockEnd(index),
    ]


def same_for_the_sdk(events: list[Event], known: Exchange) -> dict:
    """Say that the vendor's accumulator and our body agree; return the message."""
    writer = DIALECT.writer(known)
    stream = b"".join(writer.send(event) for event in events)
    body = msgspec.json.decode(DIALECT.encode_body(fold(events), known, []))

    assert _bare(body) == _bare(accumulate("chat", stream))
    return body["choices"][0]["message"]


def _bare(value: object) -> object:
    if isinstance(value, dict):
        dropped = ("parsed_arguments", "parsed", "index")
        return {k: _bare(v) for k, v in value.items() if v is not None and k not in dropped}
    return [_bare(one) for one in value] if isinstance(value, list) else value


def test_role_comes_once_and_first() -> None:
    payloads = write([START, *text(0, "a", "b"), *END], exchange())

    roles = [p["choices"][0]["delta"].get("role") for p in payloads[:-2]]
    assert ["assistant", None, None, None] == roles
    assert "[DONE]" == payloads[-1]


def test_identity_is_the_exchange_s_or_the_upstream_s() -> None:
    events = [START, *END]
    named = write(events, exchange(model="asked", created=9))[0]
    kept = write(events, exchange(model="asked", created=9, keep_identity=True))[0]
    bare = write([Start("up", "chatcmpl-x", 7), *END], Exchange(profile=exchange().profile))[0]

    assert ("asked", 9) == (named["model"], named["created"])
    assert named["id"].startswith("chatcmpl-")
    assert ("up", 7, "up-1") == (kept["model"], kept["created"], kept["id"])
    assert ("up", 7, "chatcmpl-x") == (bare["model"], bare["created"], bare["id"])


def test_counts_are_sent_only_to_clients_that_asked() -> None:
    events = [START, *END]

    assert "usage" in write(events, exchange())[-2]
    assert "usage" in write(events, client(include_usage=True))[-2]
    assert "usage" not in write(events, client(include_usage=False))[-2]


def test_h5_counts_include_what_was_cached() -> None:
    usage = write([START, *END], exchange())[-2]["usage"]

    assert (5, 2, 7) == (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"])
    assert {"cached_tokens": 1, "cache_write_tokens": 1} == usage["prompt_tokens_details"]
    assert {"reasoning_tokens": 1} == usage["completion_tokens_details"]


def test_g5_ping_is_one_comment_line() -> None:
    writer = DIALECT.writer(exchange())
    writer.send(START)

    assert b": keep-alive\n" == writer.send(Ping())


def test_illegal_order_is_refused() -> None:
    writer = DIALECT.writer(exchange())

    with pytest.raises(IllegalOrderError):
        writer.send(TextDelta(0, "a"))


def test_d2_ids_are_legal_and_none_that_the_history_used() -> None:
    used = Turn(Role.ASSISTANT, (ToolCallPart("call_0", "f", "{}"),))
    events = [
        START,
        BlockStart(0, BlockKind.TOOL_CALL, "call_0", "f"),
        ArgsDelta(0, "{}"),
        BlockEnd(0),
        BlockStart(1, BlockKind.TOOL_CALL, "functions.f:1", "f"),
        ArgsDelta(1, "{}"),
        BlockEnd(1),
        *CALLED,
    ]

    message = same_for_the_sdk(events, client(history=(used,)))

    ids = [one["id"] for one in message["tool_calls"]]
    assert ["gx1-call_0", "gx-functions-2ef-3a1"] == ids


def custom_call(*pieces: str, complete: bool = True) -> list[Event]:
    return [
        START,
        BlockStart(0, BlockKind.CUSTOM_CALL, "c", "patch", flavor=Flavor.CUSTOM),
        *(InputDelta(0, piece) for piece in pieces),
        BlockEnd(0, complete),
        *(CALLED if complete else [Finish(FinishReason.LENGTH)]),
    ]


def test_f7_custom_call_is_native_for_a_client_that_declared_it_so() -> None:
    known = client(Tool(name="patch", flavor=Flavor.CUSTOM))
    events = custom_call('say "', 'hi"\n')

    said = deltas(write(events, known))
    body = msgspec.json.decode(DIALECT.encode_body(fold(events), known, []))

    head = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "patch", "input": ""}}
    assert {"tool_calls": [head]} == said[0]
    assert 'say "hi"\n' == "".join(one["tool_calls"][0]["custom"]["input"] for one in said[1:3])
    calls = body["choices"][0]["message"]["tool_calls"]
    assert [
        {"id": "c", "type": "custom", "custom": {"name": "patch", "input": 'say "hi"\n'}}
    ] == calls


@pytest.mark.parametrize("pieces", [(), ("plain",), ('a"\\', "\n\té😀", "\x00")])
def test_f6_custom_call_is_a_function_for_all_others(pieces: tuple[str, ...]) -> None:
    message = same_for_the_sdk(custom_call(*pieces), exchange())

    arguments = message["tool_calls"][0]["function"]["arguments"]
    assert {"input": "".join(pieces)} == msgspec.json.decode(arguments)


def test_b10_cut_call_keeps_its_cut_arguments() -> None:
    known = exchange()
    cut = [
        START,
        BlockStart(0, BlockKind.TOOL_CALL, "c", "f"),
        ArgsDelta(0, '{"a":"b'),
        BlockEnd(0, complete=False),
        Finish(FinishReason.LENGTH),
    ]

    for events, expected in (
        (cut, '{"a":"b'),
        (custom_call("b", complete=False), '{"input":"b'),
        (custom_call(complete=False), '{"input":"'),
    ):
        said = [
            one["tool_calls"][0]["function"]["arguments"]
            for one in deltas(write(events, known))[:-1]
        ]
        body = msgspec.json.decode(DIALECT.encode_body(fold(events), known, []))
        assert expected == "".join(said)
        assert expected == body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]


def test_d5_names_are_the_client_s_own_or_made_legal() -> None:
    start = BlockStart(0, BlockKind.TOOL_CALL, "c", "a.b", "ns")
    events = [START, start, ArgsDelta(0, "{}"), BlockEnd(0), *CALLED]

    name = deltas(write(events, exchange()))[0]["tool_calls"][0]["function"]["name"]
    plain = BlockStart(0, BlockKind.TOOL_CALL, "c", "a.b")
    own = write([START, plain, ArgsDelta(0, "{}"), BlockEnd(0), *CALLED], client(Tool(name="a.b")))

    assert name.startswith("ns__a_b_")
    assert "a.b" == deltas(own)[0]["tool_calls"][0]["function"]["name"]


# --- reasoning ------------------------------------------------------------------------------------

THOUGHT: list[Event] = [
    START,
    BlockStart(0, BlockKind.REASONING),
    ReasoningDelta(0, "one", Channel.SUMMARY, 0),
    ReasoningDelta(0, "two", Channel.SUMMARY, 1),
    Opaque(0, OpaqueKind.SIGNATURE, "SIG", "anthropic"),
    BlockEnd(0),
    BlockStart(1, BlockKind.REASONING),
    ReasoningDelta(1, "three"),
    Opaque(1, OpaqueKind.PLAIN, "", "x"),
    BlockEnd(1),
    *text(2, "so"),
    *END,
]


@pytest.mark.parametrize(
    ("rendering", "fields"),
    [
        ("reasoning_content", {"reasoning_content"}),
        ("reasoning", {"reasoning"}),
        ("both", {"reasoning_content", "reasoning"}),
        ("details", {"reasoning_content", "reasoning_details"}),
        ("off", set()),
    ],
)
def test_r3_reasoning_is_in_the_fields_the_client_chose(rendering: str, fields: set[str]) -> None:
    known = exchange(rendering=Rendering(chat_reasoning=rendering))

    message = same_for_the_sdk(THOUGHT, known)

    assert fields == {name for name in message if name.startswith("reasoning")}
    for name in fields - {"reasoning_details"}:
        assert "one\n\ntwo\n\nthree" == message[name]


def test_details_carry_foreign_state_in_an_envelope() -> None:
    known = exchange(rendering=Rendering(chat_reasoning="details"))

    details = same_for_the_sdk(THOUGHT, known)["reasoning_details"]

    assert ["reasoning.summary", "reasoning.summary", "reasoning.text"] == [
        d["type"] for d in details
    ]
    assert [0, 1, 2] == [d["index"] for d in details]
    assert details[1]["signature"].startswith("dgm1.")
    assert "signature" not in details[2]


def test_r4_details_of_a_chat_upstream_are_given_as_they_came() -> None:
    data = '[{"type":"reasoning.encrypted","data":"E","id":"rs","index":4}]'
    events = [
        START,
        BlockStart(0, BlockKind.REASONING),
        Opaque(0, OpaqueKind.DETAILS, data, "openrouter"),
        BlockEnd(0),
        *END,
    ]
    known = exchange(rendering=Rendering(chat_reasoning="details"))

    details = same_for_the_sdk(events, known)["reasoning_details"]

    assert [{"type": "reasoning.encrypted", "data": "E", "id": "rs", "index": 0}] == details


# --- the rest -------------------------------------------------------------------------------------


def test_citations_come_together_with_offsets_of_the_whole_text() -> None:
    events = [
        START,
        *text(0, "abc"),
        BlockStart(1, BlockKind.TEXT),
        TextDelta(1, "def"),
        Citation(1, "https://a.example", "A", start=0, end=3),
        Citation(1, "https://b.example"),
        Citation(1, cited_text="no address"),
        BlockEnd(1),
        *END,
    ]
    writer = DIALECT.writer(exchange())
    for event in events:
        writer.send(event)

    annotations = same_for_the_sdk(events, exchange())["annotations"]

    cited = annotations[0]["url_citation"]
    assert {"url": "https://a.example", "title": "A", "start_index": 3, "end_index": 6} == cited
    assert 2 == len(annotations)
    assert ["citations_dropped"] == codes(writer.losses)


def test_refusal_has_its_own_field() -> None:
    events = [
        START,
        BlockStart(0, BlockKind.REFUSAL),
        RefusalDelta(0, "I "),
        RefusalDelta(0, "won't"),
        BlockEnd(0),
        Usage(1, 1, final=True),
        Finish(FinishReason.REFUSAL),
    ]

    assert "I won't" == same_for_the_sdk(events, exchange())["refusal"]


def test_vendor_blocks_are_left_out_and_reported() -> None:
    writer = DIALECT.writer(exchange())
    block = BlockStart(0, BlockKind.SERVER_CALL, vendor="anthropic", raw=Raw(b"{}"))

    out = [writer.send(event) for event in (START, block, BlockEnd(0), Loss("call_cut"), *END)]

    assert [b"", b"", b""] == out[1:4]
    assert ["server_block_dropped"] == codes(writer.losses)


def test_logprobs_are_kept() -> None:
    events = [
        START,
        BlockStart(0, BlockKind.TEXT),
        TextDelta(0, "a", Raw(b'[{"token":"a","logprob":-1.0}]')),
        TextDelta(0, "b", Raw(b'[{"token":"b","logprob":-2.0}]')),
        BlockEnd(0),
        *END,
    ]
    known = exchange()

    same_for_the_sdk(events, known)

    body = msgspec.json.decode(DIALECT.encode_body(fold(events), known, []))
    assert ["a", "b"] == [one["token"] for one in body["choices"][0]["logprobs"]["content"]]


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (FinishReason.STOP_SEQUENCE, "stop"),
        (FinishReason.CONTEXT_FULL, "length"),
        (FinishReason.CONTENT_FILTER, "content_filter"),
        (FinishReason.PAUSE, "length"),
        (FinishReason.COMPACTION, "length"),
    ],
)
def test_finish_reasons(reason: FinishReason, word: str) -> None:
    events = [START, Finish(reason)]

    assert word == write(events, exchange())[-2]["choices"][0]["finish_reason"]


def test_g1_fault_is_an_error_and_then_done() -> None:
    fault = Fault(FaultKind.UPSTREAM_BAD, "cut", code="upstream_truncated")
    payloads = write([START, fault], exchange())
    body = msgspec.json.decode(DIALECT.encode_body(fold([START, fault]), exchange(), []))

    error = {"message": "cut", "type": "server_error", "param": None, "code": "upstream_truncated"}
    assert [{"error": error}, "[DONE]"] == payloads[-2:]
    assert {"error": error} == body


def test_answer_of_nothing_is_empty_text() -> None:
    assert "" == same_for_the_sdk([START, *END], exchange())["content"]
