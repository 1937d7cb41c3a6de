"""The front door: requests from a dialect into itself, tools of any shape, errors of both sides."""

import json

import msgspec
import pytest

from dragoman import (
    ConfigError,
    Limits,
    MalformedError,
    MisuseError,
    Sealer,
    TooLargeError,
    Translator,
    decode_tools,
    error_response,
    json_format,
    translate_body,
    translate_error,
    translate_request,
)
from dragoman.dialects import DIALECT_NAMES
from dragoman.turn.events import Fault, FaultKind, Finish, FinishReason
from dragoman.turn.request import Request
from tests.support.chat import DONE, USAGE, call, chunk, payloads, types

MESSAGES = b'[{"role": "user",  "content": "x"}]'


def test_e6_a_request_into_the_same_dialect_keeps_its_bytes() -> None:
    body = b'{ "model":"m", "messages":%b, "weird": {"b":1, "a": 1.50} }' % MESSAGES

    out = translate_request(body, source="chat", target="chat")

    assert body == out.body


def test_e6_only_the_model_is_rewritten() -> None:
    body = b'{"model":"m","messages":%b,"weird":{"b":1, "a": 1.50}}' % MESSAGES

    out = translate_request(body, source="chat", target="chat", model="up")

    assert b'{"model":"up","messages":%b,"weird":{"b":1, "a": 1.50}}' % MESSAGES == out.body


@pytest.mark.parametrize(
    "change",
    [
        {"conversation": "conv_1"},
        {"background": True},
        {"input": [{"type": "item_reference", "id": "msg_1"}]},
        {"input": [{"role": "user", "content": [{"type": "hologram", "data": "x"}]}]},
    ],
)
def test_what_only_the_vendor_understands_passes_to_its_own_dialect(
    change: dict[str, object],
) -> None:
    body = msgspec.json.encode({"model": "m", "input": "x", **change})

    assert body == translate_request(body, source="responses", target="responses").body
    with pytest.raises(MalformedError):
        translate_request(body, source="responses", target="chat")


