"""What an upstream received, read from the bodies of its requests without any of our code."""

import json
from typing import Any, NamedTuple

from dragoman.simulator.exchanges import RecordedExchange

Json = dict[str, Any]


class Received(NamedTuple):
    """The history of one request."""

    reasoning: tuple[str, ...] = ()
    state: tuple[str, ...] = ()  # signatures and encrypted reasoning
    calls: tuple[tuple[str, str, Json], ...] = ()  # id, name and arguments
    results: tuple[tuple[str, str], ...] = ()  # id of the call and text
    result_names: tuple[str, ...] = ()  # Gemini: the name in each result

    @property
    def ids(self) -> list[str]:
        """The ids of the calls, in order."""
        return [call_id for call_id, _, _ in self.calls]


def received(exchange: RecordedExchange) -> Received:
    """Read the history that a request carried, in whichever dialect it came."""
    body: Any = exchange.json
    if exchange.path.endswith("/messages"):
        return _messages(body)
    if "/models/" in exchange.path:
        return _gemini(body)
    return _responses(body) if exchange.path.endswith("/responses") else _chat(body)


def _messages(body: Json) -> Received:
    blocks = [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    thoughts = [block for block in blocks if block["type"] == "thinking"]
    hidden = [block["data"] for block in blocks if block["type"] == "redacted_thinking"]
    return Received(
        tuple(block["thinking"] for block in thoughts),
        (*(block["signature"] for block in thoughts), *hidden),
        tuple(
            (block["id"], block["name"], block["input"])
            for block in blocks
            if block["type"] == "tool_use"
        ),
        tuple(
            (block["tool_use_id"], _text(block["content"]))
            for block in blocks
            if block["type"] == "tool_result"
        ),
    )


def _chat(body: Json) -> Received:
    messages = body["messages"]
    fields = ("reasoning_content", "reasoning")
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    return Received(
        tuple(one[name] for one in messages for name in fields if one.get(name)),
        (),
        tuple(
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in calls
        ),
        tuple(
            (one["tool_call_id"], _text(one["content"]))
            for one in messages
            if one["role"] == "tool"
        ),
    )


def _responses(body: Json) -> Received:
    items = body["input"] if isinstance(body["input"], list) else []
    thoughts = [item for item in items if item.get("type") == "reasoning"]
    texts = [
        part["text"]
        for item in thoughts
        for part in (*item["summary"], *(item.get("content") or ()))
    ]
    return Received(
        tuple(texts),
        tuple(item["encrypted_content"] for item in thoughts if item.get("encrypted_content")),
        tuple(
            (item["call_id"], item["name"], json.loads(item["arguments"]))
            for item in items
            if item.get("type") == "function_call"
        ),
        tuple(
            (item["call_id"], _text(item["output"]))
            for item in items
            if item.get("type") == "function_call_output"
        ),
    )


def _gemini(body: Json) -> Received:
    parts = [part for content in body["contents"] for part in content["parts"]]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    # Some clients send no ids: calls and results then belong together by their order.
    ids = [one.get("id") or f"#{at}" for at, one in enumerate(calls)]
    return Received(
        tuple(part["text"] for part in parts if part.get("thought")),
        tuple(part["thoughtSignature"] for part in parts if "thoughtSignature" in part),
        tuple((ids[at], one["name"], one["args"]) for at, one in enumerate(calls)),
        tuple(
            (one.get("id") or ids[at], "".join(map(str, one["response"].values())))
            for at, one in enumerate(results)
        ),
        tuple(one["name"] for one in results),
    )


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content)
