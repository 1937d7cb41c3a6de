"""What upstreams show about reasoning in the history, and what follows for their profile."""

import pytest

from dragoman.gateway.config.settings import Upstream
from dragoman.gateway.reasoning_hosts import ReasoningHosts
from dragoman.gateway.routing import Hop
from dragoman.profiles import profile
from dragoman.turn.events import Fault, FaultKind

SENT = b'{"messages":[{"role":"assistant","reasoning_content":"a","tool_calls":[]}]}'
UNSENT = b'{"messages":[{"role":"assistant","content":"\\"reasoning_content\\": 1"}]}'


def hop(model: str = "m", dialect: str = "chat", name: str = "generic", form: str = "auto") -> Hop:
    upstream = Upstream(base_url="http://127.0.0.1:1/v1", dialect=dialect)
    return Hop(
        upstream_name="up",
        upstream=upstream,
        model=model,
        profile=profile(name),
        format_name=form,
        timeouts=upstream.timeouts,
    )


def refusal(message: str, param: str = "") -> Fault:
    return Fault(FaultKind.BAD_REQUEST, message, status=400, param=param)


# What hosts are known to say.
DEMANDS = [
    ("chat", "The `reasoning_content` in the thinking mode must be passed back to the API."),
    (
        "chat",
        "thinking is enabled but reasoning_content is missing in assistant tool call message",
    ),
    ("chat", "messages.1.reasoning: Field required"),
    ("anthropic", "The `content[].thinking` in the thinking mode must be passed back to the API."),
    ("anthropic", "Expected `thinking` or `redacted_thinking`, but found `tool_use`"),
    (
        "responses",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item",
    ),
]
REFUSALS = [
    "messages.1.reasoning_content: Extra inputs are not permitted",
    "for 'role:assistant' this must hold: property 'reasoning_content' is unsupported",
    "Please remove the reasoning_content from your input message",
    "reasoning_content is for display only",
]
UNRELATED = [
    "reasoning_effort: must be one of low, medium, high",
    "This model does not support reasoning.",
    "Unknown parameter: `reasoning.effort`",
    "the context is too long",
]


@pytest.mark.parametrize(("dialect", "message"), DEMANDS)
def test_a_demand_is_learned_once(dialect: str, message: str) -> None:
    hosts, asked = ReasoningHosts(), hop(dialect=dialect)
    assert "never" == hosts.profile_for(asked).replay_reasoning

    assert hosts.learn(asked, refusal(message), UNSENT)
    found = hosts.profile_for(asked)
    assert ("tool_turns", " ") == (found.replay_reasoning, found.reasoning_filler)
    assert not hosts.learn(asked, refusal(message), UNSENT)


def test_a_demand_names_the_field() -> None:
    hosts = ReasoningHosts()

    assert hosts.learn(hop(), refusal("Field required", "messages.1.reasoning"), SENT)
    assert "reasoning" == hosts.profile_for(hop()).reasoning_field


@pytest.mark.parametrize("message", REFUSALS)
def test_a_refusal_is_learned_once_and_only_if_reasoning_was_sent(message: str) -> None:
    hosts, asked = ReasoningHosts(), hop("kimi-k2")
    assert not hosts.learn(asked, refusal(message), UNSENT)
    assert "tool_turns" == hosts.profile_for(asked).replay_reasoning

    assert hosts.learn(asked, refusal(message), SENT)
    found = hosts.profile_for(asked)
    assert ("never", True) == (found.replay_reasoning, found.refuses_reasoning)
    assert not hosts.learn(asked, refusal(message), SENT)


@pytest.mark.parametrize("message", UNRELATED)
def test_errors_about_something_else_teach_nothing(message: str) -> None:
    hosts = ReasoningHosts()

    assert not hosts.learn(hop(), refusal(message), SENT)
    assert profile("generic").reasoning_field == hosts.profile_for(hop()).reasoning_field


def test_only_a_bad_request_and_an_open_profile_teach_anything() -> None:
    hosts = ReasoningHosts()
    busy = Fault(FaultKind.OVERLOADED, DEMANDS[0][1], status=503)

    assert not hosts.learn(hop(), busy, UNSENT)
    assert not hosts.learn(hop(name="groq"), refusal(DEMANDS[0][1]), UNSENT)
    closed = hop(name="groq")
    assert closed.model_profile is hosts.profile_for(closed)


@pytest.mark.parametrize(
    ("model", "form", "replay"),
    [
        ("moonshotai/Kimi-K2-Thinking", "auto", "tool_turns"),
        ("deepseek-v3.2", "auto", "tool_turns"),
        ("zai-org/GLM-4.7-FP8", "auto", "always"),
        ("MiniMax-M2", "auto", "always"),
        ("Qwen3-32B", "auto", "tool_turns"),
        ("gpt-5", "auto", "never"),
        ("house-model", "auto", "never"),
        ("house-model", "kimi_k2", "tool_turns"),
    ],
)
def test_the_family_decides_until_the_host_shows_something(
    model: str, form: str, replay: str
) -> None:
    assert replay == ReasoningHosts().profile_for(hop(model, form=form)).replay_reasoning


def test_the_field_of_answers_is_remembered_for_each_model() -> None:
    hosts = ReasoningHosts()
    hosts.note_field(hop("kimi-k2"), "reasoning")
    hosts.note_field(hop("kimi-k2"), "")  # an answer without reasoning

    assert "reasoning" == hosts.profile_for(hop("kimi-k2")).reasoning_field
    assert "reasoning_content" == hosts.profile_for(hop("glm-5")).reasoning_field
    hosts.forget()
    assert "reasoning_content" == hosts.profile_for(hop("kimi-k2")).reasoning_field


def test_memory_is_bounded() -> None:
    hosts = ReasoningHosts()
    for number in range(1_100):
        hosts.note_field(hop(f"m{number}"), "reasoning")
    hosts.note_field(hop("m" * 257), "reasoning")

    assert 1_000 == hosts.held
    assert "reasoning_content" == hosts.profile_for(hop("m0")).reasoning_field
    assert "reasoning" == hosts.profile_for(hop("m1099")).reasoning_field


def test_processes_learn_from_each_other_what_a_host_refuses() -> None:
    one, other = ReasoningHosts(), ReasoningHosts()
    one.profile_for(hop())
    one.learn(hop(), refusal(REFUSALS[0]), SENT)
    other.profile_for(hop())

    news = one.news()
    (name,) = other.wanted()
    other.adopt(name, news[name])

    assert other.profile_for(hop()).refuses_reasoning
    assert ({}, {}) == (one.news(), other.news())


def test_a_note_about_a_host_that_cannot_be_read_is_ignored() -> None:
    hosts = ReasoningHosts()
    before = hosts.profile_for(hop())
    (name,) = hosts.wanted()
    hosts.adopt(name, b"\xc1")
    hosts.adopt("host:unknown", b"\x80")

    assert before == hosts.profile_for(hop())
