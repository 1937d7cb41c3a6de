"""A rich request of each dialect reaches an upstream of each dialect, nothing lost silently.

What arrives must be a request that the upstream vendor's own SDK would let a caller send.
"""

import re
from typing import Any

import msgspec
import pytest

from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import UntranslatableError
from dragoman.profiles.catalogue import PROFILES as PROFILES_BY_NAME
from dragoman.translate_requests import translate_request
from tests.support.params import validate
from tests.support.tables import in_one_test

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SECOND = PIXEL.replace("NSUhEUg", "NSUhEUh")
PDF = "JVBERi0xLjQKJcOkw7zDtsOf"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}

ANTHROPIC = {
    "model": "claude",
    "max_tokens": 8000,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "temperature": 1,
    "stop_sequences": ["END"],
    "metadata": {"user_id": "u1"},
    "output_config": {
        "format": {"type": "json_schema", "schema": {**SCHEMA, "additionalProperties": False}}
    },
    "tools": [
        {"name": "read", "description": "Read", "input_schema": SCHEMA},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
                },
                {
                    "type": "document",
                    "title": "a.pdf",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Look first.", "signature": "EqQB"},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
                {"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {"command": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [
                        {"type": "text", "text": "a picture"},
                        {
                            "type": "image",
                            "source": {
                                "type": "base64",
                                "media_type": "image/png",
                                "data": SECOND,
                            },
                        },
                    ],
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "content": "no such file",
                    "is_error": True,
                },
                {"type": "text", "text": "And now?"},
            ],
        },
        {"role": "system", "content": "Answer in French."},
    ],
}
CHAT = {
    "model": "gpt",
    "max_completion_tokens": 8000,
    "temperature": 0.5,
    "stop": ["END"],
    "seed": 7,
    "logprobs": True,
    "top_logprobs": 2,
    "user": "u1",
    "reasoning_effort": "high",
    "parallel_tool_calls": False,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "out", "schema": SCHEMA, "strict": False},
    },
    "tools": [
        {
            "type": "function",
            "function": {"name": "read", "description": "Read", "parameters": SCHEMA},
        },
        {
            "type": "custom",
            "custom": {"name": "patch", "description": "Patch", "format": {"type": "text"}},
        },
    ],
    "tool_choice": {"type": "function", "function": {"name": "read"}},
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {
                    "type": "image_url",
                    "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"},
                },
                {
                    "type": "file",
                    "file": {
                        "filename": "a.pdf",
                        "file_data": f"data:application/pdf;base64,{PDF}",
                    },
                },
            ],
        },
        {
            "role": "assistant",
            "content": "Looking.",
            "reasoning_content": "Look first.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path":"a"}'},
                },
                {
                    "id": "call_2",
                    "type": "custom",
                    "custom": {"name": "patch", "input": "*** Begin"},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "a picture"},
        {"role": "tool", "tool_call_id": "call_2", "content": "done"},
        {"role": "user", "content": "And now?"},
        {"role": "system", "content": "Answer in French."},
        {"role": "user", "content": "Go on."},
    ],
}
RESPONSES = {
    "model": "gpt",
    "instructions": "Be brief.",
    "max_output_tokens": 8000,
    "temperature": 0.5,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "high", "summary": "auto"},
    "parallel_tool_calls": False,
    "user": "u1",
    "text": {
        "format": {"type": "json_schema", "name": "out", "schema": SCHEMA, "strict": False},
        "verbosity": "low",
    },
    "tools": [
        {
            "type": "function",
            "name": "read",
            "description": "Read",
            "parameters": SCHEMA,
            "strict": False,
        },
        {
            "type": "custom",
            "name": "patch",
            "description": "Patch",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x/"},
        },
        {
            "type": "namespace",
            "name": "agents",
            "description": "Sub-agents",
            "tools": [{"type": "function", "name": "spawn", "parameters": SCHEMA, "strict": False}],
        },
        {"type": "web_search"},
        {"type": "local_shell"},
    ],
    "tool_choice": "auto",
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {
                    "type": "input_image",
                    "image_url": f"data:image/png;base64,{PIXEL}",
                    "detail": "auto",
                },
                {
                    "type": "input_file",
                    "filename": "a.pdf",
                    "file_data": f"data:application/pdf;base64,{PDF}",
                },
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Look first."}],
            "encrypted_content": "gAAA",
        },
        {
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Looking.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": '{"path":"a"}'},
        {"type": "custom_tool_call", "call_id": "call_2", "name": "patch", "input": "*** Begin"},
        {
            "type": "function_call",
            "call_id": "call_3",
            "name": "spawn",
            "namespace": "agents",
            "arguments": '{"path":"b"}',
        },
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [
                {"type": "input_text", "text": "a picture"},
                {
                    "type": "input_image",
                    "image_url": f"data:image/png;base64,{SECOND}",
                    "detail": "auto",
                },
            ],
        },
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "done"},
        {"type": "function_call_output", "call_id": "call_3", "output": "spawned"},
        {"role": "user", "content": "And now?"},
        {"role": "developer", "content": "Answer in French."},
        {"role": "user", "content": "Go on."},
    ],
}
GEMINI = {
    "model": "gemini",
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "generationConfig": {
        "maxOutputTokens": 8000,
        "temperature": 0.5,
        "topK": 40,
        "seed": 7,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
        "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH"},
    },
    "tools": [
        {
            "functionDeclarations": [
                {"name": "read", "description": "Read", "parametersJsonSchema": SCHEMA},
                {
                    "name": "files.list",
                    "description": "List",
                    "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}},
                },
            ]
        },
        {"googleSearch": {}},
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    "safetySettings": [
        {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"},
    ],
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": "What is this?"},
                {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
                {
                    "inlineData": {
                        "mimeType": "application/pdf",
                        "data": PDF,
                        "displayName": "a.pdf",
                    }
                },
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "Look first.", "thought": True},
                {"text": "Looking."},
                {
                    "functionCall": {"id": "k1", "name": "read", "args": {"path": "a"}},
                    "thoughtSignature": "U0lH",
                },
                {"functionCall": {"id": "k2", "name": "files.list", "args": {"path": "b"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "k1",
                        "name": "read",
                        "response": {"output": "a picture"},
                        "parts": [
                            {"inlineData": {"mimeType": "image/png", "data": SECOND}},
                        ],
                    }
                },
                {
                    "functionResponse": {
                        "id": "k2",
                        "name": "files.list",
                        "response": {"error": "no such file"},
                    }
                },
                {"text": "And now?"},
                {"text": "Answer in French."},
            ],
        },
    ],
}
REQUESTS: dict[str, dict[str, Any]] = {
    "anthropic": ANTHROPIC,
    "chat": CHAT,
    "responses": RESPONSES,
    "gemini": GEMINI,
}
PROFILES = {
    "anthropic": "anthropic",
    "chat": "openai",
    "responses": "openai",
    "gemini": "gemini-api",
}

