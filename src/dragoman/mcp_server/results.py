"""Converts the library's values into the output types of tools."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

import dragoman
from dragoman.client.errors import ClientError
from dragoman.errors import DragomanError, TooLargeError
from dragoman.ids import ClientIds
from dragoman.mcp_server.tool_types import (
    ChatOutput,
    Failure,
    LossEntry,
    SourceEntry,
    TokenUsage,
    ToolCallEntry,
)
from dragoman.turn.answer import Answer
from dragoman.turn.events import (
    ArgsDelta,
    BlockKind,
    BlockStart,
    Event,
    InputDelta,
    ReasoningDelta,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import CODES, Loss

_VENDORS: Final = frozenset({BlockKind.SERVER_CALL, BlockKind.SERVER_RESULT, BlockKind.OPAQUE})


class Piece(Struct, frozen=True, omit_defaults=True):
    """The part of an answer since the last notification, sent as JSON; the fields arrived in this order."""

    reasoning: str = ""
    text: str = ""
    call: str = ""  # the tool whose call began
    arguments: str = ""  # of the call that began last


def pieces_of(events: Iterable[Event]) -> list[Piece]:
    """Return the content of events; a new piece begins where the order of the fields would be wrong."""
    pieces: list[Piece] = []
    open_: list[list[str]] = [[] for _ in Piece.__struct_fields__]
    last = 0
    for event in events:
        match event:
            case ReasoningDelta(text=fragment):
                at = 0
            case TextDelta(text=fragment):
                at = 1
            case BlockStart(kind=BlockKind.TOOL_CALL | BlockKind.CUSTOM_CALL, name=fragment):
                at = 2
            case ArgsDelta(json=fragment) | InputDelta(text=fragment):
                at = 3
            case _:
                continue  # part of the result at the end
        if at < last or at == last == 2:
            pieces.append(Piece(*map("".join, open_)))
            open_ = [[] for _ in Piece.__struct_fields__]
        open_[at].append(fragment)
        last = at
    pieces.append(Piece(*map("".join, open_)))
    return [piece for piece in pieces if piece != Piece()]


def chat_output(answer: Answer, used: Iterable[str] = ()) -> ChatOutput:
    """Return an answer; `used` are the ids of calls that the conversation already has."""
    ids = ClientIds(used, verbatim=True)
    calls = [
        ToolCallEntry(
            id=ids.of(index, one.call_id), name=one.name, arguments=one.text, complete=one.complete
        )
        for index, one in enumerate(answer.call_blocks)
    ]
    blocks = answer.blocks
    return ChatOutput(
        text=answer.text,
        reasoning=answer.reasoning,
        refusal="".join(block.text for block in blocks if block.kind is BlockKind.REFUSAL),
        tool_calls=calls,
        sources=[
            SourceEntry(url=one.url, title=one.title, cited_text=one.cited_text)
            for block in blocks
            for one in block.citations
        ],
        other=[block.raw for block in blocks if block.kind in _VENDORS],
        finish=None if answer.finish is None else answer.finish.reason,
        model=answer.start.model,
        usage=None if answer.usage is None else _usage(answer.usage),
        losses=loss_entries(answer.losses),
    )


def _usage(usage: Usage) -> TokenUsage:
    return TokenUsage(
        input=usage.prompt_tokens,
        output=usage.output_tokens,
        cached=usage.cache_read_tokens,
        reasoning=usage.reasoning_tokens,
    )


def loss_entries(losses: Iterable[Loss]) -> list[LossEntry]:
    return [LossEntry(one.code, one.path, one.full_detail, CODES[one.code]) for one in losses]


def _public_class(error: DragomanError) -> str:
    """Return the name of the error's class, or of the nearest one that is public."""
    return next(one.__name__ for one in type(error).__mro__ if one.__name__ in dragoman.__all__)


def failure_of(error: DragomanError) -> Failure:
    """Return an error, field for field."""
    name = _public_class(error)
    if not isinstance(error, ClientError):
        path = getattr(error, "path", "")
        code = error.limit if isinstance(error, TooLargeError) else getattr(error, "code", "")
        return Failure(error=name, message=str(error), path=path, code=code)
    return Failure(
        error=name,
        message=error.message,
        stage=error.stage,
        kind=error.kind,
        status=error.status,
        code=error.code,
        retry_after=error.retry_after,
        request_id=error.request_id,
        received=None if error.received is None else chat_output(error.received),
    )
