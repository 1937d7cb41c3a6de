"""Key limits that hold for all workers of one gateway: the counts are in a file that every worker maps into memory.

A record of the file has the buckets of one key, what it has spent and, for each worker, the number of its requests under way.  A lock
on one byte guards all records; it is held for microseconds and never while a task waits.  Every worker also holds a
lock on the byte of its number as long as it lives.  The system releases it if the worker crashes: the
numbers of a worker whose byte is free do not count.
"""

import mmap
import os
import struct
import sys
from pathlib import Path
from typing import Final, Self

from dragoman.gateway.state.key_limits import KeyLimits, Levels, Meter, Refusal
from dragoman.gateway.state.spending import Spending, Spent

if sys.platform != "win32":  # which has no workers
    import fcntl

_WORKERS: Final = 256  # as many as the settings allow
_RECORDS: Final = 4096  # keys; those beyond it are counted by each worker alone
_NAME: Final = "key-limits"
_MUTEX: Final = 0  # the byte that guards the records
_ALIVE: Final = 1  # the byte of the first worker
_HEAD: Final = 4096
_DIGEST: Final = 16
_BUCKETS: Final = struct.Struct("=dddd")  # level and time of requests, of tokens
_SPENDING: Final = struct.Struct("=qqqq")  # day and its sum, month and its sum
_RUNNING: Final = struct.Struct(f"={_WORKERS}i")
_ONE: Final = struct.Struct("=i")
_RECORD: Final = _DIGEST + _BUCKETS.size + _RUNNING.size + _SPENDING.size
_SIZE: Final = _HEAD + _RECORDS * _RECORD  # a sparse file: unused records take no room
_FREE: Final = bytes(_DIGEST)


class WorkerLimits:
    """The file, and this worker's number in it.  `with` holds the lock."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._fd, _SIZE)
        self._map = mmap.mmap(self._fd, _SIZE)
        self._number = next(number for number in range(_WORKERS) if self._take(number))
        with self:
            for record in self._records():
                self.set_running(record, 0)  # of a worker that crashed

    def close(self) -> None:
        self._map.close()
        os.close(self._fd)

    def meter(self, digest: bytes) -> Meter:
        """Return the meter of a key, by a digest of 16 bytes."""
        with self:
            record = self._find(digest)
        return Meter() if record is None else WorkerMeter(self, record)

    # --- records, while the lock is held ----------------------------------------------------------

    def __enter__(self) -> Self:
        fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, _MUTEX)
        return self

    def __exit__(self, *_error: object) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _MUTEX)

    def load(self, record: int, meter: Meter) -> None:
        """Read the counts of a key, summed over the workers."""
        requests, tokens = meter.requests, meter.tokens
        requests.level, requests.at, tokens.level, tokens.at = _BUCKETS.unpack_from(
            self._map, record + _DIGEST
        )
        meter.running = sum(self._running(record))

    def store(self, record: int, meter: Meter) -> None:
        """Write the buckets of a key."""
        requests, tokens = meter.requests, meter.tokens
        _BUCKETS.pack_into(
            self._map,
            record + _DIGEST,
            requests.level, requests.at, tokens.level, tokens.at,
        )  # fmt: skip

    def load_spending(self, record: int, spending: Spending) -> None:
        """Read what a key has spent."""
        at = record + _RECORD - _SPENDING.size
        spending.day, spending.day_sum, spending.month, spending.month_sum = _SPENDING.unpack_from(
            self._map, at
        )

    def store_spending(self, record: int, spending: Spending) -> None:
        """Write what a key has spent."""
        at = record + _RECORD - _SPENDING.size
        _SPENDING.pack_into(
            self._map, at, spending.day, spending.day_sum, spending.month, spending.month_sum
        )

    def own_running(self, record: int) -> int:
        """Return how many requests of a key this worker has under way."""
        return self._running(record)[self._number]

    def set_running(self, record: int, value: int) -> None:
        """Write how many requests of a key this worker has under way."""
        self._write(record, self._number, value)

    def drop_dead(self, record: int) -> bool:
        """Forget the requests of workers that have ended; return whether there were any."""
        found = False
        for number, running in enumerate(self._running(record)):
            if running and number != self._number and self._take(number):
                self._write(record, number, 0)
                fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _ALIVE + number)
                found = True
        return found

    # --- the file ---------------------------------------------------------------------------------

    def _take(self, number: int) -> bool:
        """Take a worker's number, if no other process has it."""
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _ALIVE + number)
        except OSError:
            return False
        return True

    def _running(self, record: int) -> tuple[int, ...]:
        found: tuple[int, ...] = _RUNNING.unpack_from(self._map, record + _DIGEST + _BUCKETS.size)
        return found

    def _write(self, record: int, number: int, value: int) -> None:
        at = record + _DIGEST + _BUCKETS.size + number * _ONE.size
        _ONE.pack_into(self._map, at, value)

    def _records(self) -> list[int]:
        content = os.pread(self._fd, _SIZE, 0)
        places = range(_HEAD, _SIZE, _RECORD)
        return [at for at in places if content[at : at + _DIGEST] != _FREE]

    def _find(self, digest: bytes) -> int | None:
        """Return the place of a key's record, which is made if need be; None: the file or the disk is full."""
        first = int.from_bytes(digest[:8]) % _RECORDS
        for step in range(_RECORDS):
            record = _HEAD + (first + step) % _RECORDS * _RECORD
            there = os.pread(self._fd, _DIGEST, record)
            if there == digest:
                return record
            if there == _FREE:
                if not self._has_room(record):
                    return None
                self._map[record : record + _DIGEST] = digest
                return record
        return None

    def _has_room(self, record: int) -> bool:
        """Give a free record its room on the disk; false if there is none.

        The system ends a process that uses a part of the map for which the disk has no room; in a file system
        in memory also one that reads it.
        """
        try:
            return os.pwrite(self._fd, bytes(_RECORD), record) == _RECORD
        except OSError:
            return False


class WorkerMeter(Meter):
    """What one key has under way and has used in all workers."""

    __slots__ = ("_file", "_record")

    def __init__(self, file: WorkerLimits, record: int) -> None:
        super().__init__()
        self._file = file
        self._record = record

    def enter(self, limits: KeyLimits | None, now: float, estimate: int) -> Refusal | None:
        file, record = self._file, self._record
        with file:
            file.load(record, self)
            refusal = super().enter(limits, now, estimate)
            if refusal and refusal.limit == "concurrent" and file.drop_dead(record):
                file.load(record, self)
                refusal = super().enter(limits, now, estimate)
            if refusal is None:
                file.set_running(record, file.own_running(record) + 1)
            file.store(record, self)
        return refusal

    def learn(self, levels: Levels) -> None:
        file, record = self._file, self._record
        with file:
            file.load(record, self)
            super().learn(levels)
            file.store(record, self)

    def leave(self, tokens: int) -> None:
        file, record = self._file, self._record
        with file:
            file.load(record, self)
            super().leave(tokens)
            file.set_running(record, file.own_running(record) - 1)
            file.store(record, self)

    def charge(self, nano: int, today: float) -> None:
        file, record = self._file, self._record
        with file:
            file.load_spending(record, self.spending)
            super().charge(nano, today)
            file.store_spending(record, self.spending)

    def spent(self, today: float) -> Spent:
        with self._file:
            self._file.load_spending(self._record, self.spending)
        return super().spent(today)