# What each direction cannot carry.  A change here is a change of behaviour.
LOSSES: dict[tuple[str, str], set[str]] = {
    ("chat", "anthropic"): {
        "field_dropped",
        "logprobs_dropped",
        "reasoning_dropped",
        "sampling_dropped",
        "system_midturn_emulated",
        "thinking_disabled_by_tool_choice",
    },
    ("chat", "responses"): {
        "reasoning_dropped",
        "sampling_dropped",
        "stop_emulated",
    },
    ("chat", "gemini"): {
        "field_dropped",
        "parallel_not_enforced",
        "reasoning_dropped",
        "schema_not_enforced",
        "system_midturn_emulated",
        "thinking_dropped",
        "user_id_dropped",
    },
    ("anthropic", "chat"): {
        "reasoning_dropped",
        "schema_rewritten",
        "server_tool_dropped",
        "tool_image_moved",
    },
    ("anthropic", "responses"): {
        "opaque_dropped",
        "schema_rewritten",
        "server_tool_mapped",
        "stop_emulated",
    },
    ("anthropic", "gemini"): {
        "opaque_dropped",
        "parallel_not_enforced",
        "schema_not_enforced",
        "schema_rewritten",
        "server_tool_dropped",
        "server_tool_mapped",
        "system_midturn_emulated",
        "tool_image_moved",
        "user_id_dropped",
    },
    ("responses", "chat"): {
        "reasoning_dropped",
        "server_tool_dropped",
        "tool_image_moved",
    },
    ("responses", "anthropic"): {
        "field_dropped",
        "grammar_not_enforced",
        "opaque_dropped",
        "sampling_dropped",
        "server_tool_mapped",
        "system_midturn_emulated",
        "thinking_disabled_missing_blocks",
    },
    ("responses", "gemini"): {
        "field_dropped",
        "grammar_not_enforced",
        "opaque_dropped",
        "parallel_not_enforced",
        "schema_not_enforced",
        "server_tool_dropped",
        "server_tool_mapped",
        "system_midturn_emulated",
        "thinking_dropped",
        "tool_image_moved",
        "user_id_dropped",
    },
    ("gemini", "chat"): {
        "field_dropped",
        "opaque_dropped",
        "reasoning_dropped",
        "sampling_dropped",
        "server_tool_dropped",
        "tool_image_moved",
        "tool_renamed",
    },
    ("gemini", "anthropic"): {
        "field_dropped",
        "opaque_dropped",
        "reasoning_dropped",
        "sampling_dropped",
        "server_tool_mapped",
        "thinking_disabled_missing_blocks",
        "tool_renamed",
    },
    ("gemini", "responses"): {
        "field_dropped",
        "opaque_dropped",
        "reasoning_dropped",
        "sampling_dropped",
        "server_tool_mapped",
        "stop_emulated",
        "tool_renamed",
    },
}


