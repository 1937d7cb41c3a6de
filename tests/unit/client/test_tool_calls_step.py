"""Calls out, results in."""

import pytest

from dragoman.client.tool_calls import Step
from dragoman.errors import MisuseError
from dragoman.turn.answer import ToolCall
from dragoman.turn.events import Flavor
from dragoman.turn.request import USER, ImagePart, TextPart, ToolResultPart, Turn, UrlSource

FIRST, SECOND = ToolCall("c1", "a", "{}"), ToolCall("c2", "b", "{}", flavor=Flavor.CUSTOM)


def test_results_stand_in_one_turn_in_the_order_of_the_calls() -> None:
    step = Step(None, (FIRST, SECOND))

    step.resolve("c2", "two")

    assert None is step.turn()
    assert (FIRST,) == step.pending

    step.resolve(FIRST, {"n": 1}, is_error=True)

    assert () == step.pending
    assert (
        Turn(
            USER,
            (
                ToolResultPart("c1", (TextPart('{"n":1}'),), True),
                ToolResultPart("c2", (TextPart("two"),), False, Flavor.CUSTOM),
            ),
        )
        == step.turn()
    )


def test_a_step_without_calls_is_the_last() -> None:
    assert Step(None).is_last
    assert None is Step(None).turn()


def test_images_and_other_parts_are_given_as_they_are() -> None:
    step = Step(None, (FIRST, SECOND))
    image = ImagePart(UrlSource("https://host/a.png"))

    step.resolve(FIRST, image)
    step.resolve(SECOND, [TextPart("here"), image])

    assert [(image,), (TextPart("here"), image)] == [one.parts for one in step.results]


def test_half_a_character_becomes_a_mark_that_every_server_takes() -> None:
    step = Step(None, (FIRST,))

    step.resolve(FIRST, "file\udce9")

    assert TextPart("file�") == step.results[0].parts[0]


def test_a_call_is_refused_with_its_own_problem_or_another() -> None:
    wrong = ToolCall("c3", "c", "{}", error="`x` must be string")
    step = Step(None, (FIRST, SECOND, wrong))

    step.refuse(FIRST)
    step.refuse(SECOND, "not allowed")
    step.refuse(wrong)

    assert ["this call was not run", "not allowed", "`x` must be string"] == [
        one.parts[0].text for one in step.results
    ]
    assert all(one.is_error for one in step.results)


@pytest.mark.parametrize("value", [object(), {1: object()}, float])
def test_a_result_without_json_is_the_callers_mistake(value: object) -> None:
    step = Step(None, (FIRST,))

    with pytest.raises(MisuseError, match="cannot be written as JSON"):
        step.resolve(FIRST, value)

    assert (FIRST,) == step.pending


def test_a_result_is_given_once_and_to_a_call_of_the_step() -> None:
    step = Step(None, (FIRST,))
    step.resolve(FIRST, "")

    with pytest.raises(MisuseError, match="has a result already"):
        step.resolve(FIRST, "again")
    with pytest.raises(MisuseError, match="no call `c9`"):
        step.resolve("c9", "")
