"""Counting tokens without answering."""

import zlib
from typing import Final

import msgspec

from dragoman.errors import MalformedError
from dragoman.simulator.answer import read
from dragoman.simulator.play import Fields, Json
from dragoman.simulator.tokens import TOKEN, pieces
from dragoman.simulator.voices.usage import input_tokens
from dragoman.turn.request import DialectName

_CONTEXT: Final = 262_144  # tokens
_VOCABULARY: Final = 100_000


def count_tokens(dialect: DialectName, body: bytes) -> Fields:
    """Answer how many tokens a request has.

    Raises:
        MalformedError: it is not of the dialect.
    """
    fields = _fields(body)
    if dialect == "anthropic":
        fields.setdefault("max_tokens", 1)  # not a field of this endpoint
    asked = read(dialect, msgspec.json.encode(fields))
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
