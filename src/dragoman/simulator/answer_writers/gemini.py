"""Writes answers in Google's `generateContent`."""

import base64
import hashlib
from typing import Final

import msgspec

from dragoman.simulator.play import (
    Fields,
    Frame,
    FrameKind,
    Json,
    Play,
    SimulatedCall,
    as_object,
    input_tokens,
    pieces,
)

_SIGNED: Final = base64.b64encode(b"sim").decode()
_FINISH: Final = {
    "stop": "STOP",
    "stop_sequence": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
    "pause": "CONTINUATION",
}
_STATUS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}


def frames(play: Play) -> list[Frame]:
    """Return the events of a streamed answer."""
    size = play.style.piece
    out = [_chunk(play, _thought(one)) for one in pieces(play.reply.reasoning, size)]
    out += [_chunk(play, one) for one in _mcp_parts(play)]
    out += [_chunk(play, {"text": one}) for one in pieces(play.reply.text, size)]
    out += [_chunk(play, one) for one in _images(play)]
    out += [_chunk(play, one) for one in _calls(play)]
    last = _chunk(play, _last_part(play), "finish")
    candidate = last.data["candidates"]
    assert isinstance(candidate, list)  # noqa: S101 -- made above
    assert isinstance(candidate[0], dict)  # noqa: S101 -- made above
    candidate[0] |= _ending(play)
    if play.style.usage:
        last.data["usageMetadata"] = _usage(play)
    return [*out, last]


def body(play: Play) -> Fields:
    """Return a complete answer."""
    reply = play.reply
    parts: list[Json] = []
    if reply.reasoning:
        parts.append(_thought(reply.reasoning))
    parts += _mcp_parts(play)
    if reply.text:
        parts.append({"text": reply.text})
    parts += _images(play)
    parts += _calls(play)
    last = _last_part(play)
    if last != {"text": ""} or not parts:
        parts.append(last)
    candidate: Fields = {
        "content": {"parts": parts, "role": "model"},
        "index": 0,
        **_ending(play),
    }
    out: Fields = {"candidates": [candidate], **_head(play)}
    if play.style.usage:
        out["usageMetadata"] = _usage(play)
    return out


def failure(status: int, message: str) -> list[Frame]:
    """Return the events that report a failure in a stream."""
    return [Frame(kind="error", data=error(status, message))]


def error(status: int, message: str, param: str = "") -> Fields:
    """Return the body of an error."""
    name = _STATUS.get(status) or ("INVALID_ARGUMENT" if status < 500 else "INTERNAL")
    fields: Fields = {"code": status, "message": message, "status": name}
    if param:
        violation: Fields = {"field": param, "description": message}
        kind = "type.googleapis.com/google.rpc.BadRequest"
        fields["details"] = [{"@type": kind, "fieldViolations": [violation]}]
    return {"error": fields}


def signature(call_id: str, name: str) -> str:
    """Return the signature of a call, so that one on another call can be detected."""
    digest = hashlib.sha256(f"{name}/{call_id}".encode()).digest()
    return _SIGNED + base64.b64encode(digest).decode()


def is_signature(text: str, call_id: str, name: str) -> bool:
    """Return whether a text is the signature of a call, in either alphabet of base64.

    Google's SDK for Python returns signatures in the alphabet for URLs.  Some clients return no ids; of their
    calls it only shows that this server signed one.
    """
    folded = text.replace("-", "+").replace("_", "/")
    if call_id:
        return folded == signature(call_id, name)
    return folded.startswith(_SIGNED)


def _head(play: Play) -> Fields:
    return {"modelVersion": play.asked.request.model, "responseId": play.asked.id}


def _chunk(play: Play, part: Fields, kind: FrameKind = "delta") -> Frame:
    candidate: Fields = {"content": {"parts": [part], "role": "model"}, "index": 0}
    return Frame(kind=kind, data={"candidates": [candidate], **_head(play)})


def _thought(text: str) -> Fields:
    return {"text": text, "thought": True}


def _mcp_parts(play: Play) -> list[Fields]:
    """Return the calls of MCP servers and their results."""
    parts: list[Fields] = []
    for number, call in enumerate(play.reply.mcp_calls):
        call_id = f"{play.asked.id}{number}"
        asked: Json = msgspec.json.decode(call.arguments)
        args: Fields = {"name": call.name, "serverName": call.server, "arguments": asked}
        response: Fields = {"output": call.output}
        parts += [
            {"toolCall": {"id": call_id, "args": args}},
            {"toolResponse": {"id": call_id, "response": response}},
        ]
    return parts


def _images(play: Play) -> list[Fields]:
    return [
        {"inlineData": {"mimeType": "image/png", "data": one.data}} for one in play.reply.images
    ]


def _calls(play: Play) -> list[Fields]:
    """Return the parts of all calls; the first one is signed, as Gemini 3 does it."""
    parts: list[Fields] = []
    for number, call in enumerate(play.reply.calls):
        function: Fields = {"name": call.name, "args": _arguments(play, call)}
        if play.style.call_ids:
            function = {"id": call.id, **function}
        part: Fields = {"functionCall": function}
        if number == 0 and not play.style.signature_apart:
            part["thoughtSignature"] = _signed(play)
        parts.append(part)
    return parts


def _signed(play: Play) -> str:
    call = play.reply.calls[0]
    return signature(call.id if play.style.call_ids else "", call.name)


def _arguments(play: Play, call: SimulatedCall) -> Json:
    """Return the arguments of a call: as text where it ends in them, but the answer claims to be complete."""
    cut = not call.complete and play.reply.finish == "tool_calls"
    return call.arguments if cut else as_object(call)


def _last_part(play: Play) -> Fields:
    """Return the part that comes with the finish reason."""
    if play.reply.calls:
        if not play.style.signature_apart:
            return {"text": ""}
        return {"text": "", "thoughtSignature": _signed(play)}
    if not play.reply.reasoning:
        return {"text": ""}
    return {"text": "", "thoughtSignature": signature("", play.reply.reasoning)}


def _grounding(play: Play) -> Fields:
    """Return what searches found, which Google shows at the end; offsets count bytes."""
    reply = play.reply
    if not reply.searches:
        return {}
    found = [source for search in reply.searches for source in search.sources]
    metadata: Fields = {
        "webSearchQueries": [search.query for search in reply.searches],
        "groundingChunks": [{"web": {"uri": url, "title": title}} for url, title in found],
    }
    if reply.cited:
        segment: Fields = {"endIndex": len(reply.text.encode()), "text": reply.text}
        metadata["groundingSupports"] = [{"segment": segment, "groundingChunkIndices": [0]}]
    return {"groundingMetadata": metadata}


def _ending(play: Play) -> Fields:
    fields: Fields = {"finishReason": play.style.finish or _FINISH[play.reply.finish]}
    if play.reply.token:
        fields["continuationToken"] = play.reply.token
    return fields | _grounding(play)


def continuation_token(number: int) -> str:
    """Return the token with which an answer goes on after its pause of this number, from 1."""
    return base64.b64encode(b"sim pause %d" % number).decode()


def _usage(play: Play) -> Fields:
    read, thought = input_tokens(play.asked), play.reply.reasoning_tokens
    written = play.reply.output_tokens - thought
    counts = {
        "promptTokenCount": read,
        "candidatesTokenCount": written,
        "thoughtsTokenCount": thought,
        "cachedContentTokenCount": play.asked.cached_tokens,
        "totalTokenCount": read + written + thought,
    }
    return {name: number for name, number in counts.items() if number}
