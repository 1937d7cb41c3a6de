"""The playground: a pasted text or stream, parsed in chunks of a chosen size, and compared over 64 sizes.

Nothing is stored.  The result of a size must not differ from that of the whole input: a size that does shows a
defect of the parser, and the page marks it.
"""

import codecs
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct

from dragoman.context import Exchange
from dragoman.dialects import dialect, dialect_names
from dragoman.dialects.framing import StreamReader
from dragoman.errors import DragomanError, PeerError
from dragoman.exchange_setup import make_exchange
from dragoman.inspector.calls import Call, Marker, find_calls
from dragoman.inspector.links import delta_text
from dragoman.inspector.meaning import MeaningRow, meaning_row
from dragoman.recorder.positions import NativePositions
from dragoman.toolcalls.format_names import choose_format
from dragoman.toolcalls.marker_positions import MarkerTracer, NativeMarker
from dragoman.toolcalls.stage import NativeCalls, Splitter, ThinkTags
from dragoman.translate_requests import decode_tools
from dragoman.turn.answer import fold
from dragoman.turn.events import (
    CALL_KINDS,
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    EventOrRun,
    Finish,
    FinishReason,
    ReasoningDelta,
    Start,
    TextDelta,
    expand_runs,
)
from dragoman.turn.losses import CODES, Loss
from dragoman.turn.request import Request, Tool
from dragoman.turn.stages import UsableCalls, fault_of

MOST_BYTES: Final = 256 * 1024  # of an input
SIZES: Final = 64
_COMPARE_SECONDS: Final = 2.0  # larger inputs are compared at fewer sizes
_SEED: Final = "playground"


class PlaygroundError(DragomanError):
    """The input cannot be parsed as the kind of input that the user chose."""


class Question(Struct):
    """What the page asks.

    Attributes:
        text: The text of a message, or the stream of a whole response.
        kind: Which of both it is.
        dialect: Of a stream.
        family: The format of native calls, or `auto`.
        channel: Of a text: the field of the response that it comes from.
        size: Bytes in a chunk.
        tools: The declared tools, in the shape of any dialect; null: every call is found.
    """

    text: str
    kind: Literal["text", "stream"] = "text"
    dialect: str = "chat"
    family: str = "auto"
    channel: Literal["content", "reasoning"] = "content"
    size: int = 12
    tools: Raw = Raw(b"null")


class EventRow(
    MeaningRow, kw_only=True, omit_defaults=False, rename={"start": "from", "end": "to"}
):
    """A row of the list of events: also which chunk completed it, and the bytes that it comes from if they are known."""

    chunk: int
    start: int | None = None
    end: int | None = None


class _Run(Struct):
    """One parse."""

    events: list[Event]
    chunks: list[int]  # of each event, from 1
    stage: Splitter
    tracers: list[MarkerTracer]
    held: int  # most bytes that the parser held back


def parse(question: Question) -> dict[str, Any]:
    """Parse an input, and return what the page shows of it.

    Raises:
        PlaygroundError: the input is too large, or a name or the tools are not known.
    """
    data = question.text.encode()
    if len(data) > MOST_BYTES:
        raise PlaygroundError(
            f"the input has {len(data):,} bytes; at most {MOST_BYTES:,} are parsed"
        )
    if not 1 <= question.size <= SIZES:
        raise PlaygroundError(f"a chunk has 1 to {SIZES} bytes")
    tools = _tools(question)
    try:
        run = _run(question, data, question.size, tools, trace=True)
        answer = fold(run.events)
        sizes = _same_sizes(question, data, tools)
    except DragomanError as error:
        raise PlaygroundError(str(error)) from error
    markers = list(_markers(question, data, run))
    calls = _calls(run, tools, markers)
    return {
        "events": _rows(question, run, markers),
        "cuts": list(range(question.size, len(data), question.size)),
        "calls": calls,
        "problems": [_problem(loss) for loss in answer.losses],
        "sizes": sizes,
        "family": next((one.family for one in run.stage.findings if one.problem is None), ""),
        "text": answer.text,
        "reasoning": answer.reasoning,
        "held": run.held,
        "outputs": dict(_outputs(run.events, tools)),
    }


def _tools(question: Question) -> tuple[Tool, ...] | None:
    if bytes(question.tools) == b"null":
        return None
    try:
        return decode_tools(bytes(question.tools))
    except DragomanError as error:
        raise PlaygroundError(f"the tool schema cannot be read: {error}") from error


# --- one parse -----------------------------------------------------------------------------------


