"""Calls that loop: the same ones, with the same results, again and again."""

import itertools
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects import dialect
from dragoman.limits import DEFAULT_LIMITS
from dragoman.turn.repeats import Loop, find_loop
from dragoman.turn.request import (
    ASSISTANT,
    SYSTEM,
    USER,
    Base64Source,
    CacheHint,
    ImagePart,
    Part,
    ReasoningPart,
    ReasoningSegment,
    SearchResultPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
)

IDS = itertools.count()


def made(name: str = "look", arguments: str = "{}", *result: Part, call_id: str = "") -> list[Turn]:
    """Return a call and its result."""
    call_id = call_id or f"c{next(IDS)}"
    parts = result or (TextPart("same"),)
    return [
        Turn(ASSISTANT, (ToolCallPart(call_id, name, arguments),)),
        Turn(USER, (ToolResultPart(call_id, parts),)),
    ]


def loop(turns: list[Turn], repeats: int = 3, longest: int = 4) -> Loop | None:
    return find_loop([Turn(USER, (TextPart("Go"),)), *turns], repeats=repeats, longest=longest)


@pytest.mark.parametrize(
    "turns",
    [
        [],
        [Turn(USER, ())],
        [Turn(ASSISTANT, ())],
        [Turn(ASSISTANT, (ToolCallPart("c", "look", "{}"),))],
    ],
)
def test_a_history_without_calls_and_results_has_no_loop(turns: list[Turn]) -> None:
    assert None is find_loop(turns, repeats=1, longest=4)


def test_a_loop_that_was_left_is_none() -> None:
    assert None is loop([turn for _ in range(10) for turn in made()] + made("find"))


def test_a_cycle_may_end_in_its_middle() -> None:
    assert Loop(("b", "a"), 4) == loop([turn for name in "babababa" for turn in made(name)])


@given(
    names=st.lists(st.sampled_from("AB"), max_size=40),
    repeats=st.integers(2, 4),
    longest=st.integers(1, 4),
)
def test_h6_a_loop_is_found_exactly_where_the_end_repeats(
    names: list[str], repeats: int, longest: int
) -> None:
    found = loop([turn for name in names for turn in made(name)], repeats, longest)

    def rounds(length: int) -> int:
        unit, count = names[-length:], 0
        while len(unit) == length and names[len(names) - length * (count + 1) :][:length] == unit:
            count += 1
            if length * (count + 1) > len(names):
                break
        return count

    expected = next((n for n in range(1, longest + 1) if rounds(n) >= repeats), None)
    assert expected == (None if found is None else len(found.names))
    if found is not None and expected is not None:
        assert rounds(expected) == found.repeats
        assert tuple(names[-expected:]) == found.names


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_s_9_a_cycle_is_found_with_its_names_and_rounds(length: int) -> None:
    names = tuple("abcd"[:length])
    turns = [turn for _ in range(5) for name in names for turn in made(name)]

    assert Loop(names, 5) == loop(turns)
    assert None is loop(turns, repeats=6)


def test_a_cycle_that_is_too_long_is_none() -> None:
    turns = [turn for _ in range(5) for name in "abcde" for turn in made(name)]

    assert None is loop(turns)
    assert Loop(tuple("abcde"), 5) == loop(turns, longest=5)


def test_the_shortest_cycle_is_reported() -> None:
    assert Loop(("look",), 8) == loop([turn for _ in range(8) for turn in made()])


def test_parallel_calls_are_a_round() -> None:
    turns = []
    for n in range(3):
        turns.append(
            Turn(ASSISTANT, (ToolCallPart(f"a{n}", "a", "{}"), ToolCallPart(f"b{n}", "b", "{}")))
        )
        turns.append(
            Turn(USER, (ToolResultPart(f"b{n}", ()), ToolResultPart(f"a{n}", (TextPart("1"),))))
        )

    assert Loop(("a", "b"), 3) == loop(turns)


