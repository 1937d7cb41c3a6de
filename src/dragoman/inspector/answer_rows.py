"""The bytes of an answer as rows: events of a stream, or the values of a complete body, each with its byte range.

What a row means is read by the dialect's own reader, so that nothing here knows a dialect.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, Final

import msgspec
from msgspec import Struct

from dragoman.context import Exchange
from dragoman.dialects.dialect import Dialect
from dragoman.dialects.framing import StreamReader
from dragoman.errors import DragomanError, TooLargeError
from dragoman.exchange_setup import read_whole
from dragoman.limits import Limits
from dragoman.recorder.recording import AttemptRecord, Recording
from dragoman.turn.events import (
    CALL_KINDS,
    ArgsDelta,
    BlockEnd,
    BlockStart,
    Citation,
    Event,
    EventOrRun,
    Fault,
    Finish,
    InputDelta,
    Opaque,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    Usage,
    expand_runs,
)
from dragoman.turn.losses import Loss
from dragoman.wire.sse import Frame, SSEReader

TEXT_CHARS: Final = 400  # of one row
_BOM: Final = b"\xef\xbb\xbf"
_NO_LIMITS: Final = Limits(
    max_sse_event_bytes=1 << 30,
    max_sse_buffer_bytes=1 << 30,
    max_response_bytes=1 << 40,
    max_events=1 << 40,
)
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)
_DEPTH: Final = 64


class Row(Struct, gc=False, omit_defaults=True, rename={"start": "from", "end": "to"}):
    """One row of a column."""

    start: int  # bytes of the answer
    end: int
    at: float  # milliseconds
    kind: str
    text: str
    cut: bool = False  # there is more text than this
    marks: list[tuple[int, int]] = []  # native markers, in characters of `text`
    path: str = ""  # of a value in a complete body
    event: bool = True  # not a comment, such as a keep-alive


class Arrivals:
    """When each byte of a side came or went."""

    def __init__(self, pieces: Sequence[tuple[float, int]]) -> None:
        self._times = [at for at, _ in pieces]
        self._ends = list(accumulate(size for _, size in pieces))
        self.ticks: list[tuple[float, int]] = [(at, size) for at, size in pieces if size]

    def at(self, byte: int) -> float:
        """Return when a byte came."""
        if not self._times:
            return 0.0
        return self._times[min(bisect_right(self._ends, byte), len(self._times) - 1)]

    @property
    def last(self) -> float:
        return self._times[-1] if self._times else 0.0


def upstream_arrivals(attempt: AttemptRecord) -> Arrivals:
    return Arrivals([(one.at, one.size) for one in attempt.reads])


def client_arrivals(recording: Recording) -> Arrivals:
    return Arrivals([(one.at, len(one.data.data)) for one in recording.written])


def is_stream(data: bytes) -> bool:
    """Return whether an answer looks like a stream of events."""
    return data.lstrip()[:1] not in (b"{", b"[", b"<", b"")


def stream_frames(data: bytes) -> Iterator[tuple[int, Frame]]:
    """Yield the events of a stream and where each begins; comments are events without data."""
    reader = SSEReader(limits=_NO_LIMITS)
    at = len(_BOM) if data.startswith(_BOM) else 0
    try:
        for frame in (*reader.feed(data), *reader.close()):
            yield at, frame
            at += len(frame.raw)
    except TooLargeError:
        return


def stream_rows(
    data: bytes, dialect: Dialect, exchange: Exchange, arrivals: Arrivals, *, named: bool
) -> tuple[list[Row], list[str]]:
    """Return the events of a stream as rows, and the ids of its calls; `named`: a row is called as its event is."""
    reader = StreamReader(dialect.frame_reader(exchange), exchange)
    rows: list[Row] = []
    ids: list[str] = []
    dead = False
    for start, frame in stream_frames(data):
        events: list[Event] = []
        if not dead:
            try:
                events = expand_runs(reader.feed(frame.raw))
            except DragomanError:
                dead = True
        kind, text = described(events)
        if not kind:
            kind, text = _bare(frame)
        elif named and frame.event:
            kind = frame.event
        end = start + len(frame.raw)
        rows.append(
            _row(start, end, arrivals.at(end - 1), kind, text, event=bool(frame.data or events))
        )
        ids += call_ids(events)
    if not dead:
        with suppress(DragomanError):
            ids += call_ids(reader.close())
    return rows, ids


def bare_rows(data: bytes, arrivals: Arrivals) -> list[Row]:
    """Return the events of a stream as rows, without a reader."""
    return [
        _row(start, start + len(frame.raw), arrivals.at(start), *_bare(frame))
        for start, frame in stream_frames(data)
    ]


def body_rows(data: bytes, arrivals: Arrivals) -> list[Row]:
    """Return the values of a complete body as rows."""
    at = arrivals.at(len(data) - 1) if data else 0.0
    rows = [
        _row(start, end, at, path.rpartition(".")[2] or "body", text, path=path)
        for path, start, end, text in values(data)
    ]
    if not rows and data:
        rows = [_row(0, len(data), at, "body", data.decode("utf-8", "replace"))]
    return rows


def body_call_ids(data: bytes, dialect: Dialect, exchange: Exchange) -> list[str]:
    """Return the ids of the calls in a complete body; nothing if it cannot be read."""
    try:
        return call_ids(read_whole(data, dialect.frame_reader(exchange), exchange))
    except DragomanError:
        return []


def call_ids(events: Iterable[EventOrRun]) -> list[str]:
    """Return the ids of the calls that begin in some events."""
    return [one.call_id for one in events if isinstance(one, BlockStart) and one.kind in CALL_KINDS]


def _row(  # noqa: PLR0913 -- the fields of a row
    start: int, end: int, at: float, kind: str, text: str, *, path: str = "", event: bool = True
) -> Row:
    return Row(
        start=start,
        end=end,
        at=at,
        kind=kind[:80],
        text=text[:TEXT_CHARS],
        cut=len(text) > TEXT_CHARS,
        path=path,
        event=event,
    )


def _bare(frame: Frame) -> tuple[str, str]:
    """Return kind and text of an event that the dialect's reader ignores."""
    if not frame.data:
        return "comment", frame.raw[: 2 * TEXT_CHARS].decode("utf-8", "replace").strip()
    data = frame.data[: 4 * TEXT_CHARS]
    text = data.decode("utf-8", "replace")
    if frame.data == b"[DONE]":
        return "done", text
    kind = frame.event or ("event" if frame.whole else "incomplete")
    if text.startswith("{"):  # without names and what is empty; the raw view has them
        plain = (one for _, _, _, one in values(data) if one not in ("", "null", "false", kind))
        text = " ".join(plain)
    return kind, text


