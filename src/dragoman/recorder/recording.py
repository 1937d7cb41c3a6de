"""Reading a recording: the lines of a file, up to where it was torn, and what belongs together in them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import DragomanError
from dragoman.recorder.lines import (
    SUFFIX,
    VERSION,
    Attempt,
    Events,
    ExchangeOutcome,
    Failed,
    Line,
    Opening,
    Read,
    Received,
    Reply,
    Written,
    decode_line,
)

_EXIT_BAD: Final = 1


class RecordingError(DragomanError):
    """A file that is not a recording, or one of a newer version."""

    exit_code = _EXIT_BAD


class AttemptRecord(Struct):
    """One attempt: what was sent to an upstream, and all that came back."""

    sent: Attempt
    reply: Reply | None = None
    reads: list[Read] = []
    events: list[Raw] = []
    failed: Failed | None = None

    def pieces(self) -> list[bytes]:
        """Return the upstream's bytes, cut where they were cut."""
        data = b"".join(read.data.data for read in self.reads)
        pieces, start = [], 0
        for read in self.reads:
            pieces.append(data[start : start + read.size])
            start += read.size
        return [piece for piece in pieces if piece]

    @property
    def ended(self) -> bool:
        """The upstream ended its answer itself."""
        return any(read.ended for read in self.reads)


class Recording(Struct):
    """One exchange, as far as its file goes."""

    opening: Opening
    received: Received | None = None
    attempts: list[AttemptRecord] = []
    written: list[Written] = []
    outcome: ExchangeOutcome | None = None
    lines: list[Line] = []  # all, in the order of the file
    torn_at: int | None = None  # the byte at which the file ends early

    @property
    def answered(self) -> AttemptRecord | None:
        """The attempt whose answer the client got: the last one with a good status."""
        return next(
            (
                one
                for one in reversed(self.attempts)
                if one.reply is not None and one.reply.translation is not None
            ),
            None,
        )

    def continued(self, attempt: AttemptRecord) -> list[AttemptRecord]:
        """Return the attempts whose paused answers the answer of this one continues, in order."""
        how = None if attempt.reply is None else attempt.reply.translation
        parts: dict[int, AttemptRecord] = {}
        for one in self.attempts if how is not None and how.earlier else ():
            if one is attempt:
                break
            if one.reply is not None and one.reply.translation is not None:
                parts[one.reply.translation.earlier] = one  # the last: others were repeated
        return [parts[number] for number in sorted(parts) if how and number < how.earlier]


def recording_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield files, and of folders all recordings in them, the oldest first."""
    for path in paths:
        if path.is_dir():
            yield from sorted(path.rglob(f"*{SUFFIX}"))
        else:
            yield path


def read_recording(path: Path) -> Recording:
    """Return the exchange that a file holds; one that was torn is read up to there.

    Raises:
        RecordingError: it is not a recording, or of a newer version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error
    return parse_recording(data, str(path))


def parse_recording(data: bytes, name: str) -> Recording:
    """Return the exchange that the bytes of a file hold; see `read_recording`."""
    lines = _lines(data, name)
    opening, at = next(lines, (None, 0))
    if not isinstance(opening, Opening):
        raise RecordingError(f"{name}: not a recording: its first line must be `recording`")
    recording = Recording(opening, lines=[opening])
    for line, end in lines:
        _add(recording, line)
        at = end
    if at < len(data):
        recording.torn_at = at
    return recording


def recording_of(lines: list[Line]) -> Recording:
    """Return the exchange of some lines; the first one must be `recording`."""
    opening, *others = lines
    if not isinstance(opening, Opening):
        raise RecordingError("not a recording: its first line must be `recording`")
    recording = Recording(opening, lines=[opening])
    for line in others:
        _add(recording, line)
    return recording


def _lines(data: bytes, name: str) -> Iterator[tuple[Line, int]]:
    """Yield each line and the byte behind it, up to the first that is damaged."""
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        if start == 0:
            _check_version(data[:end], name)
        try:
            line = decode_line(data[start:end])
        except msgspec.DecodeError:  # also `ValidationError`
            return
        start = end + 1
        yield line, start


class _Version(Struct):
    line: str = ""
    version: int = 0


def _check_version(first: bytes, name: str) -> None:
    """Refuse a file of a newer version, whose lines might mean something else.

    Raises:
        RecordingError: it is one, or not a recording at all.
    """
    try:
        found = msgspec.json.decode(first, type=_Version)
    except msgspec.DecodeError:
        found = _Version()
    if found.line != "recording":
        raise RecordingError(f"{name}: not a recording: its first line must be `recording`")
    if found.version > VERSION:
        raise RecordingError(
            f"{name}: this recording has format {found.version}; this program reads up to {VERSION}"
        )


def _add(recording: Recording, line: Line) -> None:
    recording.lines.append(line)
    match line:
        case Received():
            recording.received = line
        case Attempt():
            recording.attempts.append(AttemptRecord(line))
        case Written():
            recording.written.append(line)
        case ExchangeOutcome():
            recording.outcome = line
        case Opening():
            pass
        case _ if recording.attempts:
            _add_to_attempt(recording.attempts[-1], line)


def _add_to_attempt(attempt: AttemptRecord, line: Line) -> None:
    match line:
        case Reply():
            attempt.reply = line
        case Read():
            attempt.reads.append(line)
        case Events():
            attempt.events += line.events
        case Failed():
            attempt.failed = line
