"""A recording without its content: what people can share of a failure.  Pure.

The client's request, the requests to upstreams, their answers and the client's answer are masked (`masked_json.py`),
with the same names for the same tools and parameters everywhere.  Every byte keeps its place, and the answer leads to
the same events as before, masked.

`LineMask` masks an exchange while it runs.  `mask_recording` knows all names of the exchange and our own words in it.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from dragoman.dialects import dialect
from dragoman.errors import DragomanError
from dragoman.recorder.lines import (
    Attempt,
    Cutter,
    Events,
    ExchangeOutcome,
    Failed,
    Line,
    Opening,
    Payload,
    Read,
    Received,
    Reply,
    Translation,
    Written,
    encode_line,
)
from dragoman.recorder.masked_json import fields, mask_url
from dragoman.recorder.masked_stream import ArgumentKeys, MaskedStream, mask_bytes
from dragoman.recorder.masked_text import MaskedText, Names, mask_name, mask_text
from dragoman.recorder.recording import AttemptRecord, Recording, parse_recording, recording_of
from dragoman.recorder.replay import differences, different_bytes, replay

# Headers whose values describe the transfer, not the conversation; beside those of dialects.
_PLAIN_HEADERS: Final = frozenset(
    {
        "accept", "accept-encoding", "accept-language", "connection", "content-encoding", "content-length",
        "content-type", "date", "retry-after", "server", "transfer-encoding", "user-agent",
    }
)  # fmt: skip


class _ArgsEvent(Struct):
    event: str = ""
    index: int = 0
    json: str = ""


def mask_recording(recording: Recording, names: Names | None = None) -> list[Line]:
    """Return the lines of a recording without its content; `names` are all names that are in it, if they are known."""
    if names is None:  # all documents are read before one is masked
        reader = LineMask()
        for line in recording.lines:
            reader.take(line)
        reader.close()
        names = reader.names
    mask = LineMask(names)
    for line in recording.lines:
        mask.take(line)
    mask.close()
    mask.mask()
    return _as_replayed(recording, recording_of(mask.lines()))


def masked_bytes(data: bytes, names: Names | None = None) -> bytes:
    """Return a recording's file without its content.

    Raises:
        RecordingError: it is not a recording.
    """
    lines = mask_recording(parse_recording(data, ""), names)
    return b"".join(map(encode_line, lines))


class _Waiting(Struct):
    """A line that is not masked yet, and where its bytes come from."""

    line: Line
    source: MaskedStream | None = None
    size: int = 0


class LineMask:
    """Masks the lines of one exchange in their order, with the same names everywhere."""

    def __init__(self, names: Names | None = None) -> None:
        self.names: Names = Names() if names is None else names
        self._waiting: deque[_Waiting] = deque()
        self._sources: list[MaskedStream] = []  # that are not masked completely
        self._written = self._source()
        self._begin_attempt()

    def _source(self) -> MaskedStream:
        source = MaskedStream(self.names)
        self._sources.append(source)
        return source

    def _begin_attempt(self) -> None:
        self._answer, self._events = self._source(), self._source()
        self._arguments: dict[int, ArgumentKeys] = {}  # by the index of their block

    def prepare(self) -> None:
        """Build the expressions of all markers, which takes a moment."""
        text = MaskedText(self.names)
        text.feed("a ")
        text.take()

    def take(self, line: Line) -> None:
        """Take the next line, and know its names."""
        source, size = None, 0
        match line:
            case Received():
                source, size = self._body(line.body)
            case Attempt():
                self._answer.close()
                self._events.close()
                self._begin_attempt()
                source, size = self._body(line.body)
            case Reply() if line.translation is not None:
                for one in line.translation.stop:
                    self.names.add(one)
            case Read():
                source, size = self._answer, len(line.data.data)
                source.feed(line.data.data)
                if line.ended:
                    source.close()
            case Failed():
                self._answer.close()
            case Events():
                source, size = self._events, sum(map(len, map(bytes, line.events)))
                for event in line.events:
                    source.add(bytes(event), aside=self._know_arguments(event) == "loss")
            case Written():
                source, size = self._written, len(line.data.data)
                source.feed(line.data.data)
            case _:
                pass
        self._waiting.append(_Waiting(line, source, size))

    def close(self) -> None:
        """Handle the end of the lines."""
        for source in self._sources:
            source.close()

    def mask(self) -> None:
        """Mask what is final."""
        for source in self._sources:
            source.mask()
        self._sources = [source for source in self._sources if not source.closed]

    def lines(self) -> list[Line]:
        """Return the lines that are masked now, and were not returned before."""
        found: list[Line] = []
        while self._waiting:
            source, size = self._waiting[0].source, self._waiting[0].size
            if source is not None and source.ready < size:
                break
            data = b"" if source is None else source.take(size)
            found.append(self._masked(self._waiting.popleft().line, data))
        return found

    def _masked(self, line: Line, data: bytes) -> Line:
        names = self.names
        match line:
            case Opening():
                path, headers = mask_url(line.path, names), self._headers(line.headers)
                return replace(line, path=path, headers=headers, masked=True)
            case Received():
                return replace(line, body=Payload.of(data))
            case Attempt():
                url, headers = mask_url(line.url, names), self._headers(line.headers)
                return replace(line, url=url, headers=headers, body=Payload.of(data))
            case Reply():
                how = None if line.translation is None else self._translation(line.translation)
                return replace(line, headers=self._headers(line.headers), translation=how)
            case Read() | Written():
                return replace(line, data=Payload.of(data))
            case Events():
                cutter = Cutter(data)
                return replace(
                    line, events=[Raw(cutter.take(len(bytes(one)))) for one in line.events]
                )
            case Failed():
                message = mask_text(line.fault.message, names)
                return replace(line, fault=replace(line.fault, message=message))
            case ExchangeOutcome():
                return replace(line, record=Raw(mask_bytes(bytes(line.record), names)))

    def _body(self, body: Payload) -> tuple[MaskedStream, int]:
        source = self._source()
        source.feed(body.data)
        source.close()
        return source, len(body.data)

    def _translation(self, how: Translation) -> Translation:
        return replace(
            how,
            stop=tuple(mask_name(one, self.names) for one in how.stop),
            previous_id=mask_name(how.previous_id, self.names),
        )

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        plain = _PLAIN_HEADERS | fields().headers
        return {
            name: value if name.lower() in plain else mask_text(value, self.names)
            for name, value in headers.items()
        }

    def _know_arguments(self, raw: Raw) -> str:
        """Collect the keys of arguments, which an upstream may have written in any format; return the event's name."""
        event = msgspec.json.decode(raw, type=_ArgsEvent)
        if event.event == "args":
            if event.index not in self._arguments:
                self._arguments[event.index] = ArgumentKeys(self.names)
            self._arguments[event.index].feed(event.json)
        return event.event


