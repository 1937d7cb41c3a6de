"""A call that a model made, and whether it can be run as it is."""

import pytest

from dragoman.client.messages import tool
from dragoman.client.tool_calls import checked_call
from dragoman.turn.answer import CUT_CALL
from dragoman.turn.events import Flavor
from dragoman.turn.request import Tool, ToolCallPart


def get_weather(city: str, days: int = 1) -> str:
    """The weather of a city."""
    return f"{city} {days}"


TOOLS = (tool(get_weather), Tool(name="patch", flavor=Flavor.CUSTOM), Tool(name="bare"))


def test_a_good_call_has_values_and_no_problem() -> None:
    call = checked_call(ToolCallPart("c1", "get_weather", '{"city": "Rome", "days": 2}'), TOOLS)

    assert not call.error
    assert {"city": "Rome", "days": 2} == call.args


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("{}", "required and missing: `city`"),
        ('{"city": 5}', "`city` must be string"),
        ("[]", "the arguments are not a JSON object"),
        ('{"city"', "the arguments are not JSON: "),
        ("[" * 10_000, "the arguments are not JSON: "),
        ("", "the arguments are not JSON: "),
    ],
)
def test_a_bad_call_has_a_reason_and_has_no_values(arguments: str, says: str) -> None:
    call = checked_call(ToolCallPart("c1", "get_weather", arguments), TOOLS)

    assert call.error.startswith(says)
    assert {} == call.args
    assert arguments == call.arguments


def test_a_call_of_an_unknown_tool_is_one() -> None:
    assert "there is no tool `rm`" == checked_call(ToolCallPart("c1", "rm", "{}"), TOOLS).error


def test_a_name_in_another_namespace_is_another_tool() -> None:
    part = ToolCallPart("c1", "get_weather", '{"city": "Rome"}', namespace="other")

    assert "there is no tool `get_weather`" == checked_call(part, TOOLS).error


def test_a_tool_that_the_vendor_runs_is_not_ours() -> None:
    tools = (Tool(name="web_search", server=True),)

    assert checked_call(ToolCallPart("c1", "web_search", "{}"), tools).error


def test_a_cut_call_is_never_good() -> None:
    call = checked_call(ToolCallPart("c1", "get_weather", '{"city": "Rome"}'), TOOLS, CUT_CALL)

    assert CUT_CALL == call.error
    assert {} == call.args


def test_free_text_is_not_judged() -> None:
    call = checked_call(ToolCallPart("c1", "patch", "*** Begin", flavor=Flavor.CUSTOM), TOOLS)

    assert not call.error
    assert "*** Begin" == call.arguments
    assert {} == call.args


def test_a_tool_without_a_schema_takes_any_object() -> None:
    assert {"a": 1} == checked_call(ToolCallPart("c1", "bare", '{"a": 1}'), TOOLS).args
