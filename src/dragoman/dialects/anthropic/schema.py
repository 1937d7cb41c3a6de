"""The shapes of the Messages API, as far as they are read or written here.

Request shapes serve both ways: what a client sends is decoded into them, and what an upstream gets is
encoded from them.  Fields that are only passed on are `Raw`.
"""

from typing import Annotated, Final, Generic, Literal, TypeAlias, TypeVar

from msgspec import Meta, Raw, Struct

from dragoman.dialects.vocabulary import Vocabulary
from dragoman.turn.request import Role

VENDOR: Final = "anthropic"

# Service tiers by their names in `Request.tier`.
TIERS: Final = {"auto": "auto", "standard_only": "default"}

NO_RAW: Final = Raw(b"")  # a `Raw` field that is absent


class CacheControl(Struct, frozen=True, gc=False, tag="ephemeral", omit_defaults=True):
    ttl: str | None = None


# --- content of requests ---------------------------------------------------------------------------


class Base64Source(Struct, frozen=True, gc=False, tag="base64"):
    media_type: str
    data: str


class UrlSource(Struct, frozen=True, gc=False, tag="url"):
    url: str


class FileSource(Struct, frozen=True, gc=False, tag="file"):
    file_id: str


class TextSource(Struct, frozen=True, gc=False, tag="text"):
    data: str
    media_type: str = "text/plain"


class TextBlock(Struct, frozen=True, gc=False, tag="text", omit_defaults=True):
    text: str
    citations: list[Raw] | None = None
    cache_control: CacheControl | None = None


class ImageBlock(Struct, frozen=True, gc=False, tag="image", omit_defaults=True):
    source: Base64Source | UrlSource | FileSource
    cache_control: CacheControl | None = None


class ContentSource(Struct, frozen=True, gc=False, tag="content"):
    content: str | list[TextBlock | ImageBlock]


class CitationsFlag(Struct, frozen=True, gc=False):
    enabled: bool = False


class DocumentBlock(Struct, frozen=True, gc=False, tag="document", omit_defaults=True):
    source: Base64Source | UrlSource | FileSource | TextSource | ContentSource
    title: str | None = None
    context: str | None = None
    citations: CitationsFlag | None = None
    cache_control: CacheControl | None = None


class SearchResultBlock(Struct, frozen=True, gc=False, tag="search_result", omit_defaults=True):
    source: str
    title: str
    content: list[TextBlock]
    citations: CitationsFlag | None = None
    cache_control: CacheControl | None = None


class ToolReference(Struct, frozen=True, gc=False, tag="tool_reference"):
    """A deferred tool that a search of the client's own has found."""

    tool_name: str


ResultBlock: TypeAlias = TextBlock | ImageBlock | DocumentBlock | SearchResultBlock | ToolReference


class ToolUseBlock(Struct, frozen=True, gc=False, tag="tool_use", omit_defaults=True):
    id: str
    name: str
    input: Raw = NO_RAW


class ToolResultBlock(Struct, frozen=True, gc=False, tag="tool_result", omit_defaults=True):
    tool_use_id: str
    content: str | list[ResultBlock] | None = None
    is_error: bool | None = None
    cache_control: CacheControl | None = None


class ThinkingBlock(Struct, frozen=True, gc=False, tag="thinking"):
    thinking: str = ""
    signature: str = ""


class RedactedBlock(Struct, frozen=True, gc=False, tag="redacted_thinking"):
    data: str


# Blocks that most histories are made of.  All others keep their bytes; see `content`.
Block: TypeAlias = (
    TextBlock
    | ImageBlock
    | DocumentBlock
    | SearchResultBlock
    | ToolUseBlock
    | ToolResultBlock
    | ThinkingBlock
    | RedactedBlock
)

BLOCK_TYPES: Final = frozenset(
    {
        "text",
        "image",
        "document",
        "search_result",
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
    }
)


class Message(Struct, frozen=True, gc=False):
    role: Role
    content: str | list[Block]


class RawMessage(Struct, frozen=True, gc=False):
    """A message some of whose blocks are not in `Block`."""

    role: Role
    content: str | list[Raw]


class BlockHead(Struct, frozen=True, gc=False):
    """The type of every block, and the fields that describe blocks that are only forwarded."""

    type: str
    id: str | None = None
    tool_use_id: str | None = None
    name: str | None = None
    content: Raw = NO_RAW
    input: Raw = NO_RAW


# --- requests ------------------------------------------------------------------------------------


