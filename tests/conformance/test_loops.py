"""A tool loop over two turns, for all pairs of client and upstream.

The upstream must get back its own ids and its own reasoning state, whatever the client speaks.
"""

from collections.abc import Callable
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
    "gemini": (
        "gemini-api",
        {
            "responseId": "r_1",
            "modelVersion": "gemini-3-pro",
            "candidates": [
                {
                    "index": 0,
                    "finishReason": "STOP",
                    "content": {
                        "role": "model",
                        "parts": [
                            {"text": "Both, then.", "thought": True},
                            {"text": "Looking."},
                            {
                                "functionCall": {
                                    "id": "k1",
                                    "name": "get_weather",
                                    "args": {"city": "Oslo"},
                                },
                                "thoughtSignature": "U0lHTkVE",
                            },
                            {
                                "functionCall": {
                                    "id": "k2",
                                    "name": "get_weather",
                                    "args": {"city": "Rome"},
                                }
                            },
                        ],
                    },
                }
            ],
            "usageMetadata": {
                "promptTokenCount": 9,
                "candidatesTokenCount": 28,
                "thoughtsTokenCount": 5,
                "totalTokenCount": 42,
            },
        },
    ),
}


# --- what Gemini clients make of an answer before they send it back --------------------------------


def without_thoughts(history: list[Any]) -> list[Any]:
    """Gemini CLI drops every thought, and keeps the signatures of calls."""
    return _with_parts(history, lambda part: None if part.get("thought") else part)


def without_ids(history: list[Any]) -> list[Any]:
    """langchain-google-genai sends no ids at all."""
    return _with_parts(history, lambda part: _drop_id(part, "functionCall", "functionResponse"))


def without_result_ids(history: list[Any]) -> list[Any]:
    """The Python SDK's automatic calling answers without ids; its base64 is in the other alphabet."""
    history = _with_parts(history, lambda part: _drop_id(part, "functionResponse"))
    return _with_parts(history, _other_alphabet)


def one_content_for_each_part(history: list[Any]) -> list[Any]:
    """The chats helpers replay one content for each chunk."""
    return [{**content, "parts": [part]} for content in history for part in content["parts"]]


def _with_parts(history: list[Any], change: Callable[[Any], Any]) -> list[Any]:
    changed = [[change(part) for part in content["parts"]] for content in history]
    return [
        {**content, "parts": [part for part in parts if part is not None]}
        for content, parts in zip(history, changed, strict=True)
    ]


def _drop_id(part: dict[str, Any], *names: str) -> dict[str, Any]:
    return {
        key: {k: v for k, v in value.items() if k != "id"} if key in names else value
        for key, value in part.items()
    }


def _other_alphabet(part: dict[str, Any]) -> dict[str, Any]:
    if "thoughtSignature" not in part:
        return part
    signature = part["thoughtSignature"].replace("+", "-").replace("/", "_")
    return {**part, "thoughtSignature": signature}


HABITS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "verbatim": lambda history: history,
    "without thoughts": without_thoughts,
    "without ids": without_ids,
    "without ids of results": without_result_ids,
    "one content for each part": one_content_for_each_part,
}


def second_turn(client: str, upstream: str, habit: str = "verbatim") -> dict[str, Any]:
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
    history = HABITS[habit](history)
    second = translate_request(
        msgspec.json.encode(request(client, history)),
        source=client,
        target=upstream,
        profile=profile,
        sealer=SEALER,
    )
    assert b"dgm1." not in second.body
    assert b"ZGdtMS4" not in second.body  # the same in base64
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


@pytest.mark.parametrize("client", ["anthropic", "responses", "gemini"])
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


@pytest.mark.parametrize("client", ["anthropic", "responses", "gemini"])
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


# --- Gemini ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", DIALECT_NAMES)
def test_gemini_gets_its_ids_and_the_signature_of_its_call_back(client: str) -> None:
    body = second_turn(client, "gemini")

    user, model, results = body["contents"]
    assert ("user", "model", "user") == (user["role"], model["role"], results["role"])
    calls = [part for part in model["parts"] if "functionCall" in part]
    assert ["k1", "k2"] == [part["functionCall"]["id"] for part in calls]
    assert [{"city": "Oslo"}, {"city": "Rome"}] == [part["functionCall"]["args"] for part in calls]
    assert ["U0lHTkVE", None] == [part.get("thoughtSignature") for part in calls]
    assert [("k1", {"output": "4 degrees"}), ("k2", {"output": "21 degrees"})] == [
        (part["functionResponse"]["id"], part["functionResponse"]["response"])
        for part in results["parts"]
    ]


@pytest.mark.parametrize("upstream", ["anthropic", "chat", "responses"])
@pytest.mark.parametrize("habit", HABITS)
def test_reasoning_state_survives_what_gemini_clients_do_to_an_answer(
    upstream: str, habit: str
) -> None:
    body = second_turn("gemini", upstream, habit)
    untouched = second_turn("gemini", upstream)

    # Calls whose ids the client dropped get new ones.
    assert _numbered(untouched, {}) == _numbered(body, {})
    assert "ids" in habit or untouched == body


def _numbered(value: Any, seen: dict[str, int]) -> Any:
    """Return a request with numbers in place of the ids of calls."""
    if isinstance(value, list):
        return [_numbered(inner, seen) for inner in value]
    if not isinstance(value, dict):
        return value
    names = {"call_id", "tool_call_id", "tool_use_id"}
    names |= {"id"} if value.get("type") in ("tool_use", "function") else set()
    return {
        key: seen.setdefault(inner, len(seen)) if key in names else _numbered(inner, seen)
        for key, inner in value.items()
    }
