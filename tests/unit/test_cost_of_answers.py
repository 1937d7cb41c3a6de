"""An answer within the limits takes time in proportion to its length, whatever it repeats."""

import json
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final

import pytest

from dragoman.dialects import DIALECT_NAMES
from dragoman.translate import Translator
from tests.support.garbage import without_collector

FEW: Final = 500
MANY: Final = 4000
CALLS: Final = 4  # an answer may have fewer calls than other items
GROWTH: Final = 20  # at most, with eight times the items: linear work has 8, quadratic work 64

Events = Iterator[dict[str, Any]]


def chat(*deltas: dict[str, Any]) -> Events:
    for delta in (*deltas, {}):
        choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}
        yield {"id": "c", "model": "m", "choices": [choice]}


def chat_calls(many: int) -> Events:
    """Return calls that are all open at the same time."""
    calls = [{"index": at, "id": f"c{at}", "function": {"name": "f"}} for at in range(many)]
    ends = [{"index": at, "function": {"arguments": "{}"}} for at in reversed(range(many))]
    return chat(*({"tool_calls": [one]} for one in (*calls, *ends)))


def chat_turns(many: int) -> Events:
    return chat(*({"reasoning_content": "r"}, {"content": "x"}) * many)


def messages(many: int) -> Events:
    """Return blocks that are all open at the same time."""
    head = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
    yield {"type": "message_start", "message": head | {"usage": {}}}
    call = {"type": "tool_use", "name": "f", "input": {}}
    for at in range(many):
        yield {"type": "content_block_start", "index": at, "content_block": call | {"id": f"t{at}"}}
    for at in range(many):
        yield {"type": "content_block_stop", "index": at}
    yield {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}
    yield {"type": "message_stop"}


def responses(items: list[dict[str, Any]], *, streamed: bool = True) -> Events:
    numbers = count()
    head = {"id": "r", "object": "response", "model": "m", "created_at": 1}
    yield {"type": "response.created", "response": head | {"status": "in_progress"}}
    for item in items if streamed else ():
        for what in ("added", "done"):
            yield {"type": f"response.output_item.{what}", "sequence_number": next(numbers)} | {
                "item": item
            }
    yield {
        "type": "response.completed",
        "response": head | {"status": "completed", "output": items},
    }


def texts(many: int, name: str = "msg_") -> list[dict[str, Any]]:
    content = [{"type": "output_text", "text": "x", "annotations": []}]
    item = {"type": "message", "role": "assistant", "content": content}
    return [item | ({"id": f"{name}{at}"} if name else {}) for at in range(many)]


def gemini_calls(many: int) -> Events:
    call = {"functionCall": {"name": "f", "args": {"a": 1}}}
    for parts, reason in (*[([call], None)] * many, ([{"text": ""}], "STOP")):
        yield {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason}]
        }


ANSWERS: Final[dict[str, tuple[str, Callable[[int], Events]]]] = {
    "calls open together": ("chat", lambda many: chat_calls(many // CALLS)),
    "thoughts between texts": ("chat", chat_turns),
    "blocks open together": ("anthropic", lambda many: messages(many // CALLS)),
    "items": ("responses", lambda many: responses(texts(many))),
    "items without ids": ("responses", lambda many: responses(texts(many, ""))),
    "items at the end alone": ("responses", lambda many: responses(texts(many), streamed=False)),
    "calls without ids": ("gemini", lambda many: gemini_calls(many // CALLS)),
}


def stream_of(events: Events) -> bytes:
    frames = (
        f"event: {one['type']}\ndata: {json.dumps(one)}\n\n"
        if "type" in one
        else f"data: {json.dumps(one)}\n\n"
        for one in events
    )
    return "".join(frames).encode()


def seconds_of(source: str, target: str, stream: bytes) -> float:
    translator = Translator(source=source, target=target)
    began = time.process_time()
    translator.feed(stream)
    translator.close()
    return time.process_time() - began


@pytest.mark.parametrize("answer", ANSWERS)
def test_time_grows_with_the_length_of_an_answer(answer: str) -> None:
    source, events = ANSWERS[answer]
    few, many = (stream_of(events(number)) for number in (FEW, MANY))
    for target in DIALECT_NAMES:
        with without_collector():
            least = min(seconds_of(source, target, few) for _ in range(3))
            most = min(seconds_of(source, target, many) for _ in range(3))
        assert most < GROWTH * least, target
