"""What a client of each dialect makes of an answer: text, reasoning, calls, and how it ended."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from dragoman.checker.checker import check
from dragoman.ids import decode_id
from tests.support.chat import payloads


class Seen(NamedTuple):
    """An answer as its reader sees it; ids as the upstream wrote them."""

    text: str
    reasoning: str
    calls: list[tuple[str, str, str]]  # id, name, arguments
    finish: str  # "stop", "calls", "length", or an error


_FINISH = {
    "stop": "stop",
    "end_turn": "stop",
    "completed": "stop",
    "tool_calls": "calls",
    "tool_use": "calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "STOP": "stop",
    "MAX_TOKENS": "length",
}


def _chat(chunks: list[Any]) -> Seen:
    text, finish = "", ""
    thoughts = {"reasoning_content": "", "reasoning": ""}
    calls: dict[int, list[str]] = {}
    for chunk in chunks:
        if chunk == "[DONE]":
            continue
        for choice in chunk["choices"]:
            delta = choice["delta"]
            text += delta.get("content") or ""
            for field in thoughts:
                thoughts[field] += delta.get(field) or ""
            finish = choice["finish_reason"] or finish
            for piece in delta.get("tool_calls", ()):
                call = calls.setdefault(piece["index"], ["", "", ""])
                call[0] += piece.get("id", "")
                call[1] += piece["function"].get("name", "")
                call[2] += piece["function"].get("arguments", "")
    # A client reads one of the fields; if both are present, they are equal.
    given = {thought for thought in thoughts.values() if thought}
    assert len(given) <= 1, given
    return Seen(text, "".join(given), [_call(*call) for call in calls.values()], _FINISH[finish])


def _messages(events: list[Any]) -> Seen:
    text, reasoning, finish = "", "", ""
    calls: dict[int, list[str]] = {}
    for event in events:
        match event:
            case {"type": "content_block_start", "index": index, "content_block": block}:
                if block["type"] == "tool_use":
                    calls[index] = [block["id"], block["name"], ""]
            case {"delta": {"type": "text_delta", "text": piece}}:
                text += piece
            case {"delta": {"type": "thinking_delta", "thinking": piece}}:
                reasoning += piece
            case {"index": index, "delta": {"type": "input_json_delta", "partial_json": piece}}:
                calls[index][2] += piece
            case {"type": "message_delta", "delta": delta}:
                finish = delta["stop_reason"]
    return Seen(text, reasoning, [_call(*call) for call in calls.values()], _FINISH[finish])


def _responses(events: list[Any]) -> Seen:
    return _response(events[-1]["response"])


def _response(response: Any) -> Seen:
    text, reasoning = "", ""
    calls: list[tuple[str, str, str]] = []
    for item in response["output"]:
        match item:
            case {"type": "message", "content": parts}:
                text += "".join(part["text"] for part in parts)
            case {"type": "reasoning"}:
                parts = [*item.get("summary", ()), *item.get("content", ())]
                reasoning += "".join(part["text"] for part in parts)
            case {"type": "function_call"}:
                calls.append(_call(item["call_id"], item["name"], item["arguments"]))
    if response["status"] == "completed":
        return Seen(text, reasoning, calls, "calls" if calls else "stop")
    return Seen(text, reasoning, calls, _FINISH[response["incomplete_details"]["reason"]])


def _gemini(chunks: list[Any]) -> Seen:
    parts = [part for one in chunks for part in one["candidates"][0]["content"]["parts"]]
    calls = [
        _call(call["id"], call["name"], msgspec.json.encode(call["args"]).decode())
        for part in parts
        if (call := part.get("functionCall"))
    ]
    text = "".join(part.get("text", "") for part in parts if not part.get("thought"))
    thought = "".join(part["text"] for part in parts if part.get("thought"))
    finish = _FINISH[chunks[-1]["candidates"][0]["finishReason"]]
    return Seen(text, thought, calls, "calls" if calls and finish == "stop" else finish)


def _call(call_id: str, name: str, arguments: str) -> tuple[str, str, str]:
    return decode_id(call_id), name, arguments


STREAMS: Mapping[str, Callable[[list[Any]], Seen]] = {
    "chat": _chat,
    "anthropic": _messages,
    "responses": _responses,
    "gemini": _gemini,
}


# What the judge says of a call whose arguments were cut or are invalid, although the peer claimed otherwise.
HALF_CALL = frozenset({"arguments-whole", "partial-json-prefix"})


def seen(dialect: str, stream: bytes, *, half_call: bool = False) -> Seen:
    """Read a stream as a client does; it must be a legal one, but for a call that is not complete."""
    verdict = check(dialect, stream)
    excused = HALF_CALL if half_call else frozenset()
    assert not [one for one in verdict.violations if one.rule not in excused], verdict.violations
    return STREAMS[dialect](payloads(stream))


def seen_body(dialect: str, body: bytes) -> Seen:
    """Read a complete answer as a client does."""
    answer = msgspec.json.decode(body)
    if dialect == "responses":
        return _response(answer)
    if dialect == "gemini":
        return _gemini([answer])
    if dialect == "anthropic":
        blocks = answer["content"]
        calls = [
            _call(one["id"], one["name"], msgspec.json.encode(one["input"]).decode())
            for one in blocks
            if one["type"] == "tool_use"
        ]
        text = "".join(one["text"] for one in blocks if one["type"] == "text")
        thought = "".join(one["thinking"] for one in blocks if one["type"] == "thinking")
        return Seen(text, thought, calls, _FINISH[answer["stop_reason"]])
    message = answer["choices"][0]["message"]
    calls = [
        _call(one["id"], one["function"]["name"], one["function"]["arguments"])
        for one in message.get("tool_calls", ())
    ]
    finish = _FINISH[answer["choices"][0]["finish_reason"]]
    return Seen(message["content"] or "", message.get("reasoning_content") or "", calls, finish)
