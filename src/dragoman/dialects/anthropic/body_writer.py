"""Encodes a whole answer as a Messages body."""

from typing import Final, TypeAlias

from msgspec import Raw

from dragoman.context import Exchange
from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.answer_writer import (
    Sealing,
    ServerBlocks,
    citation_of,
    ending_of,
    is_unshown,
    message_identity,
    usage_of,
)
from dragoman.dialects.anthropic.errors import encode_fault
from dragoman.dialects.encoding import encode, utf8
from dragoman.turn.answer import Answer, Block, half_call, join_segments
from dragoman.turn.events import BlockKind
from dragoman.turn.losses import Loss
from dragoman.turn.tools import wire_name

OutBlock: TypeAlias = (
    schema.TextBlock | schema.ThinkingBlock | schema.RedactedBlock | schema.ToolUseBlock | Raw
)


_REFUSAL: Final = BlockKind.REFUSAL  # an attribute of an enum costs as much as a block

# --- whole answers -------------------------------------------------------------------------------


def encode_body(answer: Answer, exchange: Exchange, losses: list[Loss]) -> bytes:
    """Return a complete answer; add what the dialect has no form for to the losses."""
    if answer.finish is None:
        assert answer.fault is not None  # noqa: S101 -- one of the two is set
        return encode_fault(answer.fault, "")[1]
    content = _Content(exchange, losses)
    for index, block in enumerate(answer.blocks):
        content.add(index, block)
    who = message_identity(answer.start, exchange)
    refused = any(block.kind is _REFUSAL for block in answer.blocks)
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

    def __init__(self, exchange: Exchange, losses: list[Loss]) -> None:
        self.blocks: list[OutBlock] = []
        self._ids = exchange.call_ids
        self._losses = losses
        self._sealing = Sealing(exchange, losses)
        self._server = ServerBlocks(exchange, losses)
        self._last: BlockKind | None = None

    def add(self, index: int, block: Block) -> None:
        last, self._last = self._last, block.kind
        match block.kind:
            case BlockKind.TEXT:
                cited = [raw for one in block.citations if (raw := citation_of(one)) is not None]
                if len(cited) < len(block.citations):
                    self._losses.append(Loss("citations_dropped", f"block {index}"))
                self.blocks.append(schema.TextBlock(block.text, cited or None))
            case BlockKind.REFUSAL:
                self.blocks.append(schema.TextBlock(block.text))
            case BlockKind.REASONING:
                self._reasoning(block)
            case BlockKind.TOOL_CALL | BlockKind.CUSTOM_CALL:
                self._call(index, block)
            case BlockKind.SERVER_CALL | BlockKind.SERVER_RESULT | BlockKind.OPAQUE:
                if block.vendor == schema.VENDOR:
                    self.blocks.append(block.raw)
                else:
                    self._foreign(index, block, reasoned=last is BlockKind.REASONING)

    def _foreign(self, index: int, block: Block, *, reasoned: bool) -> None:
        own: list[dict[str, object]] = []
        if block.kind is BlockKind.SERVER_CALL:
            own = self._server.call(block, index, reasoned=reasoned)
        elif block.kind is BlockKind.SERVER_RESULT:
            own = self._server.result(block, index)
        else:
            self._losses.append(Loss("content_dropped", f"block {index}", block.vendor))
        self.blocks += [Raw(encode(one)) for one in own]

    def _reasoning(self, block: Block) -> None:
        text = join_segments(block.segments)
        if text or not is_unshown(block.opaque):
            signature = self._sealing.signature(block.opaque, text)
            self.blocks.append(schema.ThinkingBlock(text, signature))
        elif data := self._sealing.redacted(block.opaque):
            self.blocks.append(schema.RedactedBlock(data))

    def _call(self, index: int, block: Block) -> None:
        if not block.complete:
            self.blocks.append(schema.TextBlock(half_call(block.name, block.text)))
            return
        client_id = self._ids.of(index, block.call_id)
        if block.opaque:
            data = self._sealing.call_signature(block.opaque, client_id)
            if data:
                self.blocks.append(schema.RedactedBlock(data))
        if block.kind is BlockKind.CUSTOM_CALL:
            arguments = encode({"input": block.text})
        else:
            arguments = utf8(block.text)
        name = wire_name(block.name, block.namespace) if block.namespace else block.name
        self.blocks.append(schema.ToolUseBlock(client_id, name, Raw(arguments)))
