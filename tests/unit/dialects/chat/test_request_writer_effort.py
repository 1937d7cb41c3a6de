"""What clients ask of reasoning, in the words of each upstream."""

import pytest

from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.turn.request import ReasoningSettings, Tool, ToolChoice
from tests.unit.dialects.chat.support import codes, decode, encode, foreign, user

LOW = ReasoningSettings(mode="effort", effort="low")
OFF = ReasoningSettings(mode="off")
AUTO = ReasoningSettings(mode="auto")
BUDGET = ReasoningSettings(mode="budget", budget=20_000)


def peer(control: str, *efforts: str, **more: object) -> Profile:
    return Profile(
        name="x",
        reasoning_control=control,
        supported_efforts=efforts or ("low", "medium", "high"),
        **more,
    )


@pytest.mark.parametrize(
    ("given", "wish"),
    [
        ({}, ReasoningSettings()),
        ({"reasoning_effort": "none"}, ReasoningSettings(mode="off", effort="none")),
        ({"reasoning_effort": "max"}, ReasoningSettings(mode="effort", effort="max")),
        ({"reasoning": {"effort": "high"}}, ReasoningSettings(mode="effort", effort="high")),
        ({"reasoning": {"max_tokens": 5}}, ReasoningSettings(mode="budget", budget=5)),
        ({"reasoning": {"enabled": True}}, AUTO),
        ({"reasoning": {"enabled": False, "effort": "high"}}, OFF),
        ({"reasoning": "odd"}, ReasoningSettings()),
        ({"thinking": {"type": "enabled"}}, AUTO),
        ({"thinking": {"type": "disabled"}}, OFF),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 9}},
            ReasoningSettings(mode="budget", budget=9),
        ),
        ({"enable_thinking": False}, OFF),
        ({"chat_template_kwargs": {"enable_thinking": True}}, AUTO),
        ({"chat_template_kwargs": {"thinking": False}}, OFF),
    ],
)
def test_efforts_of_chat_clients(given: dict, wish: ReasoningSettings) -> None:
    assert wish == decode(given).reasoning


@pytest.mark.parametrize(
    ("profile", "wish", "expected", "lost"),
    [
        (peer("reasoning_effort"), ReasoningSettings(), {}, []),
        (peer("reasoning_effort"), LOW, {"reasoning_effort": "low"}, []),
        (peer("reasoning_effort"), AUTO, {}, []),
        (
            peer("reasoning_effort"),
            BUDGET,
            {"reasoning_effort": "high"},
            ["thinking_converted"],
        ),
        (
            peer("reasoning_effort"),
            ReasoningSettings(mode="budget", budget=2048),
            {"reasoning_effort": "low"},
            ["thinking_converted"],
        ),
        (
            peer("reasoning_effort"),
            ReasoningSettings(mode="budget", budget=-1),
            {"reasoning_effort": "low"},
            ["thinking_converted"],
        ),
        (
            peer("reasoning_effort"),
            ReasoningSettings(mode="effort", effort="max"),
            {"reasoning_effort": "high"},
            ["effort_adjusted"],
        ),
        (
            peer("reasoning_effort"),
            ReasoningSettings(mode="effort", effort="minimal"),
            {"reasoning_effort": "low"},
            ["effort_adjusted"],
        ),
        (
            peer("reasoning_effort"),
            ReasoningSettings(mode="effort", effort="odd"),
            {"reasoning_effort": "high"},
            ["effort_adjusted"],
        ),
        (peer("reasoning_effort", "none", "low"), OFF, {"reasoning_effort": "none"}, []),
        (peer("reasoning_effort"), OFF, {"reasoning_effort": "low"}, ["effort_adjusted"]),
        (
            peer("reasoning_effort", "none", "high"),
            LOW,
            {"reasoning_effort": "high"},
            ["effort_adjusted"],
        ),
        (peer("openrouter"), LOW, {"reasoning": {"effort": "low"}}, []),
        (peer("openrouter"), BUDGET, {"reasoning": {"max_tokens": 20_000}}, []),
        (peer("openrouter"), AUTO, {"reasoning": {"enabled": True}}, []),
        (peer("openrouter"), OFF, {"reasoning": {"enabled": False}}, []),
        (
            peer("thinking_type", "low", "high"),
            ReasoningSettings(mode="auto", effort="medium"),
            {"thinking": {"type": "enabled"}, "reasoning_effort": "low"},
            ["effort_adjusted"],
        ),
        (peer("thinking_type"), AUTO, {"thinking": {"type": "enabled"}}, []),
        (
            peer("chat_template_kwargs"),
            OFF,
            {"chat_template_kwargs": {"enable_thinking": False}},
            [],
        ),
        (
            peer("chat_template_kwargs"),
            LOW,
            {"chat_template_kwargs": {"enable_thinking": True}},
            ["thinking_converted"],
        ),
        (peer("enable_thinking"), BUDGET, {"enable_thinking": True, "thinking_budget": 20_000}, []),
        (peer("enable_thinking"), OFF, {"enable_thinking": False}, []),
        (peer("none"), LOW, {}, ["thinking_dropped"]),
    ],
)
def test_efforts_in_the_upstream_s_words(
    profile: Profile, wish: ReasoningSettings, expected: dict, lost: list[str]
) -> None:
    body, encoded = encode(foreign(user(), reasoning=wish), profile)

    assert {"model": "m", "messages": [{"role": "user", "content": "hi"}], **expected} == body
    assert lost == codes(encoded.losses)


def test_e7_no_effort_beside_thinking_that_is_off() -> None:
    wish = ReasoningSettings(mode="off", effort="high")

    body, _ = encode(foreign(user(), reasoning=wish), peer("thinking_type"))

    assert {"type": "disabled"} == body["thinking"]
    assert "reasoning_effort" not in body


def test_client_s_own_fields_go_to_an_unknown_server_as_they_are() -> None:
    given = {
        "messages": [{"role": "user", "content": "hi"}],
        "thinking": {"type": "enabled", "x": 1},
    }

    body, _ = encode(decode(given))
    other, _ = encode(decode(given), peer("openrouter"))

    assert {"type": "enabled", "x": 1} == body["thinking"]
    assert "thinking" not in other
    assert {"enabled": True} == other["reasoning"]


@pytest.mark.parametrize(
    ("policy", "choice", "thinking", "lost"),
    [
        ("disable_thinking", "required", "disabled", ["thinking_disabled_by_tool_choice"]),
        ("downgrade", "auto", "enabled", ["tool_choice_adjusted"]),
    ],
)
def test_f2_forced_tool_use_while_thinking(
    policy: str, choice: str, thinking: str, lost: list[str]
) -> None:
    request = foreign(
        user(), reasoning=AUTO, tools=(Tool(name="f"),), tool_choice=ToolChoice("required")
    )
    profile = peer(
        "thinking_type", forced_tool_choice_with_thinking=False, forced_tool_choice_policy=policy
    )

    body, encoded = encode(request, profile)

    assert choice == body["tool_choice"]
    assert {"type": thinking} == body["thinking"]
    assert lost == codes(encoded.losses)


def test_f2_forced_tool_use_while_thinking_may_be_refused() -> None:
    request = foreign(
        user(), reasoning=AUTO, tools=(Tool(name="f"),), tool_choice=ToolChoice("tool", "f")
    )
    profile = peer(
        "thinking_type", forced_tool_choice_with_thinking=False, forced_tool_choice_policy="error"
    )

    with pytest.raises(UntranslatableError):
        encode(request, profile)
