"""Every upstream dialect: failures of a response that all readers report in the same way."""

import json
from typing import Any, Final

import pytest

from dragoman.context import Exchange
from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.dialects.framing import StreamReader
from dragoman.exchange_setup import read_whole
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Event, Fault, FaultKind, Finish, FinishReason
from dragoman.turn.losses import Loss

EMPTY: Final = Fault(
    FaultKind.UPSTREAM_BAD, "the upstream's response is empty", code="upstream_empty"
)
NAMELESS: Final = Fault(
    FaultKind.UPSTREAM_BAD, "the upstream sent a tool call without a name", code="call_without_name"
)


def read(name: str, stream: bytes) -> list[Event]:
    exchange = Exchange(profile=Profile(name="p"))
    reader = StreamReader(dialect(name).frame_reader(exchange), exchange)
    return reader.feed(stream) + reader.close()


def sse(*events: dict[str, Any]) -> bytes:
    lines = (
        f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n" for event in events
    )
    return "".join(lines).encode()


# --- nothing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DIALECT_NAMES)
@pytest.mark.parametrize(
    "stream",
    [b"", b"  \n\n", b": keep-alive\n\n", b"event: ping\n\n", b"data: [DONE]\n\n", b"data:\n\n"],
)
def test_s22_a_stream_without_data_is_empty(name: str, stream: bytes) -> None:
    assert [EMPTY] == read(name, stream)


@pytest.mark.parametrize("name", DIALECT_NAMES)
@pytest.mark.parametrize("body", [b"", b" \n"])
def test_s22_a_body_without_content_is_empty(name: str, body: bytes) -> None:
    exchange = Exchange(profile=Profile(name="p"))

    assert [EMPTY] == read_whole(body, dialect(name).frame_reader(exchange), exchange)


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_a_stream_that_ends_after_its_first_event_is_truncated(name: str) -> None:
    *_, fault = read(name, streamed(name, "length").partition(b"\n\n")[0] + b"\n\n")

    assert isinstance(fault, Fault)
    assert "upstream_truncated" == fault.code


# --- a call without a name --------------------------------------------------------------------------

ENDS: Final = {
    "chat": sse({"choices": [{"delta": {}, "finish_reason": "length"}]}),
    "anthropic": sse(
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}, {"type": "message_stop"}
    ),
    "responses": sse({"type": "response.incomplete", "response": {"status": "incomplete"}}),
    "gemini": sse({"candidates": [{"finishReason": "MAX_TOKENS"}]}),
}
WHOLE_ENDS: Final = {
    "chat": sse({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
    "anthropic": sse(
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}
    ),
    "responses": sse({"type": "response.completed", "response": {"status": "completed"}}),
    "gemini": sse({"candidates": [{"finishReason": "STOP"}]}),
}


def streamed(name: str, reason: str) -> bytes:
    """Return a stream with one nameless call, which ends whole or at the output limit."""
    match name:
        case "chat":
            call = {"index": 0, "id": "c", "function": {"arguments": '{"a":'}}
            events = [{"choices": [{"delta": {"role": "assistant", "tool_calls": [call]}}]}]
        case "anthropic":
            events = [
                {"type": "message_start", "message": {"id": "m", "content": []}},
                {
                    "type": "content_block_start",
                    "index": 0,
                    "content_block": {"type": "tool_use", "id": "c", "input": {}},
                },
            ]
        case "gemini":
            events = [
                {"candidates": [{"content": {"parts": [{"text": "I look."}]}}]},
                {"candidates": [{"content": {"parts": [{"functionCall": {"args": {}}}]}}]},
            ]
        case _:
            events = [
                {"type": "response.created", "response": {"id": "r"}},
                {
                    "type": "response.output_item.added",
                    "output_index": 0,
                    "item": {"type": "function_call", "id": "i", "call_id": "c"},
                },
                {
                    "type": "response.function_call_arguments.delta",
                    "item_id": "i",
                    "output_index": 0,
                    "delta": '{"a":',
                },
            ]
    return sse(*events) + (ENDS if reason == "length" else WHOLE_ENDS)[name]


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_a7_a_call_that_never_gets_a_name_fails_the_response(name: str) -> None:
    events = read(name, streamed(name, "tool_calls"))

    assert NAMELESS == events[-1]
    assert "call_without_name" not in [one.code for one in events if isinstance(one, Loss)]


@pytest.mark.parametrize("name", ["chat", "responses"])  # Messages names a call where it begins
def test_a7_a_call_is_dropped_if_a_limit_was_reached_before_its_name(name: str) -> None:
    events = read(name, streamed(name, "length"))

    assert "call_without_name" in [one.code for one in events if isinstance(one, Loss)]
    assert isinstance(events[-1], Finish)
    assert FinishReason.LENGTH is events[-1].reason
