"""Requests in few words.  What these return are the core's own types, good for every dialect.

    question = request(system("Be brief."), user("What is the weather in Rome?"), tools=[tool(get_weather)])

Nothing here is changed afterwards: a conversation grows by making a longer one.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Raw

from dragoman.client.functions import description_of, schema_of
from dragoman.errors import MisuseError
from dragoman.translate_requests import decode_tools
from dragoman.turn.answer import Answer, Block
from dragoman.turn.events import BlockKind, Flavor
from dragoman.turn.request import (
    ASSISTANT,
    SYSTEM,
    USER,
    Base64Source,
    ImagePart,
    OpaquePart,
    OpaqueState,
    OutputFormat,
    Part,
    ReasoningPart,
    ReasoningWish,
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
from dragoman.wire.json_values import decode_any

Schema: TypeAlias = Mapping[str, Any] | str | bytes  # a JSON schema: its fields, or its text
Effort: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]

# The beginnings of the image files that all vendors take.
_IMAGES: Final = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)


def system(text: str) -> Turn:
    """Return an instruction; at the beginning of a conversation it becomes the system prompt."""
    return Turn(SYSTEM, (_part(text),))


def user(*parts: str | Part, images: Sequence[str | bytes] = ()) -> Turn:
    """Return what a user says; an image is an address, or the bytes of a file.

    Raises:
        MisuseError: an image is of no known kind.
    """
    return Turn(USER, (*map(_part, parts), *map(_image, images)))


def assistant(*parts: str | Part) -> Turn:
    """Return what the model is to have said; for a real answer see `answer_turn`."""
    return Turn(ASSISTANT, tuple(map(_part, parts)))


def result(call_id: str, *parts: str | Part, is_error: bool = False) -> Turn:
    """Return what a tool gave for a call; results of one answer's calls may follow one another."""
    content = tuple(map(_part, parts))
    return Turn(USER, (ToolResultPart(call_id, content, is_error),))  # type: ignore[arg-type]


def answer_turn(answer: Answer) -> Turn:
    """Return an answer as a turn of the conversation, calls and reasoning state included.

    Raises:
        MisuseError: the answer failed, or a call of it was cut: it must not be built upon.
    """
    if answer.fault is not None:
        raise MisuseError(f"this answer failed: {answer.fault.message}")
    return Turn(ASSISTANT, tuple(_said(block) for block in answer.blocks))


def tool(
    what: Callable[..., object] | str | Mapping[str, Any],
    *,
    description: str = "",
    schema: Schema | None = None,
    strict: bool | None = None,
) -> Tool:
    """Return a tool that the model may call.

    It is made of a function, of a name and a JSON schema, or of a whole definition in any dialect's shape.
    A function is described by its docstring, and its arguments by their annotations.  It is never run.

    Raises:
        MisuseError: a function has no name, an annotation has no JSON schema, the schema is no JSON object, or
            something is said beside a whole definition.
        MalformedError: a definition fits no dialect.
    """
    if isinstance(what, str):
        return Tool(name=what, description=description, schema=_schema(schema), strict=strict)
    if isinstance(what, Mapping):
        if description or schema is not None or strict is not None:
            raise MisuseError("a definition says all of a tool: put it there")
        return _defined(what)
    name = getattr(what, "__name__", "")
    if not callable(what) or not name.isidentifier():
        raise MisuseError(f"{_kind(what)} has no name that a model could call it by")
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
        raise MisuseError(f"a definition that is no JSON: {error}") from None
    tools = decode_tools(body)
    if len(tools) != 1:
        raise MisuseError(f"a definition of {len(tools)} tools: read it with `decode_tools`")
    return tools[0]


