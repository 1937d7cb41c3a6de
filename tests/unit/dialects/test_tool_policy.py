"""Definitions of functions and free-form tools, and arguments of earlier calls."""

import pytest

from dragoman.dialects.tool_policy import function_description, object_arguments
from dragoman.limits import DEFAULT_LIMITS
from dragoman.turn.events import Flavor
from dragoman.turn.losses import Loss
from dragoman.turn.request import Tool, ToolCallPart


def test_a_grammar_is_put_in_words_after_the_description() -> None:
    tool = Tool(name="t", description="Do it.", grammar=("lark", "start: A"))

    losses: list[Loss] = []

    assert "Do it." == function_description(Tool(name="t", description="Do it."), losses)
    assert [] == losses
    described = function_description(tool, losses)
    assert "Do it.\n\nThe input must match this lark grammar:\nstart: A" == described
    assert ["grammar_not_enforced"] == [loss.code for loss in losses]


def test_arguments_that_are_an_object_keep_every_character() -> None:
    losses: list[Loss] = []
    call = ToolCallPart("c", "t", '{ "a" : 1.0 }')

    assert call.arguments == object_arguments(call, DEFAULT_LIMITS, losses, "$.x")
    assert [] == losses


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [('{"a": 1,}', '{"a": 1}'), ('{"a": "b', '{"_raw":"{\\"a\\": \\"b"}'), ("ls", '{"_raw":"ls"}')],
)
def test_arguments_that_are_not_an_object_are_repaired_or_wrapped_and_reported(
    arguments: str, expected: str
) -> None:
    losses: list[Loss] = []
    call = ToolCallPart("c", "t", arguments)

    assert expected == object_arguments(call, DEFAULT_LIMITS, losses, "$.x")
    assert [Loss("args_repaired", "$.x", "call c")] == losses


def test_free_form_input_becomes_the_one_argument() -> None:
    call = ToolCallPart("c", "t", 'say "hi"', Flavor.CUSTOM)

    assert '{"input":"say \\"hi\\""}' == object_arguments(call, DEFAULT_LIMITS, [], "$.x")