class _TextReader:
    """Reads a text as the deltas of one block."""

    def __init__(self, channel: str) -> None:
        self._kind = BlockKind.REASONING if channel == "reasoning" else BlockKind.TEXT
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = False

    def feed(self, data: bytes, /) -> list[Event]:
        return self._events(self._decoder.decode(data))

    def close(self) -> list[Event]:
        events = self._events(self._decoder.decode(b"", final=True))
        return [*events, BlockEnd(0) if self._begun else Start()]

    def _events(self, text: str) -> list[Event]:
        events: list[Event] = []
        if text and not self._begun:
            self._begun = True
            events += [Start(), BlockStart(0, self._kind)]
        if text:
            delta = ReasoningDelta if self._kind is BlockKind.REASONING else TextDelta
            events.append(delta(0, text))
        return events


def _run(
    question: Question,
    data: bytes,
    size: int,
    tools: tuple[Tool, ...] | None,
    *,
    trace: bool = False,
) -> _Run:
    """Parse an input in chunks of a size; `trace` finds the markers too."""
    exchange = make_exchange(tools=tools, seed=_SEED)
    run = _Run([], [], _stage(question, exchange, tools), [], 0)
    if trace:
        run.stage.make_machine = lambda *args, **options: _traced(
            run, MarkerTracer(*args, **options)
        )
    reader: StreamReader | _TextReader = _TextReader(question.channel)
    if question.kind == "stream":
        reader = StreamReader(dialect(question.dialect).frame_reader(exchange), exchange)
    last = -(-len(data) // size)
    try:
        for number, at in enumerate(range(0, len(data), size), 1):
            _take(run, reader.feed(data[at : at + size]), number)
        _take(run, reader.close(), last)
        if question.kind == "text":
            called = any(finding.problem is None for finding in run.stage.findings)
            reason = FinishReason.TOOL_CALLS if called else FinishReason.STOP
            _take(run, [Finish(reason)], last)
    except PeerError as error:
        assert isinstance(reader, StreamReader)  # noqa: S101 -- a text breaks no rule
        _take(run, reader.fail(fault_of(error)), len(run.chunks) and run.chunks[-1])
    return run


def _traced(run: _Run, tracer: MarkerTracer) -> MarkerTracer:
    run.tracers.append(tracer)
    return tracer


def _stage(question: Question, exchange: Exchange, tools: Sequence[Tool] | None) -> Splitter:
    family = choose_format("", question.family)
    if family is None or tools == ():
        return ThinkTags(format=family)
    return NativeCalls(format=family, tools=tools, table=exchange.tools, seed=_SEED)


def _take(run: _Run, events: Sequence[EventOrRun], chunk: int) -> None:
    made = expand_runs(run.stage.feed(events))
    run.events += made
    run.chunks += [chunk] * len(made)
    if run.tracers:
        run.held = max(run.held, len(run.tracers[-1].waiting.encode()))


def _same_sizes(
    question: Question, data: bytes, tools: tuple[Tool, ...] | None
) -> list[bool | None]:
    """Return for each chunk size whether it gives the result of the whole input; None: there was no time for it."""
    whole = fold(_run(question, data, max(1, len(data)), tools).events)
    until = time.monotonic() + _COMPARE_SECONDS
    same: list[bool | None] = [None] * SIZES
    for size in range(SIZES, 0, -1):  # large chunks cost less
        if time.monotonic() > until:
            break
        same[size - 1] = fold(_run(question, data, size, tools).events) == whole
    return same


# --- what is shown -------------------------------------------------------------------------------


def _markers(question: Question, data: bytes, run: _Run) -> Iterator[tuple[NativeMarker, Marker]]:
    """Yield the markers with their bytes; of a stream only those that one event holds."""
    at = 0
    for tracer in run.tracers:
        for marker in tracer.found()[0]:
            if question.kind == "text":
                start = len(question.text[: marker.start].encode())
                yield marker, Marker(marker.text, start, start + len(marker.text.encode()))
                continue
            written = msgspec.json.encode(marker.text)[1:-1]
            found = data.find(written, at)
            if found >= 0:
                at = found + len(written)
                yield marker, Marker(marker.text, found, at)


def _calls(
    run: _Run, tools: tuple[Tool, ...] | None, markers: Sequence[tuple[NativeMarker, Marker]]
) -> list[Call]:
    request = Request(dialect="chat", model="", tools=tools or ())
    calls = find_calls(
        run.events,
        request=request,
        client_ids=(),
        findings=run.stage.findings,
        positions=NativePositions(),
    )
    native = [call for call in calls if call.found is not None]
    for marker, place in markers:
        number = 0 if marker.call is None else marker.call
        if number < len(native):
            native[number].markers.append(place)
    return calls


def _rows(
    question: Question, run: _Run, markers: Sequence[tuple[NativeMarker, Marker]]
) -> list[EventRow]:
    """Return the events and the markers as rows, in the order of the input."""
    rows: list[EventRow] = []
    waiting = [place for _, place in markers]
    places = _Places(question.text, waiting) if question.kind == "text" else None
    size = question.size
    kinds: dict[int, BlockKind] = {}
    at = 0
    for event, chunk in zip(run.events, run.chunks, strict=True):
        if isinstance(event, BlockStart):
            kinds[event.index] = event.kind
        if _only_frames_text(event, kinds):
            continue
        start, end = (None, None) if places is None else places.of(event)
        late = not isinstance(event, BlockEnd)  # an event follows the markers of its chunk
        while at < len(waiting) and _is_before(waiting[at], start, size, chunk + late):
            rows.append(_marker_row(waiting[at], size))
            at += 1
        row = meaning_row(event)
        kind = "call end" if isinstance(event, BlockEnd) else row.kind
        rows.append(EventRow(kind, row.text, row.level, row.cut, chunk=chunk, start=start, end=end))
    return [*rows, *(_marker_row(one, size) for one in waiting[at:])]


def _only_frames_text(event: Event, kinds: dict[int, BlockKind]) -> bool:
    """Return whether an event has nothing to show: it opens or ends a block of text."""
    match event:
        case Start():
            return True
        case BlockStart() | BlockEnd():
            return kinds.get(event.index) not in CALL_KINDS
    return False


def _is_before(marker: Marker, start: int | None, size: int, chunk: int) -> bool:
    """Return whether a marker comes before an event at a byte, or before a chunk if the byte is not known."""
    return marker.end <= start if start is not None else _chunk_of(marker, size) < chunk


def _chunk_of(marker: Marker, size: int) -> int:
    return -(-marker.end // size)


def _marker_row(marker: Marker, size: int) -> EventRow:
    chunk = _chunk_of(marker, size)
    return EventRow("marker", marker.text, chunk=chunk, start=marker.start, end=marker.end)


class _Places:
    """Finds the bytes of deltas in a text: each follows the one before it, with markers and blanks between them."""

    def __init__(self, text: str, markers: Sequence[Marker]) -> None:
        self._data = text.encode()
        self._markers = [(one.start, one.end) for one in markers]
        self._at = 0
        self._marker = 0  # the first one that does not end before `_at`

    def of(self, event: Event) -> tuple[int | None, int | None]:
        """Return where the bytes of a delta begin and end; None: the input writes them in another way."""
        text = delta_text(event)
        if not text:
            return None, None
        written = text.encode()
        start = self._find(written, jump=isinstance(event, TextDelta | ReasoningDelta))
        if start is None:
            return None, None
        self._at = start + len(written)
        return start, self._at

    def _find(self, written: bytes, *, jump: bool) -> int | None:
        """Return where a delta begins; `jump`: text that became arguments may be between."""
        at, number = self._at, self._marker
        while at < len(self._data):
            while number < len(self._markers) and self._markers[number][1] <= at:
                number += 1
            start, end = self._markers[number] if number < len(self._markers) else (None, at)
            if start is not None and start <= at:
                at = end
            elif self._data.startswith(written, at):
                self._marker = number
                return at
            elif self._data[at : at + 1].isspace():
                at += 1
            elif jump and start is not None:
                at = end
            else:
                break
        return None


def _problem(loss: Loss) -> dict[str, str]:
    return {
        "code": loss.code,
        "text": f"{CODES[loss.code]}{f': {loss.detail}' if loss.detail else ''}",
    }


def _outputs(events: list[Event], tools: tuple[Tool, ...] | None) -> Iterator[tuple[str, str]]:
    """Yield the response in each dialect, as indented JSON."""
    for name in dialect_names():
        target = dialect(name)
        answer = fold(events if target.half_calls else UsableCalls().feed(events))
        if answer.fault is None:
            exchange = make_exchange(target=target, tools=tools, seed=_SEED)
            body = target.encode_body(answer, exchange, [])
        else:
            _, body = target.encode_fault(answer.fault, "")
        yield name, msgspec.json.format(body, indent=2).decode()