# --- texts that the code itself writes ----------------------------------------------------------------------


def _as_replayed(recording: Recording, masked: Recording) -> list[Line]:
    """Let a masked recording have what today's code makes of it, where today's code made the original.

    Messages of failures and details of losses are partly our own words, which a mask cannot know.
    """
    attempt, other = recording.answered, masked.answered
    if attempt is None or other is None:
        return masked.lines
    try:
        before, after = replay(recording, attempt), replay(masked, other)
    except DragomanError:
        return masked.lines
    changed = {one.index for one in differences(attempt.events, before.events)}
    events = after.events
    if changed:
        events = [
            new if at not in changed and _kind(new) == _kind(old) else old
            for at, (old, new) in enumerate(zip(other.events, events, strict=False))
        ]
        events += other.events[len(events) :]
    body = after.body if different_bytes(recording, before) is None and not before.failed else None
    return _replaced(masked, other, iter(events), body)


def _kind(event: Raw) -> str:
    return msgspec.json.decode(event, type=_ArgsEvent).event


def _replaced(
    masked: Recording, attempt: AttemptRecord, events: Iterator[Raw], body: bytes | None
) -> list[Line]:
    """Return the lines with other events, whose number may differ, and with other bytes for the client."""
    out: list[Line] = []
    number, answered = -1, masked.attempts.index(attempt)
    events_left = len(attempt.events)
    alive = dialect(masked.opening.dialect).keep_alive
    last = max((at for at, line in enumerate(masked.lines) if isinstance(line, Written)), default=0)
    bytes_left = Cutter(body or b"")
    for at, line in enumerate(masked.lines):
        match line:
            case Attempt():
                number += 1
                out.append(line)
            case Events() if number == answered:
                events_left -= len(line.events)
                taken = islice(events, len(line.events) if events_left else None)
                out.append(replace(line, events=[*taken]))
            case Written() if body is not None and line.data.data != alive:
                data = bytes_left.take(len(body) if at == last else len(line.data.data))
                out.append(replace(line, data=Payload.of(data)))
            case _:
                out.append(line)
    return out
