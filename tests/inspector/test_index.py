"""The index of a folder: many files, files that grow, are copied or deleted."""

import json
import os
import time
from pathlib import Path

from dragoman.inspector.index import Filter, Index
from dragoman.inspector.summary import LogRecord, Summary, summarize

SAMPLE = Path(__file__).parents[1] / "recorder/recording.dragoman"
FIRST, *_, LAST = SAMPLE.read_bytes().splitlines(keepends=True)


def everybody(_exchange: Summary) -> bool:
    return True


def write(folder: Path, number: int, *, ended: bool = True, when: float = 0.0) -> Path:
    """Write the first and the last line of a recording."""
    opening = json.loads(FIRST) | {"id": f"req_{number:06}", "time": when or 1e9 + number}
    file = folder / f"{number:06}.dragoman"
    file.write_bytes(json.dumps(opening).encode() + b"\n" + (LAST if ended else b""))
    return file


def cost(folder: Path) -> tuple[float, float]:
    """Return the seconds of processor time that the first look takes, and the list after it."""
    index = Index(folder)
    times = [time.process_time()]
    index.summaries()
    times.append(time.process_time())
    page = index.page(Filter({"model": ("*",)}), may_see=everybody)
    times.append(time.process_time())
    assert len(page.rows) == min(200, page.total)
    return times[1] - times[0], times[2] - times[1]


def test_ten_thousand_exchanges_cost_what_a_hundred_times_a_hundred_do(tmp_path: Path) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    for folder, count in ((few, 100), (many, 10_000)):
        folder.mkdir()
        for number in range(count):
            write(folder, number)
    scan = min(cost(few)[0] for _ in range(3))
    scanned, listed = cost(many)
    assert scanned < 300 * scan
    assert listed < 0.5  # seconds; 10 ms were measured


def test_a_page_of_an_index_that_is_behind_another_process_is_marked(tmp_path: Path) -> None:
    write(tmp_path, 1)
    index = Index(tmp_path)
    assert not index.page(Filter(), may_see=everybody).behind
    write(tmp_path, 2)
    assert index.page(Filter(), may_see=everybody, newest="req_000002").behind
    index._looked = 0.0
    page = index.page(Filter({"model": ("other",)}), may_see=everybody, newest="req_000002")
    assert (page.behind, page.total, page.matched) == (False, 2, 0)


def test_a_recording_that_grows_is_read_again(tmp_path: Path) -> None:
    file = write(tmp_path, 1, ended=False)
    index = Index(tmp_path)
    (row,) = index.page(Filter(), may_see=everybody).rows
    assert (row.state, row.level) == ("streaming", "streaming")
    with file.open("ab") as more:
        more.write(LAST)
    index._looked = 0.0
    (row,) = index.page(Filter(), may_see=everybody).rows
    assert (row.state, row.level) == ("done", "ok")


def test_a_recording_without_an_end_is_incomplete_after_a_while(tmp_path: Path) -> None:
    file = write(tmp_path, 1, ended=False)
    os.utime(file, (1, 1))
    (row,) = Index(tmp_path).page(Filter(), may_see=everybody).rows
    assert (row.state, row.problems[0].kind) == ("done", "incomplete")


def test_a_deleted_recording_leaves_the_list_and_a_copy_has_its_own_id(tmp_path: Path) -> None:
    one = write(tmp_path, 1)
    (tmp_path / "copy.dragoman").write_bytes(one.read_bytes())
    index = Index(tmp_path)
    ids = {row.id for row in index.page(Filter(), may_see=everybody).rows}
    assert len(ids) == 2
    assert any(found.startswith("req_000001~") for found in ids)
    one.unlink()
    index._looked = 0.0
    assert len(index.page(Filter(), may_see=everybody).rows) == 1


def test_what_changed_is_given_once(tmp_path: Path) -> None:
    write(tmp_path, 1)
    index = Index(tmp_path)
    assert index.take_changes() == []  # the first look finds everything
    write(tmp_path, 2)
    index._looked = 0.1
    assert [one.row.id for one in index.take_changes()] == ["req_000002"]
    assert index.take_changes() == []


def test_memory_is_bounded_and_a_recording_knows_more(tmp_path: Path) -> None:
    index = Index(None)
    for number in range(5):
        record = LogRecord(id=f"req_{number}", time=float(number), upstream="x", model="m")
        index.put(summarize(record, client=""), most=3)
    assert [row.id for row in index.page(Filter(), may_see=everybody).rows] == [
        "req_4",
        "req_3",
        "req_2",
    ]
