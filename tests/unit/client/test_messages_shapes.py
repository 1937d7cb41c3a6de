"""Messages as other programs write them."""

import json
from typing import Any

import pytest

from dragoman.client.messages import read_messages, shape_of
from dragoman.errors import MalformedError
from dragoman.turn.request import ASSISTANT, USER, ToolCallPart, ToolResultPart

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
]
ANTHROPIC = [
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}],
    },
]
RESPONSES = [
    {"role": "user", "content": "Weather?"},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
]
SIMPLE = [{"role": "user", "content": "Weather?"}]


def encoded(messages: Any) -> bytes:
    return json.dumps(messages).encode()


@pytest.mark.parametrize(
    ("messages", "name"),
    [
        (SIMPLE, "chat"),
        (CHAT, "chat"),
        (ANTHROPIC, "anthropic"),
        (RESPONSES, "responses"),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}]}], "chat"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "a"}]}], "responses"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "chat"),
        ([{"role": "user", "content": [{"type": "image", "source": {}}]}], "anthropic"),
        ([{"role": "user", "content": [5, {"type": []}]}], "chat"),
        ([], "chat"),
    ],
)
def test_the_shape_of_messages_shows_their_dialect(messages: Any, name: str) -> None:
    assert name == shape_of(encoded(messages))


@pytest.mark.parametrize(
    "messages", [CHAT, ANTHROPIC, RESPONSES], ids=["chat", "anthropic", "responses"]
)
def test_calls_and_results_are_read_alike_from_every_shape(messages: Any) -> None:
    turns = read_messages(encoded(messages)).turns
    [call] = [part for part in turns[1].parts if isinstance(part, ToolCallPart)]
    [result] = [part for part in turns[2].parts if isinstance(part, ToolResultPart)]

    assert [USER, ASSISTANT, USER] == [turn.role for turn in turns]
    assert ("c1", "look", "{}") == (call.id, call.name, call.arguments)
    assert ("c1", "sunny") == (result.call_id, result.parts[0].text)


def test_a_system_message_is_the_instruction() -> None:
    assert ["Be brief."] == [part.text for part in read_messages(encoded(CHAT)).system]


@pytest.mark.parametrize("messages", [b"", b"{}", b"[1]", b"null", b"[" * 10_000, b"\xff"])
def test_what_is_no_list_of_messages_is_refused(messages: bytes) -> None:
    with pytest.raises(MalformedError, match="JSON list of objects"):
        read_messages(messages)


@pytest.mark.parametrize(
    "messages",
    [[{"content": "x"}], [{"role": "king", "content": "x"}], [{"type": "message"}]],
)
def test_what_is_of_no_dialect_is_refused_with_its_path(messages: Any) -> None:
    with pytest.raises(MalformedError) as caught:
        read_messages(encoded(messages))

    assert caught.value.path.startswith("$.")
