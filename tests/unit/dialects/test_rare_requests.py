"""Rare fields of requests: what an upstream of another dialect gets, what is reported, and what is refused."""

import json
from typing import Any

import pytest
from msgspec import structs

from dragoman import MalformedError, profile, translate_request
from dragoman.errors import NameTooLongError
from dragoman.limits import DEFAULT_LIMITS
from dragoman.profiles.profile import Profile

ASKED = {"role": "user", "content": "x"}
CALL = {"id": "a", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "r"}
LONG_NAME = "n" * (DEFAULT_LIMITS.max_name_chars + 1)
LONG_ID = "i" * (DEFAULT_LIMITS.max_id_chars + 1)


def chat(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), **more}


def document(source: dict[str, str]) -> dict[str, Any]:
    part = {"type": "document", "source": source, "citations": {"enabled": True}}
    return chat({"role": "user", "content": [part]}, max_tokens=9)


def translated(
    body: dict[str, Any], source: str, target: str, to: Profile | str = "generic"
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    found = translate_request(json.dumps(body).encode(), source=source, target=target, profile=to)
    return json.loads(found.body), [(loss.code, loss.path) for loss in found.losses]


@pytest.mark.parametrize(
    ("source", "body", "path"),
    [
        ("chat", chat({**ASKED, "name": LONG_NAME}), "$.messages[0]"),
        (
            "chat",
            chat(ASKED, {"role": "assistant", "tool_calls": [{**CALL, "id": LONG_ID}]}, RESULT),
            "$.messages[1]",
        ),
        ("chat", chat({**RESULT, "tool_call_id": LONG_ID}), "$.messages[0]"),
        (
            "responses",
            {"model": "m", "input": "x", "previous_response_id": LONG_ID},
            "$.previous_response_id",
        ),
    ],
    ids=["name of a user", "id of a call", "id of a result", "previous id"],
)
def test_long_names_and_ids_are_refused_with_their_path(
    source: str, body: dict[str, Any], path: str
) -> None:
    with pytest.raises(NameTooLongError) as caught:
        translated(body, source, "anthropic")

    assert path == caught.value.path


@pytest.mark.parametrize(
    ("source", "body", "message"),
    [
        ("chat", chat(ASKED, tools=[{"type": "custom", "custom": {"name": ""}}]), "needs a name"),
        (
            "responses",
            {
                "model": "m",
                "input": "x",
                "tools": [
                    {
                        "type": "namespace",
                        "name": "a",
                        "tools": [{"type": "namespace", "name": "b"}],
                    }
                ],
            },
            "a namespace inside a namespace",
        ),
    ],
)
def test_tools_that_no_target_can_have_are_refused(
    source: str, body: dict[str, Any], message: str
) -> None:
    with pytest.raises(MalformedError, match=message):
        translated(body, source, "anthropic")


@pytest.mark.parametrize(
    "source",
    [
        {"type": "text", "media_type": "text/plain", "data": "hello"},
        {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
    ],
)
def test_citations_of_a_document_are_reported_where_there_are_none(source: dict[str, str]) -> None:
    _, losses = translated(document(source), "anthropic", "chat")

    assert ("citations_dropped", "$.messages[0]") in losses


def test_a_part_of_unknown_type_in_an_answer_of_the_history_is_reported() -> None:
    parts = [{"type": "output_text", "text": "a"}, {"type": "hologram", "data": 1}]
    asked = [{"type": "message", "role": "assistant", "content": parts}, ASKED]
    body, losses = translated({"model": "m", "input": asked}, "responses", "chat")

    assert {"role": "assistant", "content": "a"} == body["messages"][0]
    assert [("part_unknown", "$.input[0].content[1]")] == losses


@pytest.mark.parametrize(
    ("level", "effort"), [("HIGH", "high"), ("THINKING_LEVEL_UNSPECIFIED", None)]
)
def test_an_unspecified_level_of_thinking_is_none(level: str, effort: str | None) -> None:
    asked = {
        "model": "m",
        "contents": [{"parts": [{"text": "x"}]}],
        "generationConfig": {"thinkingConfig": {"thinkingLevel": level}},
    }
    body, losses = translated(asked, "gemini", "chat")

    assert effort == body.get("reasoning_effort")
    assert [] == losses


def test_allowed_tools_name_a_custom_tool_as_the_function_that_replaces_it() -> None:
    choice = {"mode": "auto", "tools": [{"type": "custom", "custom": {"name": "ls"}}]}
    asked = chat(
        ASKED,
        tools=[{"type": "custom", "custom": {"name": "ls"}}],
        tool_choice={"type": "allowed_tools", "allowed_tools": choice},
    )
    body, _ = translated(asked, "chat", "chat", "vllm")

    named = {"type": "function", "function": {"name": "ls"}}
    assert [named] == body["tool_choice"]["allowed_tools"]["tools"]
    assert "function" == body["tools"][0]["type"]


def test_the_description_of_a_schema_for_the_answer_is_kept() -> None:
    schema = {"name": "n", "description": "A city.", "schema": {"type": "object"}}
    asked = chat(ASKED, response_format={"type": "json_schema", "json_schema": schema})
    body, _ = translated(asked, "chat", "responses", "openai")

    assert "A city." == body["text"]["format"]["description"]


@pytest.mark.parametrize(
    ("target", "field", "expected"),
    [
        ("chat", "reasoning_content", {"reasoning_content": "(none)"}),
        (
            "chat",
            "reasoning_details",
            {"reasoning_details": [{"type": "reasoning.text", "text": "(none)"}]},
        ),
        (
            "anthropic",
            "reasoning_content",
            {"thinking": "(none)"},
        ),
    ],
)
def test_an_upstream_that_demands_reasoning_before_calls_gets_a_filler(
    target: str, field: str, expected: dict[str, Any]
) -> None:
    demanding = structs.replace(
        profile("generic"),
        reasoning_filler="(none)",
        replay_reasoning="always",
        reasoning_field=field,
    )
    asked = chat(
        ASKED,
        {"role": "assistant", "tool_calls": [CALL]},
        RESULT,
        tools=[{"type": "function", "function": {"name": "ls"}}],
        reasoning_effort="high",
    )
    body, losses = translated(asked, "chat", target, demanding)

    turn = body["messages"][1]
    written = turn if target == "chat" else turn["content"][0]
    assert expected == {name: written[name] for name in expected}
    assert ("reasoning_filled", "$.messages[1]") in losses
