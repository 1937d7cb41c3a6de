"""What clients ask of the model's reasoning."""

from typing import Any

import pytest
from msgspec import Raw

from dragoman.errors import MalformedError, UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.turn.events import OpaqueKind
from dragoman.turn.request import (
    OpaqueState,
    ReasoningPart,
    ReasoningSegment,
    ReasoningSettings,
    Role,
    TextPart,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
    Turn,
)
from tests.support.messages import TOOL, USER, ask, codes, decode, encode

CLONE = Profile(name="clone")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ReasoningSettings()),
        ({"thinking": {"type": "disabled"}}, ReasoningSettings(mode="off")),
        ({"thinking": {"type": "between_tools"}}, ReasoningSettings(mode="off")),
        ({"thinking": {"type": "adaptive"}}, ReasoningSettings(mode="auto")),
        (
            {
                "thinking": {"type": "adaptive", "display": "omitted"},
                "output_config": {"effort": "max"},
            },
            ReasoningSettings(mode="auto", effort="max", show="none"),
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 5000, "display": "summarized"}},
            ReasoningSettings(mode="budget", budget=5000, show="summary"),
        ),
        (
            {
                "thinking": {"type": "enabled", "budget_tokens": 5000},
                "output_config": {"effort": "low"},
            },
            ReasoningSettings(mode="effort", effort="low", budget=5000),
        ),
        ({"output_config": {"effort": "low"}}, ReasoningSettings(mode="effort", effort="low")),
    ],
)
def test_value_is_read(fields: dict[str, Any], expected: ReasoningSettings) -> None:
    assert expected == decode(**fields).reasoning


