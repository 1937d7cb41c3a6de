"""The file of stored responses: shared, migrated, damaged, locked by another process, its writer killed."""

import asyncio
import hashlib
import itertools
import json
import multiprocessing
import os
import random
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.dialects.stored_responses import exchanged
from dragoman.errors import ConfigError
from dragoman.gateway.responses.database import Database, StoreError
from dragoman.gateway.responses.store import ResponsesStore
from tests.support.stored_responses import CALL, request, response, with_store


def test_file_stays_near_its_bound(tmp_path: Path) -> None:
    async def work(store: ResponsesStore) -> None:
        for n in range(100):
            text = json.dumps(f"{n} " + "x" * 20_000).encode()
            await store.keep("a", request(text), response(f"resp_{n}"))

    with_store(work, tmp_path / "r.sqlite", max_bytes=500_000)

    assert (tmp_path / "r.sqlite").stat().st_size < 600_000


def test_answers_outlive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "state" / "r.sqlite"

    async def first(store: ResponsesStore) -> None:
        await store.keep("a", request(), response("resp_1", CALL))

    async def second(store: ResponsesStore) -> None:
        body = (await store.expand(request(previous_response_id="resp_1"), "a")).body

        assert CALL in body

    with_store(first, path)
    with_store(second, path)


def test_only_the_owner_of_the_process_may_look(tmp_path: Path) -> None:
    path = tmp_path / "state" / "r.sqlite"

    async def work(store: ResponsesStore) -> None:
        await store.keep("a", request(), response("resp_1"))

        assert {0o600} == {stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
        assert 0o700 == stat.S_IMODE(path.parent.stat().st_mode)

    with_store(work, path)


def test_two_stores_share_one_file(tmp_path: Path) -> None:
    async def work() -> None:
        path = str(tmp_path / "r.sqlite")
        stores = await asyncio.gather(*(ResponsesStore.open(path) for _ in range(2)))
        names = [f"resp_{n}" for n in range(40)]
        await asyncio.gather(
            *(
                stores[n % 2].keep("a", request(), response(name, CALL))
                for n, name in enumerate(names)
            )
        )
        found = [await stores[(n + 1) % 2].get(name, "a") for n, name in enumerate(names)]
        for store in stores:
            await store.close()

        assert None not in found

    asyncio.run(work())


def test_many_stores_make_one_file_at_the_same_time(tmp_path: Path) -> None:
    async def work() -> None:
        for number in range(20):
            path = str(tmp_path / f"{number}.sqlite")
            stores = await asyncio.gather(*(ResponsesStore.open(path) for _ in range(6)))
            for store in stores:
                await store.close()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"not a database" * 100, "not a database"), (b"SQLite format 3\0" + b"\1" * 999, "opened")],
    ids=["text", "garbage"],
)
def test_damaged_file_is_an_error_of_the_configuration(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "r.sqlite"
    path.write_bytes(content)

    async def work(store: ResponsesStore) -> None: ...

    with pytest.raises(ConfigError, match=words) as caught:
        with_store(work, path)

    assert str(path) in str(caught.value)


def test_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()

    async def work(store: ResponsesStore) -> None: ...

    with pytest.raises(ConfigError, match="another program"):
        with_store(work, path)


# A file as the first version made it: an owner is a key's name, or its place in the list.
FIRST_VERSION = """
CREATE TABLE piece (
    id INTEGER PRIMARY KEY, owner TEXT NOT NULL, digest TEXT NOT NULL,
    needed INTEGER NOT NULL, item TEXT NOT NULL);
CREATE TABLE body (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
CREATE TRIGGER body_of_piece AFTER DELETE ON piece
    BEGIN DELETE FROM body WHERE id = old.id; END;
CREATE UNIQUE INDEX piece_by_digest ON piece (owner, digest);
CREATE INDEX piece_by_item ON piece (owner, item) WHERE item <> '';
CREATE INDEX piece_unneeded ON piece (id) WHERE needed = 0;
CREATE TABLE response (
    id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, name TEXT NOT NULL,
    kept REAL NOT NULL, head BLOB NOT NULL, inputs INTEGER NOT NULL, pieces TEXT NOT NULL);
CREATE UNIQUE INDEX response_by_name ON response (owner, name);
CREATE INDEX response_by_age ON response (kept);
PRAGMA application_id = 0x6472676D;
PRAGMA user_version = 1;
"""


def first_version(path: Path, *owners: str) -> None:
    """Make a file of the first version in which each owner keeps one answer."""
    with sqlite3.connect(path) as connection:
        connection.executescript(FIRST_VERSION)
        for at, owner in enumerate(owners):
            ids = [2 * at + 1, 2 * at + 2]
            hi = b'{"type":"message","role":"user","content":"%b"}' % owner.encode()
            for row, body in zip(ids, (b"{}", hi), strict=True):
                digest = hashlib.blake2b(body, digest_size=16).hexdigest()
                connection.execute(
                    "INSERT INTO piece VALUES (?, ?, ?, 1, '')", (row, owner, digest)
                )
                connection.execute("INSERT INTO body VALUES (?, ?)", (row, body))
            connection.execute(
                "INSERT INTO response (owner, name, kept, head, inputs, pieces)"
                " VALUES (?, 'resp_1', ?, ?, 1, ?)",
                (owner, 1_700_000_000.0, b'{"id":"resp_1","object":"response"}', json.dumps(ids)),
            )
    connection.close()


def test_file_of_the_first_version_is_migrated_and_places_of_keys_own_nothing_any_more(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.sqlite"
    first_version(path, "ann", "key-1", "anonymous", "key-12", "key-x", "bob")

    async def work(store: ResponsesStore) -> None:
        for owner in ("name:ann", "name:bob", "name:key-x", "anonymous"):
            said = await store.expand(request(previous_response_id="resp_1"), owner)
            assert owner.removeprefix("name:").encode() in said.body
        for owner in ("key-1", "name:key-1", "key-12", "name:key-12", "ann", "name:anonymous"):
            assert await store.get("resp_1", owner) is None
        assert await store.keep("name:ann", said.body, response("resp_2", CALL))
        assert await store.delete("resp_1", "name:ann")
        assert await store.get("resp_2", "name:ann") is not None

    async def no_work(store: ResponsesStore) -> None: ...

    with_store(work, path)
    with_store(no_work, path)  # it is an ordinary file now
    with sqlite3.connect(path) as connection:
        left = {row for (row,) in connection.execute("SELECT DISTINCT owner FROM piece")}
        bodies = connection.execute("SELECT count(*) FROM body").fetchone()
        pieces = connection.execute("SELECT count(*) FROM piece").fetchone()
    connection.close()

    assert {"name:ann", "name:bob", "name:key-x", "anonymous"} == left
    assert pieces == bodies


def test_migrated_file_counts_what_each_owner_has(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    first_version(path, "ann", "bob")

    async def work(store: ResponsesStore) -> None:
        for n in range(60):
            text = json.dumps(f"{n} " + "x" * 20_000).encode()
            assert await store.keep("name:ann", request(text), response(f"resp_{n}"))

        assert await store.get("resp_1", "name:bob") is not None
        assert await store.get("resp_1", "name:ann") is None
        assert await store.get("resp_59", "name:ann") is not None

    with_store(work, path, max_bytes=500_000, owners=("name:ann", "name:bob"))


def test_file_of_another_version_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"

    async def work(store: ResponsesStore) -> None: ...

    with_store(work, path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(ConfigError, match="another version"):
        with_store(work, path)


def test_place_that_cannot_be_written_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    async def work(store: ResponsesStore) -> None: ...

    with pytest.raises(ConfigError, match=r"store\.path"):
        with_store(work, tmp_path / "file" / "r.sqlite")


def test_store_that_is_closed_raises() -> None:
    async def work(store: ResponsesStore) -> None:
        await store.close()
        with pytest.raises(StoreError):
            await store.get("resp_1", "a")

    with_store(work)


@pytest.mark.parametrize("harm", ["DROP TABLE response", "DELETE FROM body"])
def test_damage_while_running_is_reported_as_such(tmp_path: Path, harm: str) -> None:
    async def work(store: ResponsesStore) -> None:
        await store.keep("a", request(), response("resp_1"))
        with sqlite3.connect(tmp_path / "r.sqlite") as connection:
            connection.execute(harm)
        connection.close()
        with pytest.raises(StoreError):
            await store.get("resp_1", "a")

    with_store(work, tmp_path / "r.sqlite")


def test_locked_file_costs_a_second_at_most_and_then_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "responses.sqlite")

    async def run() -> None:
        store = await ResponsesStore.open(path)
        with sqlite3.connect(path, isolation_level=None) as other:
            other.execute("BEGIN EXCLUSIVE")
            loop = asyncio.get_running_loop()
            began = loop.time()
            several = (store.keep("me", request(), response(f"resp_{n}")) for n in range(8))
            failed = await asyncio.gather(*several, return_exceptions=True)
            spent = loop.time() - began
            skipped = [await store.keep("me", request(), response("resp_9")) for _ in range(100)]
            other.execute("ROLLBACK")
        other.close()
        store._skip_until = 0.0  # as it is after a while
        again = await store.keep("me", request(), response("resp_10"))
        await store.close()

        assert {StoreError} == {type(one) for one in failed}
        assert spent < 3.0  # a second for each, at the same time; 80 s before
        assert [False] * 100 == skipped
        assert any("no response is stored for 30 s" in str(one) for one in failed)
        assert again

    asyncio.run(run())


def test_two_failures_to_keep_are_forgotten_after_a_success(tmp_path: Path) -> None:
    path = str(tmp_path / "responses.sqlite")

    async def run() -> None:
        store = await ResponsesStore.open(path)
        for _ in range(3):
            with sqlite3.connect(path, isolation_level=None) as other:
                other.execute("BEGIN EXCLUSIVE")
                for _ in range(2):
                    with pytest.raises(StoreError):
                        await store.keep("me", request(), response("resp_1"))
                other.execute("ROLLBACK")
            other.close()
            assert await store.keep("me", request(), response("resp_1"))
        await store.close()

    asyncio.run(run())


def keep_many(path: Path, written: int) -> None:
    """Keep one answer after another, and write the number of each that is kept into a pipe."""
    database = Database(str(path), max_bytes=400_000, max_age_days=0, clock=time.time)
    for number in itertools.count(1):
        text = json.dumps(f"{number} " + "x" * 20_000).encode()
        kept = exchanged(request(text), response(f"resp_{number}", CALL))
        assert kept is not None
        assert database.keep("a", kept)
        os.write(written, number.to_bytes(4))


def test_kill_in_the_middle_of_a_write_leaves_a_whole_file_with_all_that_was_kept(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.sqlite"
    chance = random.Random(1)
    fork = multiprocessing.get_context("fork")
    for _ in range(12):
        reading, written = os.pipe()
        process = fork.Process(target=keep_many, args=(path, written))
        process.start()
        os.close(written)
        os.read(reading, 4)
        time.sleep(chance.random() * 0.03)
        process.kill()
        process.join(60)
        with os.fdopen(reading, "rb") as pipe:
            last = int.from_bytes((b"\0\0\0\1" + pipe.read())[-4:])
        database = Database(str(path), max_bytes=400_000, max_age_days=0, clock=time.time)
        found = database.find("a", f"resp_{last}")
        database.close()
        with closing(sqlite3.connect(path)) as raw:
            checked = raw.execute("PRAGMA integrity_check").fetchone()
            (charged,) = raw.execute("SELECT bytes FROM owner").fetchone()
            (size,) = raw.execute(
                "SELECT sum(size) FROM (SELECT size FROM piece UNION ALL SELECT size FROM response)"
            ).fetchone()

        assert found is not None
        assert ("ok",) == checked
        assert size == charged <= 400_000
