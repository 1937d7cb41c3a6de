"""Every wire shape of Responses: requests and answers."""

from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.vocabulary import Vocabulary

# --- requests -------------------------------------------------------------------------------------
# Only fields that mean something to the turn are declared, each as lenient as peers are.  JSON that is
# passed on stays `Raw`.

NULL: Final = Raw(b"null")


# --- content parts, the same struct wherever they appear -----------------------------------------


class Breakpoint(Struct, frozen=True, gc=False):
    ttl: str | None = None


class Audio(Struct, frozen=True, gc=False):
    data: str
    format: str


class Part(Struct, frozen=True, gc=False):
    """A content part of a message, a tool output, a summary or a reasoning item."""

    type: str
    text: str | None = None
    refusal: str | None = None
    annotations: list[Raw] | None = None
    image_url: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    file_data: str | None = None
    filename: str | None = None
    detail: str | None = None
    input_audio: Audio | None = None
    prompt_cache_breakpoint: Breakpoint | None = None


# --- items of a history -------------------------------------------------------------------------


class MessageItem(Struct, frozen=True, gc=False, tag_field="type", tag="message"):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Part] | None = None
    phase: str | None = None


class ReasoningItem(Struct, frozen=True, gc=False, tag_field="type", tag="reasoning"):
    id: str | None = None
    summary: list[Part] | None = None
    content: list[Part] | None = None
    encrypted_content: str | None = None


class FunctionCallItem(Struct, frozen=True, gc=False, tag_field="type", tag="function_call"):
    call_id: str
    name: str
    arguments: str = ""
    namespace: str | None = None
    id: str | None = None


class FunctionOutputItem(
    Struct, frozen=True, gc=False, tag_field="type", tag="function_call_output"
):
    call_id: str
    output: str | list[Part] | None = None


class CustomCallItem(Struct, frozen=True, gc=False, tag_field="type", tag="custom_tool_call"):
    call_id: str
    name: str
    input: str = ""
    namespace: str | None = None
    id: str | None = None


class CustomOutputItem(
    Struct, frozen=True, gc=False, tag_field="type", tag="custom_tool_call_output"
):
    call_id: str
    output: str | list[Part] | None = None


class LocalShellCallItem(Struct, frozen=True, gc=False, tag_field="type", tag="local_shell_call"):
    action: Raw
    call_id: str | None = None
    id: str | None = None


class LocalShellOutputItem(
    Struct, frozen=True, gc=False, tag_field="type", tag="local_shell_call_output"
):
    output: str | list[Part] | None = None
    call_id: str | None = None
    id: str | None = None


class ShellCallItem(Struct, frozen=True, gc=False, tag_field="type", tag="shell_call"):
    call_id: str
    action: Raw
    id: str | None = None


class ShellOutcome(Struct, frozen=True, gc=False):
    type: str = ""
    exit_code: int | None = None


class ShellOutput(Struct, frozen=True, gc=False):
    stdout: str = ""
    stderr: str = ""
    outcome: ShellOutcome | None = None


class ShellOutputItem(Struct, frozen=True, gc=False, tag_field="type", tag="shell_call_output"):
    call_id: str
    output: str | list[ShellOutput] | None = None


class PatchCallItem(Struct, frozen=True, gc=False, tag_field="type", tag="apply_patch_call"):
    call_id: str
    operation: Raw
    id: str | None = None


class PatchOutputItem(
    Struct, frozen=True, gc=False, tag_field="type", tag="apply_patch_call_output"
):
    call_id: str
    status: str = "completed"
    output: str | None = None


class ItemReference(Struct, frozen=True, gc=False, tag_field="type", tag="item_reference"):
    id: str


class AdditionalToolsItem(Struct, frozen=True, gc=False, tag_field="type", tag="additional_tools"):
    tools: list[Raw]


InputItem: TypeAlias = (
    MessageItem
    | ReasoningItem
    | FunctionCallItem
    | FunctionOutputItem
    | CustomCallItem
    | CustomOutputItem
    | LocalShellCallItem
    | LocalShellOutputItem
    | ShellCallItem
    | ShellOutputItem
    | PatchCallItem
    | PatchOutputItem
    | ItemReference
    | AdditionalToolsItem
)

