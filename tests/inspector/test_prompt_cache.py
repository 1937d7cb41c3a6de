"""Where a request differs from the turn before."""

import json
from typing import Any

import pytest

from dragoman.inspector.prompt_cache import Billed, first_difference, leaves, price_of_losing

TOOL = {"name": "run", "input_schema": {"type": "object"}}


def body(messages: list[Any], tools: Any = (TOOL,)) -> dict[str, Any]:
    return {"model": "m", "system": "Be careful.", "messages": messages, "tools": tools}


def gemini(*texts: str, system: str = "Be careful.") -> dict[str, Any]:
    contents = [{"role": "user", "parts": [{"text": text}]} for text in texts]
    return {"systemInstruction": {"parts": [{"text": system}]}, "contents": contents}


TIMES = ("It is 09:46:49 now.", "It is 09:47:12 now.")


@pytest.mark.parametrize(
    ("before", "after", "path", "byte", "cause"),
    [
        (body(["a"]), body(["a"], [TOOL, TOOL]), "$.tools[1].name", 0, "The list of tools changed."),
        (body(["a"]), body(["a"], [{**TOOL, "name": "ran"}]), "$.tools[0].name", 1, "The list of tools changed."),
        (body(["a", "b"]), body(["x", "b", "c"]), "$.messages[0]", 0, "An earlier message was edited."),
        (body(["a", "b", "c"]), body(["summary"]), "$.messages[0]", 0, "The history was compacted."),
        (body(["ü1"]), body(["ü2", "b"]), "$.messages[0]", 2, "An earlier message was edited."),
        (body([TIMES[0]]), body([TIMES[1]]), "$.messages[0]", 10, "This looks like a timestamp."),
        (body([]), body([]) | {"system": "Be kind."}, "$.system", 3, "The system prompt changed."),
        (gemini("a"), gemini("a", system="Be kind."), "$.systemInstruction.parts[0].text", 3, "The system prompt changed."),
        (gemini("a", "b"), gemini("x", "b", "c"), "$.contents[0].parts[0].text", 0, "An earlier message was edited."),
    ],
)  # fmt: skip
def test_the_first_difference_of_two_requests(
    before: Any, after: Any, path: str, byte: int, cause: str
) -> None:
    found = first_difference(*(leaves(json.dumps(one).encode()) for one in (before, after)))

    assert found is not None
    assert (path, byte, cause) == (found.path, found.byte, found.cause)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (body(["a"]), body(["a", "b"])),
        (gemini("a"), gemini("a", "b")),
        (
            body([{"role": "user", "content": "a"}]),
            body([{"role": "user", "content": [{"type": "text", "text": "a"}]}, "b"]),
        ),
    ],
    ids=["a message more", "a message more to Gemini", "content as a list"],
)
def test_a_request_that_continues_the_turn_before_has_no_difference(
    before: Any, after: Any
) -> None:
    assert first_difference(*(leaves(json.dumps(one).encode()) for one in (before, after))) is None


def test_a_body_that_is_not_json_has_no_leaves() -> None:
    assert [] == leaves(b"not JSON")


PRICES = (3e-6, 0.3e-6, 15e-6)
TURNS = ((9000, 0, 300), (800, 9000, 120), (1200, 9800, 40), (11_500, 0, 90), (400, 11_500, 800))


def billed(*more: float) -> list[Billed]:
    """Return turns that cost by `PRICES`, the last ones something more."""
    extra = [0.0] * (len(TURNS) - len(more)) + list(more)
    costs = [sum(a * b for a, b in zip(PRICES, turn, strict=True)) for turn in TURNS]
    return [
        Billed(*turn, cost + added) for turn, cost, added in zip(TURNS, costs, extra, strict=True)
    ]


def test_the_price_of_a_lost_token_follows_from_the_costs_of_turns() -> None:
    assert PRICES[0] - PRICES[1] == pytest.approx(price_of_losing(billed()))


@pytest.mark.parametrize(
    "turns",
    [billed()[:3], [billed()[0]] * 6, billed(0.01), []],
    ids=["too few", "all alike", "another price", "none"],
)
def test_no_price_is_invented(turns: list[Billed]) -> None:
    assert price_of_losing(turns) is None
