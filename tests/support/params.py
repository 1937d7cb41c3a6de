"""The vendors' own parameter types as judges of the requests we write."""

from typing import Any

from anthropic.types import message_create_params
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params
from pydantic import TypeAdapter

_PARAMS: dict[str, TypeAdapter[Any]] = {
    "anthropic": TypeAdapter(message_create_params.MessageCreateParamsNonStreaming),
    "chat": TypeAdapter(completion_create_params.CompletionCreateParamsNonStreaming),
    "responses": TypeAdapter(response_create_params.ResponseCreateParamsNonStreaming),
}


def validate(dialect: str, body: dict[str, Any]) -> None:
    """Raise if a request is not what the vendor's SDK would let a caller send."""
    body = {**body, "stream": False}
    if isinstance(body.get("input"), list):
        body["input"] = [_with_identity(item) for item in body["input"]]
    _walk(_PARAMS[dialect].validate_python(body))


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
