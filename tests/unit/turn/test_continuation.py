"""A paused answer and the one that continues it are one answer for the client."""

import json
from typing import Any

import pytest
from tests.support.corpus import ROOT
from tests.support.sdks import accumulate

from dragoman.dialects import dialect
from dragoman.errors import MisuseError, UntranslatableError
from dragoman.limits import DEFAULT_LIMITS as LIMITS
from dragoman.translate import Translator, translate_body
from dragoman.translate_requests import translate_request
from dragoman.turn.answer import Answer, Block
from dragoman.turn.continuation import Continuation
from dragoman.turn.events import (
    BlockKind,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    Start,
    Usage,
)
from dragoman.turn.server_tools import TOO_OFTEN, ServerCall, ServerKind

KIMI = (ROOT / "chat/search_kimi/stream.sse").read_bytes()
ASKED: dict[str, Any] = {
    "model": "kimi-k2.5",
    "max_tokens": 900,
    "messages": [{"role": "user", "content": "Perform a web search for the query: oslo"}],
    "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
    "tool_choice": {"type": "auto"},
}
ARGUMENTS = '{"search_result": {"search_id": "0f"},"usage":{"total_tokens":13046}}'


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    one = {"id": "2", "model": "kimi-k2.5", "choices": [{"delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(one | more).encode() + b"\n\n"


ANSWER = (
    chunk({"role": "assistant", "content": "It is "})
    + chunk({"content": "4 degrees."})
    + chunk({}, "stop", usage={"prompt_tokens": 13_060, "completion_tokens": 6})
    + b"data: [DONE]\n\n"
)


def translator(**options: Any) -> Translator:
    request = dialect("anthropic").decode_request
    read = request(json.dumps(ASKED).encode(), sealer=None, limits=LIMITS)
    return Translator(
        source="chat", target="anthropic", profile="moonshot", request=read, seed="s", **options
    )


def test_moonshots_search_is_echoed_to_the_byte_and_the_client_sees_one_answer() -> None:
    sent = translate_request(
        json.dumps(ASKED).encode(),
        source="anthropic",
        target="chat",
        profile="moonshot",
        continues=True,
    )
    one = translator(continues=True)
    out = one.feed(KIMI) + one.close()

    assert one.paused is not None
    assert not one.done
    again = dialect("chat").continue_request
    assert again is not None
    body = json.loads(again(sent.body, one.paused))
    user, said, result = body["messages"]
    assert "user" == user["role"]
    assert ARGUMENTS == said["tool_calls"][0]["function"]["arguments"] == result["content"]
    assert ("tool", "$web_search:0", "$web_search") == (
        result["role"],
        result["tool_call_id"],
        result["name"],
    )
    assert json.loads(sent.body)["tools"] == body["tools"]

    one.resume()
    out += one.feed(ANSWER) + one.close()
    message = accumulate("anthropic", out)
    kinds = ["server_tool_use", "text", "web_search_tool_result"]
    assert kinds == [block["type"] for block in message["content"]]
    assert "It is 4 degrees." == message["content"][1]["text"]
    assert "end_turn" == message["stop_reason"]
    assert (13_069, 22) == (message["usage"]["input_tokens"], message["usage"]["output_tokens"])
    assert 1 == message["usage"]["server_tool_use"]["web_search_requests"]


def test_complete_bodies_are_joined_in_the_same_way() -> None:
    call = {
        "id": "$web_search:0",
        "type": "builtin_function",
        "function": {"name": "$web_search", "arguments": ARGUMENTS},
    }
    first = {
        "choices": [
            {"message": {"content": "", "tool_calls": [call]}, "finish_reason": "tool_calls"}
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 16},
    }
    second = {
        "choices": [{"message": {"content": "It is cold."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 4},
    }
    options: dict[str, Any] = {"source": "chat", "target": "responses", "profile": "moonshot"}
    begun = json.dumps(first).encode()
    part = translate_body(begun, pause="return", **options)
    whole = translate_body(json.dumps(second).encode(), earlier=[begun], **options)

    assert part.paused is not None
    assert (b"", FinishReason.PAUSE) == (part.body, part.paused.finish_reason)
    body = json.loads(whole.body)
    assert ["web_search_call", "message"] == [item["type"] for item in body["output"]]
    assert (99, 20) == (body["usage"]["input_tokens"], body["usage"]["output_tokens"])


def test_a_shell_that_sends_no_second_request_gets_no_such_search() -> None:
    with pytest.raises(UntranslatableError, match="needs the tool `web_search`"):
        translate_request(
            json.dumps(ASKED).encode(), source="anthropic", target="chat", profile="moonshot"
        )


def test_an_answer_that_pauses_too_often_ends() -> None:
    one = translator(continues=True)
    out = one.feed(KIMI) + one.close()
    one.resume()
    out += one.feed(KIMI) + one.close() + one.give_up()

    message = accumulate("anthropic", out)
    assert "end_turn" == message["stop_reason"]
    assert 2 == sum(block["type"] == "server_tool_use" for block in message["content"])
    assert "continuation_capped" in [loss.code for loss in one.losses]
    assert one.done


def test_a_pause_passes_where_nobody_continues() -> None:
    one = translator()

    assert b'"stop_reason":"pause_turn"' in one.feed(KIMI) + one.close()
    assert one.paused is None
    with pytest.raises(MisuseError):
        one.resume()
    with pytest.raises(MisuseError):
        one.give_up()


def test_anthropics_pause_is_continued_with_its_content_unchanged() -> None:
    def event(**fields: Any) -> bytes:
        return f"event: {fields['type']}\ndata: {json.dumps(fields)}\n\n".encode()

    def part(index: int, block: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
        begun = event(type="content_block_start", index=index, content_block=block)
        more = [event(type="content_block_delta", index=index, delta=one) for one in deltas]
        return begun + b"".join(more) + event(type="content_block_stop", index=index)

    def ending(reason: str, tokens: int) -> bytes:
        delta = {"stop_reason": reason, "stop_sequence": None}
        usage = {"output_tokens": tokens}
        stop = event(type="message_stop")
        return event(type="message_delta", delta=delta, usage=usage) + stop

    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": []}
    start = event(type="message_start", message=head | {"usage": {"input_tokens": 7}})
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {"type": "web_search_result", "url": "https://a.example", "title": "A"}
            | {"encrypted_content": "Eq", "page_age": None}
        ],
    }
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    first = (
        start
        + part(
            0,
            thinking,
            {"type": "thinking_delta", "thinking": "Hm."},
            {"type": "signature_delta", "signature": "sig"},
        )
        + part(1, call, {"type": "input_json_delta", "partial_json": '{"query":"oslo"}'})
        + ending("pause_turn", 3)
    )
    text = {"type": "text", "text": ""}
    second = (
        start
        + part(0, found)
        + part(1, text, {"type": "text_delta", "text": "It is cold."})
        + ending("end_turn", 4)
    )
    one = Translator(source="anthropic", target="responses", profile="anthropic", continues=True)
    out = one.feed(first) + one.close()

    assert one.paused is not None
    again = dialect("anthropic").continue_request
    assert again is not None
    body = json.loads(again(b'{"messages":[{"role":"user","content":"oslo?"}]}', one.paused))
    assert [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        call | {"input": {"query": "oslo"}},
    ] == body["messages"][1]["content"]

    one.resume()
    response = accumulate("responses", out + one.feed(second) + one.close())
    kinds = [item["type"] for item in response["output"]]
    assert ["reasoning", "web_search_call", "message"] == [
        kind for at, kind in enumerate(kinds) if kind != "reasoning" or at == 0
    ]
    assert "oslo" == next(i for i in response["output"] if "action" in i)["action"]["query"]
    assert (14, 7) == (response["usage"]["input_tokens"], response["usage"]["output_tokens"])


@pytest.mark.parametrize(
    ("name", "body", "later"),
    [
        ("chat", {"tool_choice": "required"}, "auto"),
        ("chat", {"tool_choice": "none"}, "none"),
        ("chat", {}, None),
        ("anthropic", {"tool_choice": {"type": "any"}}, {"type": "auto"}),
        ("anthropic", {"tool_choice": {"type": "tool", "name": "web_search"}}, {"type": "auto"}),
        ("anthropic", {"tool_choice": {"type": "none"}}, {"type": "none"}),
        ("anthropic", {"tool_choice": None}, None),
    ],
)
def test_a_tool_that_was_forced_and_used_is_not_forced_again(
    name: str, body: dict[str, Any], later: Any
) -> None:
    call = Block(BlockKind.SERVER_CALL, server=ServerCall(ServerKind.WEB_SEARCH))
    again = dialect(name).continue_request
    assert again is not None
    made = json.loads(again(json.dumps(body).encode(), Answer(Start(), (call,))))

    assert later == made.get("tool_choice")


def test_the_parts_of_a_paused_turn_are_one_message() -> None:
    again = dialect("anthropic").continue_request
    assert again is not None
    body = b'{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}'
    made = json.loads(again(body, Answer(Start(), (Block(BlockKind.TEXT, text="c"),))))

    texts = [{"type": "text", "text": one} for one in "bc"]
    assert {"role": "assistant", "content": texts} == made["messages"][1]


def paused() -> Translator:
    one = translator(continues=True)
    one.feed(KIMI)
    return one


def test_a_response_that_fails_before_content_leaves_the_answer_waiting() -> None:
    one = paused()
    assert one.halted
    assert one.repeatable
    one.resume()
    assert not one.halted
    refused = b'data: {"error": {"message": "too busy", "code": 503}}\n\n'
    assert b"" == one.feed(refused)
    assert one.halted
    assert one.repeatable
    assert one.outcome is None
    assert one.failure is not None
    assert "too busy" in one.failure.message

    one.resume()  # the same request again
    assert one.failure is None
    out = one.feed(ANSWER) + one.close()
    assert b"4 degrees." in out
    assert Finish(FinishReason.STOP) == one.outcome
    assert (13_069, 22) == (one.spent.input_tokens, one.spent.output_tokens)


def test_a_response_that_fails_after_content_ends_the_answer() -> None:
    one = paused()
    one.resume()
    one.feed(ANSWER[: ANSWER.index(b"\n\n") + 2])
    assert not one.repeatable
    out = one.feed(b'data: {"error": {"message": "too busy", "code": 503}}\n\n')

    assert b"event: error" in out
    assert isinstance(one.outcome, Fault)
    assert one.done


@pytest.mark.parametrize("resumed", [False, True])
def test_the_shell_may_end_a_paused_answer_with_a_failure(resumed: bool) -> None:
    one = paused()
    if resumed:
        one.resume()
    out = one.fail(Fault(FaultKind.TIMEOUT, "too slow"))

    assert b"too slow" in out
    assert isinstance(one.outcome, Fault)
    assert 1 == one.spent.searches


def test_a_call_that_was_not_sent_back_has_failed_and_those_before_have_not() -> None:
    one = paused()
    one.resume()
    out = one.feed(KIMI) + one.give_up()
    shown = [line[6:] for line in out.decode().splitlines() if "web_search_tool_result" in line]
    results = [json.loads(line)["content_block"]["content"] for line in shown]

    assert [[], {"type": "web_search_tool_result_error", "error_code": TOO_OFTEN}] == results


def test_bodies_end_at_a_pause_if_the_shell_wants_it() -> None:
    call = {"id": "$web_search:0", "function": {"name": "$web_search", "arguments": ARGUMENTS}}
    message = {"content": "", "tool_calls": [call | {"type": "builtin_function"}]}
    body = json.dumps(
        {
            "choices": [{"message": message, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 16},
        }
    ).encode()
    options: dict[str, Any] = {"source": "chat", "target": "anthropic", "profile": "moonshot"}
    ended = translate_body(body, earlier=[body, body], pause="end", **options)

    assert "continuation_capped" in [loss.code for loss in ended.losses]
    made = json.loads(ended.body)
    assert ("end_turn", 27) == (made["stop_reason"], made["usage"]["input_tokens"])
    assert 3 == made["usage"]["server_tool_use"]["web_search_requests"]


def test_a_body_that_continues_and_fails_is_a_failure() -> None:
    options: dict[str, Any] = {"source": "chat", "target": "anthropic", "profile": "moonshot"}
    failed = translate_body(b'{"error": {"message": "too busy"}}', earlier=[KIMI], **options)

    assert failed.answer.fault is not None
    assert failed.status >= 500


def test_costs_are_added() -> None:
    continuation = Continuation()
    continuation.feed([Start(), Usage(1, 2, cost=0.5, final=True), Finish(FinishReason.PAUSE)])
    continuation.resume()
    events = continuation.feed(
        [Start(), Usage(10, 20, cost=0.25, estimated=True, final=True), Finish(FinishReason.STOP)]
    )

    total = Usage(11, 22, cost=0.75, estimated=True, final=True)
    assert [total, Finish(FinishReason.STOP)] == events
