"""The shapes of Gemini's `generateContent`, as far as they are read or written here.

Protocol-buffer JSON: a client may write each field in camel case or in snake case, even both in one body, and
`null` means absent.  `camel_request` puts a request into the one spelling that the shapes below know; what is
free JSON (arguments, results, schemas) keeps its bytes.

On the wire the model and whether the answer streams are in the URL.  Here a request is one JSON object, so
they are its fields `model` and `stream`; `split_request` of `request_writer` and `joined_request` of `request_reader` convert.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.dialects.decoding import decode, decode_at
from dragoman.dialects.encoding import encode
from dragoman.dialects.vocabulary import Vocabulary

VENDOR: Final = "google"
NO_RAW: Final = Raw(b"")  # a `Raw` field that is absent
# Signs a call of the history that has no signature, where a model refuses calls without one.
PLACEHOLDER: Final = "skip_thought_signature_validator"
# Google documents two words; clients send them bare or in base64.
PLACEHOLDERS: Final = frozenset(
    {
        PLACEHOLDER,
        "context_engineering_is_the_way_to_go",
        "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=",
        "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv",
    }
)

_VERSION: Final = re.compile(r"gemini-(\d{1,3})((?:\.\d{1,3})?)")
_LAST_BY_MINOR: Final = 2  # the last generation whose versions are separate families: 2.0, 2.5


def family_of(model: str) -> str:
    """Return the family of models that read each other's signatures: `2.5`, `3`; empty: not known."""
    found = _VERSION.search(model)
    if found is None:
        return ""
    major, minor = found.groups()
    return major + minor if int(major) <= _LAST_BY_MINOR else major


# Service tiers by their names in `Request.tier`.
TIERS: Final = {"standard": "default", "flex": "flex", "priority": "priority"}


# How closely images are looked at, by word and by number; all other values leave it to the model.
_DETAILS: Final = {
    "MEDIA_RESOLUTION_LOW": "low",
    "1": "low",
    "MEDIA_RESOLUTION_HIGH": "high",
    "3": "high",
}


def detail_of(resolution: str | int | None) -> str:
    """Return the detail of images that a resolution asks for; empty: the model chooses."""
    return _DETAILS.get(str(resolution or "").upper(), "")


def given(raw: Raw) -> bool:
    """Return whether a field was sent with a value."""
    return bool(raw) and bytes(raw) != b"null"


# --- content ----------------------------------------------------------------------------------------


