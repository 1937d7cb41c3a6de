"""What the founding documents ask for, row by row.  The code of a row is in the test's name."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from dragoman import (
    Limits,
    MalformedError,
    Rendering,
    Translator,
    decode_tools,
    error_response,
    translate_body,
    translate_request,
)
from dragoman.context import Exchange
from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.dialects.framing import StreamReader
from dragoman.profiles import profile
from dragoman.toolcalls.detection import detect
from dragoman.toolcalls.parser import parse
from dragoman.turn.events import (
    BlockKind,
    BlockStart,
    Event,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    TextDelta,
)
from dragoman.turn.state import TURN, TurnState
from tests.support.chat import DONE, META, USAGE, call, chunk, payloads, types
from tests.support.tables import in_one_test

TOOLS = decode_tools(
    b'[{"type":"function","function":{"name":"bash","parameters":{"type":"object",'
    b'"properties":{"command":{"type":"string"}}}}}]'
)
ROLE = chunk({"role": "assistant", "content": ""})
TEXT = [ROLE, chunk({"content": "Hel"}), chunk({"content": "lo."}), chunk({}, "stop"), USAGE, DONE]
SLOW_MACHINE = 3  # budgets are for a machine like the one they were measured on
TOOL = [
    ROLE,
    chunk(call(0, "", id="call_1", name="bash")),
    chunk(call(0, '{"comm')),
    chunk(call(0, 'and":"ls"}')),
    chunk({}, "tool_calls"),
    USAGE,
    DONE,
]


def kimi(target: str = "chat", **more: Any) -> Translator:
    return Translator(
        source="chat", target=target, model=META["model"], tools=TOOLS, seed="s", **more
    )


def run(translator: Translator, pieces: list[bytes]) -> bytes:
    return b"".join(translator.feed(piece) for piece in pieces) + translator.close()


# --- K1: the streaming transformer ---------------------------------------------------------------


def test_k1_1_one_line_in_gives_zero_or_more_lines_out() -> None:
    translator = kimi("anthropic")

    outputs = [translator.feed(line) for line in TEXT]

    assert b"" in outputs
    assert any(out.count(b"data: ") > 1 for out in outputs)
    assert TEXT == [kimi().feed(line) for line in TEXT[:1]] + TEXT[1:]


@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_k1_2_held_text_leaves_before_the_end_and_done_passes(target: str) -> None:
    held = chunk({"content": "a <|"})  # may become a marker

    out = run(kimi(target), [ROLE, held, chunk({}, "stop"), DONE])

    assert b"<|" in out
    if target == "chat":
        assert out.endswith(DONE)
        assert out.index(b"<|") < out.index(b"[DONE]")


def test_k1_3_invalid_json_passes_unchanged_in_the_same_dialect_and_is_counted() -> None:
    translator = kimi()
    broken = b'data: {"choices":[{"delta":{"content": oops\n\n'

    out = run(translator, [*TEXT[:2], broken, *TEXT[2:]])

    assert b"".join([*TEXT[:2], broken, *TEXT[2:]]) == out
    assert ["chunk_malformed"] == [loss.code for loss in translator.losses]


@pytest.mark.parametrize("target", ["anthropic", "responses", "gemini"])
def test_k1_3_invalid_json_is_skipped_and_counted_across_dialects(target: str) -> None:
    translator = kimi(target)

    out = run(translator, [*TEXT[:2], b"data: {oops\n\n", *TEXT[2:]])

    assert run(kimi(target), TEXT) == out
    assert ["chunk_malformed"] == [loss.code for loss in translator.losses]


@pytest.mark.parametrize("stream", [TEXT, TOOL], ids=["text", "tool"])
@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_k1_4_chunks_without_tool_tokens_pass_byte_for_byte(stream: list[bytes], size: int) -> None:
    data = b": OPENROUTER PROCESSING\n\n" + b"".join(stream)

    out = run(kimi(), [data[at : at + size] for at in range(0, len(data), size)])

    assert data == out


def test_k1_4_text_that_begins_like_a_token_and_is_none_passes_byte_for_byte() -> None:
    stream = [ROLE, chunk({"content": "a <|tool_"}), chunk({"content": "box|> b"}), *TEXT[3:]]

    assert b"".join(stream) == run(kimi(), stream)


def test_k1_5_usage_only_chunk_passes() -> None:
    translator = kimi()

    out = run(translator, TEXT)

    assert USAGE in out
    assert translator.usage is not None
    assert (12, 3) == (translator.usage.input_tokens, translator.usage.output_tokens)


def test_k1_11_header_chunk_then_argument_deltas_without_id() -> None:
    leaked = "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:15<|tool_call_argument_begin|>"
    end = "<|tool_call_end|><|tool_calls_section_end|>"
    stream = [
        ROLE,
        chunk({"content": leaked + '{"comm'}),
        chunk({"content": 'and":"ls"}' + end}),
        chunk({}, "stop"),
        DONE,
    ]

    chunks = payloads(run(kimi(), stream))

    deltas = [
        piece["choices"][0]["delta"]["tool_calls"][0]
        for piece in chunks[:-1]
        if piece["choices"] and piece["choices"][0]["delta"].get("tool_calls")
    ]
    header, *rest = deltas
    assert {"index", "id", "type", "function"} == set(header)
    assert {"name": "bash", "arguments": ""} == header["function"]
    assert all("id" not in delta and "name" not in delta["function"] for delta in rest)
    assert '{"command":"ls"}' == "".join(delta["function"]["arguments"] for delta in rest)


def test_k1_12_identity_is_carried_on_every_chunk_and_the_finish_is_never_swallowed() -> None:
    leaked = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_calls_section_end|>"
    )

    chunks = payloads(
        run(kimi(), [ROLE, chunk({"content": leaked}), chunk({}, "stop"), USAGE, DONE])
    )

    assert "[DONE]" == chunks[-1]
    for piece in chunks[:-1]:
        assert META == {key: piece[key] for key in META}
        assert all(choice["index"] == 0 for choice in piece["choices"])
    reasons = [c["finish_reason"] for piece in chunks[:-1] for c in piece["choices"]]
    assert ["tool_calls"] == [reason for reason in reasons if reason]


# --- K2: the accumulating transformer ------------------------------------------------------------


@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_k2_4_stream_metadata_is_kept(target: str) -> None:
    pieces = payloads(run(Translator(source="chat", target=target), TEXT))

    text = msgspec.json.encode(pieces).decode()
    assert META["model"] in text
    if target not in ("anthropic", "gemini"):
        assert str(META["created"]) in text
    if target == "chat":
        assert META["id"] in text


def test_k2_5_close_flushes_what_is_held() -> None:
    translator = kimi("anthropic")
    out = translator.feed(b"".join([ROLE, chunk({"content": "left <|"}), chunk({}, "stop")]))

    assert b"<|" not in out
    assert b"<|" in translator.close()


def test_k2_6_instances_share_nothing() -> None:
    one, other = kimi("anthropic"), kimi("anthropic")
    mixed = {"one": b"", "other": b""}
    for text_piece, tool_piece in zip(TEXT, TOOL, strict=False):
        mixed["one"] += one.feed(text_piece)
        mixed["other"] += other.feed(tool_piece)
    mixed["other"] += other.feed(b"".join(TOOL[len(TEXT) :]))

    assert run(kimi("anthropic"), TEXT) == mixed["one"] + one.close()
    assert run(kimi("anthropic"), TOOL) == mixed["other"] + other.close()


def test_k2_7_unknown_tokens_are_ordinary_content() -> None:
    stream = [ROLE, chunk({"content": "<|im_end|> and <|box|>"}), *TEXT[3:]]

    assert b"<|im_end|> and <|box|>" in run(kimi("anthropic"), stream)


def test_k2_7_passing_the_argument_limit_is_a_named_error() -> None:
    limits = Limits(max_tool_args_bytes=8)
    translator = kimi("anthropic", limits=limits)

    out = run(translator, TOOL)

    assert isinstance(translator.outcome, Fault)
    assert "max_tool_args_bytes" == translator.outcome.code
    assert "error" == types(out)[-1]
    assert b"max_tool_args_bytes" in out


def test_k2_8_reader_stage_and_writer_are_separate_parts() -> None:
    exchange = Exchange(profile=profile("generic"), seed="s")
    reader = StreamReader(dialect("chat").frame_reader(exchange), exchange)
    writer = dialect("anthropic").writer(exchange)
    seen: list[Event] = []  # a tap, such as a recorder

    out = b""
    for piece in TEXT:
        events = reader.feed(piece)
        seen += events
        out += b"".join(writer.send(event) for event in events)
    out += b"".join(writer.send(event) for event in reader.close())

    assert run(Translator(source="chat", target="anthropic", seed="s"), TEXT) == out
    assert "Hello." == "".join(event.text for event in seen if isinstance(event, TextDelta))


# --- P: the proxy ----------------------------------------------------------------------------------


def completion(message: dict[str, Any], finish: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    body = {**META, "object": "chat.completion", "choices": [choice]}
    return msgspec.json.encode({**body, "usage": {"prompt_tokens": 1, "completion_tokens": 1}})


def test_p_4_legacy_function_call_becomes_a_call_with_a_made_up_id() -> None:
    function = {"name": "bash", "arguments": '{"command":"ls"}'}
    whole = translate_body(
        completion({"content": None, "function_call": function}, "function_call"),
        source="chat",
        target="anthropic",
        seed="one",
    )
    streamed = Translator(source="chat", target="anthropic", seed="one")
    out = run(
        streamed,
        [
            ROLE,
            chunk({"function_call": {"name": "bash", "arguments": ""}}),
            chunk({"function_call": {"arguments": '{"command":"ls"}'}}),
            chunk({}, "function_call"),
            DONE,
        ],
    )

    message = msgspec.json.decode(whole.body)
    start = next(p for p in payloads(out) if p["type"] == "content_block_start")
    assert {"command": "ls"} == message["content"][0]["input"]
    assert "tool_use" == message["stop_reason"]
    assert message["content"][0]["id"].startswith("call_")
    assert message["content"][0]["id"] == start["content_block"]["id"]


def test_p_4_made_up_ids_differ_between_exchanges() -> None:
    function = {"name": "bash", "arguments": "{}"}
    bodies = [
        translate_body(
            completion({"content": None, "function_call": function}, "function_call"),
            source="chat",
            target="anthropic",
            seed=seed,
        )
        for seed in ("one", "two")
    ]

    ids = {msgspec.json.decode(body.body)["content"][0]["id"] for body in bodies}
    assert 2 == len(ids)


def test_p_5_openai_format_passes_unchanged() -> None:
    data = b"".join(TOOL)

    out = run(
        Translator(source="chat", target="chat", model="deepseek/deepseek-chat", tools=TOOLS), TOOL
    )

    assert data == out


def test_p_6_a_messages_request_becomes_a_chat_request_over_several_turns() -> None:
    body = {
        "model": "claude",
        "max_tokens": 100,
        "system": "Be brief.",
        "tools": [{"name": "bash", "description": "Run", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "List."},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Looking."},
                    {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "bash",
                        "input": {"command": "ls"},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"},
                    {"type": "text", "text": "And now?"},
                ],
            },
        ],
    }

    out = translate_request(
        msgspec.json.encode(body), source="anthropic", target="chat", model="up"
    )

    translated = msgspec.json.decode(out.body)
    roles = [message["role"] for message in translated["messages"]]
    assert "up" == translated["model"]
    assert ["system", "user", "assistant", "tool", "user"] == roles
    assistant, tool = translated["messages"][2:4]
    assert "Looking." == assistant["content"]
    assert '{"command":"ls"}' == assistant["tool_calls"][0]["function"]["arguments"]
    assert ("toolu_1", "a.txt") == (tool["tool_call_id"], tool["content"])
    assert {"type": "object"} == translated["tools"][0]["function"]["parameters"]


BAD_REQUESTS = [
    pytest.param(
        "anthropic",
        {"tools": [{"description": "no name", "input_schema": {"type": "object"}}]},
        "$.tools[0]",
        id="tool definition without a name",
    ),
    pytest.param(
        "anthropic",
        {"tools": [{"name": "f", "input_schema": "not a schema"}]},
        "$.tools[0]",
        id="schema that is no object",
    ),
    pytest.param(
        "anthropic",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "x", "content": "y"}],
                }
            ]
        },
        "$.messages[0]",
        id="tool result for an unknown call",
    ),
    pytest.param(
        "chat",
        {"messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}]},
        "$.messages[0]",
        id="tool message for an unknown call",
    ),
    pytest.param(
        "responses",
        {"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]},
        "$.input[0]",
        id="call output for an unknown call",
    ),
    pytest.param("chat", {"messages": "hello"}, "$.messages", id="messages of the wrong type"),
    pytest.param("chat", {"n": 2}, "$.n", id="several answers across dialects"),
    pytest.param(
        "chat",
        {"messages": [{"role": "user", "content": [{"type": "hologram"}]}]},
        "$.messages[0].content[0]",
        id="unknown content part",
    ),
    pytest.param(
        "anthropic",
        {"messages": [{"role": "user", "content": [{"type": "hologram"}]}]},
        "$.messages[0].content[0]",
        id="unknown content block",
    ),
    pytest.param(
        "responses",
        {"input": [{"role": "user", "content": [{"type": "hologram"}]}]},
        "$.input[0]",
        id="unknown input part",
    ),
    pytest.param(
        "gemini",
        {"tools": [{"functionDeclarations": [{"description": "no name"}]}]},
        "$.tools[0]",
        id="function without a name",
    ),
    pytest.param(
        "gemini",
        {"tools": [{"functionDeclarations": [{"name": "f", "parameters": "not a schema"}]}]},
        "$.tools[0]",
        id="schema of a function that is not an object",
    ),
    pytest.param(
        "gemini",
        {"contents": [{"parts": [{"functionResponse": {"name": "f", "response": {}}}]}]},
        "$.contents[0]",
        id="function response for an unknown call",
    ),
    pytest.param(
        "gemini",
        {"generationConfig": {"candidateCount": 2}},
        "$.generationConfig.candidateCount",
        id="several candidates across dialects",
    ),
    pytest.param(
        "gemini",
        {"contents": [{"parts": [{"hologram": {}}]}]},
        "$.contents[0].parts[0]",
        id="unknown part",
    ),
]
MINIMAL: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "x"}]},
    "anthropic": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]},
    "responses": {"model": "m", "input": "x"},
    "gemini": {"model": "m", "contents": [{"parts": [{"text": "x"}]}]},
}


@in_one_test
@pytest.mark.parametrize(("client", "change", "path"), BAD_REQUESTS)
@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_p_7_a_bad_request_is_a_400_of_the_clients_dialect_with_the_path(
    client: str, change: dict[str, Any], path: str, target: str
) -> None:
    if client == target:
        return
    from dragoman import DragomanError

    body = msgspec.json.encode({**MINIMAL[client], **change})

    with pytest.raises(DragomanError) as caught:
        translate_request(body, source=client, target=target)

    status, answer = error_response(caught.value, target=client)
    error = msgspec.json.decode(answer)["error"]
    assert 400 == status
    assert caught.value.path.startswith(path)
    assert path in error["message"]
    word = error["status"] if client == "gemini" else error["type"]
    assert ("INVALID_ARGUMENT" if client == "gemini" else "invalid_request_error") == word


@pytest.mark.parametrize("client", DIALECT_NAMES)
@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b"null", b'{"model":', b"\xff\xfe"])
def test_p_7_a_request_that_is_no_json_object_is_a_400(client: str, body: bytes) -> None:
    for target in DIALECT_NAMES:
        with pytest.raises(MalformedError) as caught:
            translate_request(body, source=client, target=target)

        assert 400 == error_response(caught.value, target=client)[0]


class _Broken:
    """A stage with a bug: it puts a delta where no block is open."""

    pending = False

    def feed(self, events: list[Event]) -> list[Event]:
        return [*events, TextDelta(99, "lost")] if events else events


@pytest.mark.parametrize(
    ("target", "last"),
    [("anthropic", "error"), ("responses", "response.failed"), ("chat", ""), ("gemini", "")],
)
def test_p_8_our_own_failure_is_reported_and_never_breaks_the_stream(
    target: str, last: str
) -> None:
    translator = Translator(source="anthropic" if target == "chat" else "chat", target=target)
    translator._stages.append(_Broken())
    source = TEXT if target != "chat" else ANTHROPIC_TEXT.split(b"\n\n")
    source = [piece.removesuffix(b"\n\n") + b"\n\n" for piece in source]

    out = run(translator, source)

    assert isinstance(translator.outcome, Fault)
    assert FaultKind.GATEWAY == translator.outcome.kind
    if target == "chat":
        assert "gateway_error" == payloads(out)[-2]["error"]["code"]
        assert "[DONE]" == payloads(out)[-1]
    elif target == "gemini":
        assert "INTERNAL" == payloads(out)[-1]["error"]["status"]
    else:
        assert last == types(out)[-1]
    status, _ = dialect(target).encode_fault(translator.outcome, "r")
    assert 500 == status


ANTHROPIC_TEXT = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message",'
    b'"role":"assistant","model":"claude","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"Hi"}}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
    b'"usage":{"output_tokens":2}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"Bad gateway", id="not JSON"),
        pytest.param(b"{}", id="no choices"),
        pytest.param(
            b'{"choices":[{"message":{"tool_calls":[{"id":"x","function":{}}]}}]}',
            id="call without name",
        ),
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"choices":[{"message":{"content":"x"', id="cut"),
    ],
)
@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_p_9_an_upstream_answer_that_cannot_be_read_is_a_502(body: bytes, target: str) -> None:
    translated = translate_body(body, source="chat", target=target)

    assert 502 == translated.status
    assert translated.answer.fault is not None
    assert FaultKind.UPSTREAM_BAD == translated.answer.fault.kind


def test_p_9_arguments_that_can_be_repaired_are_repaired_and_announced() -> None:
    function = {"name": "bash", "arguments": '{"command": "ls",}'}
    message = {
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }

    translated = translate_body(
        completion(message, "tool_calls"), source="chat", target="anthropic"
    )

    assert {"command": "ls"} == msgspec.json.decode(translated.body)["content"][0]["input"]
    assert "args_repaired" in [loss.code for loss in translated.losses]


def test_p_9_arguments_beyond_mending_leave_as_they_came_and_cannot_be_run() -> None:
    stream = [
        ROLE,
        chunk(call(0, '{"command": ls -la}', id="c", name="bash")),
        chunk({}, "tool_calls"),
        DONE,
    ]
    translator = kimi("anthropic")

    out = run(translator, stream)

    assert "message_stop" == types(out)[-1]
    deltas = [one["delta"] for one in payloads(out) if one["type"] == "content_block_delta"]
    assert '{"command": ls -la}' == "".join(one["partial_json"] for one in deltas)
    assert Finish(FinishReason.TOOL_CALLS) == translator.outcome
    assert "args_invalid" in [loss.code for loss in translator.losses]


@pytest.mark.parametrize(
    ("tail", "ending"),
    [
        ("close", ["content_block_delta", "content_block_stop", "error"]),
        ("message_stop", ["content_block_delta", "content_block_stop", "error", "message_stop"]),
        ("open", ["content_block_delta", "error"]),
    ],
)
def test_p_10_a_stream_error_is_an_error_event_and_a_graceful_end(
    tail: Any, ending: list[str]
) -> None:
    error = b'data: {"error":{"message":"too busy","code":529}}\n\n'
    translator = Translator(
        source="chat", target="anthropic", rendering=Rendering(stream_error_tail=tail)
    )

    out = run(translator, [ROLE, chunk({"content": "Par"}), error])

    found = types(out)
    assert ending == found[-len(ending) :]
    assert (
        "overloaded_error"
        == next(p for p in payloads(out) if p["type"] == "error")["error"]["type"]
    )


# --- S: the strict client's demands on the core -----------------------------------------------------


@pytest.mark.parametrize("source", DIALECT_NAMES)
@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_s_4_equal_requests_give_equal_bytes_and_are_not_changed(source: str, target: str) -> None:
    body = msgspec.json.encode(MINIMAL[source])

    first = translate_request(body, source=source, target=target)
    before = msgspec.json.encode(first.request)
    second = dialect(target).encode_request
    again = translate_request(body, source=source, target=target)

    assert callable(second)
    assert first.body == again.body
    assert before == msgspec.json.encode(first.request)
    assert body == msgspec.json.encode(MINIMAL[source])


def test_s_5_calls_keep_stream_order_fragments_are_verbatim_and_checked_when_complete() -> None:
    fragments = ['{ "a" :', " 1.0", "0e1 ", ', "b":"\\u00e9"', "}"]
    stream = [
        ROLE,
        chunk(call(0, "", id="c0", name="bash")),
        *(chunk(call(0, fragment)) for fragment in fragments),
        chunk(call(1, "{}", id="c1", name="bash")),
        chunk({}, "tool_calls"),
        DONE,
    ]

    out = payloads(run(kimi("anthropic"), stream))

    starts = [p["content_block"]["id"] for p in out if p["type"] == "content_block_start"]
    joined = "".join(
        p["delta"]["partial_json"]
        for p in out
        if p["type"] == "content_block_delta" and p["index"] == 0
    )
    assert ["c0", "c1"] == starts
    assert "".join(fragments) == joined


# --- G: the translation guide ------------------------------------------------------------------------


def test_g_1_states_are_idle_content_call_done() -> None:
    assert {TurnState.IDLE, TurnState.OPEN, TurnState.BLOCK, TurnState.ENDED} == set(TURN)
    assert TurnState.BLOCK == TURN[TurnState.OPEN][BlockStart]
    assert not set(TURN[TurnState.ENDED]) & {BlockStart, TextDelta, Fault}
    assert {BlockKind.TEXT, BlockKind.TOOL_CALL} <= set(BlockKind)


def test_g_2_a_messages_stream_has_its_events_in_order() -> None:
    assert [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ] == types(run(Translator(source="chat", target="anthropic"), TEXT))


def test_g_3_text_only() -> None:
    out = payloads(run(Translator(source="chat", target="anthropic"), TEXT))

    assert ["Hel", "lo."] == [p["delta"]["text"] for p in out if p["type"] == "content_block_delta"]
    assert "end_turn" == out[-2]["delta"]["stop_reason"]
    assert (12, 3) == (out[-2]["usage"]["input_tokens"], out[-2]["usage"]["output_tokens"])


def test_g_3_tool_only() -> None:
    out = payloads(run(Translator(source="chat", target="anthropic"), TOOL))

    start = next(p for p in out if p["type"] == "content_block_start")
    assert {"type": "tool_use", "id": "call_1", "name": "bash", "input": {}} == start[
        "content_block"
    ]
    assert "tool_use" == out[-2]["delta"]["stop_reason"]


def test_g_3_text_then_tools() -> None:
    stream = [
        ROLE,
        chunk({"content": "Looking."}),
        *TOOL[1:4],
        chunk(call(1, "{}", id="c2", name="bash")),
        *TOOL[4:],
    ]

    out = payloads(run(Translator(source="chat", target="anthropic"), stream))

    starts = [
        (p["index"], p["content_block"]["type"]) for p in out if p["type"] == "content_block_start"
    ]
    assert [(0, "text"), (1, "tool_use"), (2, "tool_use")] == starts
    stops = [p["index"] for p in out if p["type"] == "content_block_stop"]
    assert [0, 1, 2] == stops


def test_g_4_arguments_leave_as_they_arrive() -> None:
    translator = Translator(source="chat", target="anthropic", tools=TOOLS)
    outputs = [translator.feed(piece) for piece in TOOL]

    assert "content_block_start" == payloads(outputs[1])[-1]["type"]
    assert '{"comm' == payloads(outputs[2])[-1]["delta"]["partial_json"]
    assert 'and":"ls"}' == payloads(outputs[3])[-1]["delta"]["partial_json"]


@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_g_5_what_arrives_leaves_at_once(target: str) -> None:
    translator = Translator(source="chat", target=target)
    translator.feed(ROLE)

    for word in ("one", "two", "three"):
        assert word.encode() in translator.feed(chunk({"content": word}))


@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_g_6_an_interruption_is_reported_and_a_half_call_is_never_closed(target: str) -> None:
    translator = Translator(source="chat", target=target)

    out = run(translator, TOOL[:3])

    assert isinstance(translator.outcome, Fault)
    assert b"upstream stream terminated unexpectedly" in out
    for word in (b"content_block_stop", b'tool_use"}', b"arguments.done", b"output_item.done"):
        assert word not in out


def test_g_7_a_malformed_chunk_is_skipped_and_the_stream_goes_on() -> None:
    translator = Translator(source="chat", target="anthropic")

    out = run(translator, [TEXT[0], b"data: ][\n\n", *TEXT[1:]])

    assert "message_stop" == types(out)[-1]
    assert ["chunk_malformed"] == [loss.code for loss in translator.losses]


def test_g_9_memory_does_not_grow_with_the_answer() -> None:
    import tracemalloc

    translator = Translator(source="chat", target="anthropic")
    translator.feed(ROLE)
    piece = chunk({"content": "x" * 500})
    tracemalloc.start()
    translator.feed(piece)
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(2000):
        translator.feed(piece)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert after - before < 100_000


def test_g_10_responses_events_come_from_and_go_through_the_same_machine() -> None:
    there = run(Translator(source="chat", target="responses", seed="s"), TOOL)
    back = run(Translator(source="responses", target="anthropic", seed="s"), [there])

    assert ["response.created", "response.in_progress"] == types(there)[:2]
    assert "response.completed" == types(there)[-1]
    direct = run(Translator(source="chat", target="anthropic", seed="s"), TOOL)
    assert types(direct) == types(back)


def test_p_12_a_translation_holds_less_than_100_kb() -> None:
    import tracemalloc

    run(kimi("anthropic"), TOOL)  # what is read once and kept is not counted
    tracemalloc.start()
    translators = [kimi("anthropic") for _ in range(20)]
    for translator in translators:
        translator.feed(b"".join(TEXT[:3]))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held / len(translators) < 100_000


def best_ms(act: Callable[[], object], rounds: int = 200) -> float:
    """Return the shortest time: what the work takes when nothing else disturbs it."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return min(times) * 1000


