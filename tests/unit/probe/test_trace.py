"""How a stream was written."""

import pytest

from dragoman.dialects import DIALECT_NAMES
from dragoman.probe.trace import has_whole_arguments, trace

CHUNK = b'data: {"choices":[{"index":0,"delta":%b,"finish_reason":%b}]}\n\n'


def chat(*deltas: bytes, finish: bytes = b'"stop"') -> bytes:
    chunks = [CHUNK % (delta, b"null") for delta in deltas]
    return b"".join(chunks) + CHUNK % (b"{}", finish) + b"data: [DONE]\n\n"


def test_a_trace_shows_how_a_stream_was_written():
    stream = b": hello\r\n\r\n" + chat(
        b'{"content":null}', b'{"content":"Hi"}', b'{"reasoning":"x"}'
    )

    found = trace("chat", stream)

    assert found.crlf
    assert (1, 1, 4, 0) == (found.comments, found.nulls, found.events, found.named)
    assert (["Hi"], ["reasoning"], "stop", True) == (
        found.texts,
        found.reasoning,
        found.finish,
        found.last,
    )


@pytest.mark.parametrize("garbage", [b"", b"\0\xff", b"data: [1]\n\n", b"data: {\n\n" * 9])
@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_any_bytes_have_a_trace(dialect, garbage):
    assert "" == trace(dialect, garbage).finish


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [((), False), (("{}",), True), (('{"a":', "1}"), True), (('{"a"',), False), (("[]",), False)],
)
def test_arguments_are_whole_or_not(pieces, expected):
    deltas = [
        b'{"tool_calls":[{"index":0,"function":{"arguments":"%b"}}]}'
        % piece.replace('"', '\\"').encode()
        for piece in pieces
    ]

    assert expected is has_whole_arguments(trace("chat", chat(*deltas)))
