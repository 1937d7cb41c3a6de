"""What a simulated server reports of its prompt cache."""

import asyncio
import json
from typing import Any

import pytest

from dragoman.simulator.server import Simulator
from tests.support.simulator import PATHS, post, question

MODEL = "sim/plain+prompt-cache"
LONG = "a sentence that fills some blocks of a cache. " * 20  # 920 characters: 230 tokens


def cached(dialect: str, *bodies: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the cached and all input tokens of each request to one server."""

    async def run() -> list[tuple[int, int]]:
        async with Simulator() as simulator:
            answers = [await post(simulator, PATHS[dialect], body) for body in bodies]
        return [_tokens(dialect, json.loads(one.body)["usage"]) for one in answers]

    return asyncio.run(run())


def _tokens(dialect: str, usage: dict[str, Any]) -> tuple[int, int]:
    match dialect:
        case "chat":
            return usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]
        case "anthropic":
            read = usage["cache_read_input_tokens"]
            return read, usage["input_tokens"] + read
        case _:
            return usage["input_tokens_details"]["cached_tokens"], usage["input_tokens"]


def asked(dialect: str, *texts: str, model: str = MODEL) -> dict[str, Any]:
    body = question(dialect, model, texts[0], stream=False)
    field = "input" if dialect == "responses" else "messages"
    for number, text in enumerate(texts[1:]):
        role = "user" if number % 2 else "assistant"
        body[field] = [*body[field], {"role": role, "content": text}]
    return body


@pytest.mark.parametrize("dialect", PATHS)
def test_beginning_that_was_read_before_is_cached(dialect: str) -> None:
    first, second, other = cached(
        dialect,
        asked(dialect, LONG),
        asked(dialect, LONG, "An answer.", "And then?"),
        asked(dialect, "Another beginning. " + LONG),
    )

    assert 0 == first[0] == other[0]
    assert 224 <= second[0] < second[1]
    assert second[1] - second[0] < 60


def test_repeated_request_is_cached_but_for_its_end() -> None:
    _, again = cached("chat", asked("chat", LONG), asked("chat", LONG))

    assert 0 < again[0] < again[1]


def test_other_models_report_no_cache() -> None:
    plain = [asked("chat", LONG, model="sim/plain")] * 2

    assert [0, 0] == [one[0] for one in cached("chat", *plain)]
