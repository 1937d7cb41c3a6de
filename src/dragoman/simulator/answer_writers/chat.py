"""Writes answers in Chat Completions."""

from collections.abc import Iterable
from itertools import accumulate
from typing import Final, Protocol

from dragoman.simulator.answer_writers.frames import in_turns
from dragoman.simulator.play import (
    CREATED,
    Fields,
    Frame,
    FrameKind,
    Json,
    Play,
    SimulatedCall,
    Style,
    as_object,
    input_tokens,
    pieces,
)
from dragoman.simulator.searches import shown
from dragoman.turn.events import Flavor


class Chunk(Protocol):
    def __call__(self, kind: FrameKind, delta: Fields, finish: str | None = None) -> Frame: ...


DONE: Final = Frame(kind="done", raw=b"data: [DONE]\n\n")
_FINISH: Final = {
    "stop": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
}


def frames(play: Play) -> list[Frame]:
    """Return the events of a streamed answer."""
    style, reply = play.style, play.reply
    chunk = _chunks(play)
    empty = None if style.null_content else ""
    out = [chunk("start", {"role": "assistant", "content": empty})]
    out += [
        chunk("delta", _reasoning(style, piece)) for piece in pieces(reply.reasoning, style.piece)
    ]
    found = shown(play)
    out += [chunk("delta", delta) for delta in found.before]
    texts = pieces(reply.text, style.piece)
    out += [chunk("delta", {"content": one}) for one in _texts(texts, style)]
    out += [chunk("delta", delta) for delta in found.after]
    out += [chunk("delta", {"content": "", "images": [one]}) for one in _images(play)]
    calls = [_call(play, chunk, number, call) for number, call in enumerate(reply.calls)]
    out += in_turns(calls) if style.interleave else [one for each in calls for one in each]
    out.append(chunk("finish", {}, _finish(play)))
    out[-1].data |= {"object": found.last_object, **found.beside}
    # Hosts that list sources beside the choices have their counts in the same chunk, asked for or not.
    if style.usage_unasked or (style.usage and found.beside):
        out[-1].data["usage"] = _usage(play)
    elif style.usage and play.asked.request.include_usage:
        usage = {**_head(play), "choices": [], "usage": _usage(play)}
        out.append(Frame(kind="usage", data=usage))
    out.append(DONE)
    return out


def body(play: Play) -> Fields:
    """Return a complete answer."""
    reply, style = play.reply, play.style
    message: Fields = {"role": "assistant", "content": reply.text, "refusal": None}
    if not reply.text and (reply.calls or style.null_content):
        message["content"] = None
    if reply.reasoning:
        message.update(_reasoning(style, reply.reasoning))
    found = shown(play)
    message |= found.message
    if reply.images:
        message["images"] = _images(play)
    if reply.calls:
        message["tool_calls"] = [
            {"id": call.id, **_function(call, _arguments(play, call))} for call in reply.calls
        ]
    choice: Fields = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _finish(play),
    }
    out: Fields = {**_head(play), "object": "chat.completion", "choices": [choice]}
    out |= found.beside
    if style.usage:
        out["usage"] = _usage(play)
    return out


def failure(code: str | None, kind: str, message: str) -> list[Frame]:
    """Return the events that report a failure in a stream."""
    return [Frame(kind="error", data=error(message, kind, code)), DONE]


def error(message: str, kind: str, code: str | None, param: str | None = None) -> Fields:
    """Return the body of an error."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _head(play: Play) -> Fields:
    return {
        "id": f"chatcmpl-{play.asked.id}",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": play.asked.request.model,
        "system_fingerprint": "fp_simulator",
    }


def _chunks(play: Play) -> Chunk:
    """Return a function that makes the chunks of one answer; their first fields are the same."""
    head = _head(play)
    found = shown(play)
    tail: Fields = dict(found.beside) if found.repeated else {}
    if play.style.usage and play.asked.request.include_usage:
        tail["usage"] = None

    def chunk(kind: FrameKind, delta: Fields, finish: str | None = None) -> Frame:
        choice: Fields = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return Frame(kind=kind, data={**head, "choices": [choice], **tail})

    return chunk


def _reasoning(style: Style, piece: str) -> Fields:
    """Return a piece of reasoning in each field of the style."""
    details: Json = [{"type": "reasoning.text", "text": piece, "index": 0}]
    return {
        field: details if field == "reasoning_details" else piece
        for field in style.reasoning_fields
    }


def _images(play: Play) -> list[Json]:
    """Return images in OpenRouter's form; no other host has one."""
    return [
        {
            "type": "image_url",
            "image_url": {"url": f"data:image/png;base64,{one.data}"},
            "index": number,
        }
        for number, one in enumerate(play.reply.images)
    ]


def _texts(pieces: Iterable[str], style: Style) -> Iterable[str]:
    return accumulate(pieces) if style.cumulative else pieces


def _call(play: Play, chunk: Chunk, number: int, call: SimulatedCall) -> list[Frame]:
    index = 0 if play.style.index_zero else number
    head: Fields = {"index": index, "id": call.id}
    if play.style.object_arguments:
        return [_calls(chunk, "delta", {**head, **_function(call, _arguments(play, call))})]
    out = [_calls(chunk, "open", {**head, **_function(call, "")})]
    size = 0 if play.style.whole_arguments else play.style.piece
    kind, field = ("custom", "input") if call.flavor is Flavor.CUSTOM else ("function", "arguments")
    out += [
        _calls(chunk, "delta", {"index": index, kind: {field: piece}})
        for piece in pieces(call.arguments, size)
    ]
    return out


def _calls(chunk: Chunk, kind: FrameKind, call: Fields) -> Frame:
    return chunk(kind, {"tool_calls": [call]})


def _function(call: SimulatedCall, arguments: Json) -> Fields:
    if call.flavor is Flavor.CUSTOM:
        return {"type": "custom", "custom": {"name": call.name, "input": arguments}}
    kind = "builtin_function" if call.name.startswith("$") else "function"  # Moonshot's own
    return {"type": kind, "function": {"name": call.name, "arguments": arguments}}


def _arguments(play: Play, call: SimulatedCall) -> Json:
    return as_object(call) if play.style.object_arguments else call.arguments


def _finish(play: Play) -> str:
    return play.style.finish or _FINISH[play.reply.finish]


def _usage(play: Play) -> Fields:
    read, written = input_tokens(play.asked), play.reply.output_tokens
    usage: Fields = {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": play.asked.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": play.reply.reasoning_tokens},
    }
    return usage | shown(play).counts
