"""The tables in which answers are kept, and all queries on them.  SQLite, one thread, no JSON of peers.

An item that appears in many requests is kept once: a conversation of n turns, of which each request
repeats all before it, takes room for n turns.  Such a piece counts the answers that need it and is
deleted with the last of them.  When an answer is added, those that are too old are deleted, then the
oldest until the rest has room.

Each owner has an equal share of the room, so that no owner can push out the answers of another.  Triggers
count what each owner has.
"""

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dragoman.dialects.stored_responses import Exchanged, Item
from dragoman.errors import ConfigError, DragomanError

MEMORY: Final = ":memory:"
_OURS: Final = 0x6472676D  # marks a file as made here
_VERSION: Final = 2
_ROW_BYTES: Final = 256  # what a row takes beside its content, indexes included
_OPEN_SECONDS: Final = 10.0  # several workers make the file at once
_BUSY_SECONDS: Final = 0.5  # other processes write for milliseconds; all tasks wait in one thread
_AGAIN_SECONDS: Final = 0.01
_WAL_BYTES: Final = 16 * 1024 * 1024  # what the log may keep of its largest size
_DAY: Final = 86_400.0

_TABLES: Final = (
    """CREATE TABLE piece (
        id INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        digest TEXT NOT NULL,
        needed INTEGER NOT NULL,      -- by how many answers
        item TEXT NOT NULL,           -- the item's own id; empty: it has none
        size INTEGER NOT NULL)        -- bytes that its owner is charged
    """,
    # Apart, because a piece is counted with every answer: that should not write its bytes again.
    "CREATE TABLE body (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL)",
    """CREATE TRIGGER body_of_piece AFTER DELETE ON piece
        BEGIN DELETE FROM body WHERE id = old.id; END
    """,
    "CREATE UNIQUE INDEX piece_by_digest ON piece (owner, digest)",
    "CREATE INDEX piece_by_item ON piece (owner, item) WHERE item <> ''",
    "CREATE INDEX piece_unneeded ON piece (id) WHERE needed = 0",
    # Ids are not used twice, so the lowest is the oldest.
    """CREATE TABLE response (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        kept REAL NOT NULL,           -- Unix seconds
        head BLOB NOT NULL,
        inputs INTEGER NOT NULL,      -- how many of the pieces are input
        pieces TEXT NOT NULL,         -- ids as a JSON list: what is shared, input, output
        size INTEGER NOT NULL)        -- bytes that its owner is charged, its pieces aside
    """,
    "CREATE UNIQUE INDEX response_by_name ON response (owner, name)",
    "CREATE INDEX response_by_age ON response (kept)",
)
_SECOND: Final = (  # what the second version added
    "CREATE INDEX response_by_owner ON response (owner)",
    "CREATE TABLE owner (name TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TRIGGER piece_charged AFTER INSERT ON piece BEGIN
        INSERT INTO owner VALUES (new.owner, new.size)
        ON CONFLICT (name) DO UPDATE SET bytes = bytes + new.size; END""",
    """CREATE TRIGGER piece_freed AFTER DELETE ON piece BEGIN
        UPDATE owner SET bytes = bytes - old.size WHERE name = old.owner; END""",
    """CREATE TRIGGER response_charged AFTER INSERT ON response BEGIN
        INSERT INTO owner VALUES (new.owner, new.size)
        ON CONFLICT (name) DO UPDATE SET bytes = bytes + new.size; END""",
    """CREATE TRIGGER response_freed AFTER DELETE ON response BEGIN
        UPDATE owner SET bytes = bytes - old.size WHERE name = old.owner; END""",
    # Ids of state that an upstream keeps, by the owner it was given to.
    """CREATE TABLE given (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        noted REAL NOT NULL)          -- Unix seconds
    """,
    "CREATE UNIQUE INDEX given_by_name ON given (owner, name)",
    "CREATE INDEX given_by_owner ON given (owner)",
    "CREATE INDEX given_by_age ON given (noted)",
)
# The first version identified a key without a name by its place in the list (`key-2`), and another key may
# have that place now: the data of such owners is deleted.  Named owners get today's prefix `name:`.
_FROM_FIRST: Final = (
    "DELETE FROM response WHERE owner GLOB 'key-[0-9]*' AND NOT owner GLOB 'key-*[^0-9]*'",
    "DELETE FROM piece WHERE owner GLOB 'key-[0-9]*' AND NOT owner GLOB 'key-*[^0-9]*'",
    "UPDATE response SET owner = 'name:' || owner WHERE owner <> 'anonymous'",
    "UPDATE piece SET owner = 'name:' || owner WHERE owner <> 'anonymous'",
    "ALTER TABLE piece ADD COLUMN size INTEGER NOT NULL DEFAULT 256",
    "ALTER TABLE response ADD COLUMN size INTEGER NOT NULL DEFAULT 256",
    "UPDATE response SET size = size + length(head) + length(pieces)",
    """UPDATE piece SET size = size + length(item)
        + coalesce((SELECT length(bytes) FROM body WHERE body.id = piece.id), 0)""",
    *_SECOND,
    """INSERT INTO owner SELECT owner, sum(size) FROM (
        SELECT owner, size FROM piece UNION ALL SELECT owner, size FROM response) GROUP BY owner""",
)
_ALL_OF: Final = "SELECT value FROM json_each(?)"
_IDS: Final[msgspec.json.Decoder[list[int]]] = msgspec.json.Decoder(list[int])


class StoreError(DragomanError):
    """What is kept cannot be read or written: the disk is full, the file damaged, the store closed."""


class Stored(msgspec.Struct, frozen=True):
    """An answer as it was kept."""

    head: bytes
    shared: bytes
    input: list[bytes]
    output: list[bytes]


class Database:
    """One connection.  Every method runs in the thread that made it."""

    def __init__(
        self, path: str, *, max_bytes: int, max_age_days: float, clock: Callable[[], float]
    ) -> None:
        """Open or make the file at `path`; a bound of 0 is none.

        Raises:
            ConfigError: it cannot be opened, or is not a file of ours.
        """
        self._max_bytes = max_bytes
        self._max_age = max_age_days * _DAY
        self._clock = clock
        self.owners: tuple[str, ...] = ()  # whose answers may be stored; empty: not limited
        if path != MEMORY:
            _make_private(path)
        try:
            self._connection = sqlite3.connect(path, timeout=_OPEN_SECONDS, isolation_level=None)
            try:
                self._prepare(path)
                self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_SECONDS * 1000:.0f}")
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.Error as error:
            reason = f"the response store `{path}` cannot be opened: {error}"
            raise ConfigError(f"{reason}; name another `store.path`, or remove the file") from error
        self._execute = self._connection.execute

    def close(self) -> None:
        self._connection.close()

    # --- reading --------------------------------------------------------------------------------

    def find(self, owner: str, name: str) -> Stored | None:
        """Return an answer of this owner that is not too old."""
        row = self._execute(
            "SELECT head, inputs, pieces FROM response WHERE owner = ? AND name = ? AND kept >= ?",
            (owner, name, self._oldest_allowed()),
        ).fetchone()
        if row is None:
            return None
        head, inputs, pieces = row
        bodies = [
            body
            for (body,) in self._execute(
                "SELECT body.bytes FROM json_each(?) AS place"
                " CROSS JOIN body ON body.id = place.value ORDER BY place.key",
                (pieces,),
            )
        ]
        if len(bodies) <= inputs:
            raise StoreError(f"the response `{name}` is damaged: parts of it are gone")
        return Stored(head, bodies[0], bodies[1 : 1 + inputs], bodies[1 + inputs :])

    def find_items(self, owner: str, item_ids: Iterable[str]) -> dict[str, bytes]:
        """Return the items of this owner that are kept, by their ids; of several the last."""
        rows = self._execute(
            "SELECT item, bytes FROM piece JOIN body USING (id)"  # noqa: S608 -- a constant
            f" WHERE owner = ? AND item <> '' AND item IN ({_ALL_OF}) ORDER BY id",
            (owner, _json(item_ids)),
        )
        return dict(rows.fetchall())

    def find_given(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return which of these ids this owner was given."""
        rows = self._execute(
            f"SELECT name FROM given WHERE owner = ? AND noted >= ? AND name IN ({_ALL_OF})",  # noqa: S608 -- a constant
            (owner, self._oldest_allowed(), _json(ids)),
        )
        return {name for (name,) in rows}

    # --- writing --------------------------------------------------------------------------------

    def keep(self, owner: str, exchanged: Exchanged) -> bool:
        """Keep an answer, in place of one of the same id; false if there is no room for it."""
        if self._max_bytes and exchanged.size > self._share:
            return False
        with self._connection:  # ends the transaction
            self._execute("BEGIN IMMEDIATE")
            self._forget("owner = ? AND name = ?", (owner, exchanged.id))
            items = (Item(exchanged.shared), *exchanged.input, *exchanged.output)
            pieces = self._pieces(owner, items)
            self._need(pieces, 1)
            self._execute(
                "INSERT INTO response (owner, name, kept, head, inputs, pieces, size)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    owner,
                    exchanged.id,
                    self._clock(),
                    exchanged.head,
                    len(exchanged.input),
                    listed := _json(pieces),
                    _ROW_BYTES + len(exchanged.head) + len(listed),
                ),
            )
            self._prune(owner)
        return True

    def delete(self, owner: str, name: str) -> bool:
        """Delete an answer of this owner, and what nothing else needs; false if there is none."""
        with self._connection:
            self._execute("BEGIN IMMEDIATE")
            return bool(self._forget("owner = ? AND name = ?", (owner, name)))

    def note_given(self, owner: str, ids: Iterable[str], most: int) -> None:
        """Record that an owner was given these ids; only the owner's latest `most` ids are kept."""
        with self._connection:
            self._execute("BEGIN IMMEDIATE")
            now = self._clock()
            for one in ids:
                self._execute("DELETE FROM given WHERE owner = ? AND name = ?", (owner, one))
                self._execute(
                    "INSERT INTO given (owner, name, noted) VALUES (?, ?, ?)", (owner, one, now)
                )
            self._execute("DELETE FROM given WHERE noted < ?", (self._oldest_allowed(),))
            self._execute(
                "DELETE FROM given WHERE owner = ? AND id <= (SELECT id FROM given"
                " WHERE owner = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (owner, owner, most),
            )

    # --- pieces ---------------------------------------------------------------------------------

    def _pieces(self, owner: str, items: Sequence[Item]) -> list[int]:
        """Return the ids of these pieces, of which new ones are put in."""
        digests = [hashlib.blake2b(item.body, digest_size=16).hexdigest() for item in items]
        known: dict[str, int] = dict(
            self._execute(
                f"SELECT digest, id FROM piece WHERE owner = ? AND digest IN ({_ALL_OF})",  # noqa: S608 -- a constant
                (owner, _json(digests)),
            ).fetchall()
        )
        for digest, item in zip(digests, items, strict=True):
            if digest not in known:
                added = self._execute(
                    "INSERT INTO piece (owner, digest, needed, item, size) VALUES (?, ?, 0, ?, ?)",
                    (owner, digest, item.id, _ROW_BYTES + len(item.id) + len(item.body)),
                )
                assert added.lastrowid is not None  # noqa: S101 -- a row was put in
                known[digest] = added.lastrowid
                self._execute("INSERT INTO body VALUES (?, ?)", (added.lastrowid, item.body))
        return [known[digest] for digest in digests]

    def _need(self, pieces: Iterable[int], change: int) -> None:
        """Count one answer more or less for each of these pieces."""
        self._execute(
            f"UPDATE piece SET needed = needed + ? WHERE id IN ({_ALL_OF})",  # noqa: S608 -- a constant
            (change, _json(pieces)),
        )

    def _forget(self, condition: str, values: Sequence[object]) -> int:
        """Delete the answers that meet a condition, with the pieces that only they need."""
        rows = self._execute(
            f"SELECT id, pieces FROM response WHERE {condition}",  # noqa: S608 -- written here
            values,
        ).fetchall()
        for row_id, pieces in rows:
            self._need(_IDS.decode(pieces), -1)
            self._execute("DELETE FROM response WHERE id = ?", (row_id,))
        if rows:
            self._execute("DELETE FROM piece WHERE needed = 0")
        return len(rows)

    def _prune(self, owner: str) -> None:
        """Delete what is too old, then the oldest answers until the rest has room.

        An owner that keeps something new makes room in its own share.
        """
        self._forget("kept < ?", (self._oldest_allowed(),))
        if not self._max_bytes:
            return
        while self._bytes_of(owner) > self._share and self._forget_oldest(owner):
            pass
        while self._bytes_of() > self._max_bytes and self._forget_oldest(self._who_yields()):
            pass

    @property
    def _share(self) -> int:
        """How many bytes each owner may keep."""
        return self._max_bytes // max(1, len(self.owners))

    def _forget_oldest(self, owner: str) -> int:
        return self._forget("id = (SELECT min(id) FROM response WHERE owner = ?)", (owner,))

    def _who_yields(self) -> str:
        """Return the owner whose oldest answer is deleted next: a withdrawn key, else the largest owner."""
        row = self._execute(
            "SELECT name FROM owner WHERE bytes > 0"  # noqa: S608 -- a constant
            f" ORDER BY name IN ({_ALL_OF}), bytes DESC LIMIT 1",
            (_json(self.owners),),
        ).fetchone()
        return row[0] if row else ""

    def _bytes_of(self, owner: str | None = None) -> int:
        """Return the room that one owner takes, or all of them."""
        row = self._execute(
            "SELECT total(bytes) FROM owner WHERE ? IS NULL OR name = ?", (owner, owner)
        ).fetchone()
        return int(row[0])

    def _oldest_allowed(self) -> float:
        return self._clock() - self._max_age if self._max_age else 0.0

    # --- the file -------------------------------------------------------------------------------

    def _prepare(self, path: str) -> None:
        execute = self._connection.execute
        self._keep_log()
        execute("PRAGMA synchronous = NORMAL")  # a crash may cost the last answers, never the file
        execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        with self._connection:
            execute("BEGIN IMMEDIATE")  # another process may be making the same file
            if not execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                for statement in (*_TABLES, *_SECOND):
                    execute(statement)
                execute(f"PRAGMA application_id = {_OURS}")
                execute(f"PRAGMA user_version = {_VERSION}")
            found = execute("PRAGMA application_id").fetchone()[0]
            version = execute("PRAGMA user_version").fetchone()[0]
            if (found, version) == (_OURS, 1):
                for statement in _FROM_FIRST:
                    execute(statement)
                execute(f"PRAGMA user_version = {_VERSION}")
                version = _VERSION
        if found != _OURS:
            raise ConfigError(f"`{path}` is a database of another program: name another file")
        if version != _VERSION:
            reason = f"`{path}` was made by another version ({version}, not {_VERSION})"
            raise ConfigError(f"{reason}: name another file, or remove it")

    def _keep_log(self) -> None:
        """Let others read while one writes.

        SQLite waits for no other process that changes this at the same time, as workers do when they begin.
        """
        end = time.monotonic() + _OPEN_SECONDS
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                    raise
                time.sleep(_AGAIN_SECONDS)
            else:
                return


def default_path(environ: Mapping[str, str]) -> str:
    """Return the default place of the file: the state folder of the XDG rules."""
    base = environ.get("XDG_STATE_HOME", "")
    # The XDG specification: a relative path is ignored.
    folder = Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state"
    return str(folder / "dragoman" / "responses.sqlite")


def _make_private(path: str) -> None:
    """Make the file and its folder if need be; only their owner may look, for they hold content."""
    file = Path(path)
    try:
        if not file.parent.exists():
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The log beside the file gets the file's own mode.
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        file.chmod(0o600)
    except OSError as error:
        reason = f"the response store `{path}` cannot be created: {error.strerror}"
        raise ConfigError(f"{reason}; name another `store.path`") from error


def _json(values: Iterable[object]) -> str:
    return msgspec.json.encode(list(values)).decode()
