"""What every upstream is told of functions and free-form tools."""

import pytest

from dragoman.dialects.functions import description_with_grammar, object_arguments
from dragoman.limits import DEFAULT_LIMITS
from dragoman.turn.events import Flavor
from dragoman.turn.losses import Loss
from dragoman.turn.request import Tool, ToolCallPart


def test_a_grammar_is_put_in_words_after_the_description() -> None:
    tool = Tool(name="t", description="Do it.", grammar=("lark", "start: A"))

    assert "Do it." == description_with_grammar(Tool(name="t", description="Do it."))
    assert (
        "Do it.\n\nThe input must match this lark grammar:\nstart: A"
        == description_with_grammar(tool)
    )


def test_arguments_that_are_an_object_keep_every_character() -> None:
    losses: list[Loss] = []
    call = ToolCallPart("c", "t", '{ "a" : 1.0 }')

    assert call.arguments == object_arguments(call, DEFAULT_LIMITS, losses, "$.x")
    assert [] == losses


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [('{"a": 1,}', '{"a": 1}'), ('{"a": "b', '{"_raw":"{\\"a\\": \\"b"}'), ("ls", '{"_raw":"ls"}')],
)
def test_arguments_that_are_no_object_are_mended_or_wrapped_and_it_is_told(
    arguments: str, expected: str
) -> None:
    losses: list[Loss] = []
    call = ToolCallPart("c", "t", arguments)

    assert expected == object_arguments(call, DEFAULT_LIMITS, losses, "$.x")
    assert [Loss("args_repaired", "$.x", "call c")] == losses


def test_free_form_input_becomes_the_one_argument() -> None:
    call = ToolCallPart("c", "t", 'say "hi"', Flavor.CUSTOM)

    assert '{"input":"say \\"hi\\""}' == object_arguments(call, DEFAULT_LIMITS, [], "$.x")
