"""The shapes of Chat Completions answers, as far as they are needed.

Fields that are not declared are passed over.  Shapes are wider than the vendor's own, for many servers
call themselves compatible; what is rare stays `Raw` until somebody looks at it.
"""

from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct

EMPTY: Final = Raw(b"")


def is_given(raw: Raw) -> bool:
    """Say whether a raw field holds something: not absent, null, or an empty container."""
    return len(raw) > 2 and bytes(raw) != b"null"


class FunctionDelta(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Raw] | None = None  # an object at some servers


class CustomDelta(Struct, gc=False):
    name: str | None = None
    input: str | None = None


class CallDelta(Struct, gc=False):
    index: int | None = None
    id: str | int | None = None
    function: FunctionDelta | None = None
    custom: CustomDelta | None = None
    extra_content: Raw = EMPTY  # a vendor's state for this call


class ContentPart(Struct, gc=False):
    """A part of a message whose content is a list."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    thinking: Raw = EMPTY  # a string, or parts again


class Delta(Struct, gc=False):
    """What a chunk adds to the message, or the message itself."""

    content: str | list[ContentPart] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[CallDelta] | None = None
    refusal: str | None = None
    reasoning_details: Raw = EMPTY
    function_call: FunctionDelta | None = None
    annotations: Raw = EMPTY
    audio: Raw = EMPTY
    images: Raw = EMPTY


class Logprobs(Struct, gc=False):
    content: list[Raw] | None = None
    refusal: list[Raw] | None = None
    tokens: Raw = EMPTY  # the shape of the older completions API


class Choice(Struct, gc=False):
    index: int | None = None
    delta: Delta | None = None
    finish_reason: str | None = None
    logprobs: Logprobs | None = None
    message: Delta | None = None
    native_finish_reason: str | None = None
    stop_reason: Raw = EMPTY
    usage: Raw = EMPTY
    error: Raw = EMPTY


class Chunk(Struct, gc=False):
    """A chunk of a stream, or a complete answer."""

    choices: list[Choice] | None = None
    usage: Raw = EMPTY
    error: Raw = EMPTY
    x_groq: Raw = EMPTY
    citations: Raw = EMPTY


# --- the plain road: a chunk that adds text and says nothing else -----------------------------------
# A field of type None refuses a value, so what decodes as `PlainChunk` can be passed on unseen.


class PlainDelta(Struct, gc=False, forbid_unknown_fields=True):
    content: str
    role: str | None = None
    reasoning_content: None = None
    reasoning: None = None
    tool_calls: None = None
    refusal: None = None
    function_call: None = None


class PlainChoice(Struct, gc=False):
    delta: PlainDelta
    index: Literal[0] = 0
    finish_reason: None = None
    logprobs: None = None
    native_finish_reason: None = None
    usage: None = None
    error: None = None


class PlainChunk(Struct, gc=False):
    choices: tuple[PlainChoice]
    usage: None = None
    error: None = None
    citations: None = None


class HeadDelta(Struct, gc=False):
    role: Raw = EMPTY


class HeadChoice(Struct, gc=False):
    delta: HeadDelta | None = None


class Head(Struct, gc=False):
    """What a chunk says of the whole answer: read until it has been told."""

    id: Raw = EMPTY
    model: Raw = EMPTY
    created: Raw = EMPTY
    choices: list[HeadChoice] | None = None


class PromptDetails(Struct, gc=False):
    cached_tokens: float | None = None
    cache_write_tokens: float | None = None


class CompletionDetails(Struct, gc=False):
    reasoning_tokens: float | None = None


class UsageCounts(Struct, gc=False):
    """Token counts in every spelling that is known."""

    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    total_tokens: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    cached_tokens: float | None = None
    prompt_cache_hit_tokens: float | None = None
    cache_read_input_tokens: float | None = None
    cache_creation_input_tokens: float | None = None
    reasoning_tokens: float | None = None


class UrlCitation(Struct, gc=False):
    url: str = ""
    title: str | None = None
    start_index: int | None = None
    end_index: int | None = None
    content: str | None = None


CHUNK: Final = msgspec.json.Decoder(Chunk)
PLAIN: Final = msgspec.json.Decoder(PlainChunk)
HEAD: Final = msgspec.json.Decoder(Head)
USAGE: Final = msgspec.json.Decoder(UsageCounts)
PARTS: Final[msgspec.json.Decoder[str | list[ContentPart]]] = msgspec.json.Decoder(
    str | list[ContentPart]
)
STRING: Final = msgspec.json.Decoder(str)
FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
