"""Where a recorded answer has the markers of native tool calls, in bytes of the upstream.  Pure.

A recording does not contain these positions.  The parser of the gateway counts none, so that it stays fast, and the
recorded bytes with their `translation` decide them, so they are found by parsing the answer again.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from dragoman.dialects import dialect
from dragoman.dialects.framing import StreamReader
from dragoman.errors import PeerError
from dragoman.exchange_setup import make_exchange, read_whole
from dragoman.recorder.recording import AttemptRecord, Recording
from dragoman.recorder.replay import exchange_options
from dragoman.toolcalls.findings import TextChannel
from dragoman.toolcalls.marker_positions import MarkerTracer
from dragoman.toolcalls.stage import Splitter, native_stages
from dragoman.turn.events import BlockStart, EventOrRun, ReasoningDelta, TextDelta, expand_runs
from dragoman.wire.sse import SSEReader

_BOM: Final = b"\xef\xbb\xbf"
# A JSON string, or the rest of the bytes if it has no end.
_STRING: Final = re.compile(rb'"((?:[^"\\]|\\.)*+)(?:"|\\?\Z)', re.DOTALL)
# One character in the bytes of a JSON string; a surrogate pair is one.
_CHARACTER: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\x80-\xff]"
    rb"|[\xc0-\xff][\x80-\xbf]*|.",
    re.DOTALL,
)


class ByteRange(Struct, frozen=True, gc=False):
    """Bytes of the upstream's answer."""

    start: int
    end: int


class MarkerPosition(Struct, frozen=True):
    """A marker in an upstream's answer.

    Attributes:
        family: The key of the format, such as `kimi_k2`.
        channel: The field of the answer that the text comes from.
        text: The marker, as it is in the text.
        call: The number of the native call that it belongs to, from 0; None: it belongs to none.
        ranges: Its bytes: one range for each event of the stream that has a part of it.
    """

    family: str
    channel: TextChannel
    text: str
    call: int | None
    ranges: tuple[ByteRange, ...]

    @property
    def start(self) -> int:
        """The first byte."""
        return self.ranges[0].start

    @property
    def end(self) -> int:
        """The byte behind the last one."""
        return self.ranges[-1].end


class CallPosition(Struct, frozen=True):
    """A native call in an upstream's answer, from its header to the end of its arguments.

    Attributes:
        family: The key of the format.
        channel: The field of the answer that the text comes from.
        name: The tool that is called.
        call: Its number among the native calls of the answer, from 0.
        ranges: Its bytes; calls that are written in one array have the same.
    """

    family: str
    channel: TextChannel
    name: str
    call: int
    ranges: tuple[ByteRange, ...]


class NativePositions(Struct, frozen=True):
    """The markers and calls of an answer, in its order."""

    markers: tuple[MarkerPosition, ...] = ()
    calls: tuple[CallPosition, ...] = ()


def native_positions(recording: Recording, attempt: AttemptRecord) -> NativePositions:
    """Return where an attempt's answer has native markers and calls; nothing if it has none."""
    reply = attempt.reply
    if reply is None or reply.translation is None:
        return NativePositions()
    how = reply.translation
    source = dialect(how.source)
    exchange = make_exchange(
        source=source, target=dialect(how.target), **exchange_options(recording, how)
    )
    stages = native_stages(exchange, model=how.model, native_format=how.native_format)
    stage = next((one for one in stages if isinstance(one, Splitter)), None)
    if stage is None:
        return NativePositions()
    trace = _Trace(stage)
    data = b"".join(attempt.pieces())
    if not how.stream or data.lstrip()[:1] == b"{":
        trace.feed(read_whole(data, source.frame_reader(exchange), exchange), _Frame(0, data))
        return trace.positions()
    reader = StreamReader(source.frame_reader(exchange), exchange)
    try:
        for frame in _frames(data):
            trace.feed(reader.feed(frame.data), frame)
        trace.feed(reader.close(), _Frame(len(data), b""))
    except PeerError:
        pass  # what came before is found
    return trace.positions()


