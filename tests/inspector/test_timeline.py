"""The lanes of the timeline: attempts, bytes, blocks."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.inspector.exchange import view
from dragoman.inspector.index import Index
from dragoman.inspector.recordings import load
from tests.support.long_recordings import write_long


def lanes_of(path: Path) -> dict[str, Any]:
    (found,) = Index(path.parent).summaries()
    shown = view(found, load(path), address="").shown["timeline"]
    return {"end_ms": shown["end_ms"], **{lane["kind"]: lane for lane in shown["lanes"]}}


def test_lanes_cover_the_time_of_their_blocks(tmp_path: Path) -> None:
    lanes = lanes_of(write_long(tmp_path, chunks=100))
    assert list(lanes) == ["end_ms", "attempts", "upstream", "text", "call", "client"]
    waiting, streaming = lanes["attempts"]["spans"]
    assert (waiting["level"], streaming["level"]) == ("waiting", "ok")
    assert waiting["to"] == streaming["from"]
    (text,), (call,) = lanes["text"]["spans"], lanes["call"]["spans"]
    assert streaming["from"] <= text["from"] < call["from"] < call["to"]
    assert (call["level"], call["label"]) == ("ok", "complete")
    assert call["to"] <= lanes["end_ms"]


def test_many_reads_are_joined_and_no_byte_is_lost(tmp_path: Path) -> None:
    path = write_long(tmp_path, chunks=4600, per_read=1)
    loaded = load(path)
    attempt = loaded.recording.answered
    assert attempt is not None
    assert len(attempt.reads) > 4500
    ticks = lanes_of(path)["upstream"]["ticks"]
    assert len(ticks) <= 4001
    assert sum(size for _, size in ticks) == sum(read.size for read in attempt.reads)
    assert ticks[-1][0] == pytest.approx(attempt.reads[-1].at, rel=0.01)
