"""Prebuilt requests and responses of the gateway's peers.

A mark in the system text selects what the upstream does, because every gateway forwards that text:
`[bench dense]`, or `[bench paced-400-10000-77]` for one of 400 streams that get 10,000 events a second between them;
77 is the window, so that streams of an earlier one do not count.
"""

import re
import time
from functools import cache
from typing import Final

import msgspec

from dragoman.dialects import dialect
from dragoman.translate import Translator, translate_body
from dragoman.translate_requests import translate_request

# The dialects of a client library's servers: those whose requests go to one path.
FIXED_PATHS: Final = ("chat", "anthropic", "responses")
TEXTS: Final = 200
MARK: Final = re.compile(rb"\[bench (\w+)(?:-(\d+)-(\d+)-\d+)?\]")
# The time at which an event was sent, in nanoseconds of a clock that all processes share.
STAMP: Final = re.compile(rb"@(\d+);")
_WORDS: Final = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "more")
_MODEL: Final = "kimi-k2"
_QWEN: Final = "qwen3-coder-30b"


class Workload(msgspec.Struct, frozen=True):
    """A kind of exchange."""

    connections: int
    events: int = 1  # that a response has
    stream: bool = True
    model: str = _MODEL
    turns: int = 5  # of the conversation in the request, each with a call and a result
    calls: bool = False  # whether the response has a tool call


WORKLOADS: Final = {
    "whole": Workload(32, stream=False),
    "dense": Workload(16, TEXTS + 4),  # with the role, the finish, the usage and the end
    "agent": Workload(16, 30, calls=True),
    "kimi": Workload(16, 60, calls=True),
    "qwen": Workload(4, 4106, model=_QWEN, calls=True),
    "long": Workload(4, stream=False, turns=400),
}
_HELD: Final = Workload(1)  # of streams that stay open, held or paced


def workload(case: str) -> Workload:
    return WORKLOADS.get(case, _HELD)


def paced(streams: int, events_per_second: int) -> str:
    """Return the name of the case for streams that share a rate."""
    return f"paced-{streams}-{events_per_second}"


# --- the client's side --------------------------------------------------------------------------------

# What shows that a response has a tool call.
PROOF: Final = {
    "anthropic": b'"tool_use"',
    "chat": b'"tool_calls"',
    "responses": b'"function_call"',
    "gemini": b'"functionCall"',
}


def request_bytes(
    case: str, port: int, client: str = "anthropic", *, headers: str = "", model: str = ""
) -> bytes:
    """Return a whole HTTP request as a coding agent sends it: 18.6 KB of Messages with 12 tools.

    `client` is another dialect for the same request, `model` replaces the workload's.
    """
    request = _messages_request(case)
    if model:
        request["model"] = model
    body = msgspec.json.encode(request)
    if client != "anthropic":
        body = translate_request(body, source="anthropic", target=client).body
    path, body = dialect(client).wire_request(body)
    head = (
        f"POST /v1{path} HTTP/1.1\r\n"
        f"host: 127.0.0.1:{port}\r\n"
        "content-type: application/json\r\n"
        "accept: application/json\r\n"
        "user-agent: bench/1.0\r\n"
        "x-api-key: none-is-asked-for\r\n"
        "anthropic-version: 2023-06-01\r\n"
        f"{headers}"
        f"content-length: {len(body)}\r\n"
        "\r\n"
    )
    return head.encode() + body


def agent_tools(count: int, *, parameters: int, sentences: int) -> list[dict[str, object]]:
    """Return definitions of tools as a coding agent declares them to Messages."""
    schema = {
        "type": "object",
        "properties": {
            f"parameter_{at}": {
                "type": "string",
                "description": "What this parameter is for, at some length.",
            }
            for at in range(parameters)
        },
        "required": ["parameter_0"],
        "additionalProperties": False,
    }
    return [
        {
            "name": f"tool_{at}",
            "description": "Do one thing and do it well. " * sentences,
            "input_schema": schema,
        }
        for at in range(count)
    ]


