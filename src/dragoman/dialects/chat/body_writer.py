"""Writes a complete answer as a Chat Completions body: what an SDK would collect from the stream."""

import msgspec
from msgspec import Raw, Struct

from dragoman.context import Exchange
from dragoman.dialects.chat.answer_writer import (
    CallNames,
    ForeignFields,
    call_state,
    completion_identity,
    finish_word,
    foreign_fields,
    found_sources,
    reasoning_fields,
    write_annotation,
    write_details,
    write_image,
    write_sources,
    write_usage,
    written_fields,
)
from dragoman.dialects.chat.block_reader import joined
from dragoman.dialects.chat.schema import (
    CallOut,
    Completion,
    CompletionChoice,
    CompletionLogprobs,
    CompletionMessage,
    CustomCallOut,
    FunctionCallOut,
)
from dragoman.dialects.encoding import encode, escaped
from dragoman.dialects.openai_errors import encode_error
from dragoman.turn.answer import Answer, Block
from dragoman.turn.events import BlockKind, OpaqueKind
from dragoman.turn.losses import Loss
from dragoman.turn.server_tools import SourceRef


def encode_body(answer: Answer, exchange: Exchange, losses: list[Loss]) -> bytes:
    """Return a complete answer, or the error of one that failed; add what the dialect has no form for to the losses."""
    if answer.fault is not None:
        return encode_error(answer.fault)
    who = completion_identity(answer.start, exchange)
    message, records = _message(answer.blocks, exchange, losses)
    choice = CompletionChoice(
        0,
        message,
        CompletionLogprobs(records) if records else None,
        finish_word(answer.finish.reason) if answer.finish is not None else "stop",
    )
    foreign = foreign_fields(exchange.upstream_body) if exchange.upstream_body else ForeignFields()
    usage = None if answer.usage is None else write_usage(answer.usage, foreign.usage)
    completion = Completion(
        who.id,
        "chat.completion",
        who.created,
        who.model,
        [_with(choice, foreign.choice)],
        None if usage is None else _with(usage, foreign.usage),
    )
    return bytes(_with(completion, foreign.chunk))


def _with(value: Struct, fields: dict[str, Raw]) -> Raw:
    """Return an object with more fields behind its own."""
    encoded = encode(value)
    return Raw(encoded[:-1] + written_fields(fields) + b"}" if fields else encoded)


def _message(
    blocks: tuple[Block, ...], exchange: Exchange, losses: list[Loss]
) -> tuple[CompletionMessage, list[Raw]]:
    """Return the message, and the token records of its text."""
    names = CallNames(exchange)
    message = CompletionMessage("assistant", "", None, "", "", [], [], [], [])
    texts: list[str] = []
    refusals: list[str] = []
    thoughts: list[str] = []
    records: list[Raw] = []
    sources: list[SourceRef] = []
    searched = False
    last: BlockKind | None = None
    for index, block in enumerate(blocks):
        match block.kind:
            case BlockKind.TEXT:
                base = sum(map(len, texts))
                texts.append(block.text)
                for one in block.logprobs:
                    records += msgspec.json.decode(one, type=list[Raw])
                cited = [write_annotation(one, base) for one in block.citations]
                if None in cited:
                    losses.append(Loss("citations_dropped", f"block {index}"))
                message.annotations += [one for one in cited if one is not None]
            case BlockKind.REFUSAL:
                refusals.append(block.text)
            case BlockKind.REASONING:
                thoughts += ["\n\n"] * (last is BlockKind.REASONING) + [joined(block)]
                if exchange.rendering.chat_reasoning == "details":
                    first = len(message.reasoning_details)
                    message.reasoning_details += write_details(exchange, block, first)
            case BlockKind.TOOL_CALL | BlockKind.CUSTOM_CALL:
                message.tool_calls.append(_call(index, block, names, exchange))
            case _:
                made, found = write_image(block, len(message.images)), found_sources(block)
                message.images += made or ()
                sources += found or ()
                searched = searched or found is not None
                if made is None and found is None:
                    losses.append(Loss("server_block_dropped", f"block {index}", block.vendor))
        last = block.kind
    message.content = "".join(texts)
    if not message.annotations:
        message.annotations = write_sources(sources)
    if searched and not message.annotations:
        losses.append(Loss("server_block_dropped", detail="a search without sources"))
    message.refusal = "".join(refusals) or None
    for field in reasoning_fields(exchange):
        setattr(message, field, "".join(thoughts))
    return message, records


def _call(index: int, block: Block, names: CallNames, exchange: Exchange) -> CallOut:
    shape = names.shape_of(block)
    name = names.name_of(block)
    call = CallOut(
        names.ids.of(index, block.call_id), "custom" if shape == "custom" else "function"
    )
    match shape:
        case "custom":
            call.custom = CustomCallOut(name, block.text)
        case "wrapped":
            call.function = FunctionCallOut(name, _wrapped(block))
        case "function":
            call.function = FunctionCallOut(name, block.text)
    for one in block.opaque:
        if one.kind is OpaqueKind.TOOL_SIGNATURE and one.data.startswith("{"):
            call.extra_content = Raw(call_state(one, exchange))
    return call


def _wrapped(block: Block) -> str:
    """Return free-form input as the arguments of a function."""
    return '{"input":"' + escaped(block.text) + ('"}' if block.complete else "")
