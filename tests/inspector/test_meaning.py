"""The middle column: events in words, and native markers between them."""

from pathlib import Path

import pytest

from dragoman.inspector.meaning import meaning_row, meaning_rows
from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockStart,
    Event,
    ReasoningDelta,
    TextDelta,
)
from tests.inspector.test_columns import columns_of
from tests.support.long_recordings import write_long


@pytest.mark.parametrize(
    ("event", "kind", "text", "level"),
    [
        (TextDelta(0, "hello"), "text", "hello", ""),
        (ReasoningDelta(0, "why"), "reasoning", "why", ""),
        (ArgsDelta(0, '{"a"'), "arguments", '{"a"', ""),
        (BlockStart(0, "text"), "block start", "text", ""),
        (BlockEnd(0), "block end", "complete", ""),
        (BlockEnd(0, complete=False), "call end", "truncated, not run", "error"),
    ],
)
def test_an_event_is_named_in_words(event: Event, kind: str, text: str, level: str) -> None:
    row = meaning_row(event)
    assert (row.kind, row.text, row.level, row.cut) == (kind, text, level, False)


def test_a_long_text_is_cut() -> None:
    row = meaning_row(TextDelta(0, "x" * 401))
    assert (len(row.text), row.cut) == (400, True)


def test_markers_are_rows_between_the_events_of_their_call(tmp_path: Path) -> None:
    columns = columns_of(write_long(tmp_path, chunks=5))
    rows, moved, marked = meaning_rows(columns)
    assert len(rows) == len(columns.events) + len(columns.positions.markers)
    assert sorted([*moved, *marked]) == list(range(len(rows)))
    assert [rows[row].text for row in marked] == [one.text for one in columns.positions.markers]
    kinds = [row.kind for row in rows]
    start, end = kinds.index("call start"), kinds.index("call end")
    assert kinds[start - 3 : start] == ["marker", "marker", "block end"]
    assert kinds[end + 1 : end + 3] == ["marker", "marker"]
