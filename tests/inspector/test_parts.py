"""Large recordings in parts: the first at once, the rest on demand, and other requests do not wait for it."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from dragoman.gateway.config.settings import Record
from dragoman.inspector.exchange import PAGE_ROWS
from dragoman.inspector.index import Index
from dragoman.inspector.parts import Prepared, prepare
from dragoman.inspector.recordings import MOST_BYTES, load, side_bytes
from tests.support.asking import get
from tests.support.gateway import Stand, settings_for, stand
from tests.support.long_recordings import unfolded, write_long

API = "/inspector/api/exchanges"
COLUMNS = ("upstream", "meaning", "client")


def read(path: Path, *, first: bool = False) -> Prepared:
    (found,) = [one for one in Index(path.parent).summaries() if one.file == path.name]
    return prepare(path, found, address="127.0.0.1:8484", first=first)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("long")
    write_long(found, chunks=2500)
    return found


@pytest.fixture(scope="module")
def long(folder: Path) -> Path:
    return next(folder.glob("*.dragoman"))


def whole_rows(shown: Any, prepared: Prepared, column: str) -> list[Any]:
    """Return all rows of a column, fetched page by page."""
    rows = list(shown[column]["rows"])
    while len(rows) < len(shown[column]["rows"]) + shown[column]["more"]:
        page = msgspec.json.decode(prepared.rows(column, len(rows)))
        assert page
        rows += page
    return rows


def test_pages_hold_all_rows_and_the_outline_agrees_with_them(long: Path) -> None:
    prepared = read(long)
    shown = msgspec.json.decode(prepared.head)
    assert shown["more"] is False
    for column in COLUMNS:
        rows = whole_rows(shown, prepared, column)
        assert len(rows) > 2500
        assert len(shown[column]["rows"]) == PAGE_ROWS
        outline = shown[column]["outline"]
        kinds = [kind for kind, count in outline["kinds"] for _ in range(count)]
        assert kinds == [row["kind"] for row in rows[PAGE_ROWS:]]
        if column != "meaning":
            assert outline["sizes"] == [row["to"] - row["from"] for row in rows[PAGE_ROWS:]]
            assert outline["gaps"] == []
            last = rows[PAGE_ROWS - 1]["at"] + sum(outline["times"]) / 100
            assert last == pytest.approx(rows[-1]["at"], abs=0.02)
    texts = "".join(row["text"] for row in whole_rows(shown, prepared, "meaning"))
    assert "part 0 part 1 part 2 " in texts
    assert "part 2499 " in texts
    assert prepared.rows("upstream", 10 * PAGE_ROWS) == b"[]"


def test_links_of_a_long_answer_are_few_and_reach_its_last_row(long: Path) -> None:
    shown = msgspec.json.decode(read(long).head)
    links = shown["links"]
    assert len(links) < 200
    every = unfolded(links)
    assert len(every) > 2500
    for name, column in (("ev", "meaning"), ("client", "client")):
        reached = {row for link in every for row in link[name]}
        count = len(shown[column]["rows"]) + shown[column]["more"]
        assert len(reached) >= count - 2
        assert max(reached) == count - 1


def test_the_first_part_has_rows_and_links_and_no_calls(long: Path) -> None:
    first, whole = (msgspec.json.decode(read(long, first=one).head) for one in (True, False))
    assert (first["more"], whole["more"]) == (True, False)
    assert first["row"] == whole["row"]
    assert first["size"] == long.stat().st_size
    assert first["timeline"]["end_ms"] == whole["timeline"]["end_ms"]
    for column in COLUMNS:
        assert first[column]["rows"][:300] == whole[column]["rows"][:300]
    shared = min(len(first["links"]), 3)
    assert unfolded(first["links"])[: shared * 100] == unfolded(whole["links"])[: shared * 100]
    assert (first["calls"], len(whole["calls"])) == ([], 1)
    assert whole["calls"][0]["markers"]


def test_a_small_recording_has_one_part(tmp_path: Path) -> None:
    path = write_long(tmp_path, chunks=3)
    assert msgspec.json.decode(read(path, first=True).head)["more"] is False


# --- over HTTP -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """A gateway over a recording that is as large as one can be shown."""
    folder = tmp_path_factory.mktemp("large")
    path = write_long(folder, chunks=58_000)
    assert 0.8 * MOST_BYTES < path.stat().st_size < MOST_BYTES
    with stand(lambda url: settings_for(url, record=Record(dir=str(folder)))) as gateway:
        get(gateway, API)
        yield gateway


def touch(served: Stand) -> None:
    """Change the time of the file, so that it is read again."""
    folder = Path(served.running.gateway.plan.settings.record.dir)
    next(folder.glob("*.dragoman")).touch()


def timed(served: Stand, path: str) -> tuple[Any, float]:
    started = time.perf_counter()
    answer = httpx2.get(f"{served.url}{path}", timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json(), time.perf_counter() - started


def test_the_first_part_comes_long_before_the_whole(served: Stand) -> None:
    touch(served)
    first, first_seconds = timed(served, f"{API}/req_long?part=first")
    whole, whole_seconds = timed(served, f"{API}/req_long")
    again, again_seconds = timed(served, f"{API}/req_long?part=first")
    page, page_seconds = timed(served, f"{API}/req_long/rows?column=client&from=50000")
    raw, raw_seconds = timed(served, f"{API}/req_long/bytes?side=upstream&from=9000000&to=9016384")

    assert (first["more"], whole["more"], again["more"]) == (True, False, False)
    assert first["upstream"]["rows"][0]["text"]
    assert page["from"] == 50_000
    assert len(page["rows"]) == PAGE_ROWS
    assert len(raw["text"]) == 16_384
    assert first_seconds < whole_seconds / 5
    assert max(again_seconds, page_seconds, raw_seconds) < whole_seconds / 5


def test_other_requests_do_not_wait_while_a_large_recording_is_read(served: Stand) -> None:
    """The event loop goes on, in one of three tries, because other programs use this machine as well."""

    async def worst_wait() -> tuple[float, int]:
        async with httpx2.AsyncClient(timeout=120) as client:
            whole = asyncio.create_task(client.get(f"{served.url}{API}/req_long"))
            worst, count = 0.0, 0
            while not whole.done():
                started = time.perf_counter()
                assert (await client.get(f"{served.url}/health")).status_code == 200
                worst, count = max(worst, time.perf_counter() - started), count + 1
                await asyncio.sleep(0.02)
            assert (await whole).status_code == 200
            return worst, count

    tries: list[tuple[float, int]] = []
    while len(tries) < 3 and not any(worst < 0.25 for worst, _ in tries):
        touch(served)
        tries.append(asyncio.run(worst_wait()))
    assert all(count > 10 for _, count in tries), tries
    assert tries[-1][0] < 0.25, tries


def test_a_column_must_be_named(served: Stand) -> None:
    assert get(served, f"{API}/req_long/rows?column=elsewhere").status_code == 400
    assert get(served, f"{API}/req_long/rows?column=client&from=x").status_code == 400
    assert get(served, f"{API}/req_none/rows?column=client").status_code == 404


def test_the_bytes_are_those_of_the_recording(folder: Path, long: Path) -> None:
    recording = load(long).recording
    prepared = read(long)
    for side in ("upstream", "client", "received", "sent"):
        assert prepared.sides[side] == side_bytes(recording, side)
    first = read(long, first=True)
    assert side_bytes(recording, "upstream").startswith(first.sides["upstream"])