def _messages_request(case: str) -> dict[str, object]:
    kind = workload(case)
    tools = agent_tools(12, parameters=6, sentences=12)
    messages: list[dict[str, object]] = [
        {"role": "user", "content": "Please fix the failing test. " * 10}
    ]
    lines = 20 if kind.turns < 100 else 92  # 400 turns are 1 MB
    for at in range(kind.turns):
        call = {
            "type": "tool_use",
            "id": f"toolu_{at}",
            "name": "tool_1",
            "input": {"parameter_0": f"src/{at}.py"},
        }
        text = {"type": "text", "text": "I will look at the file first."}
        messages.append({"role": "assistant", "content": [text, call]})
        found = "def f():\n    return 1\n" * lines
        result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": found}
        messages.append({"role": "user", "content": [result]})
    return {
        "model": kind.model,
        "max_tokens": 32000,
        "system": f"[bench {case}] " + "You are a careful engineer. " * 72,
        "tools": tools,
        "messages": messages,
        "stream": kind.stream,
    }


# --- the upstream's side ------------------------------------------------------------------------------

STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)


@cache
def answer(case: str, upstream: str) -> bytes:
    """Return a whole HTTP response in an upstream's dialect: one of 2 KB, or every event its own HTTP chunk."""
    if not WORKLOADS[case].stream:
        body = _whole_body()
        if upstream != "chat":
            body = translate_body(body, source="chat", target=upstream).body
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        return head % len(body) + body
    events = _in_dialect(_events(case), upstream)
    return STREAM_HEAD + b"".join(map(_chunk, events)) + b"0\r\n\r\n"


def first_events() -> bytes:
    """Return the beginning of a Chat stream that stays open."""
    begin = _event({"role": "assistant", "content": ""}), _event({"content": "Well"})
    return STREAM_HEAD + b"".join(map(_chunk, begin))


def stamped_chunk() -> bytes:
    """Return one event of a paced stream, with the time at which it was sent."""
    return _TEMPLATE % time.monotonic_ns()


def _whole_body() -> bytes:
    return msgspec.json.encode(
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


def _events(case: str) -> list[bytes]:
    """Return the events of a Chat stream."""
    deltas = {"dense": _dense, "agent": _agent, "kimi": _kimi, "qwen": _qwen}[case]()
    events = [_event({"role": "assistant", "content": ""}), *map(_event, deltas)]
    events.append(_event({}, finish="tool_calls" if case == "agent" else "stop"))
    count = len(deltas)
    usage = {"prompt_tokens": 4000, "completion_tokens": count, "total_tokens": 4000 + count}
    events += [_event(None, usage=usage), b"data: [DONE]\n\n"]
    assert len(events) == WORKLOADS[case].events, (case, len(events))
    return events


def _dense() -> list[dict[str, object]]:
    return [{"content": f" {_WORDS[at % len(_WORDS)]}"} for at in range(TEXTS)]


def _agent() -> list[dict[str, object]]:
    """Return a sentence, and a tool call in pieces as servers send it."""
    texts: list[dict[str, object]] = [{"content": f" {word}"} for word in _WORDS]
    name = {"name": "tool_1", "arguments": ""}
    begin = {"index": 0, "id": "call_BXy2p1QFe9", "type": "function", "function": name}
    arguments = '{"parameter_0": "src/dates.py", "parameter_1": "a line of text"}'
    pieces = [arguments[at : at + 5] for at in range(0, len(arguments), 5)]
    calls = [begin, *({"index": 0, "function": {"arguments": one}} for one in pieces)]
    return texts + [{"tool_calls": [one]} for one in calls] + [{"content": ""}]


def _kimi() -> list[dict[str, object]]:
    """Return thoughts with a call of Kimi's format in them, 4 characters at a time."""
    text = (
        "The test fails. I run it first."
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.tool_1:0"
        '<|tool_call_argument_begin|>{"parameter_0": "src/dates.py", "parameter_1": "a text"}'
        "<|tool_call_end|><|tool_calls_section_end|>"
    )
    return [{"reasoning_content": one} for one in _cut(text, 4)]


def _qwen() -> list[dict[str, object]]:
    """Return a call of Qwen3-Coder's format with a parameter of 64 KB, 16 characters at a time."""
    value = ("some text, and more of it\n" * 2600)[: 64 * 1024]
    text = (
        "<tool_call>\n<function=tool_1>\n<parameter=parameter_0>\n"
        f"{value}\n</parameter>\n</function>\n</tool_call>"
    )
    return [{"content": one} for one in _cut(text, 16)]


def _cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _in_dialect(events: list[bytes], upstream: str) -> list[bytes]:
    if upstream == "chat":
        return events
    translator = Translator(source="chat", target=upstream)
    stream = translator.feed(b"".join(events)) + translator.close()
    return [event + b"\n\n" for event in stream.split(b"\n\n") if event]


def _event(
    delta: dict[str, object] | None,
    *,
    finish: str | None = None,
    usage: dict[str, int] | None = None,
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