def test_p_12_a_first_event_a_chunk_and_a_kimi_call_take_next_to_no_time() -> None:
    translator = kimi("anthropic")
    translator.feed(ROLE)
    piece = chunk({"content": "Some words of an answer."})

    first = best_ms(lambda: kimi("anthropic").feed(ROLE))
    each = best_ms(lambda: translator.feed(piece))
    call_ = best_ms(lambda: parse(KIMI_SECTION, format="kimi_k2"))

    assert first < 50
    assert each < 1
    assert call_ < 0.1 * SLOW_MACHINE


# --- P: native formats ---------------------------------------------------------------------------------

KIMI_SECTION = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
    '{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|>'
)
WEATHER = decode_tools(b'[{"name":"get_weather","input_schema":{"type":"object"}}]')


@pytest.mark.parametrize(
    ("model", "vendor"),
    [
        ("moonshot/kimi-k2", "kimi"),
        ("kimi-k2-instruct", "kimi"),
        ("KIMI-K2", "kimi"),
        ("qwen/qwen3-coder", "qwen"),
        ("qwen3-coder-plus", "qwen"),
        ("qwen-deepseek-mix", "hermes"),  # the older Qwen models write as Hermes does
        ("deepseek/deepseek-chat", "deepseek"),
        ("deepseek-r1", "deepseek"),
        ("DeepSeek-V3", "deepseek"),
        ("claude-3-opus", "standard"),
        ("gpt-4", "standard"),
        ("unknown/model", "standard"),
    ],
)
def test_p_1_the_family_follows_from_the_model(model: str, vendor: str) -> None:
    assert detect(model).startswith(vendor)


