"""Every wire shape of Chat Completions: requests and answers."""

from typing import Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.dialects.vocabulary import Vocabulary

# --- answers --------------------------------------------------------------------------------------
# Fields that are not declared are ignored.  The types are wider than the vendor's own, because many
# servers call themselves compatible; rare fields stay `Raw` until code reads them.

EMPTY: Final = Raw(b"")


def is_given(raw: Raw) -> bool:
    """Return whether a raw field holds something: not absent, null, or an empty container."""
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
    executed_tools: Raw = EMPTY  # Groq


class Logprobs(Struct, gc=False):
    content: list[Raw] | None = None
    refusal: list[Raw] | None = None
    tokens: Raw = EMPTY  # the shape of the older completions API


class ChunkChoice(Struct, gc=False):
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

    choices: list[ChunkChoice] | None = None
    usage: Raw = EMPTY
    error: Raw = EMPTY
    x_groq: Raw = EMPTY
    citations: Raw = EMPTY
    search_results: Raw = EMPTY  # Perplexity
    web_search: Raw = EMPTY  # Z.ai


# --- plain chunks: they add text, arguments or reasoning, and have no other content -----------------
# A field of type None refuses a value, so what decodes as a `PlainChunk` can be passed on unseen.


class PlainText(Struct, gc=False, forbid_unknown_fields=True):
    content: str
    role: str | None = None
    reasoning_content: None = None
    reasoning: None = None
    tool_calls: None = None
    refusal: None = None
    function_call: None = None


class PlainFunction(Struct, gc=False, forbid_unknown_fields=True):
    arguments: str
    name: Literal[""] | None = None


class PlainCall(Struct, gc=False, forbid_unknown_fields=True):
    index: int
    function: PlainFunction
    id: Literal[""] | None = None
    type: str | None = None


class PlainArguments(Struct, gc=False, forbid_unknown_fields=True):
    tool_calls: tuple[PlainCall]
    content: Literal[""] | None = None
    role: str | None = None
    reasoning_content: Literal[""] | None = None
    reasoning: Literal[""] | None = None
    refusal: None = None
    function_call: None = None


class PlainReasoning(Struct, gc=False, forbid_unknown_fields=True):
    reasoning_content: str | None = None
    reasoning: str | None = None
    content: Literal[""] | None = None
    role: str | None = None
    tool_calls: None = None
    refusal: None = None
    function_call: None = None


AnyDelta = TypeVar("AnyDelta", PlainText, PlainArguments, PlainReasoning)


class PlainChoice(Struct, Generic[AnyDelta], gc=False):
    delta: AnyDelta
    index: Literal[0] = 0
    finish_reason: None = None
    logprobs: None = None
    native_finish_reason: None = None
    usage: None = None
    error: None = None


class PlainChunk(Struct, Generic[AnyDelta], gc=False):
    choices: tuple[PlainChoice[AnyDelta]]
    usage: None = None
    error: None = None
    citations: None = None
    search_results: None = None
    web_search: None = None


# --- what is read once for an answer ----------------------------------------------------------------


class HeadDelta(Struct, gc=False):
    role: Raw = EMPTY


class HeadChoice(Struct, gc=False):
    delta: HeadDelta | None = None


class Head(Struct, gc=False):
    """The fields of a chunk that describe the whole answer: read until the answer's head is emitted."""

    id: Raw = EMPTY
    model: Raw = EMPTY
    created: Raw = EMPTY
    choices: list[HeadChoice] | None = None


class PromptDetails(Struct, gc=False):
    cached_tokens: float | None = None
    cache_write_tokens: float | None = None


class CompletionDetails(Struct, gc=False):
    reasoning_tokens: float | None = None


class ToolRuns(Struct, gc=False):
    """How often vendor-run tools ran."""

    web_search_requests: float | None = None
    web_search_calls: float | None = None


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
    # Searches that ran: OpenRouter's two names, Perplexity, xAI.
    server_tool_use_details: ToolRuns | None = None
    server_tool_use: ToolRuns | None = None
    num_search_queries: float | None = None
    server_side_tool_usage_details: ToolRuns | None = None
    cost: Raw = EMPTY
    cost_in_usd_ticks: Raw = EMPTY


class UrlCitation(Struct, gc=False):
    url: str = ""
    title: str | None = None
    start_index: int | None = None
    end_index: int | None = None
    content: str | None = None


class FoundSource(Struct, gc=False):
    """One thing that a search found, as Perplexity, Z.ai and Groq write it."""

    url: str | None = None
    link: str | None = None
    title: str | None = None
    snippet: str | None = None
    content: str | None = None
    date: str | None = None
    publish_date: str | None = None
    refer: str | None = None  # Z.ai: how the text marks it


class FoundSources(Struct, gc=False):
    results: list[FoundSource] | None = None


