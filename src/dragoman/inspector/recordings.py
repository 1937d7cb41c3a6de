"""Recordings as the inspector reads them: up to a limit, so that no file fills the memory of a gateway."""

import io
import os
import re
import tarfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects import dialect_names
from dragoman.errors import DragomanError
from dragoman.inspector.index import last_line
from dragoman.recorder.case import case_name, pytest_files
from dragoman.recorder.recording import (
    AttemptRecord,
    Recording,
    RecordingError,
    parse_recording,
)
from dragoman.recorder.replay import differences, different_bytes, recorded_differences, replay
from dragoman.translate_requests import read_request
from dragoman.turn.request import Request
from dragoman.wire.json_values import decode_any

MOST_BYTES: Final = 32 * 1024 * 1024  # of a recording that is shown
FIRST_BYTES: Final = 512 * 1024  # of an answer that are shown at once
RANGE_BYTES: Final = 256 * 1024  # of one answer with bytes
_ARCHIVE_BYTES: Final = 1024 * 1024 * 1024  # of recordings in one archive
_MOST_DIFFERENCES: Final = 500
_CASES: Final = "cases"
_MOST_CASES: Final = 1000
_REQUEST_LINE: Final = re.compile(rb'\{\s*"line"\s*:\s*"(?:received|attempt)"')
_TEXT_FIELDS: Final = {"text": "text", "reasoning": "text", "args": "json", "input": "text"}

Side: TypeAlias = Literal["upstream", "client", "received", "sent"]
SIDES: Final[tuple[str, ...]] = get_args(Side)


class GoneError(DragomanError):
    """A recording that was deleted."""


class Loaded(Struct):
    """The part of a recording that the page shows."""

    recording: Recording
    size: int  # of the file
    cut_at: int | None = None  # the byte behind which the file is not shown
    more: bool = False  # this is the first part of a large file

    @property
    def whole(self) -> bool:
        """The exchange has come to its end, and all of it was read."""
        return self.recording.outcome is not None and self.cut_at is None and not self.more


def load(path: Path, *, first: bool = False) -> Loaded:
    """Read a recording; `first`: of a large one the beginning of the answer alone.

    Raises:
        GoneError: the file was deleted.
        RecordingError: it is not a recording, or of a newer version.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if first and size > FIRST_BYTES:
                loaded = Loaded(parse_recording(_first_lines(file), path.name), size, more=True)
            else:
                data = file.read(MOST_BYTES + 1)
                if len(data) <= MOST_BYTES:
                    return Loaded(parse_recording(data, path.name), size)
                end = data.rfind(b"\n", 0, MOST_BYTES) + 1
                loaded = Loaded(parse_recording(data[:end], path.name), size, end)
            if loaded.recording.outcome is None:
                loaded.recording.outcome = last_line(file, size)
            return loaded
    except OSError as error:
        raise GoneError(f"the recording cannot be read: {error.strerror}") from error


def _first_lines(file: BinaryIO) -> bytes:
    """Return the first lines of a file: requests, and the beginning of the answer."""
    lines: list[bytes] = []
    left, total = FIRST_BYTES, MOST_BYTES
    while left > 0 and total > 0 and (line := file.readline(total)).endswith(b"\n"):
        lines.append(line)
        total -= len(line)
        if not _REQUEST_LINE.match(line):
            left -= len(line)
    return b"".join(lines)


def archive(folder: Path, files: Sequence[str]) -> Iterator[bytes]:
    """Yield the pieces of a tar file with recordings, up to a limit.

    A last file names what it does not hold: recordings beyond the limit, or deleted meanwhile.
    """
    left, missing = _ARCHIVE_BYTES, 0
    for name in files:
        try:
            with (folder / name).open("rb") as file:
                facts = os.fstat(file.fileno())
                if facts.st_size > left:
                    missing += 1
                    continue
                left -= facts.st_size
                yield _member(name, facts.st_size, facts.st_mtime)
                yield from _contents(file, facts.st_size)
        except OSError:
            missing += 1
    if missing:
        note = (
            f"{missing} of {len(files)} recordings are not in this archive: together they are larger than"
            f" {_ARCHIVE_BYTES // 1024**2} MB, or they were deleted. Narrow the filters.\n"
        ).encode()
        yield _member("INCOMPLETE.txt", len(note), time.time())
        yield from _contents(io.BytesIO(note), len(note))
    yield bytes(2 * tarfile.BLOCKSIZE)


def _member(name: str, size: int, changed: float) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, int(changed), 0o600
    return info.tobuf()


def _contents(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield so many bytes of a file, which may have grown, and fill the last block."""
    left = size
    while left > 0 and (piece := file.read(min(RANGE_BYTES, left))):
        left -= len(piece)
        yield piece
    if padding := left + -size % tarfile.BLOCKSIZE:
        yield bytes(padding)


