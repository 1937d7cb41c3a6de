"""Records exchanges: sends them to the process that writes them, `dragoman.recorder.writer`.

The gateway only writes bytes to a pipe, once for all that happens in a turn of the event loop.  Where only problems
are recorded, it keeps references to the bytes of an exchange until its end, and copies them only if there was one.
A request never waits for its recording: if the writer falls behind by more than `_MOST_WAITING` bytes, or exchanges
hold more than `_MOST_HELD`, the exchanges under way are recorded no further.
"""

import asyncio
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Final, cast

from aiohttp import web

from dragoman._version import __version__
from dragoman.context import Exchange
from dragoman.dialects import dialect as find_dialect
from dragoman.dialects.encoding import encode
from dragoman.gateway.config.settings import Record
from dragoman.gateway.logging import Logger, RequestRecord
from dragoman.globs import Glob
from dragoman.recorder import frames
from dragoman.recorder.lines import Translation
from dragoman.redaction import Secrets
from dragoman.turn.events import EventOrRun, Fault
from dragoman.turn.request import DialectName

if sys.platform == "linux":
    import fcntl

# A client asks with this header for a recording of its exchange; its value is anything but `0`.
HEADER: Final = "x-dragoman-record"
_MOST_WAITING: Final = 64 * 1024 * 1024
_MOST_HELD: Final = 256 * 1024 * 1024
_CHECK_BYTES: Final = 64 * 1024  # of an exchange, between two looks at these limits
_PIPE_BYTES: Final = 1024 * 1024  # that the system holds: the most that Linux allows without rights
_STOP_SECONDS: Final = 30.0
_STEADY_SECONDS: Final = 60.0  # a writer that ends earlier is started again later each time
_LONGEST_PAUSE: Final = 60.0  # seconds before such a start