class ToolDefinition(Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool, in any of the shapes a client may declare."""

    name: str = ""
    type: str | None = None
    description: str | None = None
    input_schema: Raw = NO_RAW
    strict: bool | None = None
    defer_loading: bool | None = None
    eager_input_streaming: bool | None = None
    allowed_callers: list[str] | None = None
    input_examples: list[Raw] | None = None
    cache_control: CacheControl | None = None


class McpToolConfig(Struct, frozen=True, gc=False, omit_defaults=True):
    """How one tool of an MCP server, or each of them, is set up."""

    enabled: bool | None = None
    defer_loading: bool | None = None


class McpToolset(Struct, frozen=True, gc=False):
    """The tools of one of the servers in `mcp_servers`."""

    mcp_server_name: str
    default_config: McpToolConfig | None = None
    configs: dict[str, McpToolConfig] | None = None
    tools: Raw = NO_RAW  # the server's list of tools, as an earlier answer had it


class McpAllowedTools(Struct, frozen=True, gc=False):
    """Which tools of a server may be called, in the vendor's older beta."""

    allowed_tools: list[str] | None = None
    enabled: bool | None = None


class McpServerDefinition(Struct, frozen=True, gc=False):
    """An entry of `mcp_servers`."""

    name: str
    url: str = ""
    authorization_token: str | None = None
    tool_configuration: McpAllowedTools | None = None


class ToolChoice(Struct, frozen=True, gc=False, omit_defaults=True):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(Struct, frozen=True, gc=False, omit_defaults=True):
    type: Literal["enabled", "adaptive", "disabled", "between_tools"]
    budget_tokens: Annotated[int, Meta(ge=0)] | None = None
    display: str | None = None


class OutputFormat(Struct, frozen=True, gc=False):
    type: Literal["json_schema"]
    schema: Raw


class OutputConfig(Struct, frozen=True, gc=False, omit_defaults=True):
    effort: str | None = None
    format: OutputFormat | None = None


class Metadata(Struct, frozen=True, gc=False):
    user_id: str | None = None


class Request(Struct, frozen=True, gc=False, kw_only=True):
    """What a client sends.  `EXTENSIONS` names the fields that are kept as they are."""

    model: str
    messages: list[Message]
    max_tokens: Annotated[int, Meta(ge=0)] | None = None
    system: str | list[TextBlock] | None = None
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    tools: Raw = NO_RAW
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    metadata: Metadata | None = None
    service_tier: str | None = None
    speed: str | None = None
    cache_control: CacheControl | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    container: Raw = NO_RAW
    inference_geo: Raw = NO_RAW
    diagnostics: Raw = NO_RAW
    user_profile_id: Raw = NO_RAW
    workspace_id: Raw = NO_RAW
    context_management: Raw = NO_RAW
    mcp_servers: Raw = NO_RAW
    compaction: Raw = NO_RAW
    thread: Raw = NO_RAW
    fallbacks: Raw = NO_RAW
    fallback_credit_token: Raw = NO_RAW
    betas: Raw = NO_RAW


EXTENSIONS: Final = (
    "container",
    "inference_geo",
    "diagnostics",
    "user_profile_id",
    "workspace_id",
    "context_management",
    "mcp_servers",
    "compaction",
    "thread",
    "fallbacks",
    "fallback_credit_token",
    "betas",
)


class RawMessages(Struct, frozen=True, gc=False):
    """The conversation of a request, blocks unread."""

    messages: list[RawMessage]


# --- answers ---------------------------------------------------------------------------------------


class CacheCreation(Struct, frozen=True, gc=False):
    ephemeral_5m_input_tokens: int = 0
    ephemeral_1h_input_tokens: int = 0


class OutputDetails(Struct, frozen=True, gc=False):
    thinking_tokens: int | None = None


class ServerToolUse(Struct, frozen=True, gc=False):
    web_search_requests: int | None = 0
    web_fetch_requests: int | None = 0


class WireUsage(Struct, frozen=True, gc=False, omit_defaults=True):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None
    output_tokens: int | None = None
    output_tokens_details: OutputDetails | None = None
    server_tool_use: ServerToolUse | None = None
    cost: Raw = NO_RAW  # not the vendor's: OpenRouter's
    cost_in_usd_ticks: Raw = NO_RAW


class StopDetails(Struct, frozen=True, gc=False):
    type: str = "refusal"
    category: str | None = None
    explanation: str | None = None


class WireDelta(Struct, frozen=True, gc=False):
    """The delta of a block or of the message."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    citation: Raw = NO_RAW
    content: str | None = None
    encrypted_content: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None


class WireMessage(Struct, frozen=True):
    """A complete answer, or the empty one that a stream begins with."""

    type: str = ""
    id: str | None = None
    model: str | None = None
    content: list[Raw] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None
    usage: WireUsage | None = None
    error: Raw = NO_RAW


class WireEvent(Struct, frozen=True, gc=False):
    """Any event of a stream."""

    type: str = ""
    index: int | None = None
    delta: WireDelta | None = None
    content_block: Raw = NO_RAW
    message: Raw = NO_RAW
    usage: WireUsage | None = None
    error: Raw = NO_RAW


class OnlyText(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    type: Literal["text_delta"]
    text: str


class OnlyThinking(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    type: Literal["thinking_delta"]
    thinking: str


class OnlyInput(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    type: Literal["input_json_delta"]
    partial_json: str


OnlyDelta = TypeVar("OnlyDelta", OnlyText, OnlyThinking, OnlyInput)


class DeltaEvent(Struct, Generic[OnlyDelta], frozen=True, gc=False, forbid_unknown_fields=True):
    """An event that adds to a block, and has no other content."""

    type: Literal["content_block_delta"]
    index: int
    delta: OnlyDelta


class WireBlock(Struct, frozen=True):
    """A block of an answer: whole, or as it starts."""

    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = NO_RAW
    citations: list[Raw] | None = None


class WireCitation(Struct, frozen=True, gc=False):
    type: str | None = None
    encrypted_index: str | None = None
    url: str | None = None
    title: str | None = None
    document_title: str | None = None
    cited_text: str | None = None


class MessageBody(Struct, frozen=True, kw_only=True):
    """A complete answer, as it is written.  Every field is present, as the vendor does."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[TextBlock | ThinkingBlock | RedactedBlock | ToolUseBlock | Raw]
    stop_reason: str | None
    stop_sequence: str | None
    stop_details: StopDetails | None
    usage: WireUsage


# --- vendor-run tools in answers and histories ------------------------------------------------------


class ServerBlock(Struct, frozen=True):
    """The call or the result of a vendor-run tool."""

    type: str = ""
    id: str | None = None
    name: str | None = None
    server_name: str | None = None  # of an MCP server
    input: Raw = NO_RAW
    tool_use_id: str | None = None
    content: Raw = NO_RAW
    is_error: bool | None = None


class ServerInput(Struct, frozen=True, gc=False):
    query: str | None = None
    url: str | None = None
    code: str | None = None
    command: str | None = None


class SearchHit(Struct, frozen=True, gc=False):
    url: str
    title: str | None = None
    page_age: str | None = None
    encrypted_content: str | None = None


class ServerFound(Struct, frozen=True, gc=False):
    """The content of a result that is not a list."""

    type: str = ""
    error_code: str | None = None
    url: str | None = None
    retrieved_at: str | None = None
    content: Raw = NO_RAW
    stdout: str | None = None
    stderr: str | None = None
    return_code: int | None = None


class FetchedSource(Struct, frozen=True, gc=False):
    type: str = ""
    data: str | None = None


class FetchedPage(Struct, frozen=True, gc=False):
    title: str | None = None
    source: FetchedSource | None = None


class ServerText(Struct, frozen=True, gc=False):
    text: str | None = None


# --- errors --------------------------------------------------------------------------------------


class ErrorDetails(Struct, frozen=True, gc=False):
    error_code: str | None = None


class ErrorIn(Struct, frozen=True):
    type: str | None = None
    message: str | None = None
    code: str | int | None = None
    details: ErrorDetails | None = None


class ErrorBody(Struct, frozen=True):
    error: ErrorIn | str | None = None
    message: str | None = None
    detail: str | None = None


class ErrorDetailsOut(Struct, frozen=True):
    error_code: str
    unsupported: tuple[str, ...]


class ErrorOut(Struct, frozen=True, omit_defaults=True):
    type: str
    message: str
    details: ErrorDetailsOut | None = None


class ErrorBodyOut(Struct, frozen=True, tag="error", omit_defaults=True):
    error: ErrorOut
    request_id: str = ""


# --- names of settings ------------------------------------------------------------------------------

FIELD_NAMES: Final = {
    "max_output": "max_tokens",
    "stop": "stop_sequences",
    "tier": "service_tier",
    "user_id": "metadata.user_id",
    "format": "output_config.format",
    "parallel": "tool_choice.disable_parallel_tool_use",
}

# What the fields are, for code that looks at JSON without reading it.
VOCABULARY: Final = Vocabulary(
    words=frozenset(
        {
            "type", "role", "model", "stop_reason", "category", "media_type", "effort", "tool_choice",
            "service_tier", "betas", "allowed_callers", "ttl", "encoding", "error_code",
        }
    ),
    names=frozenset(
        {"name", "id", "tool_name", "tool_use_id", "stop_sequences", "stop_sequence", "request_id"}
    ),
    schemas=frozenset({"input_schema", "schema"}),
    free=frozenset({"input", "metadata"}),
    parts=frozenset({"type", "index"}),
    no_input=frozenset({"type", "id", "cache_control", "signature"}),
    system=frozenset({"system"}),
    history=frozenset({"messages"}),
    id_prefixes=frozenset({"toolu", "srvtoolu", "msg", "req"}),
    path_words=frozenset({"messages", "count_tokens", "anthropic"}),
    headers=frozenset({"anthropic-beta", "anthropic-version"}),
)  # fmt: skip