class ToolText(Struct, gc=False):
    text: str | None = None


class ExecutedTool(Struct, gc=False):
    """A tool that Groq ran."""

    index: int = 0
    type: str = ""
    arguments: str | None = None
    output: str | None = None
    search_results: FoundSources | None = None
    code_results: list[ToolText] | None = None


CHUNK: Final = msgspec.json.Decoder(Chunk)

PLAIN_TEXT: Final = msgspec.json.Decoder(PlainChunk[PlainText])

PLAIN_ARGUMENTS: Final = msgspec.json.Decoder(PlainChunk[PlainArguments])

PLAIN_REASONING: Final = msgspec.json.Decoder(PlainChunk[PlainReasoning])

HEAD: Final = msgspec.json.Decoder(Head)

USAGE: Final = msgspec.json.Decoder(UsageCounts)

PARTS: Final[msgspec.json.Decoder[str | list[ContentPart]]] = msgspec.json.Decoder(
    str | list[ContentPart]
)

STRING: Final = msgspec.json.Decoder(str)

FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])

# --- requests -------------------------------------------------------------------------------------
# Wrong types are refused with their path; fields that are not declared are kept as they are.


# --- content parts ----------------------------------------------------------------------------------


class CacheControl(Struct, gc=False):
    ttl: str | None = None


class Breakpoint(Struct, gc=False):
    ttl: str | None = None


class TextIn(Struct, gc=False, tag="text"):
    text: str
    cache_control: CacheControl | None = None
    prompt_cache_breakpoint: Breakpoint | None = None


class ImageUrl(Struct, gc=False):
    url: str
    detail: str | None = None


class ImageIn(Struct, gc=False, tag="image_url"):
    image_url: ImageUrl | str
    cache_control: CacheControl | None = None
    prompt_cache_breakpoint: Breakpoint | None = None


class Audio(Struct, gc=False):
    data: str
    format: str


class AudioIn(Struct, gc=False, tag="input_audio"):
    input_audio: Audio


class File(Struct, gc=False):
    file_id: str | None = None
    file_data: str | None = None
    filename: str | None = None


class FileIn(Struct, gc=False, tag="file"):
    file: File
    cache_control: CacheControl | None = None
    prompt_cache_breakpoint: Breakpoint | None = None


class RefusalIn(Struct, gc=False, tag="refusal"):
    refusal: str


class ThinkingIn(Struct, gc=False, tag="thinking"):
    thinking: Raw  # a string, or text parts


UserPart: TypeAlias = TextIn | ImageIn | AudioIn | FileIn

AssistantPart: TypeAlias = TextIn | RefusalIn | ThinkingIn

ResultPart: TypeAlias = TextIn | ImageIn | FileIn


# --- messages ---------------------------------------------------------------------------------------


class FunctionCallIn(Struct, gc=False):
    name: str
    arguments: str | dict[str, Raw] | None = None


class CustomCallIn(Struct, gc=False):
    name: str
    input: str = ""


class CallIn(Struct, gc=False):
    id: str
    function: FunctionCallIn | None = None
    custom: CustomCallIn | None = None
    extra_content: Raw = EMPTY


class SystemIn(Struct, gc=False, tag_field="role", tag="system"):
    content: str | list[TextIn]


class DeveloperIn(Struct, gc=False, tag_field="role", tag="developer"):
    content: str | list[TextIn]


class UserIn(Struct, gc=False, tag_field="role", tag="user"):
    content: str | list[UserPart]
    name: str | None = None


class AssistantIn(Struct, gc=False, tag_field="role", tag="assistant"):
    content: str | list[AssistantPart] | None = None
    tool_calls: list[CallIn] | None = None
    function_call: FunctionCallIn | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: Raw = EMPTY


class ToolIn(Struct, gc=False, tag_field="role", tag="tool"):
    tool_call_id: str
    content: str | list[ResultPart] | None = None


class FunctionIn(Struct, gc=False, tag_field="role", tag="function"):
    name: str
    content: str | None = None


MessageIn: TypeAlias = SystemIn | DeveloperIn | UserIn | AssistantIn | ToolIn | FunctionIn


# --- tools ------------------------------------------------------------------------------------------


class FunctionTool(Struct, gc=False):
    name: str
    description: str | None = None
    parameters: Raw = EMPTY
    strict: bool | None = None


class CustomToolGrammar(Struct, gc=False):
    definition: str
    syntax: str


class CustomToolFormat(Struct, gc=False):
    type: str = "text"
    grammar: CustomToolGrammar | None = None


class CustomTool(Struct, gc=False):
    name: str
    description: str | None = None
    format: CustomToolFormat | None = None


class ToolDefinition(Struct, gc=False):
    type: str = "function"
    function: FunctionTool | None = None
    custom: CustomTool | None = None


