"""What the blocks, counts and endings of an answer are to a Messages client; and whole answers.

The writer and `encode_body` share this, so that a client accumulates from the stream what the body says.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.faults import encode_fault
from dragoman.dialects.encoding import encode
from dragoman.dialects.identity import Identity, client_ids, identity_of
from dragoman.dialects.sealing import seal
from dragoman.exchange import Exchange
from dragoman.ids import ClientIds
from dragoman.turn.events import (
    BlockKind,
    Finish,
    FinishReason,
    Opaque,
    OpaqueKind,
    Start,
    Usage,
)
from dragoman.turn.fold import Answer, Block
from dragoman.turn.loss import Loss
from dragoman.turn.request import ReasoningSegment
from dragoman.turn.tools import wire_name

OutBlock: TypeAlias = (
    schema.TextBlock | schema.ThinkingBlock | schema.RedactedBlock | schema.ToolUseBlock | Raw
)

PART_BREAK: Final = "\n\n"  # between the parts of a summary
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])

STOP_REASONS: Final[dict[FinishReason, str]] = {
    FinishReason.STOP: "end_turn",
    FinishReason.STOP_SEQUENCE: "stop_sequence",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.CONTEXT_FULL: "model_context_window_exceeded",
    FinishReason.CONTENT_FILTER: "refusal",
    FinishReason.REFUSAL: "refusal",
    FinishReason.PAUSE: "pause_turn",
    FinishReason.COMPACTION: "compaction",
}


class Ending(Struct, frozen=True):
    """How an answer ended."""

    stop_reason: str
    stop_sequence: str | None
    stop_details: schema.StopDetails | None


def ending_of(finish: Finish, *, refused: bool) -> Ending:
    """Return the ending; `refused` says that the model declined in a block of its own."""
    reason = STOP_REASONS[finish.reason]
    if refused and finish.reason is FinishReason.STOP:
        reason = "refusal"
    details = None
    if reason == "refusal" and (finish.category or finish.explanation):
        details = schema.StopDetails(
            category=finish.category or None, explanation=finish.explanation or None
        )
    return Ending(reason, finish.stop_sequence, details)


def usage_of(usage: Usage | None, exchange: Exchange) -> schema.WireUsage:
    """Return the counts.  Readers crash without the first and the last of them."""
    counts = usage or Usage(exchange.input_estimate)
    thinking = schema.OutputDetails(counts.reasoning) if counts.reasoning else None
    return schema.WireUsage(
        input_tokens=counts.input,
        cache_read_input_tokens=counts.cache_read,
        cache_creation_input_tokens=counts.cache_write_5m + counts.cache_write_1h,
        output_tokens=counts.output,
        output_tokens_details=thinking,
    )


def message_identity(start: Start, exchange: Exchange) -> Identity:
    """Return what a message says of itself."""
    return identity_of(start, exchange, prefix="msg_", what="message")


class Sealing:
    """Reasoning state for a Messages client: the vendor's own as it is, any other in an envelope."""

    def __init__(self, exchange: Exchange, losses: list[Loss]) -> None:
        self._exchange = exchange
        self._losses = losses

    def signature(self, opaque: Sequence[Opaque], text: str) -> str:
        """Return what signs a thinking block: empty if there is nothing to sign it with."""
        return self._data(opaque, text, OpaqueKind.SIGNATURE)

    def redacted(self, opaque: Sequence[Opaque]) -> str:
        """Return the data of a block whose reasoning is not shown."""
        return self._data(opaque, "", OpaqueKind.REDACTED)

    def call_signature(self, opaque: Sequence[Opaque], call_id: str) -> str:
        """Return the data of a block that carries a call's signature."""
        return self._sealed(opaque, "", call_id)

    def _data(self, opaque: Sequence[Opaque], text: str, native: OpaqueKind) -> str:
        for one in opaque:
            if one.kind is native and one.origin == schema.VENDOR:
                return one.data
        return self._sealed(opaque, text, "") if opaque else ""

    def _sealed(self, opaque: Sequence[Opaque], text: str, call_id: str) -> str:
        sealed = seal(self._exchange, opaque, text, call_id=call_id)
        if sealed is None:
            code = "opaque_dropped" if self._exchange.sealer is None else "opaque_too_large"
            self._losses.append(Loss(code, f"block {opaque[0].index}"))
        return sealed or ""