# Kinds of rows; one with several kinds of events is called after the first of these.
_ORDER: Final = (
    "error", "tool_calls", "reasoning", "content", "refusal", "finish", "usage", "start", "ping",
    "skipped", "block",
)  # fmt: skip


def described(events: Sequence[Event]) -> tuple[str, str]:
    """Return kind and text of a row by its events; empty: there are none."""
    found: dict[str, list[str]] = {}
    for event in events:
        kind, text = _described(event)
        found.setdefault(kind, []).append(text)
    kind = next((one for one in _ORDER if one in found), "")
    glue = "" if kind in ("reasoning", "content", "refusal") else " "
    return kind, glue.join(filter(None, found.get(kind, ())))


def _described(event: Event) -> tuple[str, str]:
    match event:
        case Start():
            return "start", event.model
        case BlockStart() if event.name or event.call_id:
            return "tool_calls", f"{event.name} {event.call_id}".strip()
        case BlockStart():
            return "block", f"{event.index} {event.kind}"
        case TextDelta():
            return "content", event.text
        case ReasoningDelta():
            return "reasoning", event.text
        case ArgsDelta():
            return "tool_calls", event.json
        case InputDelta():
            return "tool_calls", event.text
        case RefusalDelta():
            return "refusal", event.text
        case BlockEnd():
            return "block", f"{event.index} end"
        case Usage():
            return "usage", usage_text(event)
        case Finish():
            return "finish", event.raw or str(event.reason)
        case Fault():
            return "error", event.message
        case Ping():
            return "ping", ""
        case Loss():
            return "skipped", event.code
        case Opaque():
            return "block", str(event.kind)
        case Citation():
            return "block", "citation"


def usage_text(usage: Usage) -> str:
    """Return token counts as a row shows them."""
    return (
        f"in {usage.prompt_tokens:,}  cached {usage.cache_read_tokens:,}"
        f"  out {usage.output_tokens:,}"
    )


# --- complete bodies -----------------------------------------------------------------------------


def values(data: bytes) -> Iterator[tuple[str, int, int, str]]:
    """Yield path, byte range and text of each plain value in JSON; stops where it is not JSON."""
    stack: list[Any] = []  # of objects: the last key; of lists: the number of elements
    key_next = False
    for token in _TOKEN.finditer(data):
        text = token[0]
        if text in (b"{", b"["):
            if len(stack) >= _DEPTH:
                return
            stack.append("" if text == b"{" else 0)
            key_next = text == b"{"
        elif text in (b"}", b"]"):
            if not stack:
                return
            stack.pop()
            key_next = False
        elif text == b",":
            if stack and isinstance(stack[-1], int):
                stack[-1] += 1
            key_next = bool(stack) and isinstance(stack[-1], str)
        elif text == b":":
            key_next = False
        elif key_next:
            stack[-1] = _decoded(text)[:80]
        else:
            yield _path(stack), token.start(), token.end(), _decoded(text)


def _path(stack: Sequence[str | int]) -> str:
    return "$" + "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in stack)


def _decoded(token: bytes) -> str:
    if token[:1] != b'"':
        return token.decode("utf-8", "replace")
    try:
        return msgspec.json.decode(token, type=str)
    except msgspec.DecodeError:
        return token.decode("utf-8", "replace")
