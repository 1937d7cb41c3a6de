"""The lines of a recording: what is written is read again, and text deltas are written one by one."""

import json

import msgspec
import pytest
from msgspec import Raw

from dragoman.recorder.lines import (
    Attempt,
    ExchangeOutcome,
    Failed,
    Payload,
    Read,
    Written,
    decode_line,
    encode_events,
    encode_line,
)
from dragoman.turn.events import DeltaRun, Fault, FaultKind, TextDelta

LINES = (
    Attempt(at=1.5, upstream="u", model="m", url="http://h/v1", headers={}, body=Payload(b"{}")),
    Read(at=2.0, size=3, data=Payload(b"a\xff\n"), ended=True),
    Failed(at=3.0, fault=Fault(FaultKind.TIMEOUT, "late")),
    Written(at=4.0, data=Payload(b"data: {}\n\n")),
    ExchangeOutcome(at=5.0, status=200, record=Raw(b'{"id":"a"}'), stalls=((1.0, 2.0),)),
)


@pytest.mark.parametrize("line", LINES, ids=lambda line: type(line).__name__)
def test_a_line_is_read_as_it_was_written(line: object) -> None:
    data = encode_line(line)

    assert data.endswith(b"\n")
    assert 1 == data.count(b"\n")
    assert encode_line(decode_line(data)) == data


@pytest.mark.parametrize("data", [b"", b"{}", b'{"line":"other"}', b'{"line":"read"}', b"\xff"])
def test_what_is_not_a_line_is_refused(data: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        decode_line(data)


def test_a_run_of_text_is_written_as_its_deltas() -> None:
    run = DeltaRun(0, [b"a", b"\\n"], TextDelta(0, "a\n"))

    assert [TextDelta(0, "a"), TextDelta(0, "\n")] == run.deltas()
    assert [
        {"event": "text", "index": 0, "text": "a"},
        {"event": "text", "index": 0, "text": "\n"},
    ] == [
        {key: value for key, value in json.loads(bytes(one)).items() if value is not None}
        for one in encode_events([run])
    ]
