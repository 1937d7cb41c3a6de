"""Folds events into a complete answer.  Nothing else builds answers."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, assert_never

from msgspec import Raw, Struct, structs

from dragoman.errors import TruncatedError
from dragoman.turn.events import (
    CALL_KINDS,
    CUT_REASONS,
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    DeltaRun,
    EventOrRun,
    Fault,
    Finish,
    FinishReason,
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
from dragoman.turn.losses import Loss
from dragoman.turn.request import ReasoningSegment
from dragoman.turn.server_tools import ServerCall, ServerResult
from dragoman.turn.state import Legality
from dragoman.wire.json_values import decode_any

PART_BREAK: Final = "\n\n"  # between the parts of reasoning, where it is one text
_PIECES: Final = 512  # of a block's text that are kept apart


class Block(Struct, frozen=True):
    """One whole block of an answer.

    Attributes:
        kind: What the block is; says which of the other fields are used.
        text: The text, the refusal, a call's arguments (JSON) or its free-form input.
        segments: Reasoning: one for each channel and part.
        opaque: Reasoning and calls: state that only its vendor can read.
        citations: Text: its sources.
        logprobs: Text: JSON lists of token records, as OpenAI writes them.
        call_id: Calls: the upstream's id, verbatim.
        name: Calls: the tool's name as the client declared it.
        namespace: Calls: the tool's namespace, if it was declared in one.
        flavor: Calls: which kind of tool is called.
        complete: False for a call whose arguments were truncated or are invalid; it must not be run.
        vendor: Server and opaque blocks: the vendor whose JSON `raw` is.
        raw: Server and opaque blocks: the whole block as JSON.
        server: Server blocks: what the tool was asked, or what it found.
    """

    kind: BlockKind
    text: str = ""
    segments: tuple[ReasoningSegment, ...] = ()
    opaque: tuple[Opaque, ...] = ()
    citations: tuple[Citation, ...] = ()
    logprobs: tuple[Raw, ...] = ()
    call_id: str = ""
    name: str = ""
    namespace: str = ""
    flavor: Flavor = Flavor.FUNCTION
    complete: bool = True
    vendor: str = ""
    raw: Raw = Raw(b"null")
    server: ServerCall | ServerResult | None = None


class ToolCall(Struct, frozen=True, gc=False):
    """One tool call of the model.

    Attributes:
        id: The call's id; results refer to it.  Unique within a conversation of `ToolLoop`.
        name: The tool's name, as the request declares it.
        arguments: The arguments exactly as the model streamed them: JSON text, or free text for a custom
            tool.  Incomplete if the call was truncated.
        error: Why the call must not be run: it was truncated, its arguments are not valid JSON, there is no
            such tool, or (in a `ToolLoop`) they do not fit the tool's schema.  Empty: it can be run.
        complete: False if the arguments ended early or are not valid JSON.
        namespace: The tool's namespace, if it was declared in one.
        flavor: Which kind of tool is called; `Flavor.CUSTOM` takes free text.

    Example:
        for call in answer.tool_calls:
            if not call.error:
                print(call.name, call.args)
    """

    id: str
    name: str
    arguments: str
    error: str = ""
    complete: bool = True
    namespace: str = ""
    flavor: Flavor = Flavor.FUNCTION

    @property
    def args(self) -> dict[str, Any]:
        """The decoded arguments by name; empty for free text, and if `error` is set.

        Decoded at each access: keep the dictionary if you need it often.
        """
        if self.error or self.flavor is Flavor.CUSTOM:
            return {}
        try:
            value = decode_any(self.arguments)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}


# Why a call must not be run; the model also gets this text as the call's result.
CUT_CALL: Final = (
    "the call was cut before its end: it was not run; make it again, in smaller pieces"
)
INVALID_CALL: Final = "the arguments are cut off or not valid JSON: the call was not run; make it again with valid JSON"


def join_segments(segments: Iterable[ReasoningSegment]) -> str:
    """Return all reasoning as one text."""
    return PART_BREAK.join(segment.text for segment in segments)


def half_call(name: str, text: str) -> str:
    """Return the text that replaces a call with truncated or invalid arguments, where these are an object.

    An object cannot show that something is missing, and clients run every call.
    """
    return f"[incomplete call of the tool `{name}`, not to be run: {text}]"


class Answer(Struct, frozen=True):
    """A whole answer.  Exactly one of `finish` and `fault` is set.

    Attributes:
        start: The upstream's model and id of the answer.
        blocks: Texts, reasoning and calls in order; with a fault, those that had arrived.
        usage: Token counts; None if the upstream reported none.
        finish: How it ended; None if it failed.
        fault: Why it failed; None if it ended normally.
        losses: What was not carried over unchanged, and what was repaired.
    """

    start: Start
    blocks: tuple[Block, ...] = ()  # with a fault: those that had ended
    usage: Usage | None = None
    finish: Finish | None = None
    fault: Fault | None = None
    losses: tuple[Loss, ...] = ()

    @property
    def text(self) -> str:
        """The text of the answer, without its reasoning."""
        return "".join(block.text for block in self.blocks if block.kind is BlockKind.TEXT)

    @property
    def reasoning(self) -> str:
        """The readable part of its reasoning; its parts are separated by a blank line."""
        return join_segments(one for block in self.blocks for one in block.segments)

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why it ended; None if it failed."""
        return None if self.finish is None else self.finish.reason

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the answer, in order.  Run only those without an `error`."""
        return tuple(
            ToolCall(
                block.call_id,
                block.name,
                block.text,
                call_error(block, self),
                block.complete,
                block.namespace,
                block.flavor,
            )
            for block in self.call_blocks
        )

    @property
    def call_blocks(self) -> tuple[Block, ...]:
        """The blocks of `tool_calls`, with all that the upstream sent."""
        return tuple([block for block in self.blocks if block.kind in CALL_KINDS])


def call_error(call: Block, answer: Answer) -> str:
    """Return why a call must not be run: it is not valid, or a limit ended the answer inside it.

    The last call before such an end is never run, even if it looks whole: a Messages body holds arguments as
    an object, which never shows that it was truncated.
    """
    last = call is answer.blocks[-1]
    if answer.fault is not None and last:
        return answer.fault.message
    ended_early = answer.finish is not None and answer.finish.reason in CUT_REASONS
    if not call.complete and not ended_early:
        return INVALID_CALL
    return CUT_CALL if not call.complete or (ended_early and last) else ""


class _OpenBlock:
    def __init__(self, start: BlockStart) -> None:
        self.start = start
        self.texts: list[str] = []
        self._chunks: list[str] = []  # what came before `texts`, joined: small pieces weigh much
        self.segments: list[tuple[tuple[object, int], list[str]]] = []
        self.opaque: list[Opaque] = []
        self.citations: list[Citation] = []
        self.logprobs: list[Raw] = []

    def add_text(self, text: str) -> None:
        self.texts.append(text)
        if len(self.texts) > _PIECES:
            self._chunks.append("".join(self.texts))
            self.texts.clear()

    def add(
        self,
        delta: TextDelta
        | DeltaRun
        | ReasoningDelta
        | ArgsDelta
        | InputDelta
        | RefusalDelta
        | Opaque
        | Citation,
    ) -> None:
        match delta:
            case TextDelta(text=text, logprobs=logprobs):
                self.add_text(text)
                if logprobs is not None:
                    self.logprobs.append(logprobs)
            case InputDelta(text=text) | RefusalDelta(text=text):
                self.add_text(text)
            case ArgsDelta(json=text):
                self.add_text(text)
            case ReasoningDelta(text=text, channel=channel, part=part):
                key = (channel, part)
                if not self.segments or self.segments[-1][0] != key:
                    self.segments.append((key, []))
                self.segments[-1][1].append(text)
            case DeltaRun(whole=whole):
                self.add(whole)
            case Opaque():
                self.opaque.append(delta)
            case Citation():
                self.citations.append(delta)
            case _:
                assert_never(delta)

    def end(self, end: BlockEnd) -> Block:
        start = self.start
        return Block(
            kind=start.kind,
            text="".join(self._chunks + self.texts),
            segments=tuple(
                [ReasoningSegment("".join(texts), key[0]) for key, texts in self.segments]  # type: ignore[arg-type]
            ),
            opaque=tuple(self.opaque),
            citations=tuple(self.citations),
            logprobs=tuple(self.logprobs),
            call_id=start.call_id,
            name=start.name,
            namespace=start.namespace,
            flavor=start.flavor,
            complete=end.complete,
            vendor=start.vendor,
            raw=start.raw,
            server=start.server,
        )


class Folder:
    """Fold events as they come."""

    def __init__(self) -> None:
        self._legality = Legality()
        self._check = self._legality.check
        self._start = Start()
        self._blocks: list[Block] = []
        self._losses: list[Loss] = []
        self._usage: Usage | None = None
        self._block: _OpenBlock | None = None
        self._end: Finish | Fault | None = None

    def feed(self, events: Iterable[EventOrRun], /) -> None:
        """Take events; those after the end are ignored.

        Raises:
            IllegalOrderError: the stream is not legal.
        """
        check = self._check
        for event in events:
            if self._end is not None:
                return
            check(event)
            if type(event) is TextDelta and event.logprobs is None:
                self._block.add_text(event.text)  # type: ignore[union-attr]  # legality says so
            else:
                self._take(event)

    def _take(self, event: EventOrRun) -> None:
        block = self._block
        # A class pattern that does not match costs more than the rest of this: the types are compared.
        if type(event) is Start:
            self._start = event
        elif type(event) is BlockStart:
            self._block = _OpenBlock(event)
        elif type(event) is BlockEnd:
            assert block is not None  # noqa: S101 -- the legality table says so
            self._blocks.append(block.end(event))
            self._block = None
        elif type(event) is Usage:
            self._usage = event
        elif type(event) is Finish or type(event) is Fault:
            self._end = event
        elif type(event) is Loss:
            self._losses.append(event)
        elif type(event) is not Ping:
            assert block is not None  # noqa: S101
            block.add(event)  # type: ignore[arg-type]  # what is left belongs to a block

    def answer(self) -> Answer:
        """Return the answer.

        Raises:
            TruncatedError: it has no end.
        """
        if self._end is None:
            raise TruncatedError("the turn")
        return self._answer(self._end, self._blocks)

    def so_far(self, fault: Fault) -> Answer:
        """Return the answer so far, including the open block, with the reason why it is incomplete."""
        blocks = self._blocks
        if self._block is not None:
            blocks = [*blocks, self._block.end(BlockEnd(self._legality.index, complete=False))]
        return self._answer(fault, blocks)

    def _answer(self, end: Finish | Fault, blocks: Sequence[Block]) -> Answer:
        finish = end if type(end) is Finish else None
        fault = end if type(end) is Fault else None
        return Answer(self._start, tuple(blocks), self._usage, finish, fault, tuple(self._losses))


def fold(events: Iterable[EventOrRun]) -> Answer:
    """Return the answer that a legal stream of events makes up.

    Raises:
        IllegalOrderError: the stream is not legal.
        TruncatedError: it has no end.
    """
    folder = Folder()
    folder.feed(events)
    return folder.answer()


def unfold(answer: Answer) -> list[EventOrRun]:
    """Return a stream of events that folds into `answer`."""
    events: list[EventOrRun] = [answer.start, *answer.losses]
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
                block.server,
            )
        )
        is_call = block.kind in CALL_KINDS
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
        events.append(BlockEnd(index, block.complete))
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


# --- streams that were cut differently ---------------------------------------------------------


def merged(events: Iterable[EventOrRun]) -> list[EventOrRun]:
    """Return the events with neighbouring deltas of the same block and kind joined."""
    out: list[EventOrRun] = []
    pieces: list[str] = []  # of the last delta in `out`
    for event in events:
        if type(event) is DeltaRun:
            event = event.whole  # noqa: PLW2901 -- the same, as one delta
        if out and _continues(out[-1], event):
            pieces.append(delta_text(event))
            continue
        _flush_merged(out, pieces)
        out.append(event)
        pieces = [delta_text(event)]
    _flush_merged(out, pieces)
    return out


def _flush_merged(out: list[EventOrRun], pieces: list[str]) -> None:
    if len(pieces) > 1:
        last = out[-1]
        whole = "".join(pieces)
        if isinstance(last, ArgsDelta):
            out[-1] = ArgsDelta(last.index, whole)
        else:
            out[-1] = structs.replace(last, text=whole)


def delta_text(event: EventOrRun) -> str:
    """Return what a delta adds; nothing for other events."""
    if isinstance(event, ArgsDelta):
        return event.json
    if isinstance(event, TextDelta | ReasoningDelta | InputDelta | RefusalDelta):
        return event.text
    return ""


def _continues(last: EventOrRun, event: EventOrRun) -> bool:
    """Return whether `event` adds to the delta `last`."""
    if type(last) is not type(event):
        return False
    match event:
        case TextDelta(index=index, logprobs=None):
            return isinstance(last, TextDelta) and last.logprobs is None and last.index == index
        case ReasoningDelta(index=index, channel=channel, part=part):
            return isinstance(last, ReasoningDelta) and (index, channel, part) == (
                last.index,
                last.channel,
                last.part,
            )
        case ArgsDelta() | InputDelta() | RefusalDelta():
            return event.index == last.index  # type: ignore[union-attr]  # same type as event
        case _:
            return False
