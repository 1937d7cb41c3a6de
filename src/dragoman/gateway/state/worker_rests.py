"""Which upstreams rest, known to all workers of one gateway: a small file in the folder that they share.

The file has the time at which each rest ends, by the clock that all processes of a machine have in common.  A worker
that changes it holds a lock and replaces the file as a whole, so that the others read it without waiting.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

if sys.platform != "win32":  # which has no workers
    import fcntl

_ENDS: Final = msgspec.json.Decoder(dict[str, float])


class WorkerRests:
    """The file, and what this worker last read of it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "rests"
        self._next = folder / "rests.next"
        self._lock = os.open(folder / "rests.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        os.close(self._lock)

    def rest(self, upstream: str, seconds: float) -> None:
        """Let all workers know that an upstream rests.  A rest is never shortened."""
        end = time.monotonic() + seconds
        self._change(lambda ends: ends.update({upstream: max(end, ends.get(upstream, end))}))

    def well(self, upstream: str) -> None:
        """Let all workers know that an upstream answers again."""
        self._change(lambda ends: ends.pop(upstream, None))

    def read(self) -> dict[str, float]:
        """Return the seconds that each upstream still rests."""
        now = time.monotonic()
        return {name: end - now for name, end in self._ends().items() if end > now}

    def _ends(self) -> dict[str, float]:
        with suppress(OSError, msgspec.MsgspecError):  # without a file nothing rests
            return _ENDS.decode(self._path.read_bytes())
        return {}

    def _change(self, change: Callable[[dict[str, float]], object]) -> None:
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            now = time.monotonic()
            ends = {name: end for name, end in self._ends().items() if end > now}
            change(ends)
            with suppress(OSError):  # other workers find out by themselves
                made = os.open(self._next, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(made, "wb") as file:
                    file.write(msgspec.json.encode(ends))
                self._next.replace(self._path)
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)
