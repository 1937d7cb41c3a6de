"""The process that writes recordings: frames on standard input become files in a folder.

    python -m dragoman.recorder.writer

What it could not write, it reports on standard output, one line each.

A separate process, because removing secrets and writing JSON would cost the gateway a third of its speed, and
because it outlives a gateway that is killed: what is in the pipe still reaches the file.  It ends when its input
ends, and ignores the signals that end the gateway.
"""

import os
import re
import select
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import msgspec
from msgspec import Raw

from dragoman.errors import DragomanError
from dragoman.recorder import frames, lines
from dragoman.recorder.cut_secrets import PiecesWatch, blot_pieces
from dragoman.recorder.stalls import stalls
from dragoman.recorder.text_frames import TextFrames, Texts, texts_of
from dragoman.redaction import LIST_CUT, OBJECT_CUT, blotter

if TYPE_CHECKING:
    from dragoman.recorder.mask import LineMask

_READ_BYTES: Final = 256 * 1024
_FEW_BYTES: Final = 32 * 1024  # after so few there is a pause
_PAUSE: Final = 0.005  # seconds
_JOINS_PARTS: Final = hasattr(os, "writev")  # the system does
_MOST_PARTS: Final = 1024  # that it takes at once
_DIGITS: Final = 3  # of milliseconds
_NICE: Final = 5
_SCAN_SECONDS: Final = 30.0  # between two looks at the files of other workers
_IDLE_SECONDS: Final = 60.0  # without anything to record, after which the folder is looked at
_MOST_TIMES: Final = 100_000  # of reads that are looked at for stalls
_MOST_UNMASKED: Final = (
    256 * 1024 * 1024
)  # bytes of all exchanges that are masked once more at their end
_PART: Final = ".part"  # ends the name of a file that will replace a recording
_PART_SECONDS: Final = 60.0  # after which such a file was left behind
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
# Headers whose values are secrets, in requests and responses.
SECRET_HEADERS: Final = frozenset(
    {
        "authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie",
        "set-cookie",
    }
)  # fmt: skip
_LEAST_SECRET: Final = 8  # characters: a shorter credential may be a word of the conversation
# What a recording that no version of ours has written might raise.
_UNMASKABLE: Final = (
    DragomanError, msgspec.MsgspecError, ValueError, LookupError, TypeError, StopIteration,
)  # fmt: skip
_EMPTY: Final = lines.Payload()
_NO_TRANSLATION: Final = b"null}\n"  # ends the line of a reply without one
_QUERY_VALUE: Final = re.compile(r"(?<==)[^&#]+")
# Values of a client's query that are secrets, by the names of their parameters.
_SECRET_VALUE: Final = re.compile(
    r"(?i)(?<=[?&])([^=&]*(?:key|token|secret|auth|passw|signature|credential)[^=&]*=)[^&]+"
)


def file_name(began: float, request_id: str) -> str:
    """Return the name of an exchange's file: it begins with the time, so that names sort by it."""
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(began))
    safe = _UNSAFE.sub("_", request_id)[:80]
    return f"{moment}.{int(began % 1 * 1000):03d}Z-{safe}{lines.SUFFIX}"


