"""What is read from answers: traces, families of calls in text, schemas."""

import json

import pytest

from dragoman import json_format
from dragoman.probe.calls import leaked, made
from dragoman.probe.questions import AUTO
from dragoman.probe.response import Failure, Response, UnansweredError, printable, read_listing
from dragoman.probe.trace import has_whole_arguments, trace
from dragoman.simulator.native import FAMILIES
from tests.support.probing import probe
from tests.support.simulator import ask

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
@pytest.mark.parametrize("dialect", ["chat", "anthropic", "responses"])
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


# Families whose calls the tables of an older one read as well.
READERS = {
    "deepseek_v31": "deepseek_v3",
    "deepseek_v32": "deepseek_v3",
    "glm47": "glm45",
    "poolside_v1": "glm45",
}


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_family_of_calls_in_text_is_known(family):
    """The simulator's name of the model tells it; without the name, its markers do."""
    report = probe(family.replace("_", "-"), "chat", "native")

    assert READERS.get(family, family) == report.format


@pytest.mark.parametrize("family", ["kimi_k2", "hermes", "glm45", "deepseek_v31", "minimax_m2"])
def test_markers_alone_show_the_family(family):
    body = {
        "model": f"sim/{family.replace('_', '-')}",
        "messages": [{"role": "user", "content": "get_weather of Paris"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}],
    }
    response = Response("chat", status=200, body=ask("chat", body).body)

    leak = leaked(response, AUTO, "some-model")

    assert leak is not None
    assert (READERS.get(family, family), "content", ["get_weather"]) == (
        leak.family,
        leak.place,
        [one.name for one in leak.calls],
    )


def test_text_about_tools_is_no_call():
    body = b'{"choices":[{"message":{"content":"I would use get_weather(city) or <b>."}}]}'
    response = Response("chat", status=200, body=body)

    assert () == made(response, AUTO, "some-model")


def test_what_failed_has_no_answer():
    response = Response("chat", failure=Failure("timeout", "no end of the answer within 1 s"))

    with pytest.raises(UnansweredError, match="no end of the answer within 1 s"):
        _ = response.whole


def test_busy_is_not_refused():
    assert "" == Response("chat", status=429, body=b"{}").refused
    assert Response("chat", status=400, body=b'{"error":{"message":"no"}}').refused == "400: no"


def test_what_a_peer_sends_cannot_upset_a_terminal():
    assert "a b \N{REPLACEMENT CHARACTER}[31m" == printable("a\n b\t \x1b[31m")
    assert 120 == len(printable("x" * 500))


@pytest.mark.parametrize(
    ("body", "names", "trouble"),
    [
        (b'{"data":[{"id":"a"},{"id":"b"}]}', ("a", "b"), False),
        (b'{"models":[]}', (), True),
        (b"<html>", (), True),
    ],
)
def test_a_list_of_models_is_one_or_not(body, names, trouble):
    found = read_listing(Response("chat", status=200, body=body))

    assert (names, trouble) == (found.names, bool(found.trouble))


def test_calls_in_a_format_of_the_settings_are_found() -> None:
    acme = json_format("acme", open="<acme>", close="</acme>")
    (tool,) = AUTO.tools[:1]
    text = f'<acme>{{"name": "{tool.name}", "arguments": {{}}}}</acme>'
    body = {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]
    }
    response = Response("chat", status=200, body=json.dumps(body).encode())

    leak = leaked(response, AUTO, "some-model", (acme,))

    assert leak is not None
    assert ("acme", tool.name) == (leak.family, leak.calls[0].name)