def request(  # noqa: PLR0913 -- what a request may say
    *turns: Turn | str,
    tools: Sequence[Tool] = (),
    tool_choice: Literal["auto", "required", "none"] | str = "",  # noqa: PYI051 -- or a tool's name
    parallel: bool | None = None,
    model: str = "",
    max_tokens: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    stop: Sequence[str] = (),
    seed: int | None = None,
    reasoning: Effort | ReasoningWish | None = None,
    schema: Schema | None = None,
) -> Request:
    """Return a request.  `model` overrules the client's; `schema` is what the answer shall fit.

    A text among the turns is what a user says.

    Raises:
        MisuseError: something is of the wrong kind, `tool_choice` names no tool of the request, or `schema`
            is no JSON object.
    """
    numbers = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "seed": seed}
    for name, value in numbers.items():
        if value is not None and not isinstance(value, int | float):
            raise MisuseError(f"`{name}` is a number, not {_kind(value)}")
    for one in tools:
        if not isinstance(one, Tool):
            raise MisuseError(f"`tools` holds {_kind(one)}: make a tool of it with `tool(…)`")
    said = tuple(map(_turn, turns))
    first = next((at for at, turn in enumerate(said) if turn.role is not SYSTEM), len(said))
    head = [part for turn in said[:first] for part in turn.parts if isinstance(part, TextPart)]
    return Request(
        dialect="chat",  # a client sends it in its own
        model=model,
        system=tuple(head),
        turns=said[first:],
        tools=tuple(tools),
        tool_choice=_choice(tool_choice, tools),
        parallel=parallel,
        max_output=max_tokens,
        sampling=Sampling(temperature=temperature, top_p=top_p, seed=seed),
        stop=tuple(stop),
        reasoning=_wish(reasoning),
        format=_format(schema),
    )


def _turn(turn: Turn | str) -> Turn:
    if isinstance(turn, str):
        return user(turn)
    if not isinstance(turn, Turn):
        raise MisuseError(f"a turn is made by `user(…)` and the like, not {_kind(turn)}")
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
            raise MisuseError(f"`tool_choice` names `{choice}`, which is no tool of this request")


def _wish(reasoning: Effort | ReasoningWish | None) -> ReasoningWish:
    match reasoning:
        case None:
            return ReasoningWish()
        case "off":
            return ReasoningWish(mode="off")
        case ReasoningWish():
            return reasoning
        case effort if effort in get_args(Effort):
            return ReasoningWish(mode="auto", effort=effort)
        case _:
            known = ", ".join(get_args(Effort))
            raise MisuseError(f"`reasoning` is one of {known}, or a `ReasoningWish`")


def _format(schema: Schema | None) -> OutputFormat:
    if schema is None:
        return OutputFormat()
    return OutputFormat(kind="json_schema", name="answer", schema=_schema(schema))


def _schema(schema: Schema | None) -> Raw | None:
    """Return a schema as JSON text; text that is given stays as it is."""
    if schema is None:
        return None
    try:
        if isinstance(schema, str | bytes):
            text = schema.encode() if isinstance(schema, str) else schema
            given = decode_any(text)
        else:
            given, text = schema, msgspec.json.encode(dict(schema))
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise MisuseError(f"a schema that is no JSON: {error}") from None
    if not isinstance(given, Mapping):
        raise MisuseError("a schema is a JSON object")
    return Raw(text)


def _part(part: str | Part) -> Part:
    if isinstance(part, str):
        return TextPart(part)
    known: bool = isinstance(part, get_args(Part))
    if not known:
        raise MisuseError(f"a part is a text or one of `dragoman.turn.request`, not {_kind(part)}")
    return part


def _kind(value: object) -> str:
    """Say what somebody gave instead."""
    name = getattr(value, "__name__", "") if callable(value) else ""
    return f"the function `{name}`" if name else f"`{type(value).__name__}`"


def _image(image: str | bytes) -> ImagePart:
    if isinstance(image, str):
        return ImagePart(UrlSource(image))
    kind = next((kind for start, kind in _IMAGES if image.startswith(start)), None)
    if kind is None:
        raise MisuseError("an image that is neither PNG, JPEG, GIF nor WebP")
    return ImagePart(Base64Source(kind, base64.b64encode(image).decode()))


def _said(block: Block) -> Part:
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
                raise MisuseError(f"the call `{block.call_id}` of `{block.name}` was cut")
            free = block.kind is BlockKind.CUSTOM_CALL and block.flavor is Flavor.FUNCTION
            flavor = Flavor.CUSTOM if free else block.flavor
            return ToolCallPart(
                block.call_id, block.name, block.text, flavor, block.namespace, state
            )
        case BlockKind.REFUSAL:
            return RefusalPart(block.text)
        case BlockKind.SERVER_CALL | BlockKind.SERVER_RESULT:
            return ServerToolPart(block.vendor, str(block.kind), block.raw)
        case BlockKind.OPAQUE:
            return OpaquePart(block.vendor, block.raw)
