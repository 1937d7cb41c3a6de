"""What is read from answers: traces, families of calls in text, schemas."""

import pytest

from dragoman.probe.response import Failure, Response, UnansweredError, printable, read_listing


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
        (b'{"others":[]}', (), True),
        (b"<html>", (), True),
    ],
)
def test_a_list_of_models_is_one_or_not(body, names, trouble):
    found = read_listing(Response("chat", status=200, body=body))

    assert (names, trouble) == (found.names, bool(found.trouble))
