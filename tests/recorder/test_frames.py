"""What goes through the pipe to the writer of recordings, however the pipe cuts it."""

import json

import pytest

from dragoman.recorder.frames import (
    Came,
    Close,
    Ended,
    FrameBuffer,
    Meant,
    Sent,
    encode_batch,
    encode_meaning,
)
from dragoman.turn.events import DeltaRun, Fault, FaultKind, TextDelta

FRAMES = (
    (Came(1, 0.5), b"data: \xff\n\n"),
    (Meant(1, 7, 9), b"[]"),
    (Ended(1, 1.5, Fault(FaultKind.TIMEOUT, "late")), b""),
    (Sent(2, 2.0), b"x" * 70_000),
    (Close(exchange=1, at=3.0, status=200, dropped=7), b"{}"),
)


@pytest.mark.parametrize("size", [1, 3, 5, 1000, 1_000_000])
def test_frames_come_out_as_they_went_in(size: int) -> None:
    batches = [list(FRAMES[:2]), list(FRAMES[2:])]
    data = b"".join(
        piece
        for batch in batches
        for piece in encode_batch([frame for frame, _ in batch], [data for _, data in batch])
    )
    buffer = FrameBuffer()

    found = [
        batch
        for start in range(0, len(data), size)
        for batch in buffer.feed(data[start : start + size])
    ]

    assert batches == found


def test_the_meaning_of_a_read_is_one_json_array_with_runs_as_their_deltas() -> None:
    events = (DeltaRun(0, [b"a", b"\\u00e9"], TextDelta(0, "a\u00e9")), TextDelta(0, "b"))

    frame, data = encode_meaning(3, events)
    deltas = json.loads(data)

    assert frame.exchange == 3
    assert ["a", "\u00e9"] == [
        one["text"] for one in json.loads(b"[%b]" % data[frame.run : frame.run_end])
    ]
    assert [("text", 0, text) for text in ("a", "\u00e9", "b")] == [
        (one["event"], one["index"], one["text"]) for one in deltas
    ]
