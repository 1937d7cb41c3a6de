"""Prebuilt requests and responses of the gateway's peers.

The name of the model selects what the upstream does, because it is the one field that a gateway forwards
unchanged: `kimi-k2-json`, `kimi-k2-dense`, or `kimi-k2-paced-400-10000` for one of 400 streams that get 10 000
events a second between them.
"""

import re
import time
from typing import Final

import msgspec

TEXTS: Final = 200
EVENTS: Final = TEXTS + 4  # with the role, the finish, the usage and the end
_MODEL: Final = "kimi-k2"
ASKED: Final = re.compile(rb'"model":\s*"kimi-k2-(json|dense|paced)(?:-(\d+)-(\d+))?"')
# The time at which an event was sent, in nanoseconds of a clock that all processes share.
STAMP: Final = re.compile(rb"@(\d+);")
_WORDS: Final = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "more")


def paced(streams: int, events_per_second: int) -> str:
    """Return the name of the case for streams that share a rate."""
    return f"paced-{streams}-{events_per_second}"


# --- the client's side --------------------------------------------------------------------------------


def request_bytes(case: str, port: int) -> bytes:
    """Return a whole HTTP request as a coding agent sends it: 18.6 KB of Messages with 12 tools."""
    body = msgspec.json.encode(_messages_request(case))
    head = (
        "POST /v1/messages HTTP/1.1\r\n"
        f"host: 127.0.0.1:{port}\r\n"
        "content-type: application/json\r\n"
        "accept: application/json\r\n"
        "user-agent: bench/1.0\r\n"
        "x-api-key: none-is-asked-for\r\n"
        "anthropic-version: 2023-06-01\r\n"
        f"content-length: {len(body)}\r\n"
        "\r\n"
    )
    return head.encode() + body


def _messages_request(case: str) -> dict[str, object]:
    schema = {
        "type": "object",
        "properties": {
            f"parameter_{at}": {
                "type": "string",
                "description": "What this parameter is for, at some length.",
            }
            for at in range(6)
        },
        "required": ["parameter_0"],
        "additionalProperties": False,
    }
    tools = [
        {
            "name": f"tool_{at}",
            "description": "Do one thing and do it well. " * 12,
            "input_schema": schema,
        }
        for at in range(12)
    ]
    messages: list[dict[str, object]] = [
        {"role": "user", "content": "Please fix the failing test. " * 10}
    ]
    for at in range(5):
        call = {
            "type": "tool_use",
            "id": f"toolu_{at}",
            "name": "tool_1",
            "input": {"parameter_0": f"src/{at}.py"},
        }
        text = {"type": "text", "text": "I will look at the file first."}
        messages.append({"role": "assistant", "content": [text, call]})
        said = "def f():\n    return 1\n" * 20
        result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": said}
        messages.append({"role": "user", "content": [result]})
    return {
        "model": f"{_MODEL}-{case}",
        "max_tokens": 32000,
        "system": "You are a careful engineer. " * 72,
        "tools": tools,
        "messages": messages,
        "stream": case != "json",
    }


# --- the upstream's side ------------------------------------------------------------------------------

STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)


def whole_answer() -> bytes:
    """Return a complete HTTP answer with 2 KB of text."""
    body = msgspec.json.encode(
        {
            "id": "chatcmpl-BXy2p1QFe9sZ8vKdL3mWnRtUaHcJo",
            "object": "chat.completion",
            "created": 1700000000,
            "model": "moonshotai/kimi-k2-instruct-0905",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": "The test fails, for it does. " * 58,
                    },
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 4000, "completion_tokens": 400, "total_tokens": 4400},
        }
    )
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


def dense_answer() -> bytes:
    """Return a whole stream: every event its own HTTP chunk, as servers write them."""
    events = [_event({"role": "assistant", "content": ""})]
    events += [_event({"content": f" {_WORDS[at % len(_WORDS)]}"}) for at in range(TEXTS)]
    events.append(_event({}, finish="stop"))
    usage = {"prompt_tokens": 4000, "completion_tokens": TEXTS, "total_tokens": 4000 + TEXTS}
    events.append(_event(None, usage=usage))
    events.append(b"data: [DONE]\n\n")
    return STREAM_HEAD + b"".join(_chunk(event) for event in events) + b"0\r\n\r\n"


def paced_first() -> bytes:
    """Return the beginning of a paced stream."""
    begin = _event({"role": "assistant", "content": ""}), _event({"content": "Well"})
    return STREAM_HEAD + b"".join(map(_chunk, begin))


def stamped_chunk() -> bytes:
    """Return one event of a paced stream, with the time at which it was sent."""
    return _TEMPLATE % time.monotonic_ns()


def _event(
    delta: dict[str, str] | None, *, finish: str | None = None, usage: dict[str, int] | None = None
) -> bytes:
    """Return one event of about 265 bytes."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk: dict[str, object] = {
        "id": "chatcmpl-BXy2p1QFe9sZ8vKdL3mWnRtUaHcJo",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "moonshotai/kimi-k2-instruct-0905",
        "system_fingerprint": "fp_1a2b3c4d5e",
        "choices": [] if delta is None else [choice],
    }
    if usage is not None:
        chunk["usage"] = usage
    return b"data: %b\n\n" % msgspec.json.encode(chunk)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


# Nanoseconds are written with 19 digits, so that all events have the same length.
_TEMPLATE: Final = _chunk(_event({"content": " word @" + "9" * 19 + ";"})).replace(
    b"9" * 19, b"%019d"
)