# Tools that the vendor runs: their items are carried whole.
HOSTED_ITEMS: Final = frozenset(
    {
        "code_interpreter_call",
        "computer_call",
        "computer_call_output",
        "file_search_call",
        "image_generation_call",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)


# --- a request ----------------------------------------------------------------------------------


class ReasoningConfig(Struct, frozen=True, gc=False):
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None  # the older name of `summary`


class TextFormat(Struct, frozen=True, gc=False):
    type: Literal["text", "json_object", "json_schema"]
    name: str = ""
    description: str | None = None
    schema: Raw = NULL
    strict: bool | None = None


class TextConfig(Struct, frozen=True, gc=False):
    format: TextFormat | None = None
    verbosity: str | None = None


class RequestBody(Struct, frozen=True, gc=False):
    """A request's body, with the fields that `turn.request.Request` or a check needs; others are forwarded or lost."""

    model: str
    input: Raw = NULL
    instructions: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    tools: Raw = NULL
    tool_choice: Raw = NULL
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningConfig | None = None
    text: TextConfig | None = None
    include: list[str] | None = None
    store: bool | None = None
    stream: bool | None = None
    previous_response_id: str | None = None
    background: bool | None = None
    conversation: Raw = NULL
    prompt: Raw = NULL
    metadata: Raw = NULL
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    service_tier: str | None = None


class GrammarFormat(Struct, frozen=True, gc=False):
    type: str = "text"
    syntax: str = ""
    definition: str = ""


class Environment(Struct, frozen=True, gc=False):
    type: str = ""


class ToolDefinition(Struct, frozen=True, gc=False):
    """Any tool; which fields count depends on `type`."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: Raw = NULL
    strict: bool | None = None
    format: GrammarFormat | None = None
    tools: list[Raw] | None = None
    environment: Environment | str | None = None  # a word in the definition of a computer
    defer_loading: bool | None = None
    allowed_callers: Raw = NULL
    output_schema: Raw = NULL


class AllowedTool(Struct, frozen=True, gc=False):
    type: str = "function"
    name: str = ""


class ChoiceObject(Struct, frozen=True, gc=False):
    type: str
    name: str | None = None
    namespace: str | None = None
    mode: Literal["auto", "required"] = "auto"
    tools: list[AllowedTool] = []


class Head(Struct, frozen=True, gc=False):
    """The fields that show the type of an unknown object."""

    type: str | None = None
    role: str | None = None
    id: str | None = None
    error: Raw = NULL


INPUT_ITEM: Final = msgspec.json.Decoder[InputItem](InputItem)

INPUT_ITEMS: Final = msgspec.json.Decoder[list[InputItem]](list[InputItem])

EASY_MESSAGE: Final = msgspec.json.Decoder(MessageItem)

REFERENCE: Final = msgspec.json.Decoder(ItemReference)

HEAD: Final = msgspec.json.Decoder(Head)

REQUEST_BODY: Final = msgspec.json.Decoder(RequestBody)

FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])

ITEM_LIST: Final = msgspec.json.Decoder(str | list[Raw])

TOOLS: Final[msgspec.json.Decoder[list[Raw] | None]] = msgspec.json.Decoder(list[Raw] | None)

TOOL: Final = msgspec.json.Decoder(ToolDefinition)

CHOICE: Final = msgspec.json.Decoder(str | ChoiceObject)

# --- answers --------------------------------------------------------------------------------------


class Annotation(Struct, frozen=True, gc=False):
    type: str = ""
    url: str | None = None
    title: str | None = None
    start_index: int | None = None
    end_index: int | None = None


class WriteDetails(Struct, frozen=True, gc=False):
    ttl_12h_tokens: int | None = None
    ttl_30m_tokens: int | None = None


class InputDetails(Struct, frozen=True, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_tokens_details: WriteDetails | None = None


class OutputDetails(Struct, frozen=True, gc=False):
    reasoning_tokens: int | None = None


class ToolUsage(Struct, frozen=True, gc=False):
    web_search_calls: int | None = None
    code_interpreter_calls: int | None = None
    mcp_calls: int | None = None


class UsageObject(Struct, frozen=True, gc=False):
    input_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens: int | None = None
    output_tokens_details: OutputDetails | None = None
    total_tokens: int | None = None
    cost: Raw = NULL
    cost_in_usd_ticks: Raw = NULL
    server_side_tool_usage_details: ToolUsage | None = None  # xAI


class IncompleteDetails(Struct, frozen=True, gc=False):
    reason: str | None = None


class ResponseObject(Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    created_at: float | None = None
    error: Raw = NULL
    incomplete_details: IncompleteDetails | None = None
    output: list[Raw] | None = None
    usage: UsageObject | None = None


class OutputItem(Struct, frozen=True):
    """Any item of an answer; which fields count depends on `type`."""

    type: str = ""
    id: str | None = None
    status: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: object = None  # a string, but an object in the calls of some hosted tools
    input: object = None
    action: Raw = NULL
    operation: Raw = NULL
    environment: Environment | None = None
    content: list[Part] | None = None
    summary: list[Part] | None = None
    encrypted_content: str | None = None


# --- events of a stream -------------------------------------------------------------------------


class PartEvent(Struct, frozen=True, tag_field="type"):
    item_id: str | None = None
    output_index: int | None = None


class _Lifecycle(Struct, frozen=True, tag_field="type"):
    response: ResponseObject = ResponseObject()
    sequence_number: int | None = None


class Created(_Lifecycle, frozen=True, tag="response.created"): ...


class InProgress(_Lifecycle, frozen=True, tag="response.in_progress"): ...


class Queued(_Lifecycle, frozen=True, tag="response.queued"): ...


class Completed(_Lifecycle, frozen=True, tag="response.completed"): ...


class Incomplete(_Lifecycle, frozen=True, tag="response.incomplete"): ...


class Failed(_Lifecycle, frozen=True, tag="response.failed"): ...


class Cancelled(_Lifecycle, frozen=True, tag="response.cancelled"): ...


class ItemAdded(PartEvent, frozen=True, tag="response.output_item.added"):
    item: Raw = NULL


class ItemDone(PartEvent, frozen=True, tag="response.output_item.done"):
    item: Raw = NULL


class PartDone(PartEvent, frozen=True, tag="response.content_part.done"):
    content_index: int = 0
    part: Part | None = None


class TextDeltaEvent(PartEvent, frozen=True, tag="response.output_text.delta"):
    content_index: int = 0
    delta: str = ""
    logprobs: list[Raw] | None = None


class TextDone(PartEvent, frozen=True, tag="response.output_text.done"):
    content_index: int = 0
    text: str = ""


class AnnotationAdded(PartEvent, frozen=True, tag="response.output_text.annotation.added"):
    content_index: int = 0
    annotation: Raw = NULL


class RefusalDeltaEvent(PartEvent, frozen=True, tag="response.refusal.delta"):
    content_index: int = 0
    delta: str = ""


class RefusalDone(PartEvent, frozen=True, tag="response.refusal.done"):
    content_index: int = 0
    refusal: str = ""


class ArgumentsDelta(PartEvent, frozen=True, tag="response.function_call_arguments.delta"):
    delta: str = ""


class ArgumentsDone(PartEvent, frozen=True, tag="response.function_call_arguments.done"):
    arguments: str = ""
    name: str | None = None


class InputDeltaEvent(PartEvent, frozen=True, tag="response.custom_tool_call_input.delta"):
    delta: str = ""


class InputDone(PartEvent, frozen=True, tag="response.custom_tool_call_input.done"):
    input: str = ""


class SummaryDelta(PartEvent, frozen=True, tag="response.reasoning_summary_text.delta"):
    summary_index: int = 0
    delta: str = ""


class SummaryDone(PartEvent, frozen=True, tag="response.reasoning_summary_text.done"):
    summary_index: int = 0
    text: str = ""


class SummaryPartDone(PartEvent, frozen=True, tag="response.reasoning_summary_part.done"):
    summary_index: int = 0
    part: Part | None = None


class ReasoningTextDelta(PartEvent, frozen=True, tag="response.reasoning_text.delta"):
    content_index: int = 0
    delta: str = ""


class ReasoningTextDone(PartEvent, frozen=True, tag="response.reasoning_text.done"):
    content_index: int = 0
    text: str = ""


StreamEvent: TypeAlias = (
    Created
    | InProgress
    | Queued
    | Completed
    | Incomplete
    | Failed
    | Cancelled
    | ItemAdded
    | ItemDone
    | PartDone
    | TextDeltaEvent
    | TextDone
    | AnnotationAdded
    | RefusalDeltaEvent
    | RefusalDone
    | ArgumentsDelta
    | ArgumentsDone
    | InputDeltaEvent
    | InputDone
    | SummaryDelta
    | SummaryDone
    | SummaryPartDone
    | ReasoningTextDelta
    | ReasoningTextDone
)

STREAM_EVENTS: Final = msgspec.json.Decoder[StreamEvent](StreamEvent)

# For peers that name the event on the `event:` line only.
STREAM_EVENTS_BY_NAME: Final[dict[str, msgspec.json.Decoder[StreamEvent]]] = {
    event.__struct_config__.tag: msgspec.json.Decoder(event) for event in StreamEvent.__args__
}

OUTPUT_ITEM: Final = msgspec.json.Decoder(OutputItem)

RESPONSE: Final = msgspec.json.Decoder(ResponseObject)

ANNOTATION: Final = msgspec.json.Decoder(Annotation)


# --- events that pass unchanged -----------------------------------------------------------------


class RelayedItem(Struct, frozen=True):
    """The item that a frame is about."""

    id: str = ""
    type: str = ""


class RelayedEvent(Struct, frozen=True):
    """The fields of a forwarded frame on which later frames depend."""

    type: str = ""
    sequence_number: int | None = None
    output_index: int = 0
    item: RelayedItem = RelayedItem()
    response: Raw = Raw()  # the whole answer, in the last frame


# --- written calls, vendor-run tools, errors --------------------------------------------------------


class FunctionCallOut(Struct, gc=False, tag_field="type", tag="function_call"):
    call_id: str
    name: str
    arguments: str


class FunctionOutputOut(Struct, gc=False, tag_field="type", tag="function_call_output"):
    call_id: str
    output: str


class HostedSource(Struct, frozen=True, gc=False):
    url: str | None = None
    title: str | None = None


class HostedAction(Struct, frozen=True, gc=False):
    """What a search did."""

    type: str = ""
    query: str | None = None
    queries: list[str] | None = None
    url: str | None = None
    sources: list[HostedSource] | None = None


class HostedOutput(Struct, frozen=True, gc=False):
    logs: str | None = None


class McpAllowedTools(Struct, frozen=True, gc=False):
    """The tools of an MCP server that may be called."""

    tool_names: list[str] | None = None
    read_only: bool | None = None


class McpDefinition(Struct, frozen=True, gc=False):
    """A tool of type `mcp`: one server."""

    server_label: str = ""
    server_url: str | None = None
    allowed_tools: list[str] | McpAllowedTools | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None
    require_approval: object = None  # a word, or tools by word
    connector_id: str | None = None
    tunnel_id: str | None = None


class HostedItem(Struct, frozen=True):
    """The item of a vendor-run tool, as far as other vendors' tools do the same."""

    type: str = ""
    id: str | None = None
    status: str | None = None
    action: HostedAction | None = None
    code: str | None = None
    outputs: list[HostedOutput] | None = None
    name: str | None = None
    server_label: str | None = None
    arguments: str | None = None
    output: object = None
    error: object = None
    queries: list[str] | None = None
    result: str | None = None  # of an image: base64, or OpenRouter's address
    output_format: str | None = None
    revised_prompt: str | None = None
    urls: list[str] | None = None  # Qwen's `web_extractor_call`
    goal: str | None = None  # of the same; of some models the address


HOSTED_ITEM: Final = msgspec.json.Decoder(HostedItem)


class StreamError(Struct, frozen=True):
    """The `error` of a failed response."""

    code: str
    message: str


# --- names of settings ------------------------------------------------------------------------------

FIELD_NAMES: Final = {
    "max_output": "max_output_tokens",
    "logprobs": "top_logprobs",
    "verbosity": "text.verbosity",
    "tier": "service_tier",
    "user_id": "user",
    "cache_key": "prompt_cache_key",
    "previous_id": "previous_response_id",
    "format": "text.format",
    "thinking": "reasoning.effort",
    "parallel": "parallel_tool_calls",
    "messages": "input",
}

# What the fields are, for code that looks at JSON without reading it.
VOCABULARY: Final = Vocabulary(
    words=frozenset(
        {
            "type", "role", "object", "status", "model", "code", "reason", "effort", "tool_choice", "mode", "format",
            "service_tier", "verbosity", "truncation", "phase", "syntax", "include", "summary",
        }
    ),
    names=frozenset(
        {"name", "namespace", "id", "call_id", "item_id", "response_id", "previous_response_id"}
    ),
    schemas=frozenset({"parameters", "schema"}),
    free=frozenset({"arguments", "metadata", "action"}),
    parts=frozenset({"type", "output_index", "content_index", "summary_index", "item_id"}),
    no_input=frozenset({"type", "id", "status"}),
    system=frozenset({"instructions"}),
    history=frozenset({"input"}),
    id_prefixes=frozenset({"call", "msg", "resp", "rs", "fc", "ctc", "req"}),
    path_words=frozenset({"responses", "input_tokens", "input_items", "cancel", "openai"}),
)  # fmt: skip
