"""An answer taken apart into columns, also while it is still being recorded."""

from pathlib import Path

from dragoman.inspector.columns import Columns, assign_native, events_of, find_blocks, take_apart
from dragoman.inspector.recordings import answering, load
from dragoman.turn.events import BlockEnd, BlockStart, TextDelta
from tests.support.long_recordings import write_long


def columns_of(path: Path) -> Columns:
    loaded = load(path)
    attempt = answering(loaded.recording)
    return take_apart(loaded.recording, attempt, whole=loaded.whole)


def test_an_answer_that_is_still_recorded_is_linked_as_far_as_it_goes(tmp_path: Path) -> None:
    path = write_long(tmp_path, chunks=60)
    lines = path.read_bytes().splitlines(keepends=True)
    linked = 0
    for count in range(5, len(lines)):
        path.write_bytes(b"".join(lines[:count]))
        columns = columns_of(path)
        assert all(row < len(columns.upstream) for link in columns.linked.links for row in link.up)
        assert all(
            row < len(columns.client) for link in columns.linked.links for row in link.client
        )
        events = [row for link in columns.linked.links for row in link.ev]
        assert events == list(range(len(columns.events))), count
        linked += bool(events)
    assert linked > 10


def test_each_chunk_of_text_is_linked_to_its_event_and_to_the_clients(tmp_path: Path) -> None:
    columns = columns_of(write_long(tmp_path, chunks=60))
    for link in columns.linked.links:
        for number in link.ev:
            event = columns.events[number]
            if isinstance(event, TextDelta) and event.text.startswith("part "):
                assert [columns.upstream[row].text for row in link.up] == [event.text]
                assert event.text in [columns.client[row].text for row in link.client]


def test_blocks_have_their_rows_and_bytes_on_both_sides(tmp_path: Path) -> None:
    path = write_long(tmp_path, chunks=60)
    columns = columns_of(path)
    assign_native(columns)
    text, call = find_blocks(columns, [])[:2]
    assert (text.kind, call.kind, call.label) == ("text", "call", "bash")
    assert text.ev is not None
    assert isinstance(columns.events[text.ev[0]], BlockStart)
    assert isinstance(columns.events[text.ev[1]], BlockEnd)
    for block in (text, call):
        assert block.up is not None
        assert block.client is not None
        assert block.up_bytes == (
            columns.upstream[block.up[0]].start,
            columns.upstream[block.up[1]].end,
        )
        assert block.client_bytes == (
            columns.client[block.client[0]].start,
            columns.client[block.client[1]].end,
        )


def test_events_are_read_up_to_the_first_that_is_unknown(tmp_path: Path) -> None:
    path = write_long(tmp_path, chunks=60)
    path.write_bytes(path.read_bytes().replace(b'"event":"text"', b'"event":"later"', 12))
    attempt = answering(load(path).recording)
    assert attempt is not None
    assert len(events_of(attempt)) < 5
