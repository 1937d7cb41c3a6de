"""What goes into the tools and what comes out, as types: the JSON schemas are made of these."""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

from dragoman.checker.findings import Ending
from dragoman.turn.events import FinishReason
from dragoman.turn.request import BuiltInDialect

Message: TypeAlias = Annotated[
    dict[str, Any],
    Meta(
        extra_json_schema={
            "properties": {
                "role": {
                    "type": "string",
                    "description": "The role: `user`, `assistant`, `system` or `tool`.",
                },
                "content": {"description": "A text, or a list of parts."},
            },
            "additionalProperties": True,
        }
    ),
]
ToolDefinition: TypeAlias = Annotated[
    dict[str, Any],
    Meta(
        extra_json_schema={
            "properties": {
                "name": {"type": "string", "description": "The name that calls use."},
                "description": {
                    "type": "string",
                    "description": "What it does, and when to use it.",
                },
                "input_schema": {
                    "type": "object",
                    "description": "JSON schema of its arguments; `parameters` in the shape of OpenAI's.",
                },
            },
            "additionalProperties": True,
        }
    ),
]
ToolDefinitions: TypeAlias = Annotated[
    list[ToolDefinition],
    Meta(description="Tool definitions, each in the shape of any dialect."),
]
FormatName: TypeAlias = Annotated[
    str,
    Meta(
        description="Family of tool calls written as text: a key of `list_formats`, `auto` by the "
        "model's name, or `none`."
    ),
]
Dialect: TypeAlias = Annotated[
    BuiltInDialect,
    Meta(
        description="`chat` is OpenAI Chat Completions, `anthropic` is Anthropic Messages, "
        "`responses` is OpenAI Responses, `gemini` is Google's `generateContent`."
    ),
]