def is_unshown(opaque: Sequence[Opaque]) -> bool:
    """Say whether state without text is redacted thinking, not thinking that was left out.

    The vendor signs thinking even if its text is not shown; only its own signatures can do without.
    """
    return not any(
        one.kind is OpaqueKind.SIGNATURE and one.origin == schema.VENDOR for one in opaque
    )


def compact(raw: Raw) -> bytes:
    """Return JSON on one line."""
    data = bytes(raw)
    return msgspec.json.format(data, indent=-1) if b"\n" in data or b"\r" in data else data


def split_input(raw: Raw) -> tuple[bytes, bytes]:
    """Take the input out of a vendor-run call: clients expect it to be streamed."""
    fields = _OBJECT.decode(compact(raw))
    given = fields.get("input")
    if given is None:
        return encode(fields), b""
    return encode(fields | {"input": Raw(b"{}")}), bytes(given)


# --- whole answers -------------------------------------------------------------------------------


def encode_body(answer: Answer, exchange: Exchange) -> bytes:
    """Return a complete answer."""
    if answer.finish is None:
        assert answer.fault is not None  # noqa: S101 -- one of the two is set
        return encode_fault(answer.fault, "")[1]
    content = _Content(exchange, client_ids(exchange))
    for block in answer.blocks:
        content.add(block)
    who = message_identity(answer.start, exchange)
    refused = any(block.kind is BlockKind.REFUSAL for block in answer.blocks)
    ending = ending_of(answer.finish, refused=refused)
    return encode(
        schema.MessageBody(
            id=who.id,
            model=who.model,
            content=content.blocks,
            stop_reason=ending.stop_reason,
            stop_sequence=ending.stop_sequence,
            stop_details=ending.stop_details,
            usage=usage_of(answer.usage, exchange),
        )
    )


class _Content:
    """The content of a whole answer."""

    def __init__(self, exchange: Exchange, ids: ClientIds) -> None:
        self.blocks: list[OutBlock] = []
        self._ids = ids
        self._sealing = Sealing(exchange, [])

    def add(self, block: Block) -> None:
        match block.kind:
            case BlockKind.TEXT:
                cited = [one.raw for one in block.citations if one.vendor == schema.VENDOR]
                self.blocks.append(schema.TextBlock(block.text, cited or None))
            case BlockKind.REFUSAL:
                self.blocks.append(schema.TextBlock(block.text))
            case BlockKind.REASONING:
                self._reasoning(block)
            case BlockKind.TOOL_CALL | BlockKind.CUSTOM_CALL:
                self._call(block)
            case BlockKind.SERVER_CALL | BlockKind.SERVER_RESULT | BlockKind.OPAQUE:
                if block.vendor == schema.VENDOR:
                    self.blocks.append(block.raw)

    def _reasoning(self, block: Block) -> None:
        text = join_segments(block.segments)
        if text or not is_unshown(block.opaque):
            signature = self._sealing.signature(block.opaque, text)
            self.blocks.append(schema.ThinkingBlock(text, signature))
        elif data := self._sealing.redacted(block.opaque):
            self.blocks.append(schema.RedactedBlock(data))

    def _call(self, block: Block) -> None:
        if not block.complete:
            self.blocks.append(schema.TextBlock(half_call(block)))
            return
        client_id = self._ids.render(block.call_id)
        if block.opaque:
            data = self._sealing.call_signature(block.opaque, client_id)
            if data:
                self.blocks.append(schema.RedactedBlock(data))
        if block.kind is BlockKind.CUSTOM_CALL:
            arguments = encode({"input": block.text})
        else:
            arguments = block.text.encode("utf-8", "replace")
        name = wire_name(block.name, block.namespace) if block.namespace else block.name
        self.blocks.append(schema.ToolUseBlock(client_id, name, Raw(arguments)))


def half_call(block: Block) -> str:
    """Return what stands in a complete answer for a call whose arguments are cut or invalid.

    `input` is an object there, which cannot show that something is missing, and agents run every
    `tool_use` block whatever the stop reason.
    """
    return f"[incomplete call of the tool `{block.name}`, not to be run: {block.text}]"


def join_segments(segments: Sequence[ReasoningSegment]) -> str:
    """Return all reasoning as one text."""
    return PART_BREAK.join(segment.text for segment in segments)