@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_p_2_a_kimi_section_in_a_complete_answer_is_a_call(target: str) -> None:
    translated = translate_body(
        completion({"content": KIMI_SECTION}, "stop"),
        source="chat",
        target=target,
        model="moonshot/kimi-k2",
        tools=WEATHER,
        seed="s",
    )

    (block,) = translated.answer.blocks
    assert ("functions.get_weather:0", "get_weather") == (block.call_id, block.name)
    assert {"city": "Oslo"} == msgspec.json.decode(block.text)
    call_id = {"anthropic": b"gx-functions-2eget_weather-3a0"}.get(
        target, b"functions.get_weather:0"
    )
    assert b'"%b"' % call_id in translated.body
    assert b"section" not in translated.body


@pytest.mark.parametrize("pieces", [1, 2, 5])
@pytest.mark.parametrize(
    "missing", ["", "<|tool_calls_section_end|>", "<|tool_call_end|><|tool_calls_section_end|>"]
)
def test_p_3_the_same_streamed_in_pieces_and_without_its_end(pieces: int, missing: str) -> None:
    text = KIMI_SECTION.removesuffix(missing)
    step = len(text) // pieces + 1
    chunks = [chunk({"content": text[at : at + step]}) for at in range(0, len(text), step)]
    translator = Translator(
        source="chat", target="anthropic", model="moonshot/kimi-k2", tools=WEATHER, seed="s"
    )

    out = payloads(run(translator, [ROLE, *chunks, chunk({}, "stop"), DONE]))

    joined = "".join(p["delta"]["partial_json"] for p in out if p["type"] == "content_block_delta")
    assert '{"city": "Oslo"}' == joined
    assert (
        "tool_use" == next(p for p in out if p["type"] == "message_delta")["delta"]["stop_reason"]
    )


@pytest.mark.parametrize("stray", ["<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_call"])
def test_p_3_stray_token_at_the_end_is_dropped_and_reported(stray: str) -> None:
    translator = Translator(
        source="chat", target="anthropic", model="moonshot/kimi-k2", tools=WEATHER
    )

    out = payloads(
        run(translator, [ROLE, chunk({"content": f"a {stray}"}), chunk({}, "stop"), DONE])
    )

    text = "".join(p["delta"]["text"] for p in out if p["type"] == "content_block_delta")
    assert "a " == text
    assert ("native_noise_dropped", stray) in [
        (loss.code, loss.excerpt) for loss in translator.losses
    ]


@pytest.mark.parametrize(
    "broken", ["<|tool_calls_section_begin|>hm", "<|tool_call_argument_begin|>{}"]
)
def test_p_3_malformed_tokens_are_text(broken: str) -> None:
    translator = Translator(
        source="chat", target="anthropic", model="moonshot/kimi-k2", tools=WEATHER
    )

    out = payloads(
        run(translator, [ROLE, chunk({"content": f"a {broken}"}), chunk({}, "stop"), DONE])
    )

    text = "".join(p["delta"]["text"] for p in out if p["type"] == "content_block_delta")
    assert f"a {broken}" == text
