"""Calls that loop: the same ones, with the same results, again and again."""

import itertools

import pytest

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


def test_nothing_loops_in_an_empty_conversation() -> None:
    assert None is find_loop([], repeats=2, longest=4)
    assert None is loop([])


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


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (made("look", '{"a":1,"b":2}'), made("look", '{ "b" : 2, "a" : 1 }'), True),
        (made("look", "not JSON"), made("look", "not JSON"), True),
        (made("look", "not JSON"), made("look", "not  JSON"), False),
        (made("look", '{"a":1}'), made("look", '{"a":2}'), False),
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
        (made("look", '{"a":"\ud800"}'), made("look", '{"a":"\ud800"}'), True),
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
