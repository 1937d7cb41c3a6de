"""Functions that make requests.  They return the core's own types, which every dialect can be written from.

    question = request(system("Be brief."), user("What is the weather in Rome?"), tools=[get_weather])

All of these values are immutable: a conversation grows by making a longer one.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Raw

from dragoman.client.functions import description_of, schema_of
from dragoman.dialects import DEFAULT_DIALECT, dialect_names
from dragoman.dialects import dialect as find_dialect
from dragoman.errors import MalformedError, MisuseError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.translate_requests import decode_tools
from dragoman.turn.answer import Answer, Block
from dragoman.turn.events import BlockKind, Flavor
from dragoman.turn.request import (
    ASSISTANT,
    SYSTEM,
    USER,
    Base64Source,
    DialectName,
    ImagePart,
    OpaquePart,
    OpaqueState,
    OutputFormat,
    Part,
    ReasoningPart,
    ReasoningSettings,
    RefusalPart,
    Request,
    Sampling,
    ServerToolPart,
    TextPart,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
    Turn,
    UrlSource,
)
from dragoman.turn.server_tools import summary_of
from dragoman.wire.json_values import decode_any, read_float

Schema: TypeAlias = Mapping[str, Any] | str | bytes  # a JSON schema: its fields, or its text
Effort: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]

# First bytes of the image formats that all vendors accept.
_IMAGES: Final = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)


def system(text: str) -> Turn:
    """Return an instruction.  At the beginning of a conversation it is the system prompt.

    Args:
        text: The instruction.
    """
    return Turn(SYSTEM, (_part(text),))


def user(*parts: str | Part, images: Sequence[str | bytes] = ()) -> Turn:
    """Return a user's message.

    Args:
        *parts: Texts, and parts such as `ImagePart`, `DocumentPart` and `AudioPart`.
        images: Images, each by its URL or as the bytes of a PNG, JPEG, GIF or WebP file.

    Raises:
        MisuseError: an image is none of these.
    """
    return Turn(USER, (*map(_part, parts), *map(_image, images)))


def assistant(*parts: str | Part) -> Turn:
    """Return a message of the model that you write yourself; for a real answer use `answer_turn`.

    Args:
        *parts: Texts and parts.
    """
    return Turn(ASSISTANT, tuple(map(_part, parts)))


def result(call_id: str, *parts: str | Part, is_error: bool = False) -> Turn:
    """Return the result of a tool call.  Results of one answer's calls may follow one another.

    Args:
        call_id: The `id` of the `ToolCall`.
        *parts: What the tool returned: texts and parts such as images.
        is_error: The tool failed; the text describes how.
    """
    content = tuple(map(_part, parts))
    return Turn(USER, (ToolResultPart(call_id, content, is_error),))  # type: ignore[arg-type]


def answer_turn(answer: Answer) -> Turn:
    """Return an answer as a turn of the conversation, with its tool calls and reasoning state.

    Args:
        answer: A complete answer.

    Raises:
        MisuseError: the answer failed, or one of its calls is incomplete: servers would reject the history.
    """
    if answer.fault is not None:
        raise MisuseError(f"this answer failed: {answer.fault.message}")
    return Turn(ASSISTANT, tuple(_part_of(block) for block in answer.blocks if _returns(block)))


def tool(
    what: Callable[..., object] | str | Mapping[str, Any],
    *,
    description: str = "",
    schema: Schema | None = None,
    strict: bool | None = None,
) -> Tool:
    """Return a tool that the model may call.

    Args:
        what: A function, which is described by its docstring and its annotations and is never run; or a name;
            or a whole definition in any dialect's shape.
        description: Replaces a function's docstring.
        schema: The JSON schema of the arguments; replaces a function's annotations.
        strict: Whether the server must enforce the schema, where it can.

    Raises:
        MisuseError: a function has no name, an annotation has no JSON schema, the schema is not a JSON object,
            or another argument is given with a whole definition.
        MalformedError: a definition fits no dialect.

    Example:
        tool("get_time", description="The time in a city.", schema={"type": "object", "properties": {}})
    """
    if isinstance(what, str):
        return Tool(name=what, description=description, schema=_schema(schema), strict=strict)
    if isinstance(what, Mapping):
        if description or schema is not None or strict is not None:
            raise MisuseError(
                "a whole definition takes no other argument: put it into the definition"
            )
        return _defined(what)
    name = getattr(what, "__name__", "")
    if not callable(what) or not name.isidentifier():
        raise MisuseError(f"{_kind(what)} has no name that a model can call")
    return Tool(
        name=name,
        description=description or description_of(what),
        schema=schema_of(what) if schema is None else _schema(schema),
        strict=strict,
    )


def _defined(definition: Mapping[str, Any]) -> Tool:
    try:
        body = msgspec.json.encode([definition])
    except (TypeError, ValueError) as error:
        raise MisuseError(f"a definition that is not JSON: {error}") from None
    tools = decode_tools(body)
    if len(tools) != 1:
        raise MisuseError(f"a definition of {len(tools)} tools: read it with `decode_tools`")
    return tools[0]


def request(  # noqa: PLR0913 -- the parameters of a request
    *turns: Turn | str,
    tools: Sequence[Tool | Callable[..., object]] = (),
    tool_choice: Literal["auto", "required", "none"] | str = "",  # noqa: PYI051 -- or a tool's name
    parallel: bool | None = None,
    model: str = "",
    max_tokens: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    stop: Sequence[str] = (),
    seed: int | None = None,
    reasoning: Effort | ReasoningSettings | None = None,
    schema: Schema | None = None,
) -> Request:
    """Return a request, for `Client.create`, `Client.stream` and `ToolLoop`.

    It belongs to no dialect: the client writes it in its server's.  What is not set is not sent.

    Args:
        *turns: The conversation: `system`, `user`, `assistant`, `result`, `answer_turn`; a plain text is a
            user's message.
        tools: What the model may call: functions, or what `tool` returns.
        tool_choice: `auto`, `required`, `none`, or the name of the one tool to call; empty: not sent.
        parallel: Whether the model may make several calls in one answer.
        model: Replaces the client's model.
        max_tokens: Limit of the answer, reasoning included.
        temperature: Sampling temperature.
        top_p: Nucleus sampling.
        stop: Texts before which the answer ends.  Matched on the answer if the server cannot.
        seed: For reproducible sampling, where the server supports it.
        reasoning: How much the model reasons: `off`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`, or a
            `ReasoningSettings`.
        schema: A JSON schema that the answer's text must fit.

    Raises:
        MisuseError: an argument has the wrong type, `tool_choice` names no tool of the request, or `schema` is
            not a JSON object.

    Example:
        request(system("Be brief."), "What is the weather in Rome?", tools=[get_weather], max_tokens=500)
    """
    numbers = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "seed": seed}
    for name, value in numbers.items():
        if value is not None and not isinstance(value, int | float):
            raise MisuseError(f"`{name}` is a number, not {_kind(value)}")
    declared = tuple(map(_tool, tools))
    conversation = tuple(map(_turn, turns))
    first = next(
        (at for at, turn in enumerate(conversation) if turn.role is not SYSTEM), len(conversation)
    )
    head = [
        part for turn in conversation[:first] for part in turn.parts if isinstance(part, TextPart)
    ]
    return Request(
        dialect="chat",  # replaced by the client's
        model=model,
        system=tuple(head),
        turns=conversation[first:],
        tools=declared,
        tool_choice=_choice(tool_choice, declared),
        parallel=parallel,
        max_output=max_tokens,
        sampling=Sampling(temperature=temperature, top_p=top_p, seed=seed),
        stop=tuple(stop),
        reasoning=_thinking(reasoning),
        format=_format(schema),
    )


def _tool(given: Tool | Callable[..., object]) -> Tool:
    if isinstance(given, Tool):
        return given
    if not callable(given):
        raise MisuseError(f"`tools` holds {_kind(given)}: make a tool of it with `tool(…)`")
    return tool(given)


def _turn(turn: Turn | str) -> Turn:
    if isinstance(turn, str):
        return user(turn)
    if not isinstance(turn, Turn):
        raise MisuseError(f"a turn must be made by `user(…)` and the like, not {_kind(turn)}")
    return turn


def _choice(choice: str, tools: Sequence[Tool]) -> ToolChoice | None:
    match choice:
        case "":
            return None
        case "auto" | "required" | "none":
            return ToolChoice(choice)
        case name if name in {one.name for one in tools}:
            return ToolChoice("tool", name)
        case _:
            raise MisuseError(
                f"`tool_choice` names `{choice}`, which is not a tool of this request"
            )


def _thinking(reasoning: Effort | ReasoningSettings | None) -> ReasoningSettings:
    match reasoning:
        case None:
            return ReasoningSettings()
        case "off":
            return ReasoningSettings(mode="off")
        case ReasoningSettings():
            return reasoning
        case effort if effort in get_args(Effort):
            return ReasoningSettings(mode="auto", effort=effort)
        case _:
            known = ", ".join(get_args(Effort))
            raise MisuseError(f"`reasoning` is one of {known}, or a `ReasoningSettings`")


def _format(schema: Schema | None) -> OutputFormat:
    if schema is None:
        return OutputFormat()
    return OutputFormat(kind="json_schema", name="answer", schema=_schema(schema))


def _schema(schema: Schema | None) -> Raw | None:
    """Return a schema as JSON text; a given text stays as it is."""
    if schema is None:
        return None
    try:
        if isinstance(schema, str | bytes):
            text = schema.encode() if isinstance(schema, str) else schema
            given = decode_any(text)
        else:
            given, text = schema, msgspec.json.encode(dict(schema))
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise MisuseError(f"a schema that is not JSON: {error}") from None
    if not isinstance(given, Mapping):
        raise MisuseError("a schema is a JSON object")
    return Raw(text)


def _part(part: str | Part) -> Part:
    if isinstance(part, str):
        return TextPart(part)
    known: bool = isinstance(part, get_args(Part))
    if not known:
        raise MisuseError(f"a part is a text, an `ImagePart` or the like, not {_kind(part)}")
    return part


def _kind(value: object) -> str:
    """Return the type of a wrong argument, for a message."""
    name = getattr(value, "__name__", "") if callable(value) else ""
    return f"the function `{name}`" if name else f"`{type(value).__name__}`"


def _image(image: str | bytes) -> ImagePart:
    if isinstance(image, str):
        return ImagePart(UrlSource(image))
    kind = next((kind for start, kind in _IMAGES if image.startswith(start)), None)
    if kind is None:
        raise MisuseError("an image that is neither PNG, JPEG, GIF nor WebP")
    return ImagePart(Base64Source(kind, base64.b64encode(image).decode()))


def _returns(block: Block) -> bool:
    """Return whether a block is sent back: what was concluded of a vendor-run tool is not the vendor's own."""
    return block.server is None or bytes(block.raw) != b"null"


def _part_of(block: Block) -> Part:
    """Return a block of an answer as a part of the history."""
    state = tuple(OpaqueState(one.kind, one.data, one.origin, one.item_id) for one in block.opaque)
    match block.kind:
        case BlockKind.TEXT:
            vendor = block.citations[0].vendor if block.citations else ""
            raw = tuple(one.raw for one in block.citations if one.vendor == vendor)
            return TextPart(block.text, citations=raw if vendor else (), vendor=vendor)
        case BlockKind.REASONING:
            return ReasoningPart(block.segments, state)
        case BlockKind.TOOL_CALL | BlockKind.CUSTOM_CALL:
            if not block.complete:
                raise MisuseError(f"the call `{block.call_id}` of `{block.name}` is incomplete")
            free = block.kind is BlockKind.CUSTOM_CALL and block.flavor is Flavor.FUNCTION
            flavor = Flavor.CUSTOM if free else block.flavor
            return ToolCallPart(
                block.call_id, block.name, block.text, flavor, block.namespace, state
            )
        case BlockKind.REFUSAL:
            return RefusalPart(block.text)
        case BlockKind.SERVER_CALL | BlockKind.SERVER_RESULT:
            summary = str(block.kind) if block.server is None else summary_of(block.server)
            return ServerToolPart(block.vendor, summary, block.raw)
        case BlockKind.OPAQUE:
            return OpaquePart(block.vendor, block.raw)


# --- messages in the shape of a dialect ---------------------------------------------------------------

_MESSAGES: Final = msgspec.json.Decoder(list[dict[str, Any]], float_hook=read_float)


def read_messages(messages: bytes, *, limits: Limits = DEFAULT_LIMITS) -> Request:
    """Read a JSON list of messages in any dialect's shape; only the conversation of the result is meaningful.

    Raises:
        MalformedError: it is not a list, or breaks the dialect of its shape; carries the path.
        TooLargeError: it exceeds a limit.
    """
    name = shape_of(messages)
    body = find_dialect(name).least_request % (messages, b"[]")
    try:
        return find_dialect(name).decode_request(body, sealer=None, limits=limits)
    except MalformedError as error:
        path = error.path.replace("$.input", "$.messages", 1)
        raise type(error)(error.reason, path=path, code=error.code) from error


def shape_of(messages: bytes) -> DialectName:
    """Return the dialect whose shape the messages have; `chat` if they fit all.

    Raises:
        MalformedError: it is not a list of objects.
    """
    try:
        found = _MESSAGES.decode(messages)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"messages are a JSON list of objects: {error}") from error
    dialects = [find_dialect(name) for name in dialect_names()]
    for message in found:
        if "type" in message:  # messages of most dialects have a role alone
            return next((one.name for one in dialects if one.typed_messages), DEFAULT_DIALECT)
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            for one in dialects if isinstance(kind, str) else ():
                if kind in one.own_types:
                    return one.name
    return DEFAULT_DIALECT
