"""Cool-downs in a file that several processes read."""

import multiprocessing
import time
from pathlib import Path

from dragoman.gateway.state.rests import WorkerRests

FORK = multiprocessing.get_context("fork")


def test_what_one_worker_writes_another_reads(tmp_path: Path) -> None:
    one, other = WorkerRests(tmp_path), WorkerRests(tmp_path)
    empty = other.read()
    one.rest("kimi", 50.0)
    one.rest("glm", 100.0)
    found = other.read()
    other.well("kimi")

    assert {} == empty
    assert {0o600} == {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert {"kimi": 50, "glm": 100} == {name: round(left) for name, left in found.items()}
    assert ["glm"] == list(one.read())


def test_rest_is_never_shortened_and_ends_by_itself(tmp_path: Path) -> None:
    rests = WorkerRests(tmp_path)
    rests.rest("kimi", 50.0)
    rests.rest("kimi", 5.0)
    rests.rest("glm", 0.01)
    time.sleep(0.02)

    assert {"kimi": 50} == {name: round(left) for name, left in rests.read().items()}


def note(folder: Path, number: int) -> None:
    rests = WorkerRests(folder)
    for one in range(20):
        rests.rest(f"{number}-{one}", 100.0)
        rests.read()


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    made = [FORK.Process(target=note, args=(tmp_path, number)) for number in range(4)]
    for one in made:
        one.start()
    for one in made:
        one.join(60)

    assert [0] * 4 == [one.exitcode for one in made]
    assert 80 == len(WorkerRests(tmp_path).read())


def test_folder_that_was_removed_costs_no_request(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    rests = WorkerRests(folder)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    rests.rest("kimi", 50.0)

    assert {} == rests.read()
