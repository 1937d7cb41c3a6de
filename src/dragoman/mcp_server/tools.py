"""The tools: the input and output of each, and the few lines between it and the library."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from msgspec import Struct, convert, structs

from dragoman.checker.checker import check
from dragoman.client.messages import read_messages
from dragoman.client.messages import request as new_request
from dragoman.client.messages import system as instruction
from dragoman.dialects.encoding import encode
from dragoman.errors import MalformedError
from dragoman.mcp_server.results import Piece, chat_output, loss_entries, pieces_of
from dragoman.mcp_server.tool_types import (
    ChatInput,
    ChatOutput,
    CheckInput,
    CheckOutput,
    FormatEntry,
    FormatsOutput,
    NoInput,
    ParseInput,
    ParseOutput,
    ToolCallEntry,
    TranslateInput,
    TranslateOutput,
)
from dragoman.mcp_server.upstreams import ModelList, Upstreams
from dragoman.toolcalls.format_names import aliases_of, choose_format, installed_formats, own_format
from dragoman.toolcalls.formats import FORMATS
from dragoman.toolcalls.parser import Parsed, parse
from dragoman.toolcalls.stage import PLAIN
from dragoman.translate import Translator, translate_body
from dragoman.translate_requests import decode_tools, translate_request
from dragoman.turn.request import Request, Tool
from dragoman.wire.surrogates import join_surrogates

Report: TypeAlias = Callable[[Piece], Awaitable[None]]


class ToolContext(Struct, frozen=True):
    """What a tool may use beside its arguments."""

    upstreams: Upstreams
    report: Report  # sends the answer so far to the caller, as pieces


class ServedTool(Struct, frozen=True):
    title: str
    description: str
    input_type: type[Struct]
    output_type: type[Struct]
    run: Callable[[Any, ToolContext], Awaitable[Struct]]
    uses_upstream: bool = False  # it sends requests to an upstream


async def _chat(asked: ChatInput, context: ToolContext) -> ChatOutput:
    target = context.upstreams.target(asked.model)
    request = _request(asked, target.model)
    async with target.client.stream(request) as turn:
        while events := await turn.pump():
            for piece in pieces_of(events):
                await context.report(piece)
        return chat_output(turn.answer(), request.call_ids)


def _request(asked: ChatInput, model: str) -> Request:
    history = read_messages(encode(asked.messages))
    request = new_request(
        tools=_tools(asked.tools),
        tool_choice=asked.tool_choice,
        parallel=asked.parallel_tool_calls,
        model=model,
        max_tokens=asked.max_tokens,
        temperature=asked.temperature,
        top_p=asked.top_p,
        stop=asked.stop,
        seed=asked.seed,
        reasoning=asked.reasoning,
        schema=asked.schema,
    )
    before = new_request(instruction(asked.system)).system if asked.system else ()
    return structs.replace(
        request, system=before + history.system, turns=history.turns, losses=history.losses
    )


async def _parse(asked: ParseInput, context: ToolContext) -> ParseOutput:
    tools = _declared(asked.tools)
    own = context.upstreams.formats
    family = choose_format(asked.model, own_format(asked.model, asked.format, own))
    if family is None and asked.start_in_reasoning:
        family, tools = PLAIN, ()  # no calls to look for, but the end of the reasoning
    if family is None:  # the model's server returns structured calls: nothing to look for
        is_content = asked.channel == "content"
        found = Parsed(asked.text) if is_content else Parsed(reasoning=asked.text)
    else:
        found = parse(
            asked.text,
            format=family,
            tools=tools,
            channel=asked.channel,
            start_in_reasoning=asked.start_in_reasoning,
            seed="parse",
        )
    return ParseOutput(
        content=found.content,
        reasoning=found.reasoning,
        tool_calls=[
            ToolCallEntry(id=one.id, name=one.name, arguments=one.arguments, complete=one.complete)
            for one in found.tool_calls
        ],
        problems=loss_entries(found.problems),
    )


async def _translate(asked: TranslateInput, context: ToolContext) -> TranslateOutput:
    native_format = own_format(asked.model, asked.format, context.upstreams.formats)
    data = join_surrogates(asked.text).encode()
    if asked.what == "request":
        request = translate_request(
            data,
            source=asked.source,
            target=asked.target,
            profile=asked.profile,
            model=asked.model,
            strict=asked.strict,
        )
        text, losses = request.body.decode(), loss_entries(request.losses)
        return TranslateOutput(text=text, losses=losses, failure=None)
    tools = _declared(asked.tools)
    if asked.what == "body":
        body = translate_body(
            data,
            source=asked.source,
            target=asked.target,
            profile=asked.profile,
            model=asked.model,
            native_format=native_format,
            tools=tools,
            strict=asked.strict,
        )
        fault = body.answer.fault
        failure = None if fault is None else fault.message
        return TranslateOutput(
            text=body.body.decode(), losses=loss_entries(body.losses), failure=failure
        )
    translator = Translator(
        source=asked.source,
        target=asked.target,
        profile=asked.profile,
        model=asked.model,
        native_format=native_format,
        tools=tools,
        strict=asked.strict,
    )
    out = translator.feed(data) + translator.close()
    return TranslateOutput(
        text=out.decode(),
        losses=loss_entries(translator.losses),
        failure=getattr(translator.outcome, "message", None),
    )


async def _check(asked: CheckInput, _context: ToolContext) -> CheckOutput:
    verdict = check(asked.dialect, join_surrogates(asked.stream).encode())
    return convert(verdict, CheckOutput, from_attributes=True)


async def _models(_asked: NoInput, context: ToolContext) -> ModelList:
    return await context.upstreams.models()


async def _formats(_asked: NoInput, context: ToolContext) -> FormatsOutput:
    declared = context.upstreams.formats
    return FormatsOutput(
        formats=[
            FormatEntry(
                key=one.key,
                aliases=aliases_of(one.key) if FORMATS.get(one.key) is one else [],
                description=one.description,
                markers=list(one.opens),
                models=list(one.models),
            )
            for one in (*FORMATS.values(), *declared, *installed_formats())
        ]
    )


def _declared(definitions: list[dict[str, Any]] | None) -> tuple[Tool, ...] | None:
    """Return the declared tools; None if they are not known."""
    return None if definitions is None else _tools(definitions)


def _tools(definitions: list[dict[str, Any]]) -> tuple[Tool, ...]:
    try:
        return decode_tools(encode(definitions))
    except MalformedError as error:  # whose path begins at the list
        path = error.path.replace("$", "$.tools", 1)
        raise MalformedError(error.reason, path=path, code=error.code) from error


TOOLS: Final[dict[str, ServedTool]] = {
    "chat": ServedTool(
        "Ask a model",
        "Ask a model.  Returns its text, its reasoning and its tool calls, which are never run.  "
        "While the answer streams, each progress notification has the part that arrived since the last one, as a "
        "JSON object with `reasoning`, `text`, `call` and `arguments`.",
        ChatInput,
        ChatOutput,
        _chat,
        uses_upstream=True,
    ),
    "parse_tool_calls": ServedTool(
        "Find tool calls in text",
        "Find the tool calls, and the reasoning, that a model wrote as text in its own format.",
        ParseInput,
        ParseOutput,
        _parse,
    ),
    "translate": ServedTool(
        "Translate between API dialects",
        "Turn a request, a complete answer or a streamed answer of one API dialect into another, and "
        "report what could not be translated.",
        TranslateInput,
        TranslateOutput,
        _translate,
    ),
    "check_stream": ServedTool(
        "Judge a stream",
        "Check whether a stream of server-sent events is legal in its dialect, and list its violations.",
        CheckInput,
        CheckOutput,
        _check,
    ),
    "list_models": ServedTool(
        "List models",
        "List the models that `chat` can use, and their upstreams.",
        NoInput,
        ModelList,
        _models,
        uses_upstream=True,
    ),
    "list_formats": ServedTool(
        "List native formats",
        "List the families of tool calls that models write as text.",
        NoInput,
        FormatsOutput,
        _formats,
    ),
}
