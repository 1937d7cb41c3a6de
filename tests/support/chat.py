"""Chat streams, put together chunk by chunk."""

from typing import Any

import msgspec

META = {
    "id": "chatcmpl-77",
    "object": "chat.completion.chunk",
    "created": 1699999999,
    "model": "moonshotai/kimi-k2-instruct",
}


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """Return one event of a Chat stream."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return b"data: " + msgspec.json.encode({**META, "choices": [choice], **more}) + b"\n\n"


def call(index: int, fragment: str, **header: str) -> dict[str, Any]:
    """Return a delta with a piece of a tool call; `id` and `name` make it a header."""
    function: dict[str, Any] = {"arguments": fragment}
    delta: dict[str, Any] = {"index": index, "function": function}
    if "name" in header:
        function["name"] = header["name"]
        delta |= {"id": header["id"], "type": "function"}
    return {"tool_calls": [delta]}


USAGE = (
    b"data: "
    + msgspec.json.encode(
        {
            **META,
            "choices": [],
            "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
        }
    )
    + b"\n\n"
)
DONE = b"data: [DONE]\n\n"


def payloads(stream: bytes) -> list[Any]:
    """Return the JSON of each event of a stream; `[DONE]` as that string."""
    found: list[Any] = []
    for frame in stream.decode().split("\n\n"):
        for line in frame.split("\n"):
            if line.startswith("data:"):
                text = line[5:].strip()
                found.append(text if text == "[DONE]" else msgspec.json.decode(text))
    return found


def types(stream: bytes) -> list[str]:
    """Return the event types of a Messages or Responses stream."""
    return [payload["type"] for payload in payloads(stream)]
