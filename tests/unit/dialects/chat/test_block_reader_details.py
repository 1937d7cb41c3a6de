"""`reasoning_details`, merged."""

import msgspec
from msgspec import Raw

from dragoman.dialects.chat.block_reader import Details
from dragoman.turn.events import Channel


def merged(*lists: object) -> tuple[list, list]:
    """Return what is readable, and the merged list."""
    details = Details()
    readable = [one for entries in lists for one in details.add(Raw(msgspec.json.encode(entries)))]
    return readable, msgspec.json.decode(details.take())


def test_entries_are_merged_by_type_and_index() -> None:
    readable, entries = merged(
        [{"type": "reasoning.text", "text": "a", "index": 0, "id": None}],
        [{"type": "reasoning.text", "text": "b", "index": 0, "id": "x", "signature": None}],
        [{"type": "reasoning.encrypted", "data": "E", "index": 0}],
    )

    assert [("a", Channel.FULL, 0), ("b", Channel.FULL, 0)] == readable
    assert [
        {"type": "reasoning.text", "text": "ab", "index": 0, "id": "x", "signature": None},
        {"type": "reasoning.encrypted", "data": "E", "index": 0},
    ] == entries


def test_without_an_index_only_running_text_is_continued() -> None:
    _, entries = merged(
        [{"type": "reasoning.text", "text": "a"}],
        [{"type": "reasoning.text", "text": "b"}],
        [{"type": "reasoning.encrypted", "data": "E"}],
        [{"type": "reasoning.encrypted", "data": "F"}],
    )

    assert ["ab", "E", "F"] == [entry.get("text") or entry.get("data") for entry in entries]


def test_entries_of_unknown_types_are_kept() -> None:
    readable, entries = merged(
        [{"type": "reasoning.server_tool_call", "x": 1}, {"type": 5}, {}], None
    )

    assert [] == readable
    assert [{"type": "reasoning.server_tool_call", "x": 1}, {"type": 5}, {}] == entries


def test_s16_cut_characters_are_joined() -> None:
    details = Details()
    details.add(Raw(rb'[{"type":"reasoning.text","text":"\ud83d","index":0}]'))
    details.add(Raw(rb'[{"type":"reasoning.text","text":"\ude00","index":0}]'))

    assert "😀" == msgspec.json.decode(details.take())[0]["text"]
