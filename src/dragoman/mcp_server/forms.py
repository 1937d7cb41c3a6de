"""What goes into the tools and what comes out, as types: the JSON schemas are made of these."""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

from dragoman.turn.events import FinishReason
from dragoman.turn.request import DialectName

ToolDefinitions: TypeAlias = Annotated[
    list[dict[str, Any]],
    Meta(description="Tool definitions, each in the shape of any of the three dialects."),
]
FormatName: TypeAlias = Annotated[
    str,
    Meta(
        description="Family of tool calls written as text: a key of `list_formats`, `auto` by the "
        "model's name, or `none`."
    ),
]
Dialect: TypeAlias = Annotated[
    DialectName,
    Meta(
        description="`chat` is OpenAI Chat Completions, `anthropic` is Anthropic Messages, "
        "`responses` is OpenAI Responses."
    ),
]


class Input(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a tool; a name that is not known is a mistake."""


# --- in ---------------------------------------------------------------------------------------------


class ChatInput(Input, frozen=True):
    messages: Annotated[
        list[dict[str, Any]],
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
    parallel_tool_calls: bool | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: list[str] = []
    seed: int | None = None
    reasoning: Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    schema: Annotated[
        dict[str, Any] | None, Meta(description="JSON schema that the answer shall fit.")
    ] = None


class ParseInput(Input, frozen=True):
    text: Annotated[str, Meta(description="What the model wrote.")]
    format: FormatName = "auto"
    model: Annotated[str, Meta(description="The model's id, for the format `auto`.")] = ""
    tools: Annotated[
        list[dict[str, Any]] | None,
        Meta(
            description="The declared tools, in any dialect's shape.  Null: whatever looks like a call "
            "is one; an empty list: nothing is."
        ),
    ] = None
    channel: Literal["content", "reasoning"] = "content"
    start_in_reasoning: bool = False


class TranslateInput(Input, frozen=True):
    what: Literal["request", "body", "stream"]
    source: Dialect = field(name="from")
    target: Dialect = field(name="to")
    text: Annotated[
        str, Meta(description="The request or the complete answer as JSON, or the stream (SSE).")
    ]
    model: Annotated[str, Meta(description="The upstream's name for the model.")] = ""
    format: FormatName = "auto"
    tools: ToolDefinitions = []
    profile: Annotated[str, Meta(description="What the upstream can and cannot do.")] = "generic"
    strict: Annotated[bool, Meta(description="Refuse what would lose something.")] = False


class CheckInput(Input, frozen=True):
    dialect: Dialect
    stream: Annotated[str, Meta(description="The stream (SSE) as it was received.")]


class NoInput(Input, frozen=True):
    """Nothing."""


# --- out --------------------------------------------------------------------------------------------


class ToldLoss(Struct, frozen=True):
    """Something that could not be carried, or was mended."""

    code: str
    path: str
    detail: str
    says: str


class ToldCall(Struct, frozen=True, kw_only=True):
    """A tool call that the model made.  It was not run."""

    id: str
    name: str
    arguments: Annotated[str, Meta(description="JSON, or the free text of a custom tool.")]
    complete: Annotated[bool, Meta(description="False: it was cut, and must not be run.")]


class ToldUsage(Struct, frozen=True, kw_only=True):
    input: Annotated[int, Meta(description="All of it, cached or not.")]
    output: Annotated[int, Meta(description="All of it, reasoning included.")]
    cached: int
    reasoning: int


class ToldSource(Struct, frozen=True, kw_only=True):
    """A source that the text cites."""

    url: str
    title: str
    cited_text: str


class ChatOutput(Struct, frozen=True, kw_only=True):
    text: str
    reasoning: str
    refusal: str
    tool_calls: list[ToldCall]
    sources: list[ToldSource]
    other: Annotated[
        list[Any],
        Meta(description="Blocks of the vendor's own, as it wrote them: tools that it ran itself."),
    ]
    finish: Annotated[FinishReason | None, Meta(description="Null: it has no proper end.")]
    model: Annotated[str, Meta(description="As the upstream calls it.")]
    usage: ToldUsage | None
    losses: list[ToldLoss]


class ParseOutput(Struct, frozen=True, kw_only=True):
    content: str
    reasoning: str
    tool_calls: list[ToldCall]
    problems: list[ToldLoss]


class TranslateOutput(Struct, frozen=True, kw_only=True):
    text: Annotated[str, Meta(description="The request, answer or stream in the other dialect.")]
    losses: list[ToldLoss]
    failure: Annotated[str | None, Meta(description="Set if the answer tells of a failure.")]


class ToldFormat(Struct, frozen=True, kw_only=True):
    key: str
    aliases: list[str]
    says: str
    markers: list[str]
    models: list[str]


class FormatsOutput(Struct, frozen=True, kw_only=True):
    formats: list[ToldFormat]


class Failure(Struct, frozen=True, kw_only=True):
    """What a tool tells when it failed: the library's error, field for field."""

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
