"""Views that pages look at are kept while their file is the same, and large recordings are read by another process."""

from pathlib import Path

import msgspec
import pytest

from dragoman.inspector.index import Index
from dragoman.inspector.parts import Prepared, prepare
from dragoman.inspector.recordings import FIRST_BYTES, GoneError
from dragoman.inspector.summary import Summary
from dragoman.inspector.views import KEEP_SECONDS, Views, is_large
from dragoman.recorder.recording import RecordingError
from tests.support.long_recordings import write_long

ADDRESS = "127.0.0.1:8484"


def summary(path: Path) -> Summary:
    (found,) = [one for one in Index(path.parent).summaries() if one.file == path.name]
    return found


def read(views: Views, path: Path, *, first: bool = False) -> Prepared:
    return views.read(path, summary(path), address=ADDRESS, first=first)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_long(tmp_path, chunks=3)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    return write_long(tmp_path, chunks=1500, exchange="req_large")


def test_a_view_is_kept_until_nobody_looks(small: Path) -> None:
    now = [0.0]
    views = Views(clock=lambda: now[0])
    made = read(views, small)
    for _ in range(3):
        now[0] += KEEP_SECONDS - 1
        assert views.kept(small) is made
    now[0] += KEEP_SECONDS + 1
    views.drop_old()
    assert views.kept(small) is None


def test_a_view_of_a_file_that_has_changed_is_not_used(small: Path) -> None:
    views = Views()
    read(views, small)
    with small.open("ab") as file:
        file.write(b"\n")
    assert views.kept(small) is None
    small.unlink()
    with pytest.raises(GoneError):
        views.kept(small)


def test_views_are_bounded_in_bytes(tmp_path: Path) -> None:
    views = Views(most_bytes=1)
    first = write_long(tmp_path, chunks=3, exchange="req_1")
    second = write_long(tmp_path, chunks=3, exchange="req_2")
    read(views, first)
    made = read(views, second)
    assert views.kept(first) is None
    assert views.kept(second) is made


def test_a_large_recording_is_read_by_another_process_to_the_same_view(large: Path) -> None:
    assert is_large(large)
    views = Views()
    first = read(views, large, first=True)
    assert first.more
    assert views.kept(large, first=True) is first
    assert views.kept(large) is None
    whole = read(views, large)
    assert whole == prepare(large, summary(large), address=ADDRESS)
    assert views.kept(large, first=True) is whole


def test_what_the_other_process_cannot_read_is_named(large: Path) -> None:
    found = summary(large)
    views = Views()
    newer = large.read_bytes().replace(b'"version":1', b'"version":9', 1)
    large.write_bytes(newer)
    with pytest.raises(RecordingError, match="has format 9"):
        views.read(large, found, address=ADDRESS)
    large.write_bytes(b"x" * (FIRST_BYTES + 1))
    with pytest.raises(RecordingError, match="not a recording"):
        views.read(large, found, address=ADDRESS)


def test_nothing_is_read_after_the_end(large: Path) -> None:
    views = Views()
    views.close()
    with pytest.raises(RecordingError, match="closed"):
        read(views, large)
    assert msgspec.json.decode(read(views, large, first=True).head)["more"]
