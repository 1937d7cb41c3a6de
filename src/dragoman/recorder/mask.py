"""A recording without its content: what people can share of a failure.  Pure.

The client's request, the requests to upstreams, their answers and the client's answer are masked (`masked_json.py`),
with the same names for the same tools and parameters everywhere.  Every byte keeps its place, and the answer leads to
the same events as before, masked.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from dragoman.dialects import dialect
from dragoman.errors import DragomanError
from dragoman.recorder.lines import (
    Attempt,
    Events,
    Failed,
    Line,
    Opening,
    Outcome,
    Payload,
    Read,
    Received,
    Reply,
    Translation,
    Written,
    encode_line,
)
from dragoman.recorder.masked_json import (
    Document,
    add_argument_keys,
    documents,
    mask_documents,
    mask_url,
)
from dragoman.recorder.masked_text import Names, mask_name, mask_text
from dragoman.recorder.recording import AttemptRecord, Recording, parse_recording, recording_of
from dragoman.recorder.replay import differences, different_bytes, replay

# Headers whose values describe the transfer, not the conversation.
_PLAIN_HEADERS: Final = frozenset(
    {
        "accept", "accept-encoding", "accept-language", "anthropic-beta", "anthropic-version", "connection",
        "content-encoding", "content-length", "content-type", "date", "retry-after", "server",
        "transfer-encoding", "user-agent",
    }
)  # fmt: skip


class _ArgsEvent(Struct):
    event: str = ""
    index: int = 0
    json: str = ""


def mask_recording(recording: Recording) -> list[Line]:
    """Return the lines of a recording without its content."""
    masks = _Masks(recording)
    masked = recording_of(masks.lines())
    return _as_replayed(recording, masked)


def masked_bytes(data: bytes, name: str = "") -> bytes:
    """Return a recording's file without its content.

    Raises:
        RecordingError: it is not a recording.
    """
    return b"".join(map(encode_line, mask_recording(parse_recording(data, name))))


class _Masks:
    """Masks all lines of one recording, with the same names."""

    def __init__(self, recording: Recording) -> None:
        self._lines = recording.lines
        self._names = names = Names()
        for one in recording.attempts:
            self._add_stop(one.reply)
            _add_event_names(one.events, names)
        # All documents are read before one is masked, so that all names are known.
        self._bodies = {
            at: documents(line.body.data, names)
            for at, line in enumerate(self._lines)
            if isinstance(line, Received | Attempt)
        }
        self._answers = [
            documents(b"".join(read.data.data for read in one.reads), names)
            for one in recording.attempts
        ]
        self._events = [_event_documents(one.events, names) for one in recording.attempts]
        self._written = documents(b"".join(one.data.data for one in recording.written), names)

    def lines(self) -> list[Line]:
        """Return all lines, masked."""
        names = self._names
        answers = [_Cutter(mask_documents(one, names)) for one in self._answers]
        events = [iter(mask_documents(one, names).splitlines()) for one in self._events]
        written = _Cutter(mask_documents(self._written, names))
        out: list[Line] = []
        attempt = -1
        for at, line in enumerate(self._lines):
            match line:
                case Opening():
                    path, headers = mask_url(line.path, names), self._headers(line.headers)
                    out.append(replace(line, path=path, headers=headers, masked=True))
                case Received():
                    out.append(replace(line, body=self._body(at)))
                case Attempt():
                    attempt += 1
                    url, headers = mask_url(line.url, names), self._headers(line.headers)
                    out.append(replace(line, url=url, headers=headers, body=self._body(at)))
                case Reply():
                    out.append(self._reply(line))
                case Read():
                    data = answers[attempt].take(len(line.data.data))
                    out.append(replace(line, data=Payload.of(data)))
                case Events():
                    found = events[attempt]
                    out.append(replace(line, events=[Raw(next(found)) for _ in line.events]))
                case Failed():
                    message = mask_text(line.fault.message, names)
                    out.append(replace(line, fault=replace(line.fault, message=message)))
                case Written():
                    data = written.take(len(line.data.data))
                    out.append(replace(line, data=Payload.of(data)))
                case Outcome():
                    record = mask_documents([Document(bytes(line.record), names)], names)
                    out.append(replace(line, record=Raw(record)))
        return out

    def _add_stop(self, reply: Reply | None) -> None:
        if reply is not None and reply.translation is not None:
            for one in reply.translation.stop:
                self._names.add(one)

    def _body(self, at: int) -> Payload:
        return Payload.of(mask_documents(self._bodies[at], self._names))

    def _reply(self, line: Reply) -> Reply:
        how = line.translation
        return replace(
            line,
            headers=self._headers(line.headers),
            translation=None if how is None else self._translation(how),
        )

    def _translation(self, how: Translation) -> Translation:
        names = self._names
        return replace(
            how,
            stop=tuple(mask_name(one, names) for one in how.stop),
            previous_id=mask_name(how.previous_id, names),
        )

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        return {
            name: value if name.lower() in _PLAIN_HEADERS else mask_text(value, self._names)
            for name, value in headers.items()
        }


class _Cutter:
    """Bytes that are cut into pieces again."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]


def _add_event_names(events: Sequence[Raw], names: Names) -> None:
    """Know the keys of all arguments, which an upstream may have written in any format."""
    arguments: dict[int, list[str]] = {}
    for raw in events:
        event = msgspec.json.decode(raw, type=_ArgsEvent)
        if event.event == "args":
            arguments.setdefault(event.index, []).append(event.json)
    for pieces in arguments.values():
        add_argument_keys("".join(pieces), names)


def _event_documents(events: Sequence[Raw], names: Names) -> list[Document | bytes]:
    found: list[Document | bytes] = []
    for event in events:
        found += [Document(bytes(event), names, streamed=True), b"\n"]
    return found


# --- what the code writes itself ----------------------------------------------------------------------------


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
    events = [
        new if at not in changed and _kind(new) == _kind(old) else old
        for at, (old, new) in enumerate(zip(other.events, after.events, strict=False))
    ]
    events += other.events[len(events) :]
    body = after.body if different_bytes(recording, before) is None and not before.failed else None
    return _replaced(masked, other, iter(events), body)


def _kind(event: Raw) -> str:
    return msgspec.json.decode(event, type=_ArgsEvent).event


def _replaced(
    masked: Recording, attempt: AttemptRecord, events: Iterator[Raw], body: bytes | None
) -> list[Line]:
    out: list[Line] = []
    number, answered = -1, masked.attempts.index(attempt)
    alive = dialect(masked.opening.dialect).keep_alive
    last = max((at for at, line in enumerate(masked.lines) if isinstance(line, Written)), default=0)
    bytes_left = _Cutter(body or b"")
    for at, line in enumerate(masked.lines):
        match line:
            case Attempt():
                number += 1
                out.append(line)
            case Events() if number == answered:
                out.append(replace(line, events=[next(events) for _ in line.events]))
            case Written() if body is not None and line.data.data != alive:
                data = bytes_left.take(len(body) if at == last else len(line.data.data))
                out.append(replace(line, data=Payload.of(data)))
            case _:
                out.append(line)
    return out