class Blob(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    mime_type: str | None = None
    data: str | None = None
    display_name: str | None = None


class FileData(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    file_uri: str | None = None
    mime_type: str | None = None
    display_name: str | None = None


class PartialArg(Struct, frozen=True, gc=False, rename="camel"):
    json_path: str | None = None
    string_value: str | None = None
    number_value: Raw = NO_RAW
    bool_value: bool | None = None
    null_value: Raw = NO_RAW


class FunctionCall(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    name: str | None = None
    args: Raw = NO_RAW
    id: str | None = None
    partial_args: list[PartialArg] | None = None
    will_continue: bool | None = None


class ResponsePart(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A file beside the JSON of a result."""

    inline_data: Blob | None = None
    file_data: FileData | None = None


class FunctionResponse(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    name: str | None = None
    response: Raw = NO_RAW
    id: str | None = None
    parts: list[ResponsePart] | None = None


class Part(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One part of a content: one payload, and what may be beside it."""

    text: str | None = None
    thought: bool | str | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    executable_code: Raw = NO_RAW
    code_execution_result: Raw = NO_RAW
    tool_call: Raw = NO_RAW
    tool_response: Raw = NO_RAW
    thought_signature: str | None = None

    @property
    def is_thought(self) -> bool:
        return self.thought is True or self.thought == "true"

    @property
    def payloads(self) -> int:
        """How many payloads it has: one, unless it is broken or says nothing."""
        present = (
            self.text is not None, self.inline_data is not None, self.file_data is not None,
            self.function_call is not None, self.function_response is not None,
            given(self.executable_code), given(self.code_execution_result),
            given(self.tool_call), given(self.tool_response),
        )  # fmt: skip
        return present.count(True)


class MediaResolution(Struct, frozen=True, gc=False):
    level: str | int | None = None


# The payloads of a client, which the decoder refuses if they have other fields.


class ClientBlob(Blob, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    pass


class ClientFile(FileData, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    pass


class ClientCall(FunctionCall, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    pass


class ClientResponse(
    FunctionResponse, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True
):
    pass


class ClientPart(Part, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """A part of a client, with every field that may be beside the payload."""

    inline_data: ClientBlob | None = None
    file_data: ClientFile | None = None
    function_call: ClientCall | None = None
    function_response: ClientResponse | None = None
    media_resolution: MediaResolution | None = None
    # These mean nothing to another vendor.
    video_metadata: Raw = NO_RAW
    part_metadata: Raw = NO_RAW
    media_processing: Raw = NO_RAW
    audio_transcription: Raw = NO_RAW
    speech_metadata: Raw = NO_RAW


# Parts that only Google understands: what ran, and what came of it.
SERVER_CALLS: Final = ("executable_code", "tool_call")
SERVER_RESULTS: Final = ("code_execution_result", "tool_response")


class McpTransport(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    url: str = ""
    headers: dict[str, str] = {}
    timeout: Raw = NO_RAW
    sse_read_timeout: Raw = NO_RAW
    terminate_on_close: Raw = NO_RAW


class McpServerIn(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """An entry of `mcpServers`."""

    name: str = ""
    streamable_http_transport: McpTransport = McpTransport()


# Google publishes no form for the calls of MCP servers in this API.  These are the names of its other API, in a
# part that its SDKs know; parts of Google's other tools have a type.

MCP_ID: Final = "mcp_"  # the beginning of ids that other vendors' calls get here


class McpCallArgs(Struct, frozen=True, gc=False, rename="camel"):
    name: str
    server_name: str
    arguments: Raw = Raw(b"{}")


class McpCall(Struct, frozen=True, gc=False, rename="camel"):
    """A `toolCall` of an MCP server's tool."""

    id: str
    args: McpCallArgs
    tool_type: str | UnsetType = UNSET


class McpResponse(Struct, frozen=True, gc=False):
    output: str | None = None
    error: str | None = None


class McpResult(Struct, frozen=True, gc=False, rename="camel"):
    """A `toolResponse` of an MCP server's tool."""

    id: str
    response: McpResponse
    tool_type: str | UnsetType = UNSET


class ExecutableCode(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    language: str | int = "PYTHON"
    code: str = ""
    id: str | None = None


class CodeResult(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    outcome: str | int = "OUTCOME_OK"
    output: str = ""
    id: str | None = None


class RawContent(Struct, frozen=True, gc=False):
    """A content whose parts keep their bytes."""

    role: str | None = None
    parts: list[Raw] | None = None


class ClientContent(RawContent, frozen=True, gc=False, forbid_unknown_fields=True):
    """A content of a client."""


# --- requests ---------------------------------------------------------------------------------------


class FunctionDeclaration(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    name: str = ""
    description: str | None = None
    parameters: Raw = NO_RAW
    parameters_json_schema: Raw = NO_RAW


class FunctionCallingConfig(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    mode: str | int | None = None
    allowed_function_names: list[str] | None = None
    stream_function_call_arguments: bool | None = None

    @property
    def forced(self) -> bool:
        """A function must be called."""
        return self.mode == "ANY"


AUTO_CHOICE: Final = FunctionCallingConfig("AUTO")


class ToolConfig(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    function_calling_config: FunctionCallingConfig | None = None


class ThinkingConfig(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    include_thoughts: bool | None = None
    thinking_budget: int | None = None
    thinking_level: str | None = None


class GenerationConfig(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    max_output_tokens: int | None = None
    stop_sequences: list[str] | None = None
    candidate_count: int | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None
    response_mime_type: str | None = None
    response_schema: Raw = NO_RAW
    response_json_schema: Raw = NO_RAW
    thinking_config: ThinkingConfig | None = None
    response_modalities: list[str | int] | None = None
    media_resolution: str | int | None = None


class SafetySetting(Struct, frozen=True, gc=False):
    category: str | int | None = None
    threshold: str | int | None = None


class Request(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """What a client sends, with the model and the kind of answer that its URL names."""

    model: str
    stream: bool | None = None
    contents: list[Raw] | None = None
    system_instruction: Raw = NO_RAW
    tools: Raw = NO_RAW
    tool_config: ToolConfig | None = None
    generation_config: Raw = NO_RAW
    safety_settings: list[SafetySetting] | None = None
    cached_content: str | None = None
    labels: Raw = NO_RAW
    service_tier: str | None = None


# Fields of a request, and of its `generationConfig`, that are read into the turn; all others are extensions.
REQUEST_FIELDS: Final = frozenset(Request.__struct_encode_fields__)
CONFIG_FIELDS: Final = frozenset(GenerationConfig.__struct_encode_fields__)


# --- answers ----------------------------------------------------------------------------------------


class UsageMetadata(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    total_token_count: int | None = None


class WebSource(Struct, frozen=True, gc=False, omit_defaults=True):
    uri: str | None = None
    title: str | None = None


class GroundingChunk(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    web: WebSource | None = None
    maps: WebSource | None = None
    retrieved_context: WebSource | None = None


class Segment(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    part_index: int | None = None
    start_index: int | None = None
    end_index: int | None = None
    text: str | None = None


class GroundingSupport(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    segment: Segment | None = None
    grounding_chunk_indices: list[int] | None = None


class GroundingMetadata(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    web_search_queries: list[str] | None = None
    search_entry_point: Raw = NO_RAW
    grounding_chunks: list[GroundingChunk] | None = None
    grounding_supports: list[GroundingSupport] | None = None


class UrlMetadata(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    retrieved_url: str | None = None
    url_retrieval_status: str | int | None = None


class UrlContextMetadata(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The pages that were read; their content is not shown."""

    url_metadata: list[UrlMetadata] | None = None


class TokenChoice(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    token: str | None = None
    log_probability: float | None = None


class TopChoices(Struct, frozen=True, gc=False):
    candidates: list[TokenChoice] | None = None


class LogprobsResult(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    chosen_candidates: list[TokenChoice] | None = None
    top_candidates: list[TopChoices] | None = None


class Candidate(Struct, frozen=True, gc=False, rename="camel"):
    content: RawContent | None = None
    finish_reason: str | int | None = None
    finish_message: str | None = None
    continuation_token: str | None = None
    index: int | None = None
    citation_metadata: Raw = NO_RAW
    grounding_metadata: Raw = NO_RAW
    url_context_metadata: Raw = NO_RAW
    logprobs_result: Raw = NO_RAW


class PromptFeedback(Struct, frozen=True, gc=False, rename="camel"):
    block_reason: str | int | None = None
    block_reason_message: str | None = None


class Chunk(Struct, frozen=True, gc=False, rename="camel"):
    """A chunk of a stream, or a complete answer."""

    candidates: list[Candidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: Raw = NO_RAW
    model_version: str | None = None
    response_id: str | None = None
    error: Raw = NO_RAW


# Chunks that add text and say nothing else; token counts may come with each and only the last ones count.


class OnlyText(Struct, gc=False, forbid_unknown_fields=True):
    text: str


class TextContent(Struct, gc=False):
    parts: tuple[OnlyText]


class TextCandidate(Struct, gc=False, rename="camel"):
    content: TextContent
    index: Literal[0] = 0
    finish_reason: None = None
    finish_message: None = None
    citation_metadata: None = None
    grounding_metadata: None = None
    url_context_metadata: None = None
    logprobs_result: None = None


class TextChunk(Struct, gc=False, rename="camel"):
    candidates: tuple[TextCandidate]
    usage_metadata: Raw = NO_RAW
    prompt_feedback: None = None
    error: None = None


# --- errors -----------------------------------------------------------------------------------------


class ErrorIn(Struct, frozen=True):
    code: int | str | None = None
    message: str | None = None
    status: str | None = None
    details: list[Raw] | None = None


class ErrorBody(Struct, frozen=True):
    error: ErrorIn | str | None = None


class QuotaViolation(Struct, frozen=True, gc=False, rename="camel"):
    quota_id: str | None = None


class FieldViolation(Struct, frozen=True, gc=False, omit_defaults=True):
    field: str | None = None
    description: str | None = None


class ErrorDetail(Struct, frozen=True, rename={"type": "@type"}):
    """Any entry of an error's details, as far as it is used."""

    type: str | None = None
    reason: str | None = None
    retryDelay: str | None = None  # noqa: N815 -- renamed fields must all be listed
    fieldViolations: list[FieldViolation] | None = None  # noqa: N815
    violations: list[QuotaViolation] | None = None


# --- one spelling -----------------------------------------------------------------------------------

Shape: TypeAlias = Mapping[str, "Shape | None"]

_FILES: Final[Shape] = {
    "inlineData": {"mimeType": None, "displayName": None},
    "fileData": {"mimeType": None, "fileUri": None, "displayName": None},
}
_PART: Final[Shape] = {
    **_FILES,
    "functionCall": {
        "partialArgs": {
            **dict.fromkeys(PartialArg.__struct_encode_fields__),
            "willContinue": None,
        },
        "willContinue": None,
    },
    "functionResponse": {"parts": _FILES, "willContinue": None},
    "executableCode": None,
    "codeExecutionResult": None,
    "toolCall": None,
    "toolResponse": None,
    "thoughtSignature": None,
    "videoMetadata": None,
    "mediaResolution": None,
    "partMetadata": None,
    "mediaProcessing": None,
    "audioTranscription": None,
    "speechMetadata": None,
}
_CONTENT: Final[Shape] = {"parts": _PART}
_TOOL: Final[Shape] = {
    "functionDeclarations": {
        "parametersJsonSchema": None,
        "responseJsonSchema": None,
    },
    "googleSearch": None,
    "googleSearchRetrieval": None,
    "codeExecution": None,
    "urlContext": None,
    "googleMaps": None,
    "fileSearch": None,
    "computerUse": None,
    "mcpServers": {
        "streamableHttpTransport": {"sseReadTimeout": None, "terminateOnClose": None},
    },
    "enterpriseWebSearch": None,
}
_CONFIG: Final[Shape] = {
    **dict.fromkeys(
        name for name in GenerationConfig.__struct_encode_fields__ if name != "thinkingConfig"
    ),
    "thinkingConfig": {"includeThoughts": None, "thinkingBudget": None, "thinkingLevel": None},
    "speechConfig": None,
    "imageConfig": None,
    "audioTimestamp": None,
    "routingConfig": None,
    "modelSelectionConfig": None,
    "enableEnhancedCivicAnswers": None,
    "continuationToken": None,
}
_REQUEST: Final[Shape] = {
    "contents": _CONTENT,
    "systemInstruction": _CONTENT,
    "tools": _TOOL,
    "toolConfig": {
        "functionCallingConfig": {
            "mode": None,
            "allowedFunctionNames": None,
            "streamFunctionCallArguments": None,
        },
        "retrievalConfig": None,
        "includeServerSideToolInvocations": None,
    },
    "generationConfig": _CONFIG,
    "safetySettings": None,
    "cachedContent": None,
    "serviceTier": None,
    "modelArmorConfig": None,
}
_CAPITAL: Final = re.compile(r"[A-Z]")


def _snake_names(shape: Shape, found: dict[str, str]) -> dict[str, str]:
    for name, inner in shape.items():
        snake = _CAPITAL.sub(lambda letter: f"_{letter[0].lower()}", name)
        if snake != name:
            found[snake] = name
        if inner is not None:
            _snake_names(inner, found)
    return found


# Older SDKs write one name with an underscore in front.
_RENAMED: Final = {**_snake_names(_REQUEST, {}), "_responseJsonSchema": "responseJsonSchema"}
# To look for the underscore first takes a sixth of the time in a text that is full of quotes.
_SNAKE: Final = re.compile(
    b'"(?=[a-z]*_)(?:' + b"|".join(re.escape(name.encode()) for name in sorted(_RENAMED)) + b')"'
)
_LONGEST: Final = max(map(len, _RENAMED)) + 2
_SEARCHED_BYTES: Final = 128 * 1024  # at once, about a millisecond: other threads wait for a search
_FIELDS: Final[msgspec.json.Decoder[dict[str, Raw]]] = msgspec.json.Decoder(dict[str, Raw])
_ENTRIES: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])


def camel_request(body: bytes) -> bytes:
    """Return a request in camel case; the same bytes if it is so already.

    Raises:
        MalformedError: it is not an object; carries the path.
    """
    starts = range(0, len(body), _SEARCHED_BYTES)
    if not any(_SNAKE.search(body, at, at + _SEARCHED_BYTES + _LONGEST) for at in starts):
        return body
    return bytes(_camel(Raw(body), _REQUEST, "$"))


def _camel(raw: Raw, shape: Shape, path: str) -> Raw:
    text = bytes(raw).lstrip()
    if text[:1] == b"[":
        entries = decode_at(_ENTRIES, raw, path)
        return Raw(encode([_camel(one, shape, f"{path}[{at}]") for at, one in enumerate(entries)]))
    if text[:1] != b"{":
        return raw  # the decoder of the shape reports what is wrong with it
    fields: dict[str, Raw] = {}
    for key, value in decode_at(_FIELDS, raw, path).items():
        name = _RENAMED.get(key, key) if _RENAMED.get(key, "") in shape else key
        inner = shape.get(name)
        fields[name] = value if inner is None else _camel(value, inner, f"{path}.{name}")
    return Raw(encode(fields))


def fields_of(raw: Raw | bytes) -> dict[str, Raw]:
    """Return the fields of an object, each as it is written.

    Raises:
        MalformedError: it is not an object.
    """
    return decode(_FIELDS, bytes(raw))


# --- names of settings ------------------------------------------------------------------------------

FIELD_NAMES: Final = {
    "max_output": "generationConfig.maxOutputTokens",
    "temperature": "generationConfig.temperature",
    "top_p": "generationConfig.topP",
    "top_k": "generationConfig.topK",
    "seed": "generationConfig.seed",
    "frequency_penalty": "generationConfig.frequencyPenalty",
    "presence_penalty": "generationConfig.presencePenalty",
    "stop": "generationConfig.stopSequences",
    "count": "generationConfig.candidateCount",
    "logprobs": "generationConfig.responseLogprobs",
    "tier": "serviceTier",
    "metadata": "labels",
    "format": "generationConfig.responseSchema",
    "thinking": "generationConfig.thinkingConfig",
    "tool_choice": "toolConfig",
    "messages": "contents",
}

# What the fields are, for code that looks at JSON without reading it.
VOCABULARY: Final = Vocabulary(
    words=frozenset(
        {
            "role", "status", "reason", "category", "mode", "model", "finishReason", "blockReason", "modelVersion",
            "mimeType", "mime_type", "responseMimeType", "response_mime_type", "thinkingLevel", "thinking_level",
            "level", "modality", "serviceTier", "threshold", "@type", "language", "outcome",
        }
    ),
    names=frozenset(
        {
            "name", "id", "responseId", "stopSequences", "allowedFunctionNames", "allowed_function_names",
            "propertyOrdering", "property_ordering",
        }
    ),
    schemas=frozenset(
        {
            "parameters", "parametersJsonSchema", "parameters_json_schema", "responseSchema", "response_schema",
            "responseJsonSchema", "response_json_schema",
        }
    ),
    free=frozenset({"args", "labels"}),
    results=frozenset({"functionResponse", "function_response"}),
    no_input=frozenset({"thoughtSignature"}),
    system=frozenset({"systemInstruction", "system_instruction"}),
    history=frozenset({"contents"}),
    path_words=frozenset(
        {
            "v1beta", "v1alpha", "v1beta1", "publishers", "google", "projects", "locations", "alt", "sse",
            "generateContent", "streamGenerateContent", "countTokens",
        }
    ),
)  # fmt: skip
