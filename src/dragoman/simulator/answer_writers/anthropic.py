"""Writes answers in Anthropic Messages."""

import hashlib
from typing import Final

import msgspec

from dragoman.simulator.answer_writers.errors import words
from dragoman.simulator.answer_writers.frames import encode_body, in_turns
from dragoman.simulator.play import (
    Fields,
    Frame,
    FrameKind,
    Json,
    Play,
    SimulatedCall,
    SimulatedMcpCall,
    SimulatedSearch,
    as_object,
    input_tokens,
    pieces,
)

_FINISH: Final = {
    "stop": "end_turn",
    "stop_sequence": "stop_sequence",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "pause": "pause_turn",
}


def frames(play: Play) -> list[Frame]:
    """Return the events of a streamed answer."""
    start = {**_message(play), "content": [], "stop_reason": None, "stop_sequence": None}
    if play.style.usage:
        start["usage"] = _usage(play, written=1)
    out = [_event("start", "message_start", message=start)]
    blocks = _blocks(play)
    before = len(blocks) - len(play.reply.calls)
    for block in blocks[:before]:
        out += block
    calls = blocks[before:]
    out += in_turns(calls) if play.style.interleave else [one for each in calls for one in each]
    ending = _event("finish", "message_delta", delta=_ending(play))
    if play.style.usage:
        ending.data["usage"] = _usage(play)
    return [*out, ending, _event("done", "message_stop")]


def body(play: Play) -> Fields:
    """Return a complete answer."""
    reply = play.reply
    content: list[Json] = []
    if reply.reasoning:
        content.append(thinking_block(play))
    content += _found(play)
    if reply.text:
        text: Fields = {"type": "text", "text": reply.text}
        if reply.cited:
            text["citations"] = [_citation(*reply.cited)]
        content.append(text)
    content += [{**_tool_use(call), "input": as_object(call)} for call in reply.calls]
    out: Fields = {**_message(play), "content": content, **_ending(play)}
    if play.style.usage:
        out["usage"] = _usage(play)
    return out


def failure(play: Play, status: int, message: str) -> list[Frame]:
    """Return the events that report a failure in a stream."""
    return [Frame(kind="error", event="error", data=error(status, message, play.asked.id))]


def error(status: int, message: str, request_id: str) -> Fields:
    """Return the body of an error."""
    detail: Fields = {"type": words(status).messages, "message": message}
    return {"type": "error", "error": detail, "request_id": f"req_{request_id}"}


def thinking_block(play: Play) -> Fields:
    """Return the reasoning of an answer as one block."""
    thinking, sign = _thinking(play), signature(play.reply.reasoning)
    return {"type": "thinking", "thinking": thinking, "signature": sign}


def _thinking(play: Play) -> str:
    """Return the visible reasoning; the signature always covers the full reasoning."""
    return "" if play.asked.request.reasoning.show == "none" else play.reply.reasoning


def signature(thinking: str) -> str:
    """Sign reasoning, so that a changed text can be detected."""
    return "sim" + hashlib.sha256(thinking.encode()).hexdigest()


def _message(play: Play) -> Fields:
    return {
        "id": f"msg_{play.asked.id}",
        "type": "message",
        "role": "assistant",
        "model": play.asked.request.model,
    }


def _event(kind: FrameKind, name: str, **fields: Json) -> Frame:
    return Frame(kind=kind, event=name, data={"type": name, **fields})


