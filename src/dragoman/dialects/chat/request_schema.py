"""The shapes of Chat Completions requests, as clients send them.

Wrong types are refused with their path; fields that are not declared are kept as they are.
"""

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.chat.schema import EMPTY

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


class Grammar(Struct, gc=False):
    definition: str
    syntax: str


class Format(Struct, gc=False):
    type: str = "text"
    grammar: Grammar | None = None


class CustomTool(Struct, gc=False):
    name: str
    description: str | None = None
    format: Format | None = None


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


class Choice(Struct, gc=False):
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
    """All fields that have a place in the turn language."""

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
    tool_choice: str | Choice | None = None
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
