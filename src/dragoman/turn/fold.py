"""From events to a whole answer: the only way there is."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from msgspec import Raw, Struct

from dragoman.errors import Truncated
from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    Event,
    Fault,
    Finish,
    Flavor,
    InputDelta,
    Opaque,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.loss import Loss
from dragoman.turn.request import ReasoningSegment
from dragoman.turn.state import Legality


class Block(Struct, frozen=True):
    """A block, whole."""

    kind: BlockKind
    text: str = ""  # text, refusal, arguments (JSON) or custom input, as the kind says
    segments: tuple[ReasoningSegment, ...] = ()  # reasoning: one for each channel and part
    opaque: tuple[Opaque, ...] = ()
    citations: tuple[Citation, ...] = ()
    logprobs: tuple[Raw, ...] = ()
    call_id: str = ""
    name: str = ""
    namespace: str = ""
    flavor: Flavor = Flavor.FUNCTION
    complete: bool = True
    repair: str = ""
    vendor: str = ""
    raw: Raw = Raw(b"null")


class Answer(Struct, frozen=True):
    """A whole answer.  Exactly one of `finish` and `fault` is set."""

    start: Start
    blocks: tuple[Block, ...] = ()  # with a fault: those that had ended
    usage: Usage | None = None
    finish: Finish | None = None
    fault: Fault | None = None
    losses: tuple[Loss, ...] = ()


class _OpenBlock:
    def __init__(self, start: BlockStart) -> None:
        self.start = start
        self.texts: list[str] = []
        self.segments: list[tuple[tuple[object, int], list[str]]] = []
        self.opaque: list[Opaque] = []
        self.citations: list[Citation] = []
        self.logprobs: list[Raw] = []

    def add(
        self, delta: TextDelta | ReasoningDelta | ArgsDelta | InputDelta | RefusalDelta
    ) -> None:
        match delta:
            case TextDelta(text=text, logprobs=logprobs):
                self.texts.append(text)
                if logprobs is not None:
                    self.logprobs.append(logprobs)
            case InputDelta(text=text) | RefusalDelta(text=text):
                self.texts.append(text)
            case ArgsDelta(json=text):
                self.texts.append(text)
            case ReasoningDelta(text=text, channel=channel, part=part):
                key = (channel, part)
                if not self.segments or self.segments[-1][0] != key:
                    self.segments.append((key, []))
                self.segments[-1][1].append(text)
            case _:
                assert_never(delta)

    def end(self, end: BlockEnd) -> Block:
        start = self.start
        return Block(
            kind=start.kind,
            text="".join(self.texts),
            segments=tuple(
                ReasoningSegment("".join(texts), key[0])  # type: ignore[arg-type]
                for key, texts in self.segments
            ),
            opaque=tuple(self.opaque),
            citations=tuple(self.citations),
            logprobs=tuple(self.logprobs),
            call_id=start.call_id,
            name=start.name,
            namespace=start.namespace,
            flavor=start.flavor,
            complete=end.complete,
            repair=end.repair,
            vendor=start.vendor,
            raw=start.raw,
        )


def fold(events: Iterable[Event]) -> Answer:
    """Return the answer that a legal stream of events tells.

    Raises:
        IllegalOrder: the stream is not legal.
        Truncated: it has no end.
    """
    legality = Legality()
    start = Start()
    blocks: list[Block] = []
    losses: list[Loss] = []
    usage: Usage | None = None
    block: _OpenBlock | None = None
    for event in events:
        legality.check(event)
        match event:
            case Start():
                start = event
            case BlockStart():
                block = _OpenBlock(event)
            case BlockEnd():
                assert block is not None  # noqa: S101 -- the legality table says so
                blocks.append(block.end(event))
            case Opaque():
                assert block is not None  # noqa: S101
                block.opaque.append(event)
            case Citation():
                assert block is not None  # noqa: S101
                block.citations.append(event)
            case Usage():
                usage = event
            case Finish():
                return Answer(start, tuple(blocks), usage, event, None, tuple(losses))
            case Fault():
                return Answer(start, tuple(blocks), usage, None, event, tuple(losses))
            case Ping():
                pass
            case Loss():
                losses.append(event)
            case _:
                assert block is not None  # noqa: S101
                block.add(event)
    raise Truncated("the turn")


def unfold(answer: Answer) -> list[Event]:
    """Return a stream of events that folds into `answer`."""
    events: list[Event] = [answer.start, *answer.losses]
    for index, block in enumerate(answer.blocks):
        events.append(
            BlockStart(
                index,
                block.kind,
                block.call_id,
                block.name,
                block.namespace,
                block.flavor,
                block.vendor,
                block.raw,
            )
        )
        is_call = block.kind in (BlockKind.TOOL_CALL, BlockKind.CUSTOM_CALL)
        if is_call:  # state of a call is known from its start
            events.extend(block.opaque)
        match block.kind:
            case BlockKind.TEXT if block.text:
                events.append(TextDelta(index, block.text, _joined(block.logprobs)))
            case BlockKind.TOOL_CALL if block.text:
                events.append(ArgsDelta(index, block.text))
            case BlockKind.CUSTOM_CALL if block.text:
                events.append(InputDelta(index, block.text))
            case BlockKind.REFUSAL if block.text:
                events.append(RefusalDelta(index, block.text))
            case _:
                pass
        events.extend(
            ReasoningDelta(index, segment.text, segment.channel, part)
            for part, segment in enumerate(block.segments)
        )
        events.extend(block.citations)
        if not is_call:
            events.extend(block.opaque)
        events.append(BlockEnd(index, block.complete, block.repair))
    if answer.usage is not None:
        events.append(answer.usage)
    if answer.finish is not None:
        events.append(answer.finish)
    if answer.fault is not None:
        events.append(answer.fault)
    return events


def _joined(lists: Sequence[Raw]) -> Raw | None:
    """Return JSON lists as one."""
    if len(lists) < 2:
        return lists[0] if lists else None
    bodies = [bytes(one).strip()[1:-1].strip() for one in lists]
    return Raw(b"[" + b",".join(body for body in bodies if body) + b"]")