def test_e7_effort_of_thinking_that_is_off_is_dropped_and_reported() -> None:
    request = decode(thinking={"type": "disabled"}, output_config={"effort": "high"})

    assert ReasoningSettings(mode="off") == request.reasoning
    assert ["effort_adjusted"] == [loss.code for loss in request.losses]
    assert "output_config" not in encode(request)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"thinking": {"type": "enabled"}}, "$.thinking.budget_tokens"),
        ({"output_config": {"effort": "huge"}}, "$.output_config.effort"),
    ],
)
def test_invalid_value_is_refused(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(MalformedError) as raised:
        decode(**fields)

    assert path == raised.value.path


def plan(wish: ReasoningSettings, profile: Any = "anthropic", **fields: Any) -> tuple[Any, Any]:
    body = encode(ask(**{"reasoning": wish, "max_output": 64_000} | fields), profile)
    return body.get("thinking"), body.get("output_config", {}).get("effort")


@pytest.mark.parametrize(
    ("effort", "adaptive", "budget"),
    [
        ("minimal", "low", 1024),
        ("low", "low", 2048),
        ("medium", "medium", 8192),
        ("high", "high", 16_384),
        ("xhigh", "xhigh", 32_768),
        ("max", "max", 63_999),
    ],
)
def test_effort_is_an_effort_or_a_budget(effort: str, adaptive: str, budget: int) -> None:
    wish = ReasoningSettings(mode="effort", effort=effort)

    assert ({"type": "adaptive"}, adaptive) == plan(wish)
    assert ({"type": "enabled", "budget_tokens": budget}, None) == plan(wish, "anthropic-budget")


@pytest.mark.parametrize("profile", ["anthropic", "anthropic-budget", CLONE])
@pytest.mark.parametrize(
    "wish", [ReasoningSettings(mode="off"), ReasoningSettings(mode="effort", effort="none")]
)
def test_no_thinking_is_written(wish: ReasoningSettings, profile: Any) -> None:
    assert ({"type": "disabled"}, None) == plan(wish, profile)


def test_without_a_value_nothing_is_written() -> None:
    assert (None, None) == plan(ReasoningSettings())


@pytest.mark.parametrize(
    ("budget", "effort"), [(2000, "low"), (4096, "medium"), (16_384, "high"), (40_000, "xhigh")]
)
def test_budget_is_an_effort_for_models_that_decide_themselves(budget: int, effort: str) -> None:
    assert ({"type": "adaptive"}, effort) == plan(ReasoningSettings(mode="budget", budget=budget))


def test_models_that_decide_themselves_need_no_effort() -> None:
    assert ({"type": "adaptive"}, None) == plan(ReasoningSettings(mode="auto"))
    assert ({"type": "enabled", "budget_tokens": 16_384}, None) == plan(
        ReasoningSettings(mode="auto"), "anthropic-budget"
    )


def test_an_unknown_clone_gets_the_form_that_the_client_chose() -> None:
    assert "adaptive" == plan(ReasoningSettings(mode="auto"), CLONE)[0]["type"]
    assert "enabled" == plan(ReasoningSettings(mode="budget", budget=5000), CLONE)[0]["type"]


@pytest.mark.parametrize(("budget", "limit", "expected"), [(500, 9000, 1024), (9000, 9000, 8999)])
def test_budget_is_brought_into_its_bounds(budget: int, limit: int, expected: int) -> None:
    wish = ReasoningSettings(mode="budget", budget=budget)

    assert expected == plan(wish, "anthropic-budget", max_output=limit)[0]["budget_tokens"]
    assert ["value_clamped"] == codes(ask(reasoning=wish, max_output=limit), "anthropic-budget")


def test_no_room_for_thinking_is_reported() -> None:
    request = ask(reasoning=ReasoningSettings(mode="effort", effort="low"), max_output=1024)

    assert "thinking" not in encode(request, "anthropic-budget")
    assert ["thinking_dropped"] == codes(request, "anthropic-budget")


def test_thinking_settings_for_a_model_without_them_are_reported() -> None:
    profile = Profile(name="p", reasoning_control="none")

    assert ["thinking_dropped"] == codes(ask(reasoning=ReasoningSettings(mode="auto")), profile)
    assert ["thinking_dropped"] == codes(ask(reasoning=ReasoningSettings(mode="off")), profile)


@pytest.mark.parametrize(
    ("effort", "known", "expected"),
    [
        ("xhigh", ("low", "high"), "high"),
        ("minimal", ("medium", "high"), "medium"),
        ("weird", ("low", "high"), "high"),
        ("max", (), "max"),
    ],
)
def test_effort_is_rounded_down_and_else_up(effort: str, known: Any, expected: str) -> None:
    profile = Profile(name="p", reasoning_control="adaptive", supported_efforts=known)
    wish = ReasoningSettings(mode="effort", effort=effort)

    assert expected == plan(wish, profile)[1]
    assert (["effort_adjusted"] if expected != effort else []) == codes(
        ask(reasoning=wish), profile
    )


def test_effort_alone_of_a_messages_client_does_not_ask_for_thinking() -> None:
    body = encode(decode(output_config={"effort": "low"}))

    assert "thinking" not in body
    assert {"effort": "low"} == body["output_config"]


@pytest.mark.parametrize(("show", "display"), [("summary", "summarized"), ("none", "omitted")])
def test_what_is_shown_is_written(show: Any, display: str) -> None:
    wish = ReasoningSettings(mode="effort", effort="low", show=show)

    assert {"type": "adaptive", "display": display} == plan(wish)[0]
    assert "display" not in plan(wish, "anthropic-budget")[0]


# --- what does not go together -------------------------------------------------------------------------

FORCED: dict[str, Any] = {
    "tools": (Tool(name="ls", schema=Raw(b'{"type":"object"}')),),
    "tool_choice": ToolChoice("required"),
    "reasoning": ReasoningSettings(mode="effort", effort="low"),
}


def test_f2_forced_tool_use_switches_thinking_off() -> None:
    body = encode(ask(**FORCED))

    assert ({"type": "disabled"}, {"type": "any"}) == (body["thinking"], body["tool_choice"])
    assert ["thinking_disabled_by_tool_choice"] == codes(ask(**FORCED))


def test_f2_forced_tool_use_may_be_weakened_or_refused() -> None:
    weak = Profile(name="p", reasoning_control="adaptive", forced_tool_choice_policy="downgrade")
    stern = Profile(name="p", reasoning_control="adaptive", forced_tool_choice_policy="error")

    body = encode(ask(**FORCED), weak)

    assert ("adaptive", "auto") == (body["thinking"]["type"], body["tool_choice"]["type"])
    assert ["tool_choice_adjusted"] == codes(ask(**FORCED), weak)
    with pytest.raises(UntranslatableError):
        encode(ask(**FORCED), stern)


def loop(*first: Any, **fields: Any) -> Any:
    """Return a request in the middle of a tool loop whose first assistant turn begins with `first`."""
    return ask(
        Turn(Role.USER, (TextPart("a"),)),
        Turn(Role.ASSISTANT, (*first, ToolCallPart("t1", "ls", "{}"))),
        Turn(Role.USER, (ToolResultPart("t1"),)),
        Turn(Role.ASSISTANT, (ToolCallPart("t2", "ls", "{}"),)),
        Turn(Role.USER, (ToolResultPart("t2"), TextPart("beside"))),
        **{"reasoning": ReasoningSettings(mode="effort", effort="low")} | fields,
    )


SIGNED = ReasoningPart(
    (ReasoningSegment("Hm."),), (OpaqueState(OpaqueKind.SIGNATURE, "sig", "anthropic"),)
)


def test_e1_tool_loop_that_lost_its_thinking_goes_on_without() -> None:
    assert {"type": "disabled"} == encode(loop())["thinking"]
    assert ["thinking_disabled_missing_blocks"] == codes(loop())


def test_tool_loop_that_begins_with_signed_thinking_goes_on_thinking() -> None:
    assert {"type": "adaptive"} == encode(loop(SIGNED))["thinking"]


def test_finished_tool_loop_does_not_matter() -> None:
    request = loop()
    turns = (
        *request.turns,
        Turn(Role.ASSISTANT, (TextPart("b"),)),
        Turn(Role.USER, (TextPart("c"),)),
    )

    assert {"type": "adaptive"} == encode(ask(*turns, reasoning=request.reasoning))["thinking"]


CALLS = [
    USER,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]},
]


def test_messages_client_whose_model_did_not_think_goes_on_thinking() -> None:
    request = decode(*CALLS, tools=[TOOL], thinking={"type": "adaptive"})

    assert {"type": "adaptive"} == encode(request)["thinking"]


def test_budget_models_demand_thinking_in_the_loop_of_any_client() -> None:
    request = decode(
        *CALLS, tools=[TOOL], thinking={"type": "enabled", "budget_tokens": 2000}, max_tokens=9000
    )

    assert {"type": "disabled"} == encode(request, "anthropic-budget")["thinking"]


def test_e5_loop_with_foreign_thinking_goes_on_without() -> None:
    thought = {"type": "thinking", "thinking": "Hm."}
    call = CALLS[1]["content"][0]  # type: ignore[index]
    request = decode(
        USER,
        {"role": "assistant", "content": [thought, call]},
        CALLS[2],
        tools=[TOOL],
        thinking={"type": "adaptive"},
    )

    assert {"type": "disabled"} == encode(request)["thinking"]
