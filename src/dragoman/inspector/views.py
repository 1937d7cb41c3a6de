"""Views of recordings that pages look at: each is taken apart once, and kept for a while.

Everything here is called in threads.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.inspector.parts import Gone, Prepared, PrepareResult, Question, Unreadable, prepare
from dragoman.inspector.recordings import FIRST_BYTES, GoneError
from dragoman.inspector.summary import Summary
from dragoman.recorder.recording import RecordingError

KEEP_SECONDS: Final = 120.0  # without a question
_MOST_BYTES: Final = 64 * 1024 * 1024  # of all views; the newest one is kept, whatever its size
_PROCESS_SECONDS: Final = 300.0


class _Kept(Struct):
    prepared: Prepared
    stamp: tuple[int, int]  # size and time of the file
    used: float


class Views:
    """The views of a folder."""

    def __init__(
        self, *, most_bytes: int = _MOST_BYTES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most_bytes = most_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, bool], _Kept] = {}  # by file, and whether it is the first part
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def kept(self, path: Path, *, first: bool = False) -> Prepared | None:
        """Return a cached view whose file has not changed; with `first` also one of the first part alone.

        Raises:
            GoneError: the file was deleted.
        """
        stamp = _stamp(path)
        with self._lock:
            self._drop_old()
            for part in (False, True) if first else (False,):
                found = self._kept.get((path.name, part))
                if found is not None and found.stamp == stamp:
                    found.used = self._clock()
                    return found.prepared
        return None

    def read(self, path: Path, found: Summary, *, address: str, first: bool = False) -> Prepared:
        """Prepare the view of a recording, with `first` only of the first part of a large one, and cache it.

        Raises:
            GoneError: the file was deleted.
            RecordingError: it is not a recording, or of a newer version.
        """
        stamp = _stamp(path)
        if first or not is_large(path):
            prepared = prepare(path, found, address=address, first=first)
        else:
            prepared = self._ask_process(Question(str(path), found, address))
        with self._lock:
            if not prepared.more:
                self._kept.pop((path.name, True), None)
            self._kept[path.name, prepared.more] = _Kept(prepared, stamp, self._clock())
            self._drop_old()
        return prepared

    def drop_old(self) -> None:
        """Drop views that no page has asked for in a while."""
        with self._lock:
            self._drop_old()

    def close(self) -> None:
        """End the processes that read."""
        with self._lock:
            self._closed = True
            for one in self._processes:
                one.kill()

    def _drop_old(self) -> None:
        now, left = self._clock(), self._most_bytes
        newest = sorted(self._kept.items(), key=lambda one: one[1].used, reverse=True)
        for number, (key, one) in enumerate(newest):
            left -= one.prepared.size
            if now - one.used > KEEP_SECONDS or (number and left < 0):
                del self._kept[key]

    def _ask_process(self, question: Question) -> Prepared:
        """Let another process take a large recording apart.

        Raises:
            GoneError: the file was deleted.
            RecordingError: it cannot be read, or not in time.
        """
        with self._lock:
            if self._closed:
                raise RecordingError("the inspector is closed")
            process = subprocess.Popen(
                (sys.executable, "-m", "dragoman.inspector.parts"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt at the terminal is for the gateway, which then ends it
            )
            self._processes.add(process)
        try:
            with process:
                out, _ = process.communicate(msgspec.msgpack.encode(question), _PROCESS_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise RecordingError(
                f"it was not read in {_PROCESS_SECONDS:.0f} s; download it to see it"
            ) from None
        finally:
            with self._lock:
                self._processes.discard(process)
        if process.returncode:
            raise RecordingError(f"reading it ended with {process.returncode}")
        answer: PrepareResult = msgspec.msgpack.decode(out, type=PrepareResult)
        if isinstance(answer, Gone):
            raise GoneError(answer.message)
        if isinstance(answer, Unreadable):
            raise RecordingError(answer.message)
        return answer


def is_large(path: Path) -> bool:
    """Return whether a recording is shown in parts.

    Raises:
        GoneError: the file was deleted.
    """
    return _stamp(path)[0] > FIRST_BYTES


def _stamp(path: Path) -> tuple[int, int]:
    try:
        facts = path.stat()
    except OSError as error:
        raise GoneError(f"the recording cannot be read: {error.strerror}") from error
    return facts.st_size, facts.st_mtime_ns
