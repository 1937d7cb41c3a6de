"""Disks that are full, read-only or broken, and a store that is locked or damaged.

In each case requests are served, the log names the cause, a client that asks for what was lost learns that it is not
there, and the gateway works again when the trouble is over.  It never prints a traceback.
"""

import os
import random
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dragoman.recorder.recording import Recording, read_recording
from tests.support.disks import SmallDisk, missing, no_writes, serving_on_disk
from tests.support.serving import Served, command, serving, serving_process, simulating
from tests.support.simulator import question
from tests.support.waiting import until

# There is no TLS here; to load the authorities would cost more than all the rest.
HOW: Any = {"timeout": 60, "verify": False}
DAMAGED = "database disk image is malformed"
KEYS = [f"key-{number:03}-of-many-letters" for number in range(12)]
needs_mount = pytest.mark.skipif(bool(missing()), reason=missing())


def settings(folder: Path, upstream: str, *lines: str) -> None:
    plain = ["[upstreams.sim]", f'base_url = "{upstream}/v1"', "retries = 0"]
    (folder / "dragoman.toml").write_text("\n".join([*lines, *plain]) + "\n")


def store(path: Path) -> tuple[str, ...]:
    return ("[store]", 'responses = "sqlite"', f'path = "{path}"')


def ask(served: Served, text: str = "Hello.", key: str = "", **fields: Any) -> httpx2.Response:
    """Ask for a response that is stored, over a new connection."""
    body = {"model": "sim/plain", "input": f"sim: say {text}", **fields}
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx2.post(f"{served.url}/v1/responses", json=body, headers=headers, **HOW)


def stored(served: Served, response: httpx2.Response, **headers: str) -> httpx2.Response:
    return httpx2.get(f"{served.url}/v1/responses/{response.json()['id']}", headers=headers, **HOW)  # fmt: skip


def text_of(response: httpx2.Response) -> str:
    return str(response.json()["output"][-1]["content"][0]["text"])


def judge_log(served: Served) -> None:
    assert "Traceback" not in served.text
    assert [] == served.notices("gateway failed")


# --- stored responses ---------------------------------------------------------------------------------


@contextmanager
def full(served: Served, disk: SmallDisk | None, path: Path) -> Iterator[None]:
    assert disk is not None
    disk.fill()
    yield
    disk.free()


@contextmanager
def locked(served: Served, disk: SmallDisk | None, path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def failing(served: Served, disk: SmallDisk | None, path: Path) -> AbstractContextManager[None]:
    return no_writes(served.process.pid)


@contextmanager
def gateway(folder: Path, disk: Path, *, small: bool) -> Iterator[tuple[Served, SmallDisk | None]]:
    if small:
        with serving_on_disk(folder, disk) as found:
            yield found
    else:
        disk.mkdir()
        with serving(folder) as served:
            yield served, None


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        pytest.param(full, "database or disk is full", marks=needs_mount),
        (failing, "disk I/O error"),
        (locked, "database is locked"),
    ],
)
def test_requests_are_served_while_responses_cannot_be_stored(
    tmp_path: Path, trouble: Callable[..., AbstractContextManager[None]], why: str
) -> None:
    disk = tmp_path / "disk"
    with simulating() as simulator:
        settings(tmp_path, simulator.url, *store(disk / "responses.sqlite"))
        with gateway(tmp_path, disk, small=trouble is full) as (served, small):
            first = ask(served, "One.")
            with trouble(served, small, disk / "responses.sqlite"):
                lost = ask(served, "Two.")
                goes_on = ask(served, "Three.", previous_response_id=first.json()["id"])
                refused = ask(served, "Four.", previous_response_id=lost.json()["id"])
                gone = stored(served, lost)
                kept = stored(served, first)
            last = ask(served, "Five.")
            again = stored(served, last)
        reasons = [one["why"] for one in served.notices("response not stored")]

    assert ["Two.", "Three.", "Five."] == [text_of(one) for one in (lost, goes_on, last)]
    assert (400, 404, 200) == (refused.status_code, gone.status_code, kept.status_code)
    assert "previous_response_not_found" == refused.json()["error"]["code"]
    assert [f"the response store failed: {why}"] * 2 == reasons
    assert "Five." == text_of(again)
    judge_log(served)


