"""The bytes of an answer as rows, and the plain values of a body with their positions."""

import pytest

from dragoman.inspector.answer_rows import Arrivals, bare_rows, values


def test_values_have_their_path_their_bytes_and_their_text() -> None:
    data = '{"a": [1, {"é": "x\\n"}], "b": null}'.encode()

    found = list(values(data))

    assert [("$.a[0]", "1"), ("$.a[1].é", "x\n"), ("$.b", "null")] == [
        (path, text) for path, _, _, text in found
    ]
    assert [b"1", b'"x\\n"', b"null"] == [data[start:end] for _, start, end, _ in found]


@pytest.mark.parametrize(
    ("data", "count"), [(b"", 0), (b"]", 0), (b'{"a": "cut', 1), (b"[" * 100_000 + b"1", 0)]
)
def test_what_is_not_json_ends_the_values(data: bytes, count: int) -> None:
    assert count == len(list(values(data)))


def test_a_byte_arrived_with_the_read_that_has_it() -> None:
    arrivals = Arrivals([(10.0, 3), (20.0, 2)])

    assert [10.0, 10.0, 20.0, 20.0] == [arrivals.at(byte) for byte in (0, 2, 3, 4)]
    assert 20.0 == arrivals.last


def test_an_event_without_a_meaning_shows_its_values() -> None:
    data = (
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
        b'"content_block":{"type":"thinking","thinking":"","signature":null}}\n\n'
        b"data: not JSON\n\n: alive\n\ndata: [DONE]\n\n"
    )
    rows = bare_rows(data, Arrivals([(1.0, len(data))]))
    assert [(row.kind, row.text) for row in rows] == [
        ("content_block_start", "0 thinking"),
        ("event", "not JSON"),
        ("comment", ": alive"),
        ("done", "[DONE]"),
    ]
