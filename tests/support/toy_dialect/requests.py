"""Requests of the toy dialect: a client's body to a `Request`, and back."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from dragoman.context import EncodedRequest, Target
from dragoman.dialects.decoding import decode
from dragoman.envelopes import Sealer
from dragoman.limits import Limits
from dragoman.turn.request import (
    ASSISTANT,
    USER,
    Request,
    TextPart,
    Tool,
    ToolCallPart,
    ToolResultPart,
    Turn,
)


class Device(Struct):
    name: str
    form: Raw


class Telegram(Struct):
    engine: str
    lines: list[tuple[str, Any]]
    live: bool = False
    devices: list[Device] = []


_TELEGRAM = msgspec.json.Decoder(Telegram)


def decode_request(body: bytes, /, *, sealer: Sealer | None, limits: Limits) -> Request:
    read = decode(_TELEGRAM, body)
    return Request(
        dialect="toy",
        model=read.engine,
        stream=read.live,
        turns=tuple(_turn(who, said) for who, said in read.lines),
        tools=tuple(Tool(name=one.name, schema=one.form) for one in read.devices),
    )


def _turn(who: str, said: Any) -> Turn:
    match who:
        case "me":
            return Turn(USER, (TextPart(said),))
        case "result":
            return Turn(USER, (ToolResultPart(said["id"], (TextPart(said["gave"]),)),))
        case "did":
            return Turn(ASSISTANT, (ToolCallPart(said["id"], said["name"], said["with"]),))
        case _:
            return Turn(ASSISTANT, (TextPart(said),))


def encode_request(request: Request, target: Target) -> EncodedRequest:
    fields = {
        "engine": target.model or request.model,
        "live": request.stream,
        "lines": [_line(turn, part) for turn in request.turns for part in turn.parts],
        "devices": [{"name": one.name, "form": one.schema} for one in request.tools],
    }
    return EncodedRequest(msgspec.json.encode(fields))


def _line(turn: Turn, part: Any) -> tuple[str, Any]:
    match part:
        case ToolCallPart():
            return "did", {"id": part.id, "name": part.name, "with": part.arguments}
        case ToolResultPart():
            gave = "".join(one.text for one in part.parts if isinstance(one, TextPart))
            return "result", {"id": part.call_id, "gave": gave}
        case _:
            return ("me" if turn.role is USER else "it"), part.text