def damage(path: Path) -> None:
    """Write garbage over all pages but the first, once the gateway has to read them again."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("INSERT INTO given (owner, name, noted) VALUES ('x', 'y', 0)")
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END) - 4096
        file.seek(4096)
        file.write(random.Random(1).randbytes(size))


def test_damaged_store_costs_no_request_and_is_named_until_it_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "responses.sqlite"
    with simulating() as simulator:
        settings(tmp_path, simulator.url, *store(path))
        with serving(tmp_path) as served:
            first = ask(served, "One.")
            damage(path)
            second = ask(served, "Two.")
            unreadable = stored(served, first)
            refused = ask(served, "And?", previous_response_id=first.json()["id"])
            served.send_signal("SIGTERM")
            code = served.end()
        with serving(tmp_path) as damaged:
            third = ask(damaged, "Three.")
        found = served.notices("response not stored") + damaged.notices("response not stored")
        for one in tmp_path.glob("responses.sqlite*"):
            one.unlink()
        with serving(tmp_path) as repaired:
            again = stored(repaired, ask(repaired, "Four."))

    assert ("Two.", "Three.") == (text_of(second), text_of(third))
    assert (500, 500) == (unreadable.status_code, refused.status_code)
    assert DAMAGED in unreadable.json()["error"]["message"]
    assert DAMAGED in refused.json()["error"]["message"]
    assert [f"the response store failed: {DAMAGED}"] * 2 == [one["why"] for one in found]
    assert 0 == code
    assert "Four." == text_of(again)
    judge_log(served)
    judge_log(damaged)


@needs_mount
def test_store_on_a_read_only_disk_is_one_clear_line(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    settings(tmp_path, "http://127.0.0.1:1", *store(disk / "responses.sqlite"))
    with serving_on_disk(tmp_path, disk, mount="size=2m,ro") as (served, _):
        code = served.end()

    assert 2 == code
    assert 1 == served.text.count("\n")
    assert f"`{disk / 'responses.sqlite'}` cannot be created: Read-only file system" in served.text


# --- recordings ---------------------------------------------------------------------------------------


def complete(folder: Path) -> list[Recording]:
    """Return the recordings that have their end; all that have begun can be read."""
    with suppress(FileNotFoundError):
        found = [read_recording(one) for one in sorted(folder.iterdir()) if one.stat().st_size]
        return [one for one in found if one.outcome is not None]
    return []


@needs_mount
@pytest.mark.parametrize("content", ["full", "shape"])
def test_recording_goes_on_when_a_full_disk_has_room_again(tmp_path: Path, content: str) -> None:
    disk = tmp_path / "disk"
    lines = ("[record]", f'dir = "{disk / "recordings"}"', f'content = "{content}"')
    with simulating() as simulator:
        settings(tmp_path, simulator.url, *lines)
        with serving_on_disk(tmp_path, disk) as (served, small):
            folder = small.outside / "recordings"
            statuses = [ask(served).status_code]
            until(lambda: len(complete(folder)) == 1)
            small.fill()
            statuses += [ask(served).status_code for _ in range(3)]
            until(lambda: len(served.notices("recording failed")) >= 3)
            until(lambda: len(list(folder.iterdir())) == 1)  # files without content are deleted
            small.free()
            statuses.append(ask(served).status_code)
            until(lambda: len(complete(folder)) == 2)
        reasons = {one["reason"] for one in served.notices("recording failed")}

    assert [200] * 5 == statuses
    assert all("No space left on device" in one for one in reasons), reasons
    judge_log(served)


@needs_mount
def test_recording_begins_when_a_read_only_disk_can_be_written(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with simulating() as simulator:
        settings(tmp_path, simulator.url, "[record]", f'dir = "{disk / "recordings"}"')
        with serving_on_disk(tmp_path, disk, mount="size=2m,ro") as (served, small):
            first = ask(served)
            until(lambda: len(served.notices("recording failed")) >= 2)  # at the start, and now
            small.remount("rw,size=2m")
            second = ask(served)
            until(lambda: len(complete(small.outside / "recordings")) == 1)
        reasons = {one["reason"] for one in served.notices("recording failed")}

    assert (200, 200) == (first.status_code, second.status_code)
    assert all("Read-only file system" in one for one in reasons), reasons
    judge_log(served)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_nothing_is_left_on_the_disk_by_default(tmp_path: Path, workers: str) -> None:
    with simulating() as simulator:
        settings(tmp_path, simulator.url)
        with serving(tmp_path, "--workers", workers, TMPDIR=str(tmp_path)) as served:
            until(lambda: len(served.notices("started")) == int(workers))
            response = ask(served)
            meanwhile = sorted(one.name.partition("-")[0] for one in tmp_path.iterdir())
            served.send_signal("SIGTERM")
            served.end()

    assert 200 == response.status_code
    assert {"1": ["dragoman.toml"], "2": ["dragoman", "dragoman.toml"]}[workers] == meanwhile
    assert ["dragoman.toml"] == [one.name for one in tmp_path.iterdir()]


# --- several processes --------------------------------------------------------------------------------


@needs_mount
def test_workers_count_and_are_replaced_while_their_disk_is_full(tmp_path: Path) -> None:
    """Also for keys that come with a reload: their counts would be in a part of the file that has no room."""
    disk = tmp_path / "disk"
    variables = {f"KEY_{number}": key for number, key in enumerate(KEYS)}
    lines = store(disk / "responses.sqlite")
    with simulating() as simulator:
        settings(tmp_path, simulator.url, "[server]", 'keys = ["env:KEY_0"]', *lines)
        with serving_on_disk(
            tmp_path, disk, "--workers", "2", mount="size=8m", TMPDIR=str(disk), **variables
        ) as (served, small):
            until(lambda: len(served.notices("started")) == 2)
            first = ask(served, "One.", KEYS[0])
            small.fill()
            (shared,) = small.outside.glob("dragoman-*")
            names = ", ".join(f'"env:{name}"' for name in variables)
            settings(tmp_path, simulator.url, "[server]", f"keys = [{names}]", *lines)
            served.send_signal("SIGHUP")
            until(lambda: len(served.notices("reloaded")) == 2)
            statuses = [status(served, key) for key in KEYS]
            os.kill(served.notices("started")[0]["process"], signal.SIGKILL)
            until(lambda: len(served.notices("started")) == 3)
            statuses += [status(served, key) for key in KEYS[:6]]
            files = len(list(shared.iterdir()))
            small.free()
            header = {"authorization": f"Bearer {KEYS[0]}"}
            kept = stored(served, first, **header)
            last = stored(served, ask(served, "Two.", KEYS[0]), **header)
            served.send_signal("SIGTERM")
            code = served.end()

    assert [200] * len(statuses) == statuses
    assert "One." == text_of(kept)
    assert "Two." == text_of(last)
    assert files < 15
    assert ["-9"] == [line.split()[5].strip(";") for line in served.lines if "it is replaced" in line]  # fmt: skip
    assert 0 == code
    judge_log(served)


def status(served: Served, key: str = "") -> int:
    """Ask for a response that is not stored, over a new connection."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    body = question("chat", "sim/plain", stream=False)
    url = f"{served.url}/v1/chat/completions"
    return httpx2.post(url, json=body, headers=headers, **HOW).status_code


def is_reached(served: Served) -> bool:
    try:
        return httpx2.get(f"{served.url}/health", **HOW).status_code == 200
    except httpx2.ConnectError:
        return False


def children(process: int) -> set[int]:
    return set(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_workers_are_replaced_and_end_with_the_first_process_without_a_log(tmp_path: Path) -> None:
    """The log is on a full disk: no line can be written."""
    with simulating() as simulator:
        settings(tmp_path, simulator.url)
        words = command("--port", "0", "--workers", "2")
        with serving_process(["sh", "-c", 'exec "$@" 2>/dev/full', "sh", *words], tmp_path) as served:  # fmt: skip
            first = served.process.pid
            before = until(lambda: len(found := children(first)) == 2 and found)
            statuses = [status(served)]
            victim = min(before)
            os.kill(victim, signal.SIGKILL)
            after = until(
                lambda: len(found := children(first)) == 2 and victim not in found and found
            )
            until(lambda: is_reached(served))  # the other worker may still be starting
            statuses += [status(served) for _ in range(4)]
            served.process.kill()
            until(lambda: not any(map(is_running, after)))

    assert [200] * 5 == statuses
