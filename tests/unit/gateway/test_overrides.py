"""What a route changes in requests."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway import overrides
from dragoman.gateway.overrides import PARAMS, apply, check
from dragoman.turn.request import (
    ReasoningSettings,
    Request,
    Role,
    Sampling,
    TextPart,
    ToolChoice,
    Turn,
)
from tests.support.tables import in_one_test

TURNS = (Turn(Role.USER, (TextPart("Hi"),)),)


def request(**fields: Any) -> Request:
    return Request(dialect="anthropic", model="m", turns=TURNS, **fields)


def sampled(**fields: Any) -> Request:
    return request(sampling=Sampling(**fields))


def wished(**fields: Any) -> Request:
    return request(reasoning=ReasoningSettings(**fields))


@in_one_test
@pytest.mark.parametrize(
    ("params", "before", "after"),
    [
        # a plain value sets
        ({"temperature": 0.6}, request(), sampled(temperature=0.6)),
        ({"temperature": 1}, sampled(temperature=0.2), sampled(temperature=1.0)),
        ({"top_k": 20, "seed": 7}, request(), sampled(top_k=20, seed=7)),
        ({"max_tokens": 100}, request(max_output=5), request(max_output=100)),
        ({"stop": "END"}, request(), request(stop=("END",))),
        ({"stop": ["A", "B"]}, request(stop=("C",)), request(stop=("A", "B"))),
        ({"parallel_tool_calls": False}, request(), request(parallel=False)),
        ({"tool_choice": "required"}, request(), request(tool_choice=ToolChoice("required"))),
        ({"tool_choice": "Bash"}, request(), request(tool_choice=ToolChoice("tool", "Bash"))),
        (
            {"tool_choice": "required"},
            request(tool_choice=ToolChoice("auto", allowed=("A",))),
            request(tool_choice=ToolChoice("required", allowed=("A",))),
        ),
        ({"verbosity": "low"}, request(), request(verbosity="low")),
        ({"service_tier": "flex"}, request(tier="auto"), request(tier="flex")),
        ({"user": "u"}, request(), request(user_id="u")),
        ({"cache_key": "k"}, request(), request(cache_key="k")),
        # a default is set if the client said nothing
        ({"temperature": {"default": 0.6}}, request(), sampled(temperature=0.6)),
        ({"temperature": {"default": 0.6}}, sampled(temperature=0.0), sampled(temperature=0.0)),
        ({"max_tokens": {"default": 9}}, request(), request(max_output=9)),
        ({"stop": {"default": "X"}}, request(), request(stop=("X",))),
        ({"stop": {"default": "X"}}, request(stop=("Y",)), request(stop=("Y",))),
        ({"parallel_tool_calls": {"default": True}}, request(parallel=False), request(parallel=False)),
        # bounds concern what the client said
        ({"max_tokens": {"max": 8}}, request(max_output=9), request(max_output=8)),
        ({"max_tokens": {"max": 8}}, request(max_output=7), request(max_output=7)),
        ({"max_tokens": {"max": 8}}, request(), request()),
        ({"max_tokens": {"min": 8}}, request(max_output=7), request(max_output=8)),
        ({"temperature": {"min": 0.5, "max": 1}}, sampled(temperature=2.0), sampled(temperature=1.0)),
        ({"temperature": {"min": 0.5, "max": 1}}, sampled(temperature=0.0), sampled(temperature=0.5)),
        ({"max_tokens": {"default": 50, "max": 8}}, request(), request(max_output=8)),
        # drop takes away
        ({"temperature": "drop"}, sampled(temperature=0.5, top_p=0.1), sampled(top_p=0.1)),
        ({"max_tokens": "drop"}, request(max_output=5), request()),
        ({"stop": "drop"}, request(stop=("A",)), request()),
        ({"tool_choice": "drop"}, request(tool_choice=ToolChoice("none")), request()),
        ({"user": "drop"}, request(user_id="u"), request()),
        # thinking
        ({"thinking": True}, request(), wished(mode="auto")),
        ({"thinking": True}, wished(mode="off"), wished(mode="auto")),
        ({"thinking": True}, wished(mode="budget", budget=9), wished(mode="budget", budget=9)),
        ({"thinking": False}, wished(mode="budget", budget=9, show="full"), wished(mode="off", show="full")),
        ({"thinking": "drop"}, wished(mode="effort", effort="max"), request()),
        ({"thinking": {"default": True}}, wished(mode="off"), wished(mode="off")),
        ({"effort": "low"}, wished(mode="budget", budget=9), wished(mode="effort", effort="low")),
        ({"effort": "low"}, wished(mode="off"), wished(mode="effort", effort="low")),
        ({"effort": "low"}, wished(mode="auto", effort="max"), wished(mode="auto", effort="low")),
        ({"effort": "none"}, wished(mode="effort", effort="max"), wished(mode="off")),
        ({"effort": {"default": "high"}}, request(), wished(mode="effort", effort="high")),
        ({"effort": {"default": "high"}}, wished(mode="auto"), wished(mode="auto", effort="high")),
        ({"effort": {"default": "high"}}, wished(mode="off"), wished(mode="off")),
        ({"effort": {"default": "high"}}, wished(mode="budget", budget=9), wished(mode="budget", budget=9)),
        ({"effort": {"max": "medium"}}, wished(mode="effort", effort="xhigh"), wished(mode="effort", effort="medium")),
        ({"effort": {"max": "medium"}}, wished(mode="effort", effort="low"), wished(mode="effort", effort="low")),
        ({"effort": {"max": "medium"}}, wished(mode="budget", budget=31_999), wished(mode="effort", effort="medium")),
        ({"effort": {"max": "medium"}}, wished(mode="budget", budget=5000), wished(mode="budget", budget=5000)),
        ({"effort": {"min": "low"}}, wished(mode="budget", budget=-1), wished(mode="budget", budget=-1)),
        ({"effort": {"min": "low", "max": "max"}}, wished(mode="off"), wished(mode="off")),
        ({"effort": "drop"}, wished(mode="effort", effort="low"), request()),
        ({"effort": "drop"}, wished(mode="effort", effort="low", budget=9), wished(mode="budget", budget=9)),
        ({"effort": "drop"}, wished(mode="auto", effort="low"), wished(mode="auto")),
        ({"effort": "drop"}, wished(mode="off", effort="none"), wished(mode="off")),
        ({"thinking_budget": 2048}, wished(mode="off"), wished(mode="budget", budget=2048)),
        ({"thinking_budget": {"max": 4096}}, wished(mode="budget", budget=9000), wished(mode="budget", budget=4096)),
        ({"thinking_budget": {"default": 4096}}, wished(mode="effort", effort="low"), wished(mode="effort", effort="low")),
        ({"thinking_budget": {"default": 4096}}, wished(mode="off"), wished(mode="off")),
        ({"thinking_budget": {"default": 4096}}, request(), wished(mode="budget", budget=4096)),
        ({"thinking_budget": "drop"}, wished(mode="budget", budget=9), request()),
        ({"thinking_budget": "drop"}, wished(mode="off"), wished(mode="off")),
    ],
)  # fmt: skip
def test_an_override_does_what_its_form_means(
    params: dict[str, Any], before: Request, after: Request
) -> None:
    assert [] == check(params)
    assert after == apply(params, before)


@pytest.mark.parametrize("name", PARAMS)
def test_what_changes_nothing_gives_the_very_same_request(name: str) -> None:
    full = request(
        sampling=Sampling(
            temperature=0.5, top_p=0.5, top_k=5, seed=5, frequency_penalty=0.5, presence_penalty=0.5
        ),
        max_output=5,
        stop=("A",),
        reasoning=ReasoningSettings(mode="budget", budget=5),
        parallel=True,
        tool_choice=ToolChoice("auto"),
        verbosity="low",
        tier="flex",
        user_id="u",
        cache_key="k",
    )
    said = PARAMS[name].get(full)
    empty = request()

    assert full is apply({name: {"default": said}}, full)
    assert full is apply({name: said}, full) or name == "effort"
    assert empty is apply({name: "drop"}, empty)
    assert empty is apply({}, empty)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"temprature": 1}, "`temprature` is not a parameter; did you mean `temperature`?"),
        ({"zzz": 1}, "`zzz` is not a parameter; there are temperature, top_p"),
        ({"temperature": "hot"}, "`temperature` must be a number from 0 to 2, a table or `drop`"),
        ({"temperature": True}, "`temperature` must be a number"),
        ({"temperature": float("nan")}, "`temperature` must be a number"),
        ({"temperature": 3}, "`temperature` must be a number from 0 to 2"),
        ({"max_tokens": 1.5}, "`max_tokens` must be a whole number of at least 1"),
        ({"max_tokens": 0}, "`max_tokens` must be a whole number of at least 1"),
        ({"max_tokens": {"max": -1}}, "`max_tokens.max` must be a whole number of at least 1"),
        ({"seed": 1.5}, "`seed` must be a whole number, a table"),
        ({"thinking": "yes"}, "`thinking` must be true or false"),
        ({"effort": "extreme"}, "`effort` must be one of none, minimal, low"),
        ({"stop": 5}, "`stop` must be a string or a list of strings"),
        ({"stop": ["a", 5]}, "`stop` must be a string or a list of strings"),
        ({"stop": [""]}, "`stop` must be a string or a list of strings"),
        ({"user": ""}, "`user` must be a string"),
        ({"verbosity": "loud"}, "`verbosity` must be low, medium or high"),
        ({"temperature": {"maximum": 1}}, "`temperature.maximum` is not a form; there are default, min, max"),
        ({"temperature": {}}, "`temperature` is an empty table"),
        ({"temperature": {"min": 1, "max": 0.5}}, "`temperature.min` is above `temperature.max`"),
        ({"effort": {"min": "max", "max": "low"}}, "`effort.min` is above `effort.max`"),
        ({"stop": {"max": "x"}}, "`stop` has no order, so it cannot have `max`"),
        ({"thinking": False, "effort": "high"}, "`thinking` is false, but `effort` asks for it"),
        ({"thinking": False, "thinking_budget": 9}, "`thinking` is false, but `thinking_budget` asks"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_what_to_write_instead(
    params: dict[str, Any], says: str
) -> None:
    (mistake,) = check(params)

    assert mistake.startswith(says)


def test_all_mistakes_are_reported_at_once() -> None:
    assert 4 == len(check({"a": 1, "temperature": "x", "stop": 5, "top_k": {"min": "x", "max": 2}}))


def test_every_parameter_is_explained() -> None:
    assert overrides.__doc__ is not None
    for name in PARAMS:
        assert f"`{name}`" in overrides.__doc__


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("drop"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["default", "min", "max", "x"]), inner, max_size=3)
    ),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from([*PARAMS, "unknown"]), _JSON, max_size=4))
def test_no_table_of_the_operator_breaks_a_request(params: dict[str, Any]) -> None:
    check(params)
    for one in (request(), wished(mode="budget", budget=9), sampled(temperature=1.0, top_k=2)):
        changed = apply(params, one)

        assert TURNS is changed.turns
        assert changed == apply(params, changed) or "drop" in params.values()
