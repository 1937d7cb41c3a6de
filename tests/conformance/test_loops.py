"""A tool loop over two turns, for all nine pairs of client and upstream.

The upstream must get back its own ids and its own reasoning state, whatever the client speaks.
"""

from typing import Any

import msgspec
import pytest

from dragoman.dialects import DIALECT_NAMES
from dragoman.translate import translate_body
from dragoman.translate_requests import translate_request
from tests.support.corpus import SEALER
from tests.support.turns import echo, request

UPSTREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": (
        "anthropic",
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [
                {"type": "thinking", "thinking": "Both, then.", "signature": "EqQBsignature"},
                {"type": "text", "text": "Looking."},
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "get_weather",
                    "input": {"city": "Oslo"},
                },
                {
                    "type": "tool_use",
                    "id": "toolu_2",
                    "name": "get_weather",
                    "input": {"city": "Rome"},
                },
            ],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 9, "output_tokens": 33},
        },
    ),
    "chat": (
        "moonshot",
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "kimi-k2-thinking",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls",
                    "message": {
                        "role": "assistant",
                        "content": "Looking.",
                        "reasoning_content": "Both, then.",
                        "tool_calls": [
                            {
                                "id": f"functions.get_weather:{at}",
                                "type": "function",
                                "function": {
                                    "name": "get_weather",
                                    "arguments": f'{{"city":"{city}"}}',
                                },
                            }
                            for at, city in enumerate(["Oslo", "Rome"])
                        ],
                    },
                }
            ],
            "usage": {"prompt_tokens": 9, "completion_tokens": 33, "total_tokens": 42},
        },
    ),
    "responses": (
        "openai",
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": "gpt",
            "output": [
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": "Both, then."}],
                    "encrypted_content": "gAAAencrypted",
                },
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "Looking.", "annotations": []}],
                },
                *(
                    {
                        "type": "function_call",
                        "id": f"fc_{at}",
                        "call_id": f"call_{at}",
                        "name": "get_weather",
                        "arguments": f'{{"city":"{city}"}}',
                        "status": "completed",
                    }
                    for at, city in enumerate(["Oslo", "Rome"])
                ),
            ],
            "usage": {
                "input_tokens": 9,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 33,
                "output_tokens_details": {"reasoning_tokens": 5},
                "total_tokens": 42,
            },
        },
    ),
}


def second_turn(client: str, upstream: str) -> dict[str, Any]:
    """Let a client answer the upstream's calls; return the request that reaches the upstream."""
    profile, answer = UPSTREAMS[upstream]
    first = translate_request(
        msgspec.json.encode(request(client, [])),
        source=client,
        target=upstream,
        profile=profile,
        sealer=SEALER,
    )
    translated = translate_body(
        msgspec.json.encode(answer),
        source=upstream,
        target=client,
        profile=profile,
        request=first.request,
        sealer=SEALER,
        seed="s",
    )
    history = echo(client, msgspec.json.decode(translated.body), ["4 degrees", "21 degrees"])
    second = translate_request(
        msgspec.json.encode(request(client, history)),
        source=client,
        target=upstream,
        profile=profile,
        sealer=SEALER,
    )
    assert b"dgm1." not in second.body
    assert b'"gx-' not in second.body
    return msgspec.json.decode(second.body)


@pytest.mark.parametrize("client", DIALECT_NAMES)
def test_d1_e1_kimi_gets_its_ids_and_reasoning_back(client: str) -> None:
    body = second_turn(client, "chat")

    messages = body["messages"]
    assistant = next(message for message in messages if message["role"] == "assistant")
    results = [message for message in messages if message["role"] == "tool"]
    assert "Both, then." == assistant["reasoning_content"]
    assert "Looking." == assistant["content"]
    ids = [call["id"] for call in assistant["tool_calls"]]
    assert ["functions.get_weather:0", "functions.get_weather:1"] == ids
    assert [call["function"]["arguments"] for call in assistant["tool_calls"]] == [
        '{"city":"Oslo"}',
        '{"city":"Rome"}',
    ]
    assert [(one["tool_call_id"], one["content"]) for one in results] == [
        (ids[0], "4 degrees"),
        (ids[1], "21 degrees"),
    ]


@pytest.mark.parametrize("client", ["anthropic", "responses"])
def test_e5_claude_gets_its_signed_thinking_back(client: str) -> None:
    body = second_turn(client, "anthropic")

    assistant = next(message for message in body["messages"] if message["role"] == "assistant")
    assert {
        "type": "thinking",
        "thinking": "Both, then.",
        "signature": "EqQBsignature",
    } == assistant["content"][0]
    assert ["toolu_1", "toolu_2"] == [
        block["id"] for block in assistant["content"] if block["type"] == "tool_use"
    ]
    results = body["messages"][-1]["content"]
    assert ["toolu_1", "toolu_2"] == [block["tool_use_id"] for block in results]


def test_a_chat_client_cannot_return_signed_thinking_and_thinking_is_off() -> None:
    body = second_turn("chat", "anthropic")

    assistant = next(message for message in body["messages"] if message["role"] == "assistant")
    assert "thinking" not in [block["type"] for block in assistant["content"]]
    assert body.get("thinking", {"type": "disabled"})["type"] == "disabled"


@pytest.mark.parametrize("client", ["anthropic", "responses"])
def test_openai_gets_its_encrypted_reasoning_back(client: str) -> None:
    body = second_turn(client, "responses")

    items = body["input"]
    reasoning = next(item for item in items if item.get("type") == "reasoning")
    assert "gAAAencrypted" == reasoning["encrypted_content"]
    calls = [item for item in items if item.get("type") == "function_call"]
    outputs = [item for item in items if item.get("type") == "function_call_output"]
    assert ["call_0", "call_1"] == [item["call_id"] for item in calls]
    assert ["call_0", "call_1"] == [item["call_id"] for item in outputs]
    assert items.index(reasoning) < items.index(calls[0])


def test_a_chat_client_of_openai_keeps_ids_and_results() -> None:
    body = second_turn("chat", "responses")

    outputs = [item for item in body["input"] if item.get("type") == "function_call_output"]
    assert [("call_0", "4 degrees"), ("call_1", "21 degrees")] == [
        (item["call_id"], item["output"]) for item in outputs
    ]