def test_results_may_come_in_turns_of_their_own() -> None:
    calls = (ToolCallPart("1", "a", "{}"), ToolCallPart("2", "a", "{}"))
    results = [Turn(USER, (ToolResultPart(one, (TextPart("same"),)),)) for one in ("2", "1")]

    assert Loop(("a",), 4) == loop([Turn(ASSISTANT, calls), *results] * 2)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":1,"b":[1,{"x":2,"y":3}]}', '{ "b": [1, {"y":3, "x": 2}], "a": 1 }', True),
        ('{"a":"\\u0041"}', '{"a":"A"}', True),
        ('{"a":1.0}', '{"a":1}', True),
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('{"a":"1"}', '{"a":1}', False),
        ('{"a":', '{"a":', True),
        ('{"a":', '{ "a":', False),
        ("*** Begin Patch", "*** Begin Patch", True),
        ("", "", True),
        ("[" * 3000, "[" * 3000, True),
        ("\ud800", "\ud800", True),
        ("1e999", "1e999", True),
        ("123456789012345678901234567890", "123456789012345678901234567891", False),
    ],
)
def test_h6_arguments_are_compared_by_meaning(one: str, other: str, same: bool) -> None:
    assert same == (loop(made("look", one) + made("look", other), repeats=2) is not None)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (made("look"), made("find"), False),
        (made("look", "{}", TextPart("1")), made("look", "{}", TextPart("2")), False),
        (
            made("look", "{}", TextPart("1", CacheHint())),
            made("look", "{}", TextPart("1")),
            True,
        ),
        (
            made("look", "{}", ImagePart(Base64Source("image/png", "aa"), cache=CacheHint())),
            made("look", "{}", ImagePart(Base64Source("image/png", "aa"))),
            True,
        ),
        (
            made("look", "{}", ImagePart(Base64Source("image/png", "aa"))),
            made("look", "{}", ImagePart(Base64Source("image/png", "bb"))),
            False,
        ),
        (
            made("look", "{}", SearchResultPart("s", "t", (TextPart("x"),))),
            made("look", "{}", SearchResultPart("s", "t", (TextPart("y"),))),
            False,
        ),
        (
            made("look", "{}", SearchResultPart("s", "t", (TextPart("x"),), cache=CacheHint())),
            made("look", "{}", SearchResultPart("s", "t", (TextPart("x"),))),
            True,
        ),
        (made("look", "{}", TextPart("same"), TextPart("")), made("look"), False),
    ],
)
def test_s_9_calls_are_compared_by_name_arguments_and_result(
    one: list[Turn], other: list[Turn], same: bool
) -> None:
    assert same == (loop(one + other, repeats=2) is not None)


def test_an_error_with_the_same_words_is_another_result() -> None:
    good, bad = made(), made()
    bad[1] = Turn(USER, (ToolResultPart(bad[0].parts[0].id, (TextPart("same"),), True),))

    assert None is loop(good + bad, repeats=2)


def test_a_call_without_a_result_is_another_step() -> None:
    call, result = made()

    assert None is loop([call, Turn(USER, ()), call, result], repeats=2)


def test_a_tool_of_another_namespace_is_another_tool() -> None:
    call, result = made(call_id="c")
    there = Turn(ASSISTANT, (ToolCallPart("c", "look", "{}", namespace="n"),))

    assert None is loop([call, result, there, result], repeats=2)


def test_a_cache_mark_on_a_result_hides_no_loop() -> None:
    call, _ = made(call_id="c")
    marked = Turn(USER, (ToolResultPart("c", (TextPart("same"),), cache=CacheHint()),))

    assert Loop(("look",), 2) == loop([*made(), call, marked], repeats=2)


def test_reasoning_and_text_beside_a_call_do_not_hide_a_loop() -> None:
    turns = []
    for n in range(3):
        call, result = made()
        said = ReasoningPart((ReasoningSegment(f"thought {n}"),))
        turns += [Turn(ASSISTANT, (said, TextPart(f"try {n}"), *call.parts)), result]

    assert Loop(("look",), 3) == loop(turns)