class _Frame(Struct):
    """An event of the stream, or a whole body."""

    offset: int
    data: bytes
    searched: int = 0  # strings before this byte belong to earlier deltas


def _frames(data: bytes) -> Iterator[_Frame]:
    """Cut a stream into its events."""
    reader = SSEReader()
    at = len(_BOM) if data.startswith(_BOM) else 0
    for frame in (*reader.feed(data), *reader.close()):
        yield _Frame(at, frame.raw)
        at += len(frame.raw)


class _Segment(Struct):
    """The text of one delta."""

    start: int  # in characters of the block's text
    text: str
    frame: _Frame
    body: ByteRange | None  # the inside of its JSON string, in bytes of the frame
    ends: list[int] = []  # of its characters in there, once they are needed

    def byte_range(self, start: int, end: int) -> ByteRange:
        """Return the bytes of some of its characters; of the whole event if the string was not found."""
        offset = self.frame.offset
        if self.body is None:
            return ByteRange(offset, offset + len(self.frame.data))
        if not self.ends:
            raw = self.frame.data[self.body.start : self.body.end]
            self.ends = [0, *(one.end() for one in _CHARACTER.finditer(raw))]
        first = offset + self.body.start
        return ByteRange(first + self.ends[start], first + self.ends[end])


class _Block(Struct):
    """One block of text that was parsed."""

    tracer: MarkerTracer
    segments: list[_Segment] = []
    size: int = 0

    def add(self, text: str, frame: _Frame) -> None:
        self.segments.append(_Segment(self.size, text, frame, _find_string(frame, text)))
        self.size += len(text)

    def ranges(self, start: int, end: int) -> tuple[ByteRange, ...]:
        """Return the bytes of some characters."""
        found: list[ByteRange] = []
        at = bisect_right(self.segments, start, key=lambda one: one.start) - 1
        for segment in self.segments[at:]:
            if segment.start >= end:
                break
            first, last = max(start - segment.start, 0), min(end - segment.start, len(segment.text))
            found.append(segment.byte_range(first, last))
        return tuple(found)


class _Trace:
    """Runs a stage over an answer, and knows the bytes of all its text."""

    def __init__(self, stage: Splitter) -> None:
        self._stage = stage
        self._blocks: list[_Block] = []
        self._open: _Block | None = None  # None: its text is not parsed
        stage.make_machine = self._make_machine

    def _make_machine(self, *args: Any, **options: Any) -> MarkerTracer:
        tracer = MarkerTracer(*args, **options)
        self._blocks.append(_Block(tracer))
        return tracer

    def feed(self, events: list[EventOrRun], frame: _Frame) -> None:
        """Take the events of a frame."""
        for event in expand_runs(events):
            blocks = len(self._blocks)
            self._stage.feed([event])
            match event:
                case BlockStart():
                    self._open = self._blocks[-1] if len(self._blocks) > blocks else None
                case TextDelta() | ReasoningDelta() if self._open is not None:
                    self._open.add(event.text, frame)
                case _:
                    pass

    def positions(self) -> NativePositions:
        names = [one.name for one in self._stage.findings if one.problem is None]
        markers: list[MarkerPosition] = []
        calls: list[CallPosition] = []
        for block in self._blocks:
            found, texts = block.tracer.found()
            markers += (
                MarkerPosition(
                    one.family, one.channel, one.text, one.call, block.ranges(one.start, one.end)
                )
                for one in found
            )
            calls += (
                CallPosition(
                    one.family, one.channel, names[number], number, block.ranges(one.start, one.end)
                )
                for one in texts
                for number in range(one.call, one.call + one.calls)
            )
        return NativePositions(tuple(markers), tuple(calls))


def _find_string(frame: _Frame, text: str) -> ByteRange | None:
    """Return where a frame has a text as a JSON string; strings of earlier deltas are not searched again."""
    for match in _STRING.finditer(frame.data, frame.searched):
        if match.end() - match.start() < len(text):
            continue
        try:
            if msgspec.json.decode(match[0], type=str) == text:
                frame.searched = match.end()
                return ByteRange(*match.span(1))
        except msgspec.DecodeError:
            continue
    return None
