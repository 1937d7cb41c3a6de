"""The bodies of the side endpoints: the list of models, and token counts."""

import zlib
from typing import Final

import msgspec

from dragoman.errors import MalformedError
from dragoman.simulator.answer import read
from dragoman.simulator.model_names import PLAIN, PREFIX
from dragoman.simulator.native import FAMILIES
from dragoman.simulator.play import CREATED, TOKEN, Fields, Json, input_tokens, pieces
from dragoman.simulator.quirks import QUIRKS
from dragoman.turn.request import DialectName

_CONTEXT: Final = 262_144  # tokens
_VOCABULARY: Final = 100_000


def models() -> Fields:
    """Return all bases, and the quirks that may be added to each."""
    names = [f"{PREFIX}{base}" for base in (PLAIN, *(key.replace("_", "-") for key in FAMILIES))]
    listed: list[Json] = [model(name) for name in names]
    quirks: list[Json] = [
        {"quirk": one.name, "usage": one.usage, "description": one.description}
        for one in QUIRKS.values()
    ]
    return {
        "object": "list",
        "data": listed,
        "has_more": False,
        "first_id": names[0],
        "last_id": names[-1],
        "quirks": quirks,
    }


def model(name: str) -> Fields:
    """Return one model; every name is valid."""
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "created": CREATED,
        "created_at": "2025-06-15T15:06:40Z",
        "owned_by": "dragoman-simulator",
        "display_name": f"Simulated {name.removeprefix(PREFIX)}",
    }


def google_models() -> Fields:
    """Return all bases, in the shape that Google's clients read."""
    listed = models()["data"]
    assert isinstance(listed, list)  # noqa: S101 -- made above
    return {"models": [google_model(str(one["id"])) for one in listed if isinstance(one, dict)]}


def google_model(name: str) -> Fields:
    """Return one model in the shape that Google's clients read; every name is valid."""
    return {
        "name": f"models/{name}",
        "version": "1",
        "displayName": f"Simulated {name.removeprefix(PREFIX)}",
        "inputTokenLimit": _CONTEXT,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }


def count_tokens(dialect: DialectName, body: bytes) -> Fields:
    """Return the token count of a request.

    Raises:
        MalformedError: it is not of the dialect.
    """
    fields = _fields(body)
    if dialect == "anthropic":
        fields.setdefault("max_tokens", 1)  # not a field of this endpoint
    asked = read(dialect, msgspec.json.encode(fields))
    if dialect == "gemini":
        return {"totalTokens": input_tokens(asked)}
    counted: Fields = {"input_tokens": input_tokens(asked)}
    return counted if dialect == "anthropic" else {"object": "response.input_tokens", **counted}


def tokenize(body: bytes) -> Fields:
    """Answer as the tokenizer of an inference server: of `messages`, a `prompt`, or `content`.

    Raises:
        MalformedError: it has none of them.
    """
    fields = _fields(body)
    if "messages" in fields:
        asked = read("chat", msgspec.json.encode({"model": "", **fields}))
        tokens: list[Json] = [*range(input_tokens(asked))]
    else:
        text = fields.get("prompt", fields.get("content"))
        if not isinstance(text, str):
            raise MalformedError("give `messages`, a `prompt` or `content`", path="$.prompt")
        tokens = [zlib.crc32(one.encode()) % _VOCABULARY for one in pieces(text, TOKEN)]
    return {"tokens": tokens, "count": len(tokens), "max_model_len": _CONTEXT}


def _fields(body: bytes) -> Fields:
    try:
        fields: Json = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise MalformedError(f"the body is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise MalformedError("the body is not an object")
    return fields