def _blocks(play: Play) -> list[list[Frame]]:
    """Return the events of each block."""
    reply, size = play.reply, play.style.piece
    out: list[list[Frame]] = []

    def block(empty: Fields, deltas: list[Fields]) -> None:
        index = 0 if play.style.index_zero else len(out)
        middle = [
            _event("delta", "content_block_delta", index=index, delta=delta) for delta in deltas
        ]
        opening = _event("open", "content_block_start", index=index, content_block=empty)
        out.append([opening, *middle, _event("close", "content_block_stop", index=index)])

    if reply.reasoning:
        thoughts = [_delta("thinking", "thinking", one) for one in pieces(_thinking(play), size)]
        sign = _delta("signature", "signature", signature(reply.reasoning))
        block({"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, sign])
    for found in _found(play):
        asked = found.get("input")
        given = encode_body(asked).decode() if isinstance(asked, dict) else ""
        parts = [_delta("input_json", "partial_json", one) for one in ("", *pieces(given, size))]
        block(
            found | {"input": {}} if given else found, parts if given else []
        )  # results come whole
    if reply.text:
        texts = [_delta("text", "text", one) for one in pieces(reply.text, size)]
        empty: Fields = {"type": "text", "text": ""}
        if reply.cited:
            empty["citations"] = []
            citation: Fields = {"type": "citations_delta", "citation": _citation(*reply.cited)}
            texts = [citation, *texts]
        block(empty, texts)
    for call in reply.calls:
        if play.style.object_arguments:
            block({**_tool_use(call), "input": as_object(call)}, [])
            continue
        text = call.arguments
        if call.flavor != "function":
            text = encode_body({"input": text}).decode()
        cut = pieces(text, 0 if play.style.whole_arguments else size)
        parts = [_delta("input_json", "partial_json", one) for one in ("", *cut)]
        block({**_tool_use(call), "input": {}}, parts)
    return out


def _found(play: Play) -> list[Fields]:
    """Return the searches of an answer and its calls of MCP servers: calls and results."""
    pairs = (
        search_blocks(f"{play.asked.id}{number}", search)
        for number, search in enumerate(play.reply.searches)
    )
    called = (
        _mcp_blocks(f"mcptoolu_{play.asked.id}{number}", call)
        for number, call in enumerate(play.reply.mcp_calls)
    )
    return [*play.reply.blocks, *(block for pair in (*pairs, *called) for block in pair)]


def _mcp_blocks(call_id: str, call: SimulatedMcpCall) -> tuple[Fields, Fields]:
    asked: Json = msgspec.json.decode(call.arguments)
    text: Fields = {"type": "text", "text": call.output}
    return (
        {
            "type": "mcp_tool_use",
            "id": call_id,
            "name": call.name,
            "server_name": call.server,
            "input": asked,
        },
        {
            "type": "mcp_tool_result",
            "tool_use_id": call_id,
            "is_error": False,
            "content": [text],
        },
    )


def search_blocks(unique: str, search: SimulatedSearch) -> tuple[Fields, Fields]:
    """Return the call of a search, and its result; `unique` is a part of the call's id."""
    call_id = f"srvtoolu_{unique}"
    found: list[Json] = [
        {
            "type": "web_search_result",
            "url": url,
            "title": title,
            "encrypted_content": signature(url),
            "page_age": None,
        }
        for url, title in search.sources
    ]
    return (
        {
            "type": "server_tool_use",
            "id": call_id,
            "name": "web_search",
            "input": {"query": search.query},
        },
        {"type": "web_search_tool_result", "tool_use_id": call_id, "content": found},
    )


def _citation(url: str, title: str) -> Fields:
    return {
        "type": "web_search_result_location",
        "cited_text": f"From {title}.",
        "url": url,
        "title": title,
        "encrypted_index": signature(title),
    }


def _delta(kind: str, field: str, piece: str) -> Fields:
    return {"type": f"{kind}_delta", field: piece}


def _tool_use(call: SimulatedCall) -> Fields:
    return {"type": "tool_use", "id": call.id, "name": call.name}


def _ending(play: Play) -> Fields:
    reason = play.style.finish or _FINISH[play.reply.finish]
    return {"stop_reason": reason, "stop_sequence": play.reply.stop_sequence or None}


def _usage(play: Play, written: int | None = None) -> Fields:
    usage: Fields = {
        "input_tokens": input_tokens(play.asked) - play.asked.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": play.asked.cached_tokens,
        "output_tokens": play.reply.output_tokens if written is None else written,
    }
    searches = sum(one["type"] == "server_tool_use" for one in _found(play))
    if searches and written is None:
        counts: Fields = {
            "web_search_requests": searches,
            "web_fetch_requests": 0,
        }
        usage["server_tool_use"] = counts
    return usage
