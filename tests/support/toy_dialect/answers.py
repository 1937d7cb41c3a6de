"""Answers of the toy dialect: frames and bodies to events, and back."""

import msgspec
from msgspec import Struct

from dragoman.context import Exchange
from dragoman.dialects.decoding import decode
from dragoman.dialects.framing import assembler_for
from dragoman.turn.answer import Answer
from dragoman.turn.events import (
    CALL_KINDS,
    TRUNCATED,
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    DeltaRun,
    Event,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    TextDelta,
)
from dragoman.turn.losses import Loss
from dragoman.turn.state import Legality
from dragoman.wire.sse import Frame


class Deed(Struct):
    name: str
    id: str = ""
    with_: str = msgspec.field(name="with", default="{}")


class Word(Struct):
    """One event, or a whole answer."""

    say: str = ""
    do: Deed | None = None
    said: str = ""
    done: list[Deed] = []
    over: str = ""
    broke: str | None = None


_WORD = msgspec.json.Decoder(Word)
_OVER = {FinishReason.STOP: "done", FinishReason.TOOL_CALLS: "waiting", FinishReason.LENGTH: "cut"}
_REASONS = {word: reason for reason, word in _OVER.items()}


class ToyReader:
    reasoning_field = ""
    pending = False
    takes_text = False
    varied = False

    def __init__(self, exchange: Exchange) -> None:
        self.assembler = assembler_for(exchange)
        self._calls = 0

    def read(self, frame: Frame, /) -> None:
        self._read(decode(_WORD, frame.data))

    def read_body(self, body: bytes, /) -> None:
        self._read(decode(_WORD, body))

    def _read(self, word: Word) -> None:
        assembler = self.assembler
        assembler.start()
        if word.say or word.said:
            assembler.text(word.say or word.said)
        for deed in [*([word.do] if word.do else []), *word.done]:
            self._calls += 1
            assembler.open_call(self._calls, call_id=deed.id, name=deed.name)
            assembler.args(self._calls, deed.with_)
            assembler.end_call(self._calls)
        if word.broke is not None:
            assembler.fault(Fault(FaultKind.UPSTREAM_BAD, word.broke))
        elif word.over:
            assembler.finish(_REASONS.get(word.over))

    def text_of(self, data: bytes, /) -> str:
        return ""

    def add_text(self, chars: int, /) -> None: ...

    def add_more(self, text: str, /) -> None: ...

    def end(self) -> None:
        if not self.assembler.ended:
            self.assembler.fault(TRUNCATED)


class ToyWriter:
    def __init__(self, exchange: Exchange) -> None:
        self.losses: list[Loss] = []
        self.response = b""
        self._legality = Legality()
        self._ids = exchange.call_ids
        self._call: dict[str, str] | None = None

    def send(self, event: Event, /) -> bytes:
        self._legality.check(event)
        match event:
            case TextDelta():
                return _event({"say": event.text})
            case DeltaRun():
                return b"".join(map(self.send, event.deltas()))
            case BlockStart() if event.kind in CALL_KINDS:
                call_id = self._ids.of(event.index, event.call_id)
                self._call = {"id": call_id, "name": event.name, "with": ""}
            case ArgsDelta() if self._call is not None:
                self._call["with"] += event.json
            case BlockEnd() if self._call is not None:
                call, self._call = self._call, None
                return _event({"do": call}) if event.complete else b""
            case Finish():
                return _event({"over": _OVER.get(event.reason, "done")})
            case Fault():
                return _event({"broke": event.message})
        return b""

    def expect(self, raw: bytes, /, *, resume: bool) -> bool:
        return False

    def adopt(self, raw: bytes, /) -> None: ...

    def skip(self, event: Event, /) -> None:
        self.send(event)

    def passed(self, raw: bytes, /) -> None: ...


def _event(fields: object) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(fields)


def encode_body(answer: Answer, exchange: Exchange, losses: list[Loss]) -> bytes:
    ids = exchange.call_ids
    done = [
        {"id": ids.of(index, one.call_id), "name": one.name, "with": one.text}
        for index, one in enumerate(answer.blocks)
        if one.kind is BlockKind.TOOL_CALL
    ]
    assert answer.finish is not None
    over = _OVER.get(answer.finish.reason, "done")
    return msgspec.json.encode({"said": answer.text, "done": done, "over": over})


def decode_fault(status: int, body: bytes) -> Fault:
    return Fault(FaultKind.SERVER, decode(_WORD, body).broke or "", status=status)


def encode_fault(fault: Fault, request_id: str) -> tuple[int, bytes]:
    return fault.status or 500, msgspec.json.encode({"broke": fault.message})