def test_d1_ids_of_kimi_are_restored_for_a_chat_client_too() -> None:
    history = [
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [
                {
                    "id": "gx-functions-2ebash-3a7",
                    "type": "function",
                    "function": {"name": "bash", "arguments": '{"a": 1.0}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "gx-functions-2ebash-3a7", "content": "y"},
    ]
    body = msgspec.json.encode({"model": "m", "messages": history, "top_k": 3})

    out = msgspec.json.decode(
        translate_request(body, source="chat", target="chat", profile="moonshot").body
    )

    called, result = out["messages"][1], out["messages"][2]
    assert "functions.bash:0" == called["tool_calls"][0]["id"] == result["tool_call_id"]
    assert '{"a": 1.0}' == called["tool_calls"][0]["function"]["arguments"]
    assert 3 == out["top_k"]


def test_h2_the_same_conversation_one_turn_on_has_the_same_beginning() -> None:
    turn = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    tools = [{"name": "f", "input_schema": {"type": "object", "b": 1, "a": 2}}]
    bodies = []
    for messages in (turn[:1], [*turn, {"role": "user", "content": "z"}]):
        body = {"model": "m", "max_tokens": 9, "system": "s", "tools": tools, "messages": messages}
        out = translate_request(msgspec.json.encode(body), source="anthropic", target="chat")
        bodies.append(msgspec.json.decode(out.body))

    assert msgspec.json.encode(bodies[0]["tools"]) == msgspec.json.encode(bodies[1]["tools"])
    assert bodies[0]["messages"] == bodies[1]["messages"][: len(bodies[0]["messages"])]


def test_tools_are_read_in_the_shape_of_any_dialect() -> None:
    tools = decode_tools(
        b'[{"type":"function","function":{"name":"a","parameters":{"type":"object"}}},'
        b'{"name":"b","input_schema":{"type":"object"}},'
        b'{"type":"function","name":"c","parameters":{"type":"object"},"strict":false},'
        b'{"type":"custom","name":"d"}]'
    )

    assert ["a", "b", "c", "d"] == [tool.name for tool in tools]
    assert "custom" == tools[3].flavor


@pytest.mark.parametrize("body", [b"{}", b"[1]", b"not json", b'[{"type":"function"}]'])
def test_tools_of_no_shape_are_refused(body: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_tools(body)


def test_a_request_past_its_limit_is_refused_with_413() -> None:
    with pytest.raises(TooLargeError) as caught:
        translate_request(
            b"x" * 11, source="chat", target="chat", limits=Limits(max_request_bytes=10)
        )

    status, body = error_response(caught.value, target="anthropic")
    assert 413 == status
    assert "request_too_large" == msgspec.json.decode(body)["error"]["type"]


def test_unknown_names_are_the_operators_mistake() -> None:
    with pytest.raises(ConfigError, match="no dialect"):
        Translator(source="smtp", target="chat")
    with pytest.raises(ConfigError, match="no profile"):
        Translator(source="chat", target="chat", profile="nobody")


@pytest.mark.parametrize("source", DIALECT_NAMES)
@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_an_error_of_the_upstream_becomes_one_of_the_client(source: str, target: str) -> None:
    error = {"type": "rate_limit_error", "message": "slow down", "code": "rate_limit_exceeded"}
    body = msgspec.json.encode({"type": "error", "error": error})

    status, out = translate_error(429, body, source=source, target=target)

    assert 429 == status
    assert "slow down" in msgspec.json.decode(out)["error"]["message"]


def test_the_machine_refuses_to_go_on_after_its_end() -> None:
    translator = Translator(source="chat", target="anthropic")
    translator.close()

    with pytest.raises(MisuseError):
        translator.feed(b"data: {}\n\n")
    with pytest.raises(MisuseError):
        translator.close()


@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_a_failure_found_by_the_shell_is_reported_in_the_clients_dialect(target: str) -> None:
    translator = Translator(source="chat", target=target)
    first = translator.feed(chunk({"role": "assistant", "content": "Par"}))

    out = translator.fail(Fault(FaultKind.TIMEOUT, "the upstream said nothing for 120 s"))

    assert b"Par" in first
    assert b"the upstream said nothing" in out
    assert b"" == translator.feed(chunk({"content": "late"}))
    assert b"" == translator.close()


def test_a_failure_in_a_relay_comes_after_what_was_relayed() -> None:
    translator = Translator(source="chat", target="chat", limits=Limits(max_sse_event_bytes=400))
    good = chunk({"content": "kept"})

    out = translator.feed(good + chunk({"content": "x" * 500}))

    assert isinstance(translator.outcome, Fault)
    assert "max_sse_event_bytes" == translator.outcome.code
    assert "[DONE]" == payloads(out)[-1]


def test_stop_sequences_that_the_upstream_cannot_match_cut_the_answer() -> None:
    translator = Translator(source="chat", target="anthropic", stop=["END", "never"])

    out = b"".join(
        translator.feed(chunk({"content": text}))
        for text in ("one E", "N", "OUGH two EN", "D three")
    )

    text = "".join(p["delta"]["text"] for p in payloads(out) if p["type"] == "content_block_delta")
    assert "one ENOUGH two " == text
    assert translator.done
    ending = next(p for p in payloads(out) if p["type"] == "message_delta")
    assert ("stop_sequence", "END") == (
        ending["delta"]["stop_reason"],
        ending["delta"]["stop_sequence"],
    )


def test_stop_sequences_hold_nothing_back_at_the_end() -> None:
    translator = Translator(source="chat", target="anthropic", stop=["END"])

    out = (
        translator.feed(chunk({"content": "the E"}) + chunk({}, "stop") + DONE) + translator.close()
    )

    assert b'"E"' in out or b"the E" in out
    assert "message_stop" == types(out)[-1]


def test_a_relay_that_matches_stop_sequences_writes_the_end_itself() -> None:
    translator = Translator(source="chat", target="chat", stop=["END"])
    stream = (
        chunk({"content": "a"}) + chunk({"content": "b END c"}) + chunk({}, "stop") + USAGE + DONE
    )

    out = payloads(translator.feed(stream) + translator.close())

    assert "ab " == "".join(
        p["choices"][0]["delta"].get("content", "") for p in out[:-1] if p["choices"]
    )
    assert "[DONE]" == out[-1]
    assert 1 == out.count("[DONE]")


def test_b9_a_relay_repairs_the_finish_reason() -> None:
    stream = [
        chunk({"role": "assistant", "content": None}),
        chunk(call(0, "{}", id="c", name="f")),
        chunk({}, "stop"),
        DONE,
    ]
    translator = Translator(source="chat", target="chat")

    out = b"".join(translator.feed(piece) for piece in stream) + translator.close()

    assert b"".join(stream[:2]) == out[: len(b"".join(stream[:2]))]
    reasons = [c["finish_reason"] for p in payloads(out)[:-1] for c in p["choices"]]
    assert ["tool_calls"] == [reason for reason in reasons if reason]


def d6_request() -> Request:
    """Return a request in whose history a call has the id `call_0`."""
    made = {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": "call_0", "content": "y"},
        ],
    }
    return translate_request(msgspec.json.encode(body), source="chat", target="chat").request


def d6_ids(out: bytes) -> list[str]:
    return [
        one["id"]
        for p in payloads(out)[:-1]
        for c in p["choices"]
        for one in c["delta"].get("tool_calls", [])
        if "id" in one
    ]


def test_d6_a_relay_keeps_apart_ids_that_the_history_used() -> None:
    translator = Translator(source="chat", target="chat", request=d6_request(), sealer=Sealer(b"k"))

    out = translator.feed(
        chunk(call(0, "{}", id="call_0", name="f")) + chunk({}, "tool_calls") + DONE
    )

    assert ["gx1-call_0"] == d6_ids(out)


def test_d6_a_relay_keeps_apart_ids_that_the_answer_itself_used() -> None:
    translator = Translator(source="chat", target="chat")

    out = translator.feed(
        chunk(call(0, '{"a":1}', id="call_0", name="f"))
        + chunk(call(1, '{"a":2}', id="call_0", name="f"))
        + chunk({}, "tool_calls")
        + DONE
    )

    assert ["call_0", "gx1-call_0"] == d6_ids(out)


def test_d6_a_relayed_body_keeps_apart_ids_that_were_used() -> None:
    made = {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [made, made]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = msgspec.json.encode({"id": "c", "model": "m", "choices": [choice]})

    translated = translate_body(body, source="chat", target="chat", request=d6_request())

    (choice,) = msgspec.json.decode(translated.body)["choices"]
    ids = [one["id"] for one in choice["message"]["tool_calls"]]
    assert ["gx1-call_0", "gx2-call_0"] == ids


def test_a_format_is_given_in_place_of_a_name() -> None:
    acme = json_format("acme", open="<acme>", close="</acme>")
    text = 'Look.<acme>{"name": "ls", "arguments": {}}</acme>'
    body = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()

    translated = translate_body(body, source="chat", target="anthropic", native_format=acme)

    assert ["text", "tool_use"] == [one["type"] for one in json.loads(translated.body)["content"]]


_BAD_BYTES = {
    "anthropic": (
        b'data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m",'
        b'"content":[],"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
        b'data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f",'
        b'"input":{"a":"%b"}}}\n\n'
        b'data: {"type":"content_block_stop","index":0}\n\n'
        b'data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}\n\n'
        b'data: {"type":"message_stop"}\n\n'
    ),
    "chat": (
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","type":"function",'
        b'"extra_content":{"b":"%b"},"function":{"name":"f","arguments":{"a":"%b"}}}]},'
        b'"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
    ),
    "responses": (
        b'data: {"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}}\n\n'
        b'data: {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"i",'
        b'"call_id":"t","name":"f","arguments":"{\\"a\\":\\"%b\\"}","status":"completed"}}\n\n'
        b'data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}\n\n'
    ),
    "gemini": (
        b'data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"f",'
        b'"args":{"a":"%b"}}}]},"finishReason":"STOP"}]}\n\n'
    ),
}


@pytest.mark.parametrize("target", DIALECT_NAMES)
@pytest.mark.parametrize("source", DIALECT_NAMES)
def test_bytes_that_are_not_utf8_cost_no_answer(source: str, target: str) -> None:
    translator = Translator(source=source, target=target, model="m", seed="s")
    stream = _BAD_BYTES[source].replace(b"%b", b"x\xa3y")

    written = translator.feed(stream) + translator.close()

    assert translator.outcome == Finish(FinishReason.TOOL_CALLS)
    if source == target:  # a frame may pass as it came
        written = written.replace(b"\xa3", "\N{REPLACEMENT CHARACTER}".encode())
    assert "x\N{REPLACEMENT CHARACTER}y" in written.decode()


def test_text_instead_of_an_object_of_arguments_may_have_bytes_that_are_not_utf8() -> None:
    stream = _BAD_BYTES["gemini"].replace(b'{"a":"%b"}', b'"\xa3"')
    translator = Translator(source="gemini", target="chat", model="m", seed="s")

    written = translator.feed(stream) + translator.close()

    assert "\N{REPLACEMENT CHARACTER}" in written.decode()