def answering(recording: Recording) -> AttemptRecord | None:
    """Return the attempt that is shown: the one that answered, else the last from which anything came."""
    return recording.answered or next(
        (one for one in reversed(recording.attempts) if one.reads), None
    )


def client_request(body: bytes, dialect: str) -> Request | None:
    """Return a client's request, if it can be read."""
    if dialect not in dialect_names():
        return None
    try:
        return read_request(body, source=dialect).request
    except (DragomanError, RecursionError):
        return None


def side_bytes(recording: Recording, side: str) -> bytes:
    """Return all bytes of one side of an exchange."""
    if side == "client":
        return b"".join(one.data.data for one in recording.written)
    if side == "received":
        return b"" if recording.received is None else recording.received.body.data
    attempt = answering(recording)
    if side == "sent":
        last = attempt or (recording.attempts[-1] if recording.attempts else None)
        return b"" if last is None else last.sent.body.data
    return b"" if attempt is None else b"".join(attempt.pieces())


def replay_view(recording: Recording, split: int) -> dict[str, Any]:
    """Return what today's code does differently with a recorded answer."""
    attempt = recording.answered
    if attempt is None:
        reason = "no upstream answered"
        return {"events": 0, "differences": [], "client_byte": None, "reason": reason}
    try:
        again = replay(recording, attempt, split=split)
    except (DragomanError, RecursionError) as error:
        reason = f"today's version cannot translate it: {error}"
        return {"events": 0, "differences": [], "client_byte": None, "reason": reason[:500]}
    if split:
        return _compare_joined(attempt.events, again.events)
    found = recorded_differences(recording, attempt, again)
    reason = ""
    byte = different_bytes(recording, again)
    if again.failed:
        reason = "the answer failed, and the bytes of a failure are not compared"
    return {
        "events": len(again.events),
        "differences": found[:_MOST_DIFFERENCES],
        "client_byte": byte,
        "reason": reason,
    }


def _compare_joined(recorded: Sequence[Raw], replayed: Sequence[Raw]) -> dict[str, Any]:
    """Compare events whose text may be cut at other places: the deltas of a block count as one."""
    old, new = joined(recorded), joined(replayed)
    return {
        "events": len(replayed),
        "differences": differences(old, new)[:_MOST_DIFFERENCES],
        "client_byte": None,
        "reason": "the bytes were cut at other places, so the deltas of a block are compared as one",
    }


def joined(events: Sequence[Raw]) -> list[Raw]:
    """Return events with all deltas of a block as one."""
    found: list[dict[str, Any]] = []
    for event in events:
        fields = decode_any(event)
        key = _TEXT_FIELDS.get(fields["event"], "")
        if key and found and found[-1]["event"] == fields["event"]:
            found[-1][key] += fields[key]
        else:
            found.append(fields)
    return [Raw(msgspec.json.encode(one)) for one in found]


class Case(Struct, frozen=True):
    """A test that was written."""

    name: str
    folder: str  # beside the recordings
    files: list[str]


def write_case(folder: Path, recording: Recording) -> Case:
    """Write a test for pytest into `cases` beside the recordings.

    Raises:
        RecordingError: no upstream answered, or there are too many cases.
        OSError: it cannot be written.
    """
    name = case_name(recording)
    files = pytest_files(recording, name)
    cases = folder / _CASES
    cases.mkdir(mode=0o700, exist_ok=True)
    if sum(1 for _ in cases.iterdir()) >= _MOST_CASES:
        raise RecordingError(f"there are {_MOST_CASES} cases already in `{_CASES}`")
    target = cases / name
    target.mkdir(mode=0o700, exist_ok=True)
    for file, data in files.items():
        (target / file).write_bytes(data)
    return Case(name, f"{_CASES}/{name}", sorted(files))