def sent(client: str, upstream: str, profile: str = "") -> tuple[dict[str, Any], set[str]]:
    out = translate_request(
        msgspec.json.encode(REQUESTS[client]),
        source=client,
        target=upstream,
        profile=profile or PROFILES[upstream],
        model="up",
    )
    return msgspec.json.decode(out.body), {loss.code for loss in out.losses}


@pytest.mark.parametrize("client", DIALECT_NAMES)
@pytest.mark.parametrize("upstream", DIALECT_NAMES)
def test_a_rich_request_is_one_the_vendors_sdk_would_send(client: str, upstream: str) -> None:
    body, losses = sent(client, upstream)

    validate(upstream, body)
    assert "up" == body["model"]
    if client != upstream:
        assert LOSSES[client, upstream] == losses


@pytest.mark.parametrize("client", DIALECT_NAMES)
@pytest.mark.parametrize("upstream", DIALECT_NAMES)
def test_f8_no_picture_document_text_or_argument_is_lost(client: str, upstream: str) -> None:
    text = msgspec.json.encode(sent(client, upstream)[0]).decode()

    for needed in (
        "Be brief.",
        "What is this?",
        PIXEL,
        PDF,
        "Looking.",
        "a picture",
        "And now?",
        "Answer in French.",
    ):
        assert needed in text
    if client != "chat":
        assert SECOND in text
    arguments = {"anthropic": '"input":{"path":"a"}', "gemini": '"args":{"path":"a"}'}
    assert arguments.get(upstream, '{\\"path\\":\\"a\\"}') in text


@pytest.mark.parametrize("client", DIALECT_NAMES)
@in_one_test
@pytest.mark.parametrize("upstream", DIALECT_NAMES)
@pytest.mark.parametrize("profile", sorted(PROFILES_BY_NAME))
def test_every_kind_of_upstream_takes_a_rich_request_or_reports_what_it_cannot_see(
    client: str, upstream: str, profile: str
) -> None:
    refusal: UntranslatableError | None = None
    try:
        assert "up" == sent(client, upstream, profile)[0]["model"]
    except UntranslatableError as error:
        refusal = error

    if refusal is not None:
        assert re.search("does not accept (images|documents|files)", refusal.reason)
        assert refusal.path.startswith("$.")