def test_ids_that_are_used_again_have_results_of_their_own() -> None:
    turns = [turn for n in range(3) for turn in made("look", "{}", TextPart(str(n)), call_id="c")]

    assert None is loop(turns, repeats=2)


@pytest.mark.parametrize("text", ["Now go on.", "<b>bold</b> words", "a < b"])
def test_a_person_who_speaks_ends_a_loop(text: str) -> None:
    turns = [*made(), *made(), Turn(USER, (TextPart(text),)), *made()]

    assert None is loop(turns, repeats=2)


@pytest.mark.parametrize(
    "part", [TextPart("No!"), ImagePart(Base64Source("image/png", "aa"))], ids=["words", "image"]
)
def test_so_does_one_who_interrupts_a_call(part: Part) -> None:
    call, result = made()
    interrupted = [call, Turn(USER, (*result.parts, part))]

    assert None is loop([*made(), *made(), *interrupted], repeats=2)


@pytest.mark.parametrize(
    "turn",
    [
        Turn(USER, (TextPart("<system-reminder>Be quick.</system-reminder>"),)),
        Turn(USER, (TextPart("  \n"),)),
        Turn(SYSTEM, (TextPart("Be quick."),)),
    ],
)
def test_an_agents_own_remark_does_not(turn: Turn) -> None:
    assert Loop(("look",), 3) == loop([*made(), *made(), turn, *made()])


def test_an_answer_without_calls_ends_a_loop() -> None:
    said = Turn(ASSISTANT, (TextPart("Done."),))

    assert None is loop([*made(), *made(), said, Turn(USER, ()), *made()], repeats=2)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (Loop(("look",), 5), "the tool `look` was called 5 times in a row"),
        (
            Loop(("a", "b"), 3),
            "the tools `a`, `b` were called in the same order 3 times in a row",
        ),
    ],
)
def test_a_loop_describes_what_happened(found: Loop, says: str) -> None:
    assert says == found.description


def test_the_description_of_a_loop_is_short_whatever_the_model_wrote() -> None:
    assert len(Loop(("x" * 10_000,) * 50, 5).description) < 1200


@pytest.mark.parametrize("repeats", [0, 6666])
def test_h6_a_history_of_thousands_of_calls_takes_linear_time(repeats: int) -> None:
    turns = [
        turn
        for n in range(20_000)
        for turn in made(f"T{n % 3}", "{}", TextPart("x" * 1000 if repeats else str(n)))
    ]

    started = time.perf_counter()
    found = loop(turns, repeats=5)

    assert time.perf_counter() - started < 5
    assert repeats == (0 if found is None else found.repeats)


@pytest.mark.parametrize("name", ["chat", "responses"])
def test_h6_real_requests_of_every_dialect_show_their_loops(name: str) -> None:
    chat_messages: list[dict[str, Any]] = [{"role": "user", "content": "Do it."}]
    items: list[dict[str, Any]] = [{"role": "user", "content": "Do it."}]
    for n in range(5):
        asked = {"name": "Read", "arguments": '{"path":"a"}' if n % 2 else '{ "path": "a" }'}
        calls = [{"id": f"c{n}", "type": "function", "function": asked}]
        chat_messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        chat_messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": "same"})
        items.append({"type": "function_call", "call_id": f"c{n}", **asked})
        items.append({"type": "function_call_output", "call_id": f"c{n}", "output": "same"})
    bodies = {
        "chat": {"model": "m", "messages": chat_messages},
        "responses": {"model": "m", "input": items},
    }

    request = dialect(name).decode_request(
        msgspec.json.encode(bodies[name]), sealer=None, limits=DEFAULT_LIMITS
    )

    assert Loop(("Read",), 5) == find_loop(request.turns, repeats=5, longest=4)