class Named(Struct, gc=False):
    name: str


class NamedTool(Struct, gc=False):
    type: str = "function"
    function: Named | None = None
    custom: Named | None = None


class AllowedTools(Struct, gc=False):
    mode: str = "auto"
    tools: list[NamedTool] = []


class ToolChoiceIn(Struct, gc=False):
    type: str = "function"
    function: Named | None = None
    custom: Named | None = None
    allowed_tools: AllowedTools | None = None


# --- the request ------------------------------------------------------------------------------------


class JsonSchema(Struct, gc=False):
    name: str = ""
    description: str | None = None
    schema: Raw = EMPTY
    strict: bool | None = None


class ResponseFormat(Struct, gc=False):
    type: str
    json_schema: JsonSchema | None = None


class StreamOptions(Struct, gc=False):
    include_usage: bool | None = None


class RequestIn(Struct, gc=False):
    """All fields that have a counterpart in `Request`."""

    model: str
    messages: list[MessageIn]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: Raw = EMPTY
    stop: str | list[str] | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: Raw = EMPTY  # read by themselves, as the messages are
    tool_choice: str | ToolChoiceIn | None = None
    parallel_tool_calls: bool | None = None
    functions: list[FunctionTool] | None = None
    function_call: str | Named | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    service_tier: str | None = None
    store: bool | None = None
    metadata: Raw = EMPTY
    web_search_options: Raw = EMPTY


class OpenRouterReasoning(Struct, gc=False):
    """`reasoning`, as OpenRouter takes it."""

    effort: str | None = None
    max_tokens: int | None = None
    enabled: bool | None = None


class Thinking(Struct, gc=False):
    """`thinking`, as several vendors take it."""

    type: str = ""
    budget_tokens: int | None = None


class TemplateArguments(Struct, gc=False):
    """`chat_template_kwargs`, as far as it switches reasoning."""

    enable_thinking: bool | None = None
    thinking: bool | None = None


REQUEST: Final = msgspec.json.Decoder(RequestIn)

MESSAGES: Final = msgspec.json.Decoder(list[MessageIn])

OPENROUTER: Final = msgspec.json.Decoder(OpenRouterReasoning)

THINKING: Final = msgspec.json.Decoder(Thinking)

TEMPLATE: Final = msgspec.json.Decoder(TemplateArguments)

TEXTS: Final[msgspec.json.Decoder[str | list[TextIn]]] = msgspec.json.Decoder(str | list[TextIn])


# --- requests, written ----------------------------------------------------------------------------


class CacheControlOut(Struct, gc=False, omit_defaults=True):
    type: str
    ttl: str = ""


class BreakpointOut(Struct, gc=False):
    mode: str
    ttl: str


class TextOut(Struct, gc=False, omit_defaults=True, tag="text"):
    text: str
    cache_control: CacheControlOut | None = None
    prompt_cache_breakpoint: BreakpointOut | None = None


class UrlOut(Struct, gc=False, omit_defaults=True):
    url: str
    detail: str = ""


class ImageOut(Struct, gc=False, tag="image_url"):
    image_url: UrlOut


class FileContentOut(Struct, gc=False, omit_defaults=True):
    filename: str = ""
    file_data: str = ""
    file_id: str = ""


class FileOut(Struct, gc=False, tag="file"):
    file: FileContentOut


class AudioOut(Struct, gc=False, tag="input_audio"):
    input_audio: Audio


PartOut: TypeAlias = TextOut | ImageOut | FileOut | AudioOut

ContentOut: TypeAlias = str | list[PartOut]


class ToolMessageOut(Struct, gc=False, omit_defaults=True):
    role: str
    tool_call_id: str
    content: ContentOut
    name: str = ""  # of Moonshot's own search


class MessageOut(Struct, gc=False, omit_defaults=True):
    """A message of the user, or an instruction."""

    role: str
    content: ContentOut
    name: str = ""


class FunctionCallOut(Struct, gc=False):
    name: str
    arguments: str


class CustomCallOut(Struct, gc=False):
    name: str
    input: str


class CallOut(Struct, gc=False, omit_defaults=True):
    id: str
    type: str
    function: FunctionCallOut | None = None
    custom: CustomCallOut | None = None
    extra_content: Raw | None = None


# The tool that Moonshot runs once the client has sent its call back.
KIMI_SEARCH: Final = "$web_search"


class SearchFunction(Struct, frozen=True, gc=False):
    name: str = KIMI_SEARCH
    arguments: str = ""


class SearchCall(Struct, frozen=True, gc=False):
    """A call of Moonshot's search, unchanged."""

    id: str = ""
    type: str = "builtin_function"
    function: SearchFunction = SearchFunction()


