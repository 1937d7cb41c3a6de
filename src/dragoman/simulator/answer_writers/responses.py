"""Writes answers in OpenAI Responses."""

from typing import Final

from dragoman.simulator.answer_writers.errors import words
from dragoman.simulator.answer_writers.frames import in_turns
from dragoman.simulator.play import (
    CREATED,
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
from dragoman.simulator.searches import host_of
from dragoman.turn.events import Flavor

# Fields of the request that the response repeats, with the default of each.
_ECHOED: Final[Fields] = {
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "temperature": 1.0,
    "top_p": 1.0,
    "max_output_tokens": None,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "text": {"format": {"type": "text"}},
    "truncation": "disabled",
    "store": True,
}
_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
# The status for each neutral finish; any other finish is written unchanged.
_STATUS: Final = {
    "stop": "completed",
    "tool_calls": "completed",
    "length": "incomplete",
    "content_filter": "incomplete",
}


def frames(play: Play) -> list[Frame]:
    """Return the events of a streamed answer."""
    begun = _response(play, "in_progress", [])
    out = [
        _event("start", "response.created", response=begun),
        _event("start", "response.in_progress", response=begun),
    ]
    reasoning, message = _reasoning(play), _message(play)
    found = [_search(play, number) for number in range(len(play.reply.searches))]
    found += [_mcp_call(play, number) for number in range(len(play.reply.mcp_calls))]
    found += [_image(play, number) for number in range(len(play.reply.images))]
    calls = [_call(play, number, call) for number, call in enumerate(play.reply.calls)]
    items = [group for group in (reasoning, *found, message, *calls) if group]
    for number, group in enumerate(items):
        for frame in group:
            frame.data["output_index"] = 0 if play.style.index_zero else number
    out += reasoning
    out += in_turns(found) if _is_xai(play) else [one for each in found for one in each]
    out += message
    out += in_turns(calls) if play.style.interleave else [one for each in calls for one in each]
    final = body(play)
    out.append(_event("finish", f"response.{_ending(play)}", response=final))
    return out


def number(all_frames: list[Frame]) -> None:
    """Write sequence numbers into the events, after all edits of the list."""
    at = 0
    for frame in all_frames:
        if not frame.raw:
            frame.data["sequence_number"] = at
            at += 1


def body(play: Play) -> Fields:
    """Return a complete answer."""
    status = _STATUS.get(play.style.finish, play.style.finish)
    if not status:
        status = "incomplete" if play.reply.finish in _INCOMPLETE else "completed"
    out = _response(play, status, _items(play))
    if status == "incomplete":
        reason = _INCOMPLETE.get(play.style.finish or play.reply.finish, "max_output_tokens")
        out["incomplete_details"] = {"reason": reason}
    if play.style.usage:
        out["usage"] = _usage(play)
    if play.reply.searches and _is_xai(play):
        out["citations"] = [url for one in play.reply.searches for url, _ in one.sources]
    return out


def failure(play: Play, status: int, message: str) -> list[Frame]:
    """Return the events that report a failure in a stream."""
    response = _response(play, "failed", [])
    response["error"] = {"code": words(status).response, "message": message}
    return [_event("error", "response.failed", response=response)]


def _ending(play: Play) -> str:
    status = _STATUS.get(play.style.finish, "completed" if play.style.finish else "")
    return status or ("incomplete" if play.reply.finish in _INCOMPLETE else "completed")


def _event(kind: FrameKind, name: str, **fields: Json) -> Frame:
    return Frame(kind=kind, event=name, data={"type": name, "sequence_number": 0, **fields})


def _response(play: Play, status: str, output: list[Json]) -> Fields:
    fields = play.asked.fields
    echoed = {name: fields.get(name, empty) for name, empty in _ECHOED.items()}
    return {
        "id": f"resp_{play.asked.id}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": play.asked.request.model,
        "output": output,
        **echoed,
        "usage": None,
    }


# --- items ------------------------------------------------------------------------------------------


def _items(play: Play) -> list[Json]:
    reply = play.reply
    out: list[Json] = []
    if reply.reasoning:
        out.append(_reasoning_item(play))
    out += [_search_item(play, number, last=True) for number in range(len(reply.searches))]
    out += [_mcp_item(play, number) for number in range(len(reply.mcp_calls))]
    out += [_image_item(play, number) for number in range(len(reply.images))]
    if reply.text:
        out.append(_message_item(play))
    return out + [_call_item(play, number, call) for number, call in enumerate(reply.calls)]


def _summarised(play: Play) -> bool:
    return play.asked.request.reasoning.show == "summary"


def _reasoning_item(play: Play) -> Fields:
    item: Fields = {"id": f"rs_{play.asked.id}", "type": "reasoning", "summary": []}
    if _summarised(play):
        item["summary"] = [{"type": "summary_text", "text": play.reply.reasoning}]
    else:
        item["content"] = [{"type": "reasoning_text", "text": play.reply.reasoning}]
    if "reasoning.encrypted_content" in play.asked.request.include:
        item["encrypted_content"] = f"sim{play.asked.seed}"
    return item


def _reasoning(play: Play) -> list[Frame]:
    text = play.reply.reasoning
    if not text:
        return []
    item_id = f"rs_{play.asked.id}"
    added: Fields = {"id": item_id, "type": "reasoning", "summary": []}
    if _summarised(play):
        place: Fields = {"item_id": item_id, "output_index": 0, "summary_index": 0}
        part, name = "reasoning_summary_part", "reasoning_summary_text"
        kind = "summary_text"
    else:
        place = {"item_id": item_id, "output_index": 0, "content_index": 0}
        part, name, kind = "content_part", "reasoning_text", "reasoning_text"
    return [
        _event("open", "response.output_item.added", output_index=0, item=added),
        _event("open", f"response.{part}.added", **place, part={"type": kind, "text": ""}),
        *(
            _event("delta", f"response.{name}.delta", **place, delta=piece)
            for piece in pieces(text, play.style.piece)
        ),
        _event("close", f"response.{name}.done", **place, text=text),
        _event("close", f"response.{part}.done", **place, part={"type": kind, "text": text}),
        _event("close", "response.output_item.done", output_index=0, item=_reasoning_item(play)),
    ]


def _message_item(play: Play) -> Fields:
    cut = play.reply.finish in _INCOMPLETE and not play.reply.calls
    return {
        "id": f"msg_{play.asked.id}",
        "type": "message",
        "role": "assistant",
        "status": "incomplete" if cut else "completed",
        "content": [_part(play.reply.text, _annotations(play))],
    }


def _part(text: str, annotations: list[Json] | None = None) -> Fields:
    return {"type": "output_text", "text": text, "annotations": annotations or [], "logprobs": []}


def _annotations(play: Play) -> list[Json]:
    """Return what the text cites; xAI's text has a link, and its citation neither a place nor a title."""
    if play.reply.cited is None:
        return []
    url, title = play.reply.cited
    end = len(play.reply.text)
    title, end = (url, 0) if _is_xai(play) else (title, end)
    citation: Fields = {
        "type": "url_citation",
        "start_index": 0,
        "end_index": end,
        "url": url,
        "title": title,
    }
    return [citation]


def _is_xai(play: Play) -> bool:
    """Return whether the vendor is xAI: its searches run at the same time, and it counts them."""
    return host_of(play) == "xai"


_LATE: Final = "https://late.example/"  # a source that xAI lists in the whole response alone


def _search_item(play: Play, number: int, *, last: bool = False) -> Fields:
    """Return a search; its sources are shown to those who ask for them, and have no titles."""
    search = play.reply.searches[number]
    action: Fields = {"type": "search", "query": search.query, "queries": [search.query]}
    if "web_search_call.action.sources" in play.asked.request.include:
        urls = [url for url, _ in search.sources]
        urls += [_LATE] if last and _is_xai(play) else []
        action["sources"] = [{"type": "url", "url": url} for url in urls]
    return {
        "id": f"ws_{play.asked.id}{number}",
        "type": "web_search_call",
        "status": "completed",
        "action": action,
    }


def _search(play: Play, number: int) -> list[Frame]:
    item = _search_item(play, number)
    added: Fields = {"id": item["id"], "type": "web_search_call", "status": "in_progress"}
    place: Fields = {"item_id": item["id"], "output_index": 0}
    steps = ("in_progress", "searching", "completed")
    return [
        _event("open", "response.output_item.added", output_index=0, item=added),
        *(_event("other", f"response.web_search_call.{one}", **place) for one in steps),
        _event("close", "response.output_item.done", output_index=0, item=item),
    ]


def _mcp_item(play: Play, number: int) -> Fields:
    call = play.reply.mcp_calls[number]
    return {
        "id": f"mcp_{play.asked.id}{number}",
        "type": "mcp_call",
        "status": "completed",
        "approval_request_id": None,
        "arguments": call.arguments,
        "error": None,
        "name": call.name,
        "output": call.output,
        "server_label": call.server,
    }


def _mcp_call(play: Play, number: int) -> list[Frame]:
    item = _mcp_item(play, number)
    added = {**item, "status": "in_progress", "arguments": "", "output": None}
    place: Fields = {"item_id": item["id"], "output_index": 0}
    name = "response.mcp_call_arguments"
    arguments = play.reply.mcp_calls[number].arguments
    return [
        _event("open", "response.output_item.added", output_index=0, item=added),
        _event("other", "response.mcp_call.in_progress", **place),
        *(
            _event("other", f"{name}.delta", **place, delta=one)
            for one in pieces(arguments, play.style.piece)
        ),
        _event("other", f"{name}.done", **place, arguments=arguments),
        _event("other", "response.mcp_call.completed", **place),
        _event("close", "response.output_item.done", output_index=0, item=item),
    ]


def _image_item(play: Play, number: int) -> Fields:
    image = play.reply.images[number]
    return {
        "id": f"ig_{play.asked.id}{number}",
        "type": "image_generation_call",
        "status": "completed",
        "output_format": "png",
        "result": image.data,
        "revised_prompt": image.prompt,
    }


def _image(play: Play, number: int) -> list[Frame]:
    item = _image_item(play, number)
    name = "response.image_generation_call"
    place: Fields = {"item_id": item["id"], "output_index": 0}
    added: Fields = {
        "id": item["id"],
        "type": item["type"],
        "status": "in_progress",
        "result": None,
    }
    return [
        _event("open", "response.output_item.added", output_index=0, item=added),
        _event("other", f"{name}.in_progress", **place),
        _event("other", f"{name}.generating", **place),
        *(
            _event(
                "other",
                f"{name}.partial_image",
                **place,
                partial_image_index=at,
                partial_image_b64=item["result"],
            )
            for at in range(_partial_images(play))
        ),
        _event("other", f"{name}.completed", **place),
        _event("close", "response.output_item.done", output_index=0, item=item),
    ]


def _partial_images(play: Play) -> int:
    """Return how many early versions of each image the request wants in a stream: at most three, as at OpenAI."""
    tools = play.asked.fields.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and tool.get("type") == "image_generation":
            wanted = tool.get("partial_images")
            return min(wanted, 3) if isinstance(wanted, int) else 0
    return 0


def _message(play: Play) -> list[Frame]:
    text = play.reply.text
    if not text:
        return []
    item, annotations = _message_item(play), _annotations(play)
    added: Fields = {**item, "status": "in_progress", "content": []}
    place: Fields = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    return [
        _event("open", "response.output_item.added", output_index=0, item=added),
        _event("open", "response.content_part.added", **place, part=_part("")),
        *(
            _event("delta", "response.output_text.delta", **place, delta=piece, logprobs=[])
            for piece in pieces(text, play.style.piece)
        ),
        *(
            _event(
                "delta",
                "response.output_text.annotation.added",
                **place,
                annotation_index=at,
                annotation=one,
            )
            for at, one in enumerate(annotations)
        ),
        _event("close", "response.output_text.done", **place, text=text, logprobs=[]),
        _event("close", "response.content_part.done", **place, part=_part(text, annotations)),
        _event("close", "response.output_item.done", output_index=0, item=item),
    ]


def _call_item(play: Play, at: int, call: SimulatedCall) -> Fields:
    status = "completed" if call.complete else "incomplete"
    if call.flavor is Flavor.CUSTOM:
        item: Fields = {"id": f"ctc_{play.asked.id}{at}", "type": "custom_tool_call"}
    else:
        item = {"id": f"fc_{play.asked.id}{at}", "type": "function_call"}
    item |= {"status": status, "call_id": call.id, "name": call.name}
    if call.namespace:
        item["namespace"] = call.namespace
    if call.flavor is Flavor.CUSTOM:
        item["input"] = call.arguments
    else:
        objects = play.style.object_arguments
        item["arguments"] = as_object(call) if objects else call.arguments
    return item


def _call(play: Play, at: int, call: SimulatedCall) -> list[Frame]:
    item = _call_item(play, at, call)
    custom = call.flavor is Flavor.CUSTOM
    field = "input" if custom else "arguments"
    name = "custom_tool_call_input" if custom else "function_call_arguments"
    place: Fields = {"item_id": item["id"], "output_index": 0}
    size = 0 if play.style.whole_arguments else play.style.piece
    deltas = [] if play.style.object_arguments else pieces(call.arguments, size)
    return [
        _event(
            "open",
            "response.output_item.added",
            output_index=0,
            item={**item, "status": "in_progress", field: ""},
        ),
        *(_event("delta", f"response.{name}.delta", **place, delta=piece) for piece in deltas),
        _event("close", f"response.{name}.done", **place, **{field: item[field]}),
        _event("close", "response.output_item.done", output_index=0, item=item),
    ]


def _usage(play: Play) -> Fields:
    read, written = input_tokens(play.asked), play.reply.output_tokens
    usage: Fields = {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": play.asked.cached_tokens},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": play.reply.reasoning_tokens},
        "total_tokens": read + written,
    }
    if play.reply.searches and _is_xai(play):
        number = len(play.reply.searches)
        usage["num_server_side_tools_used"] = number
        usage["server_side_tool_usage_details"] = {"web_search_calls": number}
    return usage
