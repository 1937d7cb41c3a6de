"""Records how a stream looks on the wire: the deviations that a reader repairs silently.

Readers in `dragoman.dialects` parse the meaning of an answer; this module records its form.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.errors import TooLargeError
from dragoman.turn.request import DialectName
from dragoman.wire.json_scanner import JsonScanner
from dragoman.wire.sse import Frame, SSEReader

_JSON: Final = msgspec.json.Decoder(object)
_DONE: Final = b"[DONE]"
# The richest first: details may carry signatures that later requests must contain.
_REASONING_FIELDS: Final = ("reasoning_details", "reasoning_content", "reasoning")
_LAST: Final = ("response.completed", "response.incomplete", "response.failed")


class Trace(Struct, kw_only=True):
    """The facts about one stream."""

    events: int = 0  # that can be parsed
    named: int = 0  # of these, with an `event:` line
    comments: int = 0
    crlf: bool = False
    last: bool = False  # the dialect's last event arrived: `[DONE]`, `message_stop`, a final event
    finish: str = ""  # the finish reason, as the dialect names it
    texts: list[str] = []  # deltas of text
    nulls: int = 0  # deltas whose content is null
    reasoning: list[str] = []  # fields that held reasoning, each once
    arguments: list[tuple[int, object]] = []  # deltas of arguments: index of the call, and piece
    usage: bool = False


def trace(dialect: DialectName, stream: bytes) -> Trace:
    """Return the facts about a stream; events that cannot be parsed are ignored."""
    found = Trace(crlf=b"\r\n" in stream)
    see = {
        "chat": _chat,
        "anthropic": _anthropic,
        "responses": _responses,
        "gemini": _gemini,
    }[dialect]
    for frame in _frames(stream):
        if not frame.data:
            found.comments += frame.raw.lstrip(b"\r\n").startswith(b":")
            continue
        if frame.data == _DONE:
            found.last = found.last or dialect == "chat"
        elif isinstance(event := decoded(frame.data), dict):
            found.events += 1
            found.named += bool(frame.event)
            see(event, found)
    return found


def has_whole_arguments(seen: Trace) -> bool:
    """Return whether the first call's arguments are a complete object; other calls are ignored."""
    if not seen.arguments:
        return False
    first = seen.arguments[0][0]
    text = "".join(str(piece) for which, piece in seen.arguments if which == first).lstrip()
    scanner = JsonScanner()
    scanner.feed(text)
    return text.startswith("{") and scanner.done


def _frames(stream: bytes) -> Iterator[Frame]:
    reader = SSEReader()
    try:
        yield from reader.feed(stream)
        yield from reader.close()
    except TooLargeError:
        return  # the reader of the dialect reports it


def decoded(data: bytes) -> object:
    """Return the decoded JSON; None if it is invalid."""
    try:
        return _JSON.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _part(value: object, key: str) -> dict[str, object]:
    """Return an object inside another; empty if it is absent."""
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def _parts(value: object, key: str) -> list[dict[str, object]]:
    inner = value.get(key) if isinstance(value, dict) else None
    return [one for one in inner if isinstance(one, dict)] if isinstance(inner, list) else []


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _chat(event: dict[str, object], found: Trace) -> None:
    found.usage = found.usage or bool(_part(event, "usage"))
    for choice in _parts(event, "choices"):
        finish = choice.get("finish_reason")
        found.finish = finish if isinstance(finish, str) else found.finish
        delta = _part(choice, "delta") or _part(choice, "message")
        content = delta.get("content")
        if isinstance(content, str) and content:
            found.texts.append(content)
        found.nulls += "content" in delta and content is None
        for field in _REASONING_FIELDS:
            if delta.get(field) and field not in found.reasoning:
                found.reasoning.append(field)
        for call in _parts(delta, "tool_calls"):
            arguments = _part(call, "function").get("arguments")
            if arguments not in (None, ""):
                found.arguments.append((_number(call.get("index")), arguments))


def _anthropic(event: dict[str, object], found: Trace) -> None:
    match event.get("type"):
        case "content_block_start":
            block = _part(event, "content_block")
            _note(found, "thinking" if block.get("type") == "thinking" else "")
            if block.get("type") == "tool_use" and block.get("input"):
                found.arguments.append((_number(event.get("index")), block["input"]))
        case "content_block_delta":
            delta = _part(event, "delta")
            if isinstance(text := delta.get("text"), str) and text:
                found.texts.append(text)
            if piece := delta.get("partial_json"):
                found.arguments.append((_number(event.get("index")), piece))
        case "message_delta":
            reason = _part(event, "delta").get("stop_reason")
            found.finish = reason if isinstance(reason, str) else found.finish
            found.usage = found.usage or bool(_part(event, "usage"))
        case "message_stop":
            found.last = True


def _responses(event: dict[str, object], found: Trace) -> None:
    match event.get("type"):
        case "response.output_text.delta":
            if isinstance(text := event.get("delta"), str) and text:
                found.texts.append(text)
        case "response.reasoning_summary_text.delta":
            _note(found, "summary")
        case "response.reasoning_text.delta":
            _note(found, "reasoning_text")
        case "response.function_call_arguments.delta":
            found.arguments.append((_number(event.get("output_index")), event.get("delta")))
        case "response.function_call_arguments.done" if not isinstance(event.get("arguments"), str):
            found.arguments.append((_number(event.get("output_index")), event.get("arguments")))
        case str() as kind if kind in _LAST:
            found.last = True
            response = _part(event, "response")
            reason = _part(response, "incomplete_details").get("reason")
            status = response.get("status")
            found.finish = reason if isinstance(reason, str) else str(status or "")
            found.usage = bool(_part(response, "usage"))


def _gemini(event: dict[str, object], found: Trace) -> None:
    found.usage = found.usage or bool(_part(event, "usageMetadata"))
    for candidate in _parts(event, "candidates"):
        for part in _parts(_part(candidate, "content"), "parts"):
            text = part.get("text")
            if part.get("thought"):
                _note(found, "thought")
            elif isinstance(text, str) and text:
                found.texts.append(text)
            if "functionCall" in part:
                arguments = _part(part, "functionCall").get("args", {})
                written = msgspec.json.encode(arguments).decode()
                found.arguments.append((len(found.arguments), written))
        reason = candidate.get("finishReason")
        if isinstance(reason, str):
            found.finish, found.last = reason, True  # nothing follows it


def _note(found: Trace, field: str) -> None:
    if field and field not in found.reasoning:
        found.reasoning.append(field)