class AssistantOut(Struct, gc=False, omit_defaults=True):
    role: str
    content: ContentOut | UnsetType | None = UNSET
    reasoning_content: str = ""
    reasoning: str = ""
    reasoning_details: list[Raw] | None = None
    refusal: str = ""
    tool_calls: list[CallOut] | None = None
    prefix: bool = False
    partial: bool = False


AnyMessageOut: TypeAlias = MessageOut | AssistantOut | ToolMessageOut


class FunctionOut(Struct, gc=False, omit_defaults=True):
    name: str
    description: str = ""
    parameters: Raw = EMPTY
    strict: bool | None = None


class FunctionToolOut(Struct, gc=False):
    type: str
    function: FunctionOut


class CustomFormatOut(Struct, gc=False):
    type: str
    grammar: CustomToolGrammar


class CustomOut(Struct, gc=False, omit_defaults=True):
    name: str
    description: str = ""
    format: CustomFormatOut | None = None


class CustomToolOut(Struct, gc=False):
    type: str
    custom: CustomOut


ToolOut: TypeAlias = FunctionToolOut | CustomToolOut | Raw


class JsonSchemaOut(Struct, omit_defaults=True):
    name: str
    description: str = ""
    schema: Raw = EMPTY
    strict: bool | None = None


# --- answers, written -----------------------------------------------------------------------------


class PromptDetailsOut(Struct, omit_defaults=True):
    cached_tokens: int
    cache_write_tokens: int = 0


class CompletionDetailsOut(Struct):
    reasoning_tokens: int


class ToolUseOut(Struct):
    web_search_requests: int


class UsageOut(Struct, omit_defaults=True):
    """Token counts as the dialect writes them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetailsOut
    completion_tokens_details: CompletionDetailsOut
    cost: float | None = None  # in US dollars; OpenRouter's field
    server_tool_use_details: ToolUseOut | None = None  # OpenRouter's field too


class CitedOut(Struct):
    """A cited source.  Strict readers demand every field; 0 and 0 mean that the place is not known."""

    url: str
    title: str
    start_index: int
    end_index: int


class AnnotationOut(Struct):
    """One annotation, as the dialect writes it."""

    url_citation: CitedOut
    type: str = "url_citation"


class AnswerImageUrl(Struct, gc=False):
    url: str  # `data:` and base64, or an address


class AnswerImageIn(Struct, gc=False):
    """An image in an answer: OpenRouter's field, which no other vendor has."""

    image_url: AnswerImageUrl | None = None


class AnswerImageOut(Struct, gc=False):
    image_url: AnswerImageUrl
    index: int
    type: str = "image_url"


class CompletionMessage(Struct, omit_defaults=True):
    role: str
    content: str
    refusal: str | None
    reasoning_content: str = ""
    reasoning: str = ""
    reasoning_details: list[Raw] = []
    tool_calls: list[CallOut] = []
    annotations: list[AnnotationOut] = []
    images: list[AnswerImageOut] = []


class CompletionLogprobs(Struct):
    content: list[Raw]
    refusal: None = None


class CompletionChoice(Struct):
    index: int
    message: CompletionMessage
    logprobs: CompletionLogprobs | None
    finish_reason: str


class Completion(Struct, omit_defaults=True):
    id: str
    object: str
    created: int
    model: str
    choices: list[Raw]  # of `CompletionChoice`
    usage: Raw | None = None  # a `UsageOut`


# --- names of settings ------------------------------------------------------------------------------

FIELD_NAMES: Final = {
    "max_output": "max_completion_tokens",
    "count": "n",
    "tier": "service_tier",
    "user_id": "user",
    "cache_key": "prompt_cache_key",
    "format": "response_format",
    "thinking": "reasoning_effort",
    "parallel": "parallel_tool_calls",
}

# What the fields are, for code that looks at JSON without reading it.
VOCABULARY: Final = Vocabulary(
    words=frozenset(
        {
            "type", "role", "object", "model", "code", "finish_reason", "native_finish_reason", "effort",
            "reasoning_effort", "tool_choice", "mode", "format", "mime_type", "service_tier", "verbosity", "syntax",
            "modalities", "encoding", "ttl",
        }
    ),
    names=frozenset({"name", "function", "id", "tool_call_id", "stop"}),
    schemas=frozenset({"parameters", "schema"}),
    free=frozenset({"arguments", "metadata"}),
    parts=frozenset({"index"}),
    no_input=frozenset({"type", "id", "cache_control"}),
    history=frozenset({"messages"}),
    own_names=frozenset({KIMI_SEARCH}),  # by this name, an answer is known to be paused
    id_prefixes=frozenset({"call", "chatcmpl", "cmpl", "gen", "req"}),
    path_words=frozenset({"chat", "completions", "openai"}),
)  # fmt: skip