class Recorder:
    """The writer's process."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._numbers = itertools.count(1)
        self._settings = Record()
        self._problems: tuple[Glob, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: asyncio.WriteTransport | None = None
        self._reports: asyncio.Task[None] | None = None
        self._restart: asyncio.Task[None] | None = None
        self._policy: frames.Policy | None = None
        self._ends = 0  # writers in a row that ended soon after their start
        self._started = 0.0
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._batch: list[frames.Frame] = []  # for the next write
        self._payloads: list[bytes] = []  # of each of them
        self._behind = False  # the writer is too slow
        self._held_too_much = False
        self.held_bytes = 0  # of exchanges that may turn out to be problems

    def reconfigure(self, settings: Record, secrets: Secrets) -> None:
        """Do what `configure` does, soon.  Any thread may ask for it."""
        asyncio.run_coroutine_threadsafe(self._reconfigure(settings, secrets), self._loop)

    async def _reconfigure(self, settings: Record, secrets: Secrets) -> None:
        try:
            await self.configure(settings, secrets)
        except OSError as error:
            self._log_failed_start(error)

    def _log_failed_start(self, error: OSError) -> None:
        reason = f"the process that writes recordings cannot be started: {error.strerror}"
        self._logger.notice("recording failed", level="error", reason=reason)

    async def configure(self, settings: Record, secrets: Secrets) -> None:
        """Record as the settings ask for from now on; the writer is started when it is first needed."""
        self._settings = settings
        self._problems = tuple(map(Glob, settings.problems))
        if not settings.dir:
            return
        policy = frames.Policy(
            folder=settings.dir,
            program=f"dragoman {__version__}",
            secrets=secrets,
            patterns=settings.secrets,
            max_file_bytes=settings.max_file_bytes,
            max_bytes=settings.max_bytes,
            max_files=settings.max_files,
            max_age_seconds=settings.max_age_days * 86_400,
            masks=settings.content == "shape",
        )
        self._policy = policy
        if self._process is None:
            await self._start(policy)
        else:
            self.send(policy)

    def begin(  # noqa: PLR0913 -- the facts of a request
        self,
        http: web.BaseRequest,
        *,
        request_id: str,
        dialect: str,
        arrived: float,
        may_ask: bool,
        owner: str,
        body: bytes,
    ) -> "ExchangeRecording | None":
        """Begin to record an exchange, if the settings or the client want it."""
        settings = self._settings
        if not settings.dir:
            return None
        asked = may_ask and http.headers.get(HEADER, "0") != "0"
        if settings.when == "asked" and not asked:
            return None
        keep = asked or settings.when == "always"
        recording = ExchangeRecording(
            self, next(self._numbers), most=settings.max_file_bytes, keep=keep
        )
        recording.begin(
            http, request_id=request_id, dialect=dialect, arrived=arrived, owner=owner, body=body
        )
        return recording

    def is_problem(self, record: RequestRecord) -> bool:
        """Return whether an exchange is one to keep where only problems are kept."""
        if record.status >= 400 or record.error or record.failures:
            return True
        return any(glob.matches(code) for code in record.warnings for glob in self._problems)

    def has_room(self) -> bool:
        """Return whether more can be recorded; log when there is no room any more."""
        held = self.held_bytes > _MOST_HELD
        if held and not self._held_too_much:
            self._log_incomplete("the exchanges in progress are too large to be kept in memory")
        self._held_too_much = held
        if self._behind and self._pipe is not None:
            self._behind = self._pipe.get_write_buffer_size() > _MOST_WAITING
        return not held and not self._behind

    def _log_incomplete(self, reason: str) -> None:
        self._logger.notice("recordings incomplete", level="warning", reason=reason)

    def send(self, frame: frames.Frame, payload: bytes = b"") -> None:
        """Hand a frame to the writer, with all others of this turn of the event loop."""
        if not self._batch:
            self._loop.call_soon(self._flush)
        self._batch.append(frame)
        self._payloads.append(payload)

    def send_events(self, number: int, events: Sequence[EventOrRun]) -> None:
        """Hand events to the writer.  Any thread may do so."""
        frame, payload = frames.encode_meaning(number, events)
        if threading.get_ident() == self._thread:
            self.send(frame, payload)
        else:  # of heavy work
            self._loop.call_soon_threadsafe(self.send, frame, payload)

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        payloads, self._payloads = self._payloads, []
        pipe = self._pipe
        if pipe is None or not batch:
            return
        pipe.writelines(frames.encode_batch(batch, payloads))
        if not self._behind and pipe.get_write_buffer_size() > _MOST_WAITING:
            self._behind = True
            self._log_incomplete("the disk or the processor is too slow")

    async def stop(self) -> None:
        """Let the writer finish what it was given."""
        self._flush()
        if self._restart is not None:
            self._restart.cancel()
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        if process is None:
            return
        if pipe is not None:
            pipe.close()
        elif process.stdin is not None:  # it was being started
            process.stdin.close()
        try:
            await asyncio.to_thread(process.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)
        if self._reports is not None:
            await self._reports

    async def _start(self, policy: frames.Policy) -> None:
        self._process = process = subprocess.Popen(  # noqa: ASYNC220 -- once, at the start
            (sys.executable, "-m", "dragoman.recorder.writer"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        if sys.platform == "linux" and process.stdin is not None:
            with suppress(OSError):  # the user has too many pipes
                fcntl.fcntl(process.stdin, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        loop = self._loop
        self._started = loop.time()
        pipe, _ = await loop.connect_write_pipe(
            lambda: _Pipe(lambda: self._lost(process)), cast("IO[bytes]", process.stdin)
        )
        pipe.writelines(frames.encode_batch([policy], [b""]))  # before any exchange
        self._pipe = pipe
        reader = asyncio.StreamReader()
        reports, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), cast("IO[bytes]", process.stdout)
        )
        self._reports = asyncio.create_task(self._log_reports(process, reader, reports))

    def _lost(self, process: "subprocess.Popen[bytes]") -> None:
        """Log that the writer ended by itself, and start another: the exchanges under way are recorded no further."""
        pipe = self._pipe
        if pipe is None or process is not self._process:
            return
        if not pipe.is_closing():
            pipe.abort()
        self._process = self._pipe = None
        reason = (
            "the process that writes recordings has ended; the exchanges in progress are incomplete"
        )
        self._logger.notice("recording stopped", level="error", reason=reason)
        self._restart = self._loop.create_task(self._start_again(process))

    async def _start_again(self, ended: "subprocess.Popen[bytes]") -> None:
        await asyncio.to_thread(ended.wait)
        steady = self._loop.time() - self._started > _STEADY_SECONDS
        self._ends = 0 if steady else self._ends + 1
        if self._ends > 1:
            await asyncio.sleep(min(2.0**self._ends, _LONGEST_PAUSE))
        if self._process is None and self._policy is not None:
            try:
                await self._start(self._policy)
            except OSError as error:
                self._log_failed_start(error)

    async def _log_reports(
        self,
        process: "subprocess.Popen[bytes]",
        reader: asyncio.StreamReader,
        pipe: asyncio.ReadTransport,
    ) -> None:
        """Log what the writer could not write, until it ends."""
        while line := await reader.readline():
            reason = line.decode("utf-8", "replace").strip()
            self._logger.notice("recording failed", level="error", reason=reason)
        pipe.close()  # uvloop leaves it open at its end
        self._lost(process)


class _Pipe(asyncio.BaseProtocol):
    def __init__(self, lost: Callable[[], object]) -> None:
        self._lost = lost

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()


class ExchangeRecording:
    """What is recorded of one exchange, as it happens."""

    __slots__ = (
        "_counted", "_dropped", "_held", "_most", "_recorder", "_size", "_started", "_unchecked", "number",
    )  # fmt: skip

    def __init__(self, recorder: Recorder, number: int, *, most: int, keep: bool) -> None:
        self._recorder = recorder
        self._started = time.perf_counter()
        self._most = most
        # Until it is known whether the exchange is kept; events are encoded only then.
        self._held: list[tuple[frames.Frame, bytes] | list[EventOrRun]] | None = (
            None if keep else []
        )
        self._size = 0  # bytes of frames so far
        self._unchecked = -1  # the size up to which there is room
        self._counted = 0  # bytes that `Recorder.held_bytes` has of it
        self._dropped = 0  # bytes that are not recorded
        self.number: int = number

    def begin(  # noqa: PLR0913 -- the facts of a request
        self,
        http: web.BaseRequest,
        *,
        request_id: str,
        dialect: str,
        arrived: float,
        owner: str,
        body: bytes,
    ) -> None:
        """Record the client's request."""
        frame = frames.Begin(
            exchange=self.number,
            id=request_id,
            time=arrived,
            dialect=dialect,
            method=http.method,
            path=_without_keys(http, dialect),
            headers=dict(http.headers),
            at=self._now(),
            owner=owner,
            keys=tuple(keys_in_url(http, dialect)),
        )
        self._add(frame, body)

    def asked(
        self, *, upstream: str, model: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> None:
        """Record that an upstream is asked."""
        frame = frames.Ask(
            exchange=self.number,
            at=self._now(),
            upstream=upstream,
            model=model,
            url=url,
            headers=dict(headers),
        )
        self._add(frame, body)

    def answered(
        self, status: int, headers: Mapping[str, str], translation: Translation | None
    ) -> None:
        """Record that an upstream began to answer."""
        frame = frames.Answered(
            exchange=self.number,
            at=self._now(),
            status=status,
            headers=dict(headers),
        )
        self._add(frame, b"" if translation is None else encode(translation))

    def read(self, data: bytes) -> None:
        """Record bytes of the upstream; none at the end of its answer."""
        self._add(frames.Came(self.number, self._now()), data)

    def failed(self, fault: Fault) -> None:
        """Record that the gateway ended the upstream's answer."""
        self._add(frames.Ended(self.number, self._now(), fault))

    def wrote(self, data: bytes) -> None:
        """Record bytes for the client."""
        self._add(frames.Sent(self.number, self._now()), data)

    def watch(self, _exchange: Exchange) -> "_EventTap":
        """Return the stage that records the events of an answer."""
        return _EventTap(self)

    def meant(self, events: Sequence[EventOrRun]) -> None:
        """Record events.  Any thread may do so."""
        if self._dropped:
            return
        if self._held is None:
            self._recorder.send_events(self.number, events)
        else:
            self._held.append(list(events))

    def close(self, record: RequestRecord) -> None:
        """Record how the exchange ended, and forget it if only problems are kept and it had none."""
        recorder, held = self._recorder, self._held
        if held is not None:
            recorder.held_bytes -= self._counted
            self._held = None
            if not recorder.is_problem(record):
                return
            for one in held:
                if isinstance(one, list):
                    recorder.send_events(self.number, one)
                else:
                    recorder.send(*one)
        end = frames.Close(
            exchange=self.number,
            at=self._now(),
            status=record.status,
            dropped=self._dropped,
        )
        recorder.send(end, encode(record))

    def _now(self) -> float:
        """Return milliseconds since the request was read."""
        return (time.perf_counter() - self._started) * 1000

    def _add(self, frame: frames.Frame, payload: bytes = b"") -> None:
        size = len(payload) or 1
        self._size += size
        if self._size > self._unchecked and not self._has_room(size):
            return
        if self._held is None:
            self._recorder.send(frame, payload)
        else:
            self._held.append((frame, payload))

    def _has_room(self, size: int) -> bool:
        """Return whether a frame can be recorded; none is after one that could not, because a gap would mislead."""
        full = self._held is not None and self._size - size > self._most
        if self._dropped or full or not self._recorder.has_room():
            self._dropped += size
            self._unchecked = -1
            return False
        self._unchecked = self._size + _CHECK_BYTES
        if self._held is not None:
            self._unchecked = min(self._unchecked, self._most)
            self._recorder.held_bytes += self._size - self._counted
            self._counted = self._size
        return True


def keys_in_url(http: web.BaseRequest, spoken: DialectName) -> list[str]:
    """Return the keys in a request's URL, in a dialect whose clients may put one there."""
    names = find_dialect(spoken).key_parameters
    return [key for name in names for key in http.query.getall(name, ()) if key]


def _without_keys(http: web.BaseRequest, spoken: str) -> str:
    """Return the path and the query of a request, without keys that a client of this dialect put there."""
    if "?" not in http.raw_path:
        return http.rel_url.raw_path  # a URL need not be written for it
    keys = find_dialect(spoken).key_parameters
    if not any(name in http.query for name in keys):
        return http.path_qs
    return str(http.rel_url.without_query_params(*keys))


class _EventTap:
    """A stage that changes nothing."""

    def __init__(self, recording: ExchangeRecording) -> None:
        self._recording = recording

    @property
    def pending(self) -> bool:
        return False

    def feed(self, events: Sequence[EventOrRun], /) -> list[EventOrRun]:
        """Record events."""
        if events:
            self._recording.meant(events)
        return events if isinstance(events, list) else list(events)