class Input(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a tool; a name that is not known is a mistake."""


# --- in ---------------------------------------------------------------------------------------------


class ChatInput(Input, frozen=True):
    messages: Annotated[
        list[Message],
        Meta(
            min_length=1,
            description="The conversation, oldest first: `{role, content}`, or messages (items) in the "
            "shape of Chat Completions, Anthropic Messages or Responses, with tool calls and results.",
        ),
    ]
    model: Annotated[str, Meta(description="One of `list_models`; empty: the default.")] = ""
    system: Annotated[str, Meta(description="An instruction before the conversation.")] = ""
    tools: ToolDefinitions = []
    tool_choice: Annotated[
        str, Meta(description="`auto`, `required`, `none`, or the name of a tool.")
    ] = ""
    parallel_tool_calls: Annotated[
        bool | None,
        Meta(
            description="Whether one answer may have several calls; null: the upstream's default."
        ),
    ] = None
    max_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="The output limit, in tokens.")
    ] = None
    temperature: Annotated[float | None, Meta(description="Sampling temperature.")] = None
    top_p: Annotated[
        float | None,
        Meta(description="Nucleus sampling: the total probability of the tokens to choose from."),
    ] = None
    stop: Annotated[
        list[str], Meta(description="Stop sequences: the answer ends before the first one.")
    ] = []
    seed: Annotated[int | None, Meta(description="Seed for reproducible answers.")] = None
    reasoning: Annotated[
        Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"] | None,
        Meta(description="Reasoning effort; null: the upstream's default."),
    ] = None
    schema: Annotated[dict[str, Any] | None, Meta(description="JSON schema for the answer.")] = None


class ParseInput(Input, frozen=True):
    text: Annotated[str, Meta(description="What the model wrote.")]
    format: FormatName = "auto"
    model: Annotated[str, Meta(description="The model's id, for the format `auto`.")] = ""
    tools: Annotated[
        list[ToolDefinition] | None,
        Meta(
            description="The declared tools, in any dialect's shape.  Null: everything that looks like a call "
            "becomes one; an empty list: no calls are found."
        ),
    ] = None
    channel: Annotated[
        Literal["content", "reasoning"], Meta(description="Where the model wrote it.")
    ] = "content"
    start_in_reasoning: Annotated[
        bool, Meta(description="The text begins inside reasoning whose opening tag is not in it.")
    ] = False


class TranslateInput(Input, frozen=True):
    what: Annotated[
        Literal["request", "body", "stream"],
        Meta(description="A request, a complete answer, or a streamed answer."),
    ]
    source: Dialect = field(name="from")
    target: Dialect = field(name="to")
    text: Annotated[
        str, Meta(description="The request or the complete answer as JSON, or the stream (SSE).")
    ]
    model: Annotated[str, Meta(description="The upstream's name for the model.")] = ""
    format: Annotated[
        FormatName,
        Meta(
            description="Of an answer: the family of tool calls written as text, as for "
            "`parse_tool_calls`."
        ),
    ] = "auto"
    tools: Annotated[
        list[ToolDefinition] | None,
        Meta(
            description="Of an answer: the tools that its request declared, in any dialect's shape.  Null: "
            "everything that looks like a call of the format, or of the model's format, becomes one; an "
            "empty list: no calls are found."
        ),
    ] = None
    profile: Annotated[
        str, Meta(description="What the upstream can and cannot do: `generic`, `openai`, `vllm`, …")
    ] = "generic"
    strict: Annotated[bool, Meta(description="Refuse a translation that would lose something.")] = (
        False
    )


class CheckInput(Input, frozen=True):
    dialect: Dialect
    stream: Annotated[str, Meta(description="The stream (SSE) as it was received.")]


class NoInput(Input, frozen=True):
    """Nothing."""


# --- out --------------------------------------------------------------------------------------------


class LossEntry(Struct, frozen=True):
    """Something that could not be carried, or was repaired."""

    code: Annotated[str, Meta(description="A stable code.")]
    path: Annotated[str, Meta(description="JSON path of the field; may be empty.")]
    detail: Annotated[str, Meta(description="Details of this case; may be empty.")]
    description: Annotated[str, Meta(description="What the code means.")]


Losses: TypeAlias = Annotated[
    list[LossEntry], Meta(description="What could not be translated, or was repaired.")
]


class ToolCallEntry(Struct, frozen=True, kw_only=True):
    """A tool call that the model made.  It was not run."""

    id: Annotated[str, Meta(description="Unique in the conversation; its result names it.")]
    name: Annotated[str, Meta(description="The tool.")]
    arguments: Annotated[str, Meta(description="JSON, or the free text of a custom tool.")]
    complete: Annotated[bool, Meta(description="False: it was cut, and must not be run.")]


class TokenUsage(Struct, frozen=True, kw_only=True):
    """Tokens, as the upstream counts them."""

    input: Annotated[int, Meta(description="Tokens of the input, including cached ones.")]
    output: Annotated[int, Meta(description="Tokens of the output, including reasoning.")]
    cached: Annotated[int, Meta(description="Tokens of the input that were read from a cache.")]
    reasoning: Annotated[int, Meta(description="Tokens of the output that are reasoning.")]


class SourceEntry(Struct, frozen=True, kw_only=True):
    """A source that the text cites."""

    url: Annotated[str, Meta(description="May be empty: not every source has one.")]
    title: Annotated[str, Meta(description="May be empty.")]
    cited_text: Annotated[str, Meta(description="What is cited; may be empty.")]


class ChatOutput(Struct, frozen=True, kw_only=True):
    text: Annotated[str, Meta(description="The text of the answer.")]
    reasoning: Annotated[str, Meta(description="The readable part of the reasoning.")]
    refusal: Annotated[str, Meta(description="The refusal, if the model refuses to answer.")]
    tool_calls: Annotated[
        list[ToolCallEntry], Meta(description="The tool calls, in order.  None was run.")
    ]
    sources: Annotated[list[SourceEntry], Meta(description="What the text cites.")]
    other: Annotated[
        list[Any],
        Meta(description="Blocks in the vendor's own format, such as tools that the vendor ran."),
    ]
    finish: Annotated[
        FinishReason | None, Meta(description="The finish reason; null: the answer has none.")
    ]
    model: Annotated[str, Meta(description="The upstream's name for the model.")]
    usage: Annotated[TokenUsage | None, Meta(description="Null: the upstream did not report it.")]
    losses: Losses


class ParseOutput(Struct, frozen=True, kw_only=True):
    content: Annotated[str, Meta(description="The text without calls and reasoning.")]
    reasoning: Annotated[str, Meta(description="The reasoning in it.")]
    tool_calls: Annotated[list[ToolCallEntry], Meta(description="The calls in it, in order.")]
    problems: Annotated[list[LossEntry], Meta(description="What was repaired, or could not be.")]


class TranslateOutput(Struct, frozen=True, kw_only=True):
    text: Annotated[str, Meta(description="The request, answer or stream in the other dialect.")]
    losses: Losses
    failure: Annotated[str | None, Meta(description="Set if the answer reports a failure.")]


class ViolationEntry(Struct, frozen=True, kw_only=True):
    """One place where a stream breaks a rule."""

    rule: Annotated[str, Meta(description="The rule's name.")]
    reason: Annotated[str, Meta(description="What is wrong.")]
    frame: Annotated[
        int,
        Meta(
            description="The number of the event, from 1; one more than the last for what is missing at the end."
        ),
    ]
    offset: Annotated[int, Meta(description="Where that event begins, in bytes.")]
    path: Annotated[str, Meta(description="JSON path of the field, if it is one.")]


class CheckOutput(Struct, frozen=True, kw_only=True):
    legal: Annotated[bool, Meta(description="Whether the stream breaks no rule.")]
    ended: Annotated[
        Ending,
        Meta(description="How the stream ended: normally, with a reported failure, or not at all."),
    ]
    frames: Annotated[int, Meta(description="Events.")]
    blocks: Annotated[int, Meta(description="Blocks or items; in Chat, channels and calls.")]
    calls: Annotated[int, Meta(description="Tool calls for the client to run.")]
    violations: Annotated[list[ViolationEntry], Meta(description="In the order of the stream.")]
    unlisted: Annotated[int, Meta(description="How many more violations there are.")]


class FormatEntry(Struct, frozen=True, kw_only=True):
    """A family of tool calls that models write as text."""

    key: Annotated[str, Meta(description="Its name, for `format`.")]
    aliases: Annotated[list[str], Meta(description="Other names for it.")]
    description: Annotated[str, Meta(description="Which models write it.")]
    markers: Annotated[list[str], Meta(description="Texts that begin a call.")]
    models: Annotated[list[str], Meta(description="Names of models that write it, as patterns.")]


class FormatsOutput(Struct, frozen=True, kw_only=True):
    formats: Annotated[list[FormatEntry], Meta(description="All known formats.")]


class Failure(Struct, frozen=True, kw_only=True):
    """The result of a tool that failed: the library's error, field for field."""

    error: str  # the name of the error's class
    message: str
    stage: str = ""  # of a `ClientError`: connect, tls, http, sse, json, protocol, limit, ...
    kind: str = ""
    status: int = 0
    code: str = ""
    retry_after: float | None = None
    request_id: str = ""
    path: str = ""  # where in the arguments or in a request the mistake is
    received: ChatOutput | None = None  # what had come of an answer
