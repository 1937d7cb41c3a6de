"""Values that workers leave for each other in a file."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.gateway.state.notes import MAX_NOTE_BYTES, WorkerNotes, note_name
from dragoman.gateway.state.redis_link import StateAwayError


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[WorkerNotes, WorkerNotes]]:
    found = WorkerNotes(tmp_path), WorkerNotes(tmp_path)
    yield found
    for one in found:
        one.close()


def find(notes: WorkerNotes, *names: str) -> list[bytes | None]:
    return asyncio.run(notes.find(names, 60.0))


def test_another_worker_finds_the_latest_value_and_no_other_user_does(
    tmp_path: Path, both: tuple[WorkerNotes, WorkerNotes]
) -> None:
    one, other = both
    one.put("a", b"first", 60.0)
    one.put("a", b"second", 60.0)
    find(one)  # all work is done in order

    assert [b"second", None] == find(other, "a", "b")
    assert {0o600} == {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}


def test_values_expire_and_large_ones_are_not_kept(both: tuple[WorkerNotes, WorkerNotes]) -> None:
    one, other = both
    one.put("gone", b"x", 0.0)
    one.put("large", bytes(MAX_NOTE_BYTES + 1), 60.0)
    one.put("largest", bytes(MAX_NOTE_BYTES), 60.0)
    find(one)

    assert [None, None, bytes(MAX_NOTE_BYTES)] == find(other, "gone", "large", "largest")


def test_the_file_stays_within_its_bound(
    tmp_path: Path, both: tuple[WorkerNotes, WorkerNotes]
) -> None:
    one, other = both
    value = bytes(MAX_NOTE_BYTES)
    for number in range(640):  # 80 MiB
        one.put(str(number), value, 60.0 + number)
    find(one)

    with closing(sqlite3.connect(tmp_path / "notes")) as database:
        (kept,) = database.execute("select sum(length(value)) from notes").fetchone()
    assert kept <= 64 * 1024 * 1024
    assert [None, value] == find(other, "0", "639")


def test_one_question_finds_no_more_than_half_a_megabyte(
    both: tuple[WorkerNotes, WorkerNotes],
) -> None:
    one, other = both
    for number in range(6):
        one.put(str(number), bytes(MAX_NOTE_BYTES), 60.0)
    find(one)

    assert 4 == sum(value is not None for value in find(other, *map(str, range(6))))


def test_a_file_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    notes = WorkerNotes(tmp_path / "absent")
    notes.put("a", b"x", 60.0)  # only missing
    with pytest.raises(StateAwayError, match="unable to open"):
        find(notes, "a")
    notes.close()
    with pytest.raises(StateAwayError):
        find(notes, "a")


def test_names_are_different_for_different_parts_and_show_nothing() -> None:
    names = {note_name("k", *parts) for parts in (("ab", "c"), ("a", "bc"), ("abc",), ("ab", "c"))}

    assert 3 == len(names)
    assert not any("abc" in name for name in names)
