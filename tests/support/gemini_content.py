"""The content of answers of any kind, written for Gemini clients and read by Google's SDKs."""

from typing import Any

import msgspec

from dragoman.context import Exchange
from dragoman.dialects import dialect
from dragoman.profiles import profile
from dragoman.turn.answer import Answer, Block
from dragoman.turn.events import BlockKind, Event
from tests.support.corpus import SEALER


def written(events: list[Event]) -> bytes:
    """Write a stream for a Gemini client."""
    exchange = Exchange(profile=profile("generic"), seed="s", created=1700000000, sealer=SEALER)
    writer = dialect("gemini").writer(exchange)
    return b"".join(map(writer.send, events))


def content(answer: Answer) -> list[dict[str, Any]]:
    """Return the parts that an answer must have for a client."""
    return [_part(block) for block in answer.blocks]


def _part(block: Block) -> dict[str, Any]:
    if block.kind == BlockKind.TOOL_CALL:
        args = msgspec.json.decode(block.text)
        return {"functionCall": {"id": block.call_id, "name": block.name, "args": args}}
    if block.kind == BlockKind.REASONING:
        return {"text": "".join(one.text for one in block.segments), "thought": True}
    return {"text": block.text}


def unsigned(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the signatures, and the parts that hold nothing else; their return has its own tests."""
    kept = [
        {key: value for key, value in part.items() if key != "thoughtSignature"} for part in parts
    ]
    return [part for part in kept if part != {"text": ""}]