class Folder:
    """The folder of recordings, kept within its limits: the oldest files go first."""

    def __init__(self, policy: frames.Policy) -> None:
        self._policy = policy
        self._path = Path(policy.folder)
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The oldest first: names begin with the time.
        self._sizes: dict[str, int] = {}
        self._total = 0
        self.unmasked_bytes = 0  # that exchanges keep in memory
        self.look()

    def _scan(self) -> None:
        """Count all files, also those of other workers."""
        self._scanned = time.monotonic()
        self._sizes = {}
        with os.scandir(self._path) as found:
            for one in sorted(found, key=lambda entry: entry.name):
                with suppress(FileNotFoundError):  # another worker has deleted it
                    if one.name.endswith(lines.SUFFIX) and one.is_file():
                        self._sizes[one.name] = one.stat().st_size
                    elif one.name.endswith(lines.SUFFIX + _PART) and _is_old(one):
                        Path(one.path).unlink()
        self._total = sum(self._sizes.values())

    def open(self, began: float, request_id: str) -> tuple[str, int]:
        """Create the file of an exchange; return its name and descriptor."""
        name = file_name(began, request_id)
        return name, self._create(name)

    def _create(self, name: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_BINARY", 0)
        return os.open(f"{self._policy.folder}{os.sep}{name}", flags, 0o600)

    def replace(self, name: str, data: bytes) -> None:
        """Give a file other content: it has the old or the new one, whenever this process ends."""
        part = self._path / (name + _PART)
        file = self._create(part.name)
        try:
            _write_all(file, [data])
        except OSError:
            part.unlink()  # it takes room that the disk does not have
            raise
        finally:
            os.close(file)
        part.replace(self._path / name)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return (self._path / name).read_bytes()

    def finish(self, name: str, size: int) -> None:
        """Count a file that is closed; delete one that is empty."""
        if not size:
            with suppress(OSError):
                (self._path / name).unlink()
            return
        if time.monotonic() - self._scanned > _SCAN_SECONDS:
            with suppress(OSError):  # the folder is gone: the next recording reports it
                self._scan()
        self._total += size - self._sizes.pop(name, 0)
        self._sizes[name] = size
        self.prune()

    def look(self) -> None:
        """Count all files again, and delete what is beyond the limits by now."""
        self._scan()
        self.prune()

    def prune(self) -> None:
        """Delete the oldest files until the limits hold."""
        policy = self._policy
        oldest = time.strftime("%Y%m%dT%H%M%S", time.gmtime(time.time() - policy.max_age_seconds))
        while self._sizes:
            name = next(iter(self._sizes))
            within = self._total <= policy.max_bytes and len(self._sizes) <= policy.max_files
            if within and name >= oldest:
                return
            self._total -= self._sizes.pop(name)
            with suppress(OSError):
                (self._path / name).unlink()


class ExchangeFile:
    """The recording of one exchange.

    A masked one is written as far as its mask is final, and once more at the end: then all names are known.
    """

    def __init__(
        self, folder: Folder, policy: frames.Policy, began: frames.Begin, body: bytes
    ) -> None:
        self._folder = folder
        self._id, self._time = began.id, began.time
        self._most = policy.max_file_bytes
        own = (
            *credentials_of(began.headers, began.keys),
            *mcp_credentials_of(began.dialect, body),
        )
        secrets = (*policy.secrets, *own)
        self._blotter = blotter(secrets, policy.patterns)
        self._pieces = PiecesWatch(self._blotter)
        self._waiting: list[bytes] = []  # parts of lines that are not written yet
        self._size = 0
        self._dropped = 0
        self._times: list[float] = []  # of reads of this attempt
        self._tail = b""  # of the upstream's bytes: a line that is not complete
        self._came: tuple[float, bytes] | None = None  # bytes whose events may follow
        self._texts: Texts | None = (
            None  # of the last events, if they have a run and the client has not got it
        )
        self._read_frames = TextFrames(self._blotter)
        self._written_frames = TextFrames(self._blotter)
        self.name: str
        self.name, self._file = folder.open(began.time, began.id)
        self._masks = self._masks_again = policy.masks
        self._mask = _line_mask() if policy.masks else None
        self._unmasked: list[bytes] = []  # all lines, for the second time
        self._line(
            lines.Opening(
                version=lines.VERSION,
                program=policy.program,
                id=began.id,
                time=began.time,
                dialect=began.dialect,
                method=began.method,
                path=self._text(_SECRET_VALUE.sub(r"\1***", began.path)),
                headers=self._headers(began.headers),
                owner=began.owner,
            )
        )
        received = lines.Received(at=round(began.at, _DIGITS), body=_EMPTY)
        self._line_with(received, body, cut=LIST_CUT)

    def take(self, frame: frames.Frame, payload: bytes) -> None:
        """Write what happened."""
        # Only the type is compared: this runs for every event, and a class pattern costs as much as the rest.
        kind = type(frame)
        if kind is frames.Came:
            self._take_came()
            self._texts = None
            self._came = cast("frames.Came", frame).at, payload
        elif kind is frames.Meant:
            self._take_events(cast("frames.Meant", frame), payload)
        elif kind is frames.Sent:
            self._take_came()
            at = round(cast("frames.Sent", frame).at, _DIGITS)
            written = lines.Written(at=at, data=_EMPTY)
            self._line_with(written, payload, self._written_frames)
            self._texts = None
        else:
            self._take_came()
            self._take_rare(frame, payload)

    def _take_came(self) -> None:
        """Write the upstream's bytes that wait for their events."""
        if self._came is not None:
            (at, data), self._came = self._came, None
            self._read(at, data)

    def _take_events(self, frame: frames.Meant, events: bytes) -> None:
        start, end = frame.run, frame.run_end
        self._texts = self._clean_texts(events, start, end) if start else None
        self._take_came()
        if self._texts is None:
            events = self._without_secrets(events)
            self._pieces.take(events)
            self._append(b'{"line":"events","events":', events, b"}\n")
            return
        before, after = self._without_secrets(events[:start]), self._without_secrets(events[end:])
        if len(after) > 1:
            self._pieces.take(b"[" + after[1:])
        run = events[start:end]
        self._append(b'{"line":"events","events":', before, run, after, b"}\n")

    def _without_secrets(self, events: bytes) -> bytes:
        """Return events without the secrets in each of them."""
        blotted = self._blotter.blot(events)
        # A stage may have joined the pieces of a call, which the upstream's bytes still have one by one.
        self._pieces.found = self._pieces.found or blotted != events
        return blotted

    def _clean_texts(self, events: bytes, start: int, end: int) -> Texts | None:
        """Return the texts of a run; None if they have a secret, which may have begun before."""
        if not self._blotter.reads_parts or self._pieces.found:
            return None
        texts = texts_of(events[start:end])
        if texts is None:
            return None
        if start > 1:
            self._pieces.take(events[: start - 1] + b"]")
        return texts if self._pieces.take_text(texts.joined) else None

    def _take_rare(self, frame: frames.Frame, payload: bytes) -> None:
        match frame:
            case frames.Ask():
                self._tail = b""
                self._times = []
                attempt = lines.Attempt(
                    at=round(frame.at, _DIGITS),
                    upstream=frame.upstream,
                    model=frame.model,
                    url=self._text(_QUERY_VALUE.sub("***", frame.url)),
                    headers=self._headers(frame.headers),
                    body=_EMPTY,
                )
                self._line_with(attempt, payload, cut=LIST_CUT)
            case frames.Answered():
                reply = lines.Reply(
                    at=round(frame.at, _DIGITS),
                    status=frame.status,
                    headers=self._headers(frame.headers),
                )
                line = lines.encode_line(reply)
                if payload:
                    self._append(line.removesuffix(_NO_TRANSLATION), payload, b"}\n")
                else:
                    self._append(line)
            case frames.Ended():
                fault = msgspec.structs.replace(
                    frame.fault, message=self._text(frame.fault.message)
                )
                self._rest(frame.at)
                self._line(lines.Failed(at=round(frame.at, _DIGITS), fault=fault))
            case frames.Close():
                self._end(frame, payload)
            case _:
                pass

    def flush(self) -> None:
        """Write the lines that wait; of masked ones those that are final."""
        self._take_came()
        if self._mask is not None:
            self._waiting += self._masked_lines(self._mask)
        if self._waiting:
            parts, self._waiting = self._waiting, []
            _write_all(self._file, parts)

    def finish(self) -> None:
        """Write what there is, and close the file."""
        self._take_came()
        self._pieces.look()
        if self._mask is not None:
            self._mask.close()
        self.flush()
        if self._masks_again:
            self._write_masked()
        elif self._pieces.found and not self._masks:
            self._write_without_pieces()
        self.close_file()

    def close_file(self) -> None:
        """Close the file, if it is open; one without content is deleted."""
        self._forget_unmasked()
        if self._file >= 0:
            written = os.fstat(self._file).st_size
            os.close(self._file)
            self._folder.finish(self.name, self._size if written else 0)
            self._file = -1

    def _end(self, frame: frames.Close, record: bytes) -> None:
        self._rest(frame.at)
        end = lines.ExchangeOutcome(
            at=round(frame.at, _DIGITS),
            status=frame.status,
            record=Raw(self._blotter.blot(record)),
            dropped=self._dropped + frame.dropped,
            stalls=stalls(self._times),
        )
        self._most = sys.maxsize
        self._line(end)
        self.finish()

    def _masked_lines(self, mask: "LineMask") -> list[bytes]:
        try:
            mask.mask()
            return list(map(lines.encode_line, mask.lines()))
        except _UNMASKABLE as error:
            self._give_up_mask(error)
            return []

    def _write_masked(self) -> None:
        """Write all lines again, with all names known."""
        from dragoman.recorder.mask import masked_bytes  # noqa: PLC0415 -- few gateways need it

        names = None if self._mask is None else self._mask.names
        try:
            data = masked_bytes(b"".join(self._unmasked), names)
        except _UNMASKABLE as error:
            self._give_up_mask(error)
            return
        self._folder.replace(self.name, data)
        self._size = len(data)

    def _write_without_pieces(self) -> None:
        """Write all lines again, without the secrets that came in pieces."""
        from dragoman.recorder.recording import parse_recording  # noqa: PLC0415 -- few exchanges need it

        data = self._folder.read(self.name)
        try:
            recording = parse_recording(data, self.name)
            made = map(lines.encode_line, blot_pieces(recording.lines, self._blotter))
            data = b"".join(made)
        except _UNMASKABLE as error:
            _report(f"{self._id}: a secret in pieces cannot be removed: {type(error).__name__}")
            data = b""  # it must not stay
        self._folder.replace(self.name, data)
        self._size = len(data)

    def _give_up_mask(self, error: Exception) -> None:
        """End a recording that cannot be masked where it is: its content must not be written."""
        _report(f"{self._id}: cannot be masked: {type(error).__name__}")
        self._mask = None
        self._forget_unmasked()

    def _forget_unmasked(self) -> None:
        self._masks_again = False
        self._folder.unmasked_bytes -= sum(map(len, self._unmasked))
        self._unmasked = []

    def _read(self, at: float, data: bytes) -> None:
        """Write the lines that are complete; nothing came: write the rest."""
        if len(self._times) < _MOST_TIMES:
            self._times.append(at)
        held = self._tail + data if self._tail else data
        end = held.rfind(b"\n") + 1 if data else len(held)
        self._tail = held[end:]
        size = len(data)
        read = lines.Read(at=round(at, _DIGITS), size=size, ended=not size)
        self._line_with(read, held[:end], self._read_frames)

    def _rest(self, at: float) -> None:
        """Write a line of the upstream that was never completed."""
        if self._tail:
            self._line_with(lines.Read(at=round(at, _DIGITS), size=0), self._tail)
            self._tail = b""

    def _line(self, line: lines.Line) -> None:
        self._append(lines.encode_line(line))

    def _line_with(
        self,
        line: lines.Line,
        data: bytes,
        repeated: TextFrames | None = None,
        cut: bytes = OBJECT_CUT,
    ) -> None:
        """Write a line whose bytes are still empty with these, which may be frames with the texts of the last events."""
        if not data:
            self._line(line)
            return
        before, _, after = lines.encode_line(line).rpartition(b":{}")
        try:
            parts = None
            if repeated is not None and self._texts is not None:
                parts = repeated.escape(data, self._texts)
            text = parts or [self._blotter.blot_escaped(data, cut)]
        except UnicodeDecodeError:
            payload = msgspec.json.encode(lines.Payload.of(self._blotter.blot(data)))
            self._append(before, b":", payload, after)
        else:
            self._append(before, b':{"text":"', *text, b'"}', after)

    def _append(self, *line: bytes) -> None:
        """Write a line, which may be in parts: large ones are copied only once, when they are written."""
        size = sum(map(len, line))
        if self._size + size > self._most:
            self._dropped += size
            return
        self._size += size
        if self._masks:
            self._append_unmasked(b"".join(line))
        else:
            self._waiting += line

    def _append_unmasked(self, line: bytes) -> None:
        if self._mask is None:
            return  # it was given up
        if self._masks_again:
            self._unmasked.append(line)
            self._folder.unmasked_bytes += len(line)
            if self._folder.unmasked_bytes > _MOST_UNMASKED:
                self._forget_unmasked()
        try:
            self._mask.take(lines.decode_line(line))
        except _UNMASKABLE as error:
            self._give_up_mask(error)

    def _text(self, text: str) -> str:
        blotted = self._blotter.blot(text.encode("utf-8", "replace"))
        return blotted.decode("utf-8", "replace")

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        return {
            name: "***" if name.lower() in SECRET_HEADERS else self._text(value)
            for name, value in headers.items()
        }


class Writer:
    """All exchanges that are being recorded."""

    def __init__(self) -> None:
        self._policy: frames.Policy | None = None
        self._folder: Folder | None = None
        self._open: dict[int, ExchangeFile] = {}
        self._touched: set[int] = set()  # exchanges with lines to write

    def take(self, batch: list[tuple[frames.Frame, bytes]]) -> None:
        """Do what frames ask for; a file that cannot be written is given up."""
        for frame, payload in batch:
            number = 0 if isinstance(frame, frames.Policy) else frame.exchange
            try:
                self._take(frame, number, payload)
            except OSError as error:
                self._give_up(number, error)

    def flush(self) -> None:
        """Write what was taken since the last time."""
        touched, self._touched = self._touched, set()
        for number in touched & self._open.keys():
            try:
                self._open[number].flush()
            except OSError as error:
                self._give_up(number, error)

    def _take(self, frame: frames.Frame, number: int, payload: bytes) -> None:
        of = self._open.get(number)
        if of is not None:
            of.take(frame, payload)
            self._touched.add(number)
            if type(frame) is frames.Close:
                del self._open[number]
        elif isinstance(frame, frames.Policy):
            if frame.masks:
                _line_mask().prepare()  # no exchange waits for it
            self._policy, self._folder = frame, None
            self._folder = Folder(frame)
        elif isinstance(frame, frames.Begin) and self._policy is not None:
            # Once more if the folder could not be used: the disk may have changed.
            folder = self._folder or Folder(self._policy)
            self._folder = None
            self._open[number] = ExchangeFile(folder, self._policy, frame, payload)
            self._folder = folder
            self._touched.add(number)

    def _give_up(self, number: int, error: OSError) -> None:
        given_up = self._open.pop(number, None)
        _report(f"{error.filename or getattr(given_up, 'name', 'a recording')}: {error.strerror}")
        if given_up is not None:
            given_up.close_file()

    def look(self) -> None:
        """Delete recordings that have become too old while nothing was recorded."""
        if self._folder is not None:
            with suppress(OSError):  # the next recording reports it
                self._folder.look()

    def end(self) -> None:
        """Close all files as far as they are: the gateway is gone."""
        for number, one in list(self._open.items()):
            try:
                one.finish()
            except OSError as error:
                self._give_up(number, error)


def _report(reason: str) -> None:
    sys.stdout.write(f"{reason}\n")
    sys.stdout.flush()


def _write_all(file: int, parts: list[bytes]) -> None:
    # To join large parts would copy all that is recorded once more.
    written = os.writev(file, parts) if _JOINS_PARTS and len(parts) <= _MOST_PARTS else 0
    if written and written == sum(map(len, parts)):
        return
    left = memoryview(b"".join(parts))[written:]
    while left:
        left = left[os.write(file, left) :]


def _is_old(part: "os.DirEntry[str]") -> bool:
    return time.time() - part.stat().st_mtime > _PART_SECONDS


def _line_mask() -> "LineMask":
    from dragoman.recorder.mask import LineMask  # noqa: PLC0415 -- few gateways need it

    return LineMask()


def credentials_of(headers: Mapping[str, str], in_url: Iterable[str] = ()) -> Iterator[str]:
    """Yield a client's credentials, which may occur elsewhere in the exchange too."""
    shown = [
        value.rpartition(" ")[2]
        for name, value in headers.items()
        if name.lower() in SECRET_HEADERS
    ]
    yield from (one for one in (*shown, *in_url) if len(one) >= _LEAST_SECRET)


def mcp_credentials_of(dialect_name: str, body: bytes) -> Iterator[str]:
    """Yield the credentials for MCP servers in a request.  One that cannot be read shows none."""
    if body.find(b'"mcp') < 0:
        return
    from dragoman.dialects import dialect  # noqa: PLC0415 -- few requests define such servers
    from dragoman.dialects.server_tools import may_have_mcp, mcp_secrets  # noqa: PLC0415 -- the same
    from dragoman.limits import DEFAULT_LIMITS  # noqa: PLC0415 -- the same

    if not may_have_mcp(body):
        return
    try:
        request = dialect(dialect_name).decode_request(body, sealer=None, limits=DEFAULT_LIMITS)
    except DragomanError:
        return
    yield from mcp_secrets(request)


def main() -> None:
    """Write recordings until the input ends."""
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_NICE)  # the gateway goes first
    buffer, writer = frames.FrameBuffer(), Writer()
    while data := _read(writer):
        for batch in buffer.feed(data):
            writer.take(batch)
        writer.flush()
        if len(data) < _FEW_BYTES:
            time.sleep(_PAUSE)  # the gateway need not wake this process for each write
    writer.end()


def _read(writer: Writer) -> bytes:
    """Return what comes next on standard input."""
    file = sys.stdin.fileno()
    if sys.platform != "win32":  # there a pipe cannot be waited for
        while not select.select([file], [], [], _IDLE_SECONDS)[0]:
            writer.look()
    return os.read(file, _READ_BYTES)


if __name__ == "__main__":
    main()
