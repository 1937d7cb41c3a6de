"""Judges whether the text of a stream is kept: what the model wrote must be in the events, and in what a client reads.

The text is taken out of the stream with the standard library alone, from the one place where each dialect documents
it.  Nothing is repaired and no event is interpreted with the help of another, so this shares neither code nor ideas
with the readers.  Text may be missing only if the events say so: by a loss, or by the failure that ended the answer.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dragoman.turn.events import (
    TRUNCATED,
    ArgsDelta,
    BlockStart,
    Event,
    Fault,
    InputDelta,
    ReasoningDelta,
    TextDelta,
)
from dragoman.turn.losses import Loss

_LINE: Final = re.compile(r"\r\n|\n|\r")
_UNSURE: Final = re.compile("[\ud800-\udfff\ufffd]+")  # what is left of damaged characters
# Losses by which one event is missing, and losses by which any number may be.
_ONE: Final = frozenset({"chunk_malformed"})
_MANY: Final = frozenset({"choice_dropped", "content_after_finish", "held_content_lost", "late_delta_dropped", "part_unknown"})  # fmt: skip
# Losses that explain arguments which are not there as they came.
_ARGUMENTS: Final = frozenset({"args_repaired", "args_repeated", "args_trailing", "call_cut", "call_without_name", "server_block_dropped"})  # fmt: skip


class Piece(NamedTuple):
    """A piece of an answer."""

    kind: str  # text, reasoning or arguments
    text: str
    call: object = None  # which call the arguments belong to


def find_lost(dialect: str, stream: bytes, events: Sequence[Event]) -> str:
    """Return the first text of a stream that is not in the events of its reader, though nothing explains that."""
    codes = Counter(event.code for event in events if isinstance(event, Loss))
    end = events[-1] if events else None
    truncated = isinstance(end, Fault) and end.code == TRUNCATED
    if _MANY & codes.keys() or (isinstance(end, Fault) and not truncated):
        return ""
    malformed = sum(codes[code] for code in _ONE)
    pieces = list(_pieces(dialect, stream))
    emitted = _joined(events, TextDelta), _joined(events, ReasoningDelta)
    for kind, text in zip(("text", "reasoning"), emitted, strict=True):
        wanted = [part for one in pieces if one.kind == kind for part in _UNSURE.split(one.text)]
        lost = [part for part in wanted if part not in text] if malformed else _absent(wanted, text)
        if len(lost) > malformed:
            return f"{kind}: {lost[0]!r}"
    if truncated or malformed or _ARGUMENTS & codes.keys():
        return ""
    arguments = [one for one in pieces if one.kind == "arguments"]
    if "block_index_fixed" in codes:  # calls are not what their numbers say
        arguments = [one._replace(call=object()) for one in arguments]
    return _lost_arguments(arguments, events)


def find_unwritten(events: Sequence[Event], read: Sequence[Event]) -> str:
    """Return the first text of an answer that is not in what a client reads of it."""
    texts = [one.text for one in events if isinstance(one, TextDelta)]
    lost = _absent([part for one in texts for part in _UNSURE.split(one)], _joined(read, TextDelta))
    return "".join(lost)


def _absent(wanted: Iterable[str], text: str) -> list[str]:
    """Return the first piece that does not follow the one before it, if there is one."""
    at = 0
    for part in wanted:
        found = text.find(part, at)
        if found < 0:
            return [part]
        at = found + len(part)
    return []


def _lost_arguments(pieces: Iterable[Piece], events: Sequence[Event]) -> str:
    """Return the first arguments that no call has, as they came or as the same JSON."""
    wanted: dict[object, list[str]] = {}
    for one in pieces:
        wanted.setdefault(one.call, []).append(one.text)
    emitted: dict[int, str] = {}
    for event in events:
        if isinstance(event, ArgsDelta | InputDelta):
            text = event.json if isinstance(event, ArgsDelta) else event.text
            emitted[event.index] = emitted.get(event.index, "") + text
    # A tool that the vendor ran is one event.
    blocks = [_canonical(bytes(one.raw).decode()) for one in events if isinstance(one, BlockStart)]
    known = {_canonical(text) for text in emitted.values()}
    joined = "".join(emitted.values())
    for parts in wanted.values():
        text = "".join(parts)
        canonical = _canonical(text)
        forms = (canonical, json.dumps(text)[1:-1])
        if canonical in known or any(form in block for form in forms for block in blocks):
            continue
        if _absent([one for part in parts for one in _UNSURE.split(part.strip())], joined):
            return f"arguments: {text!r}"
    return ""


def _joined(events: Iterable[Event], kind: type[TextDelta | ReasoningDelta]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


def _canonical(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


# --- streams --------------------------------------------------------------------------------------


def _pieces(dialect: str, stream: bytes) -> Iterator[Piece]:
    """Return what the model wrote, up to the end of the answer."""
    take = _TAKERS[dialect]
    for name, data in _events(stream):
        if data.startswith("[DONE]"):
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            continue
        yield from take(event)
        # Some peers send the type on the line of the event's name alone.
        if isinstance(event, dict) and event.get("type", name) in _LAST:
            return


def _events(stream: bytes) -> Iterator[tuple[str, str]]:
    """Yield the name and the data of each event."""
    name, data = "", list[str]()
    for line in _LINE.split(stream.decode("utf-8-sig", "replace"))[:-1]:
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ")
        elif not line:
            if data:
                yield name, "\n".join(data)
            name, data = "", []


_LAST: Final = ("message_stop", "response.completed", "response.incomplete")


def _chat(event: Any) -> Iterator[Piece]:
    match event:
        case {"choices": [{"delta": dict(delta)}]}:
            if not delta.get("reasoning_details"):  # the same once more
                thought = delta.get("reasoning_content") or delta.get("reasoning")
                yield from _piece("reasoning", thought)
            yield from _piece("text", delta.get("content"))
            for call in delta.get("tool_calls") or ():
                match call:
                    case {"function": {"arguments": arguments}}:
                        index = call.get("index")
                        number = index if isinstance(index, int) else object()
                        yield from _piece("arguments", arguments, number)


def _anthropic(event: Any) -> Iterator[Piece]:
    match event:
        case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
            match delta:
                case {"type": "text_delta", "text": text}:
                    yield from _piece("text", text)
                case {"type": "thinking_delta", "thinking": text}:
                    yield from _piece("reasoning", text)
                case {"type": "input_json_delta", "partial_json": text}:
                    yield from _piece("arguments", text, index)


def _responses(event: Any) -> Iterator[Piece]:
    match event:
        case {"type": "response.output_text.delta", "delta": text}:
            yield from _piece("text", text)
        case {
            "type": "response.reasoning_text.delta" | "response.reasoning_summary_text.delta",
            "delta": text,
        }:
            yield from _piece("reasoning", text)
        case {
            "type": "response.function_call_arguments.delta",
            "output_index": int(index),
            "delta": text,
        }:
            yield from _piece("arguments", text, index)


def _gemini(event: Any) -> Iterator[Piece]:
    match event:
        case {"candidates": [{"content": {"parts": list(parts)}}]}:
            for part in parts:
                match part:
                    case {"text": text}:
                        yield from _piece(
                            "reasoning" if part.get("thought") is True else "text", text
                        )
                    case {"functionCall": {"args": dict(arguments)}}:
                        yield Piece("arguments", json.dumps(arguments), object())


def _piece(kind: str, text: Any, call: object = None) -> Iterator[Piece]:
    if isinstance(text, str):
        yield Piece(kind, text, call)


_TAKERS: Final[Mapping[str, Callable[[Any], Iterator[Piece]]]] = {
    "chat": _chat,
    "anthropic": _anthropic,
    "responses": _responses,
    "gemini": _gemini,
}
