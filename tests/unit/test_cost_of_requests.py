"""A request within the limits takes time in proportion to its length, whatever its history repeats."""

import json
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from dragoman.profiles import for_model, profile
from dragoman.translate_requests import translate_request
from tests.support.garbage import without_collector

FEW: Final = 2000
MANY: Final = 16_000
GROWTH: Final = 20  # at most, with eight times the items: linear work has 8, quadratic work 64

Items = list[dict[str, Any]]
USER: Final = {"role": "user", "content": "x"}
INSTRUCTION: Final = {"role": "system", "content": "s"}
ASSISTANT: Final = {"role": "assistant", "content": "a"}


def chat_calls(count: int) -> Items:
    """Return a turn with calls of one id, and their results."""
    call = {"id": "k", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "k", "content": "r"}
    return [USER, {"role": "assistant", "tool_calls": [call] * count}, *[result] * count]


def phases(count: int) -> Items:
    """Return an answer whose phase changes with every message behind a call."""
    call = {"type": "function_call", "call_id": "k", "name": "f", "arguments": "{}"}
    changing = [{**ASSISTANT, "phase": phase} for phase in ("final_answer", "commentary")]
    result = {"type": "function_call_output", "call_id": "k", "output": "r"}
    return [USER, *[ASSISTANT] * count, call, *changing * (count // 2), result]


def gemini_turn(count: int, *parts: dict[str, Any]) -> Items:
    return [
        {"role": "user", "parts": [{"text": "x"}]},
        *[{"role": "model", "parts": [*parts]}] * count,
    ]


def gemini_calls(count: int) -> Items:
    call = {"functionCall": {"name": "f", "args": {}}}
    result = {"functionResponse": {"name": "f", "response": {"output": "r"}}}
    return [*gemini_turn(1, *[call] * count), {"role": "user", "parts": [result] * count}]


SHAPES: Final[dict[str, tuple[str, str, Callable[[int], Items]]]] = {
    "instructions in front": ("responses", "chat", lambda n: [*[INSTRUCTION] * n, USER]),
    "instructions behind a turn": ("chat", "gemini", lambda n: [USER, *[INSTRUCTION] * n]),
    "instructions between turns": (
        "chat",
        "anthropic",
        lambda n: [USER, INSTRUCTION, ASSISTANT] * n,
    ),
    "phases": ("responses", "chat", phases),
    "messages of one role": ("chat", "mistral", lambda n: [*[USER] * n, *[ASSISTANT] * n, USER]),
    "user turns behind results": ("chat", "chat", lambda n: [*chat_calls(1), *[USER] * n]),
    "calls of one id": ("chat", "responses", chat_calls),
    "calls without ids": ("gemini", "chat", gemini_calls),
    "a text in chunks": ("gemini", "chat", lambda n: gemini_turn(n, {"text": "a" * 600})),
    "a thought in chunks": (
        "gemini",
        "chat",
        lambda n: gemini_turn(n, {"text": "a" * 600, "thought": True}),
    ),
    "signatures of a thought": (
        "gemini",
        "chat",
        lambda n: [
            *gemini_turn(1, {"text": "a", "thought": True}),
            *gemini_turn(n, {"text": "", "thought": True, "thoughtSignature": "QUJD"}),
        ],
    ),
}
PROFILES: Final = {
    "chat": "openai",
    "anthropic": "anthropic",
    "responses": "openai",
    "gemini": "gemini-api",
}
FIELDS: Final = {"chat": "messages", "responses": "input", "gemini": "contents"}


def seconds_of(source: str, to: str, items: Items) -> float:
    body = json.dumps({"model": "m", FIELDS[source]: items}).encode()
    target = to if to in PROFILES else "chat"
    known = for_model(profile(PROFILES.get(to, to)), "m", None, target)
    began = time.process_time()
    translate_request(body, source=source, target=target, profile=known, model="m")
    return time.process_time() - began


@pytest.mark.parametrize("shape", SHAPES)
def test_time_grows_with_the_length_of_a_history(shape: str) -> None:
    source, target, items = SHAPES[shape]
    with without_collector():
        few, many = (
            min(seconds_of(source, target, items(count)) for _ in range(3)) for count in (FEW, MANY)
        )

    assert many < GROWTH * few
