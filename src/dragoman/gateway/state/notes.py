"""Small values with a name and an expiry that processes share: in a file or in Redis.

Workers of one gateway use a file in their shared folder, gateways on several machines use Redis.  A value that cannot
be written or read is only missing: its reader uses what its own process knows.
"""

import asyncio
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from dragoman.gateway.state.redis_link import RedisLink, StateAwayError, script

MAX_NOTE_BYTES: Final = 128 * 1024  # larger values are not shared
MAX_NAMES: Final = 512  # that one question may have
_FOUND_BYTES: Final = 512 * 1024  # that one question may find; the rest counts as missing


class Notes(Protocol):
    """Values under names.  `put` may be called from any thread."""

    async def find(self, names: Sequence[str], seconds: float) -> list[bytes | None]:
        """Return the values of at most `MAX_NAMES` names; those that are found live `seconds` from now on.

        Raises:
            StateAwayError: they cannot be read.
        """
        ...

    def put(self, name: str, value: bytes, seconds: float) -> None:
        """Store a value for some seconds, replacing an older one; a value that is too large is not stored."""
        ...


def note_name(kind: str, *parts: str) -> str:
    """Return the name of a note; it shows nothing of the parts that it is made of."""
    text = "".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "surrogatepass")
    return f"{kind}:{hashlib.blake2b(text, digest_size=16, person=b'dragoman notes').hexdigest()}"


# --- what processes learn ---

_LEARN_SECONDS: Final = 2.0  # between two exchanges
_LEARNED_SECONDS: Final = 3600.0  # for which it counts unless it is used


class Learner(Protocol):
    """Something that learns small facts from upstreams."""

    def news(self) -> dict[str, bytes]:
        """Return what was learned since the last call, by the names of notes."""
        ...

    def wanted(self) -> list[str]:
        """Return the names of what was used since the last call, `MAX_NAMES` at most."""
        ...

    def adopt(self, name: str, value: bytes) -> None:
        """Take over what another process has learned."""
        ...


async def share_learned(notes: Notes, learners: Sequence[Learner]) -> None:
    """Exchange what was learned with other processes, for ever: the latest wins."""
    while True:
        await asyncio.sleep(_LEARN_SECONDS)
        for learner in learners:
            news = learner.news()
            for name, value in news.items():
                notes.put(name, value, _LEARNED_SECONDS)
            names = [name for name in learner.wanted() if name not in news]
            if not names:
                continue
            with suppress(StateAwayError):
                found = await notes.find(names, _LEARNED_SECONDS)
                for name, known in zip(names, found, strict=True):
                    if known is not None:
                        learner.adopt(name, known)


# --- Redis ---

# KEYS: names.  ARGV: seconds, most bytes.
FIND_NOTES: Final = script("""
local found, room = {}, tonumber(ARGV[2])
for index = 1, #KEYS do
  found[index] = false
  if room > 0 then
    found[index] = redis.call('GET', KEYS[index])
    if found[index] then
      room = room - #found[index]
      redis.call('PEXPIRE', KEYS[index], ARGV[1])
    end
  end
end
return found
""")
# KEYS: name.  ARGV: value, milliseconds.
PUT_NOTE: Final = script("redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1")


class RedisNotes:
    """Values in Redis.  Its link carries nothing else: limits never wait behind large values."""

    def __init__(self, link: RedisLink, prefix: str) -> None:
        self._link = link
        self._prefix = prefix
        self._loop = asyncio.get_running_loop()

    async def find(self, names: Sequence[str], seconds: float) -> list[bytes | None]:
        keys = tuple(self._prefix + name for name in names)
        found: list[bytes | None] = await self._link.call(
            FIND_NOTES, keys, _milliseconds(seconds), _FOUND_BYTES
        )
        return found

    def put(self, name: str, value: bytes, seconds: float) -> None:
        if len(value) <= MAX_NOTE_BYTES:
            self._loop.call_soon_threadsafe(self._send, name, value, seconds)

    def _send(self, name: str, value: bytes, seconds: float) -> None:
        self._link.send(PUT_NOTE, (self._prefix + name,), value, _milliseconds(seconds))


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


# --- a file ---

_NAME: Final = "notes"
_MAX_BYTES: Final = 64 * 1024 * 1024  # of all values
_MAX_WAITING: Final = 1000  # values that are not written yet; more are dropped
_BUSY_SECONDS: Final = 0.5  # while another worker writes
_CLEAN_EVERY: Final = 64  # values
_TABLE: Final = """
create table if not exists notes(name text primary key, value blob not null, expires real not null) without rowid;
create index if not exists notes_by_expiry on notes(expires);
"""


class WorkerNotes:
    """Values in an SQLite file that all workers open.  All work is done in one thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="notes")
        self._database: sqlite3.Connection | None = None
        self._room = threading.Semaphore(_MAX_WAITING)
        self._puts = 0

    async def find(self, names: Sequence[str], seconds: float) -> list[bytes | None]:
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, self._find, names, seconds)
        except (sqlite3.Error, RuntimeError) as error:  # RuntimeError: it was closed
            raise StateAwayError(f"notes of other workers: {error}") from error

    def put(self, name: str, value: bytes, seconds: float) -> None:
        if len(value) <= MAX_NOTE_BYTES and self._room.acquire(blocking=False):
            with suppress(RuntimeError):  # it was closed
                self._thread.submit(self._put, name, value, seconds)

    def close(self) -> None:
        """Write what is waiting, and close."""
        self._thread.submit(self._close)
        self._thread.shutdown()

    # --- in the thread ----------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            with suppress(OSError):  # SQLite reports it
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            database = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
            database.execute("pragma journal_mode = wal")
            database.execute("pragma synchronous = off")  # the file dies with the gateway
            database.executescript(_TABLE)
            self._database = database
        return self._database

    def _find(self, names: Sequence[str], seconds: float) -> list[bytes | None]:
        database, now, room = self._open(), time.monotonic(), _FOUND_BYTES
        found: list[bytes | None] = []
        for name in names:
            row: Any = None
            if room > 0:
                question = "select value from notes where name = ? and expires > ?"
                row = database.execute(question, (name, now)).fetchone()
            found.append(None if row is None else row[0])
            if row is not None:
                room -= len(row[0])
                database.execute(
                    "update notes set expires = ? where name = ?", (now + seconds, name)
                )
        return found

    def _put(self, name: str, value: bytes, seconds: float) -> None:
        self._room.release()
        with suppress(sqlite3.Error):  # only missing for other workers
            database = self._open()
            row = (name, value, time.monotonic() + seconds)
            database.execute("insert or replace into notes values (?, ?, ?)", row)
            self._puts += 1
            if self._puts % _CLEAN_EVERY == 0:
                self._clean(database)

    def _clean(self, database: sqlite3.Connection) -> None:
        """Delete what has expired, and if there is too much, what expires first."""
        database.execute("delete from notes where expires <= ?", (time.monotonic(),))
        while database.execute("select sum(length(value)) > ? from notes", (_MAX_BYTES,)).fetchone()[0]:  # fmt: skip
            database.execute(
                "delete from notes where name in"
                " (select name from notes order by expires limit (select count(*) / 4 + 1 from notes))"
            )

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
