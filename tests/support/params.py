"""The vendors' own parameter types as judges of the requests we write."""

import itertools
from typing import Any

from anthropic.types import message_create_params
from google.genai import types as genai_types
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params
from pydantic import TypeAdapter

_PARAMS: dict[str, TypeAdapter[Any]] = {
    "anthropic": TypeAdapter(message_create_params.MessageCreateParamsNonStreaming),
    "chat": TypeAdapter(completion_create_params.CompletionCreateParamsNonStreaming),
    "responses": TypeAdapter(response_create_params.ResponseCreateParamsNonStreaming),
}
# The SDK builds these from its own arguments; the request on the wire has no type as a whole.
_GEMINI: dict[str, TypeAdapter[Any]] = {
    "contents": TypeAdapter(list[genai_types.Content]),
    "systemInstruction": TypeAdapter(genai_types.Content),
    "tools": TypeAdapter(list[genai_types.Tool]),
    "toolConfig": TypeAdapter(genai_types.ToolConfig),
    "generationConfig": TypeAdapter(genai_types.GenerationConfig),
    "safetySettings": TypeAdapter(list[genai_types.SafetySetting]),
    "serviceTier": TypeAdapter(str),
    "labels": TypeAdapter(dict[str, str]),
}


def validate(dialect: str, body: dict[str, Any]) -> None:
    """Raise if a request is not what the vendor's SDK would let a caller send."""
    if dialect == "gemini":
        _validate_gemini(body)
        return
    body = {**body, "stream": False}
    if isinstance(body.get("input"), list):
        body["input"] = [_with_identity(item) for item in body["input"]]
    _walk(_PARAMS[dialect].validate_python(body))


def _validate_gemini(body: dict[str, Any]) -> None:
    for name, value in body.items():
        if name not in ("model", "stream"):  # these are in the URL
            _GEMINI[name].validate_python(value)
    contents = body["contents"]
    roles = [content["role"] for content in contents]
    assert ["user", "model"] * (len(roles) // 2) + ["user"] == roles
    for before, after in itertools.pairwise(contents):
        calls = [part["functionCall"] for part in before["parts"] if "functionCall" in part]
        results = [one["functionResponse"] for one in after["parts"] if "functionResponse" in one]
        assert [(one.get("id"), one["name"]) for one in calls] == [
            (one.get("id"), one["name"]) for one in results
        ]


def _with_identity(item: dict[str, Any]) -> dict[str, Any]:
    """Add what the type of an earlier answer demands, and what the vendor's own agent leaves out."""
    if item.get("role") != "assistant":
        return item
    content = [{"annotations": [], **part} for part in item["content"]]
    return {"type": "message", "id": "msg_1", "status": "completed", **item, "content": content}


def _walk(value: Any) -> None:
    """Visit every value: iterables are only checked while somebody reads them."""
    if isinstance(value, dict):
        for inner in value.values():
            _walk(inner)
    elif value is not None and not isinstance(value, str | bytes | int | float):
        for inner in value:
            _walk(inner)
