"""Where recorded answers have native markers: the bytes at a position are the marker."""

import json
from pathlib import Path

import pytest

from dragoman.profiles import profile
from dragoman.recorder.lines import Attempt, Opening, Payload, Read, Received, Reply, Translation
from dragoman.recorder.positions import ByteRange, NativePositions, native_positions
from dragoman.recorder.recording import AttemptRecord, Recording, read_recording

UNMARKED = {"llama3_json", "xlam", "granite"}  # calls may be JSON alone


def shown(data: bytes, ranges: tuple[ByteRange, ...]) -> str:
    """Return the text behind the bytes of some JSON strings."""
    return "".join(json.loads(b'"%b"' % data[one.start : one.end]) for one in ranges)


def test_every_marker_of_every_family_is_at_its_position(folder: Path) -> None:
    families: set[str] = set()
    for file in folder.iterdir():
        recording = read_recording(file)
        attempt = recording.answered
        if attempt is None or attempt.reply is None or attempt.reply.translation is None:
            continue
        found = native_positions(recording, attempt)
        data = b"".join(attempt.pieces())
        for marker in found.markers:
            assert marker.text == shown(data, marker.ranges)
            families.add(marker.family)
        names = [
            event["name"]
            for event in map(json.loads, map(bytes, attempt.events))
            if event["event"] == "block_start" and event["call_id"]
        ]
        for call in found.calls:
            assert call.name in names
            header = shown(data, call.ranges)
            assert call.name in header
            assert call.family in UNMARKED or any(one.call == call.call for one in found.markers)
    assert len(families) >= 40


def recorded(*deltas: str, field: str = "content", tools: bool = True) -> Recording:
    """Return a recording of a Kimi answer whose text came in these deltas."""
    chunks = [{"choices": [{"index": 0, "delta": {field: text}}]} for text in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    data = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in chunks)
    request = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
    if tools:
        request["tools"] = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    how = Translation(
        source="chat",
        target="chat",
        model="kimi-k2",
        native_format="kimi_k2",
        stream=True,
        profile=profile("generic"),
    )
    body = Payload.of(json.dumps(request).encode())
    opening = Opening(
        version=1, program="", id="r", time=0.0, dialect="chat", method="POST", path="", headers={}
    )
    attempt = AttemptRecord(
        Attempt(at=0, upstream="u", model="m", url="", headers={}, body=body),
        Reply(at=0, status=200, headers={}, translation=how),
        [Read(at=0, size=len(data), data=Payload.of(data)), Read(at=1, size=0, ended=True)],
    )
    return Recording(opening, Received(at=0, body=body), [attempt])


def positions(recording: Recording) -> tuple[bytes, NativePositions]:
    attempt = recording.attempts[0]
    return b"".join(attempt.pieces()), native_positions(recording, attempt)


CALL = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
    '{"a": "é\\n"}<|tool_call_end|><|tool_calls_section_end|>'
)
HEADER = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_a_marker_that_is_cut_has_one_range_for_each_event(size: int, field: str) -> None:
    text = f"Zürich 😀: {CALL}"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    data, found = positions(recorded(*pieces, field=field))
    assert [
        "<|tool_calls_section_begin|>", HEADER, "<|tool_call_end|>", "<|tool_calls_section_end|>"
    ] == [one.text for one in found.markers]  # fmt: skip
    for one in found.markers:
        assert shown(data, one.ranges) == one.text
        assert one.channel == ("content" if field == "content" else "reasoning")
        assert one.call == 0
        assert (one.start, one.end) == (one.ranges[0].start, one.ranges[-1].end)
    (call,) = found.calls
    assert ("f", 0) == (call.name, call.call)
    assert shown(data, call.ranges) == HEADER + '{"a": "é\\n"}'


def test_text_that_mentions_markers_has_none() -> None:
    for text in ("The token `<|tool_call_begin|>` begins a call.", "no marker"):
        _, found = positions(recorded(text))
        assert found == NativePositions()
    _, found = positions(recorded(CALL, tools=False))
    assert found == NativePositions()


def test_a_call_that_was_cut_is_found_as_far_as_it_goes() -> None:
    data, found = positions(recorded(CALL[:100]))
    assert ["<|tool_calls_section_begin|>", HEADER] == [one.text for one in found.markers]
    (call,) = found.calls
    assert (
        shown(data, call.ranges)
        == HEADER + CALL[len("<|tool_calls_section_begin|>" + HEADER) : 100]
    )
