"""Histories that end with the assistant: which client's are continued, extended by a user turn, or refused."""

import json

import pytest

from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.translate_requests import TranslatedRequest, translate_request

CANNOT = Profile(name="cannot")
CAN = Profile(name="can", prefill="native")
PREFIX = Profile(name="prefix", prefill="prefix")
SAID = "I will look."
GO_ON = "Continue."

QUESTION = {"type": "message", "role": "user", "content": "hi"}
MESSAGE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": SAID}],
}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "t", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
# Roles of the messages that a Chat upstream without prefill gets, and the losses.
HISTORIES = {
    "a message": ([QUESTION, MESSAGE], "user assistant user", "user_turn_appended"),
    "reasoning, then a message": (
        [QUESTION, REASONING, MESSAGE],
        "user assistant user",
        "reasoning_dropped user_turn_appended",
    ),
    "a message, then reasoning": (
        [QUESTION, MESSAGE, REASONING],
        "user assistant user",
        "reasoning_dropped user_turn_appended",
    ),
    "reasoning alone": ([QUESTION, REASONING], "user", "reasoning_dropped"),
    "a call and its result, then a message": (
        [QUESTION, CALL, RESULT, MESSAGE],
        "user assistant tool assistant user",
        "user_turn_appended",
    ),
    "a call without its result": (
        [QUESTION, CALL],
        "user assistant tool",
        "tool_result_missing",
    ),
    "a message and a call without its result": (
        [QUESTION, MESSAGE, CALL],
        "user assistant tool",
        "tool_result_missing",
    ),
}


def translated(
    source: str, target: str, profile: Profile, body: dict[str, object], **options: bool | str
) -> TranslatedRequest:
    limit = "max_output_tokens" if source == "responses" else "max_tokens"
    raw = json.dumps({"model": "m", limit: 4096, **body}).encode()
    return translate_request(raw, source=source, target=target, profile=profile, **options)


def ending(source: str, **more: object) -> dict[str, object]:
    """Return a client's request whose last message is the assistant's."""
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": SAID}]
    return {"input" if source == "responses" else "messages": said, **more}


def last_messages(done: TranslatedRequest) -> list[tuple[str, str]]:
    body = json.loads(done.body)
    found = []
    for message in body.get("messages") or body["input"]:
        content = message["content"]
        text = content if isinstance(content, str) else content[0]["text"]
        found.append((message["role"], text))
    return found[1:]


def codes(done: TranslatedRequest) -> list[str]:
    return [loss.code for loss in done.losses]


@pytest.mark.parametrize("history", HISTORIES)
def test_responses_history_may_end_with_any_item(history: str) -> None:
    items, roles, losses = HISTORIES[history]

    done = translated("responses", "chat", CANNOT, {"input": items, "stream": True})
    messages = json.loads(done.body)["messages"]

    assert roles.split() == [message["role"] for message in messages]
    assert losses.split() == codes(done)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("source", "target"),
    [("responses", "chat"), ("responses", "anthropic"), ("chat", "anthropic")],
)
def test_user_turn_follows_where_the_upstream_cannot_continue(
    source: str, target: str, strict: bool
) -> None:
    done = translated(source, target, CANNOT, ending(source), strict=strict)

    assert [("assistant", SAID), ("user", GO_ON)] == last_messages(done)
    path = "$.input" if source == "responses" else "$.messages"
    assert [("user_turn_appended", path)] == [(loss.code, loss.path) for loss in done.losses]


@pytest.mark.parametrize(
    ("source", "target"),
    [("responses", "chat"), ("responses", "anthropic"), ("chat", "anthropic")],
)
def test_upstream_that_can_continue_does_so(source: str, target: str) -> None:
    done = translated(source, target, CAN, ending(source))

    assert [("assistant", SAID)] == last_messages(done)
    assert [] == codes(done)


@pytest.mark.parametrize(
    ("source", "target", "profile", "asks"),
    [
        ("responses", "anthropic", "anthropic-budget", {"reasoning": {"effort": "low"}}),
        ("responses", "chat", "moonshot", {"reasoning": {"effort": "low"}}),
        ("chat", "anthropic", "anthropic-budget", {"reasoning_effort": "low"}),
    ],
)
def test_upstream_is_not_asked_to_continue_and_to_think(
    source: str, target: str, profile: str, asks: dict[str, object]
) -> None:
    raw = json.dumps({"model": "m", **ending(source, **asks)}).encode()

    done = translate_request(raw, source=source, target=target, profile=profile)

    assert [("assistant", SAID), ("user", GO_ON)] == last_messages(done)
    assert "user_turn_appended" in codes(done)
    assert "enabled" == json.loads(done.body)["thinking"]["type"]


def test_upstream_that_wants_a_mark_gets_it() -> None:
    done = translated("responses", "chat", PREFIX, ending("responses"))

    assert json.loads(done.body)["messages"][-1]["prefix"]


@pytest.mark.parametrize(
    ("source", "target"), [("chat", "responses"), ("responses", "responses"), ("chat", "chat")]
)
def test_dialects_that_let_the_assistant_be_last_pass_it_on(source: str, target: str) -> None:
    done = translated(source, target, CANNOT, ending(source))

    assert [("assistant", SAID)] == last_messages(done)
    assert "user_turn_appended" not in codes(done)


@pytest.mark.parametrize("target", ["chat", "responses"])
def test_prefill_of_a_messages_client_is_refused_unless_the_route_emulates_it(target: str) -> None:
    with pytest.raises(UntranslatableError) as refused:
        translated("anthropic", target, CANNOT, ending("anthropic"))
    emulated = translated("anthropic", target, CANNOT, ending("anthropic"), prefill="continue")

    assert ("$.messages", "prefill_not_supported") == (refused.value.path, refused.value.code)
    assert [("assistant", SAID), ("user", GO_ON)] == last_messages(emulated)
    assert ["prefill_emulated"] == codes(emulated)


@pytest.mark.parametrize("target", ["chat", "responses"])
def test_messages_client_with_tools_may_end_its_history_with_the_assistant(target: str) -> None:
    """An agent that repeats a request after a broken stream does not join texts: opencode is one."""
    tools = [{"name": "f", "input_schema": {"type": "object"}}]

    done = translated("anthropic", target, CANNOT, ending("anthropic", tools=tools))

    assert [("assistant", SAID), ("user", GO_ON)] == last_messages(done)
    assert ["user_turn_appended"] == codes(done)
