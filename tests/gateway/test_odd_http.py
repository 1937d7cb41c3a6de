"""Requests whose end a proxy in front could see elsewhere than the gateway are refused, and the next one is served."""

import socket
from urllib.parse import urlsplit

import pytest

from tests.support.asking import post
from tests.support.gateway import stand
from tests.support.tables import in_one_test

BODY = b'{"model":"chat/plain","messages":[{"role":"user","content":"Hi"}]}'
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
HIDDEN = b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
LENGTH = b"content-length: %d" % len(BODY)
CHUNKED = b"transfer-encoding: chunked"

REFUSED = {
    "a length and chunks": ((b"content-length: 5", CHUNKED), CHUNKS),
    "chunks and a length, with a hidden request": (
        (CHUNKED, b"content-length: %d" % len(HIDDEN)),
        HIDDEN,
    ),
    "two lengths": ((LENGTH, b"content-length: 3"), BODY),
    "one length twice": ((LENGTH, LENGTH), BODY),
    "a list of lengths": ((b"content-length: 5, 5",), BODY),
    "a length with a sign": ((b"content-length: +5",), BODY),
    "a negative length": ((b"content-length: -5",), BODY),
    "a length in base 16": ((b"content-length: 0x5",), BODY),
    "two codings of one name": ((b"transfer-encoding: chunked, chunked",), CHUNKS),
    "two codings in two headers": ((CHUNKED, b"transfer-encoding: identity"), CHUNKS),
    "a coding that does not exist": ((b"transfer-encoding: xchunked",), CHUNKS),
    "a blank before the colon": ((LENGTH, b"transfer-encoding : chunked"), BODY),
    "a header on two lines": ((LENGTH, b"x-a: b\r\n  c"), BODY),
    "a header with a NUL": ((LENGTH, b"x-a: b\0c"), BODY),
    "a second host": ((LENGTH, b"host: a.example"), BODY),
    "the size of a chunk that is no number": ((CHUNKED,), b"zz\r\nabc\r\n0\r\n\r\n"),
    "a negative chunk": ((CHUNKED,), b"-5\r\nabc\r\n0\r\n\r\n"),
    "a chunk of more bytes than a number holds": ((CHUNKED,), b"f" * 17 + b"\r\nabc\r\n0\r\n\r\n"),
    "a chunk without its end": ((CHUNKED,), b"5\r\nabcdeXX0\r\n\r\n"),
    "20,000 trailers": ((CHUNKED,), CHUNKS[:-2] + b"x: 1\r\n" * 20_000 + b"\r\n"),
    "3,000 headers": ((LENGTH, *[b"x-a: b"] * 3000), BODY),
}


def replied(url: str, headers: tuple[bytes, ...], body: bytes) -> bytes:
    """Send a request and return everything that comes until the gateway closes the connection."""
    place = urlsplit(url)
    head = [b"POST /v1/chat/completions HTTP/1.1", b"host: 127.0.0.1", *headers]
    out = b""
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        try:
            connection.sendall(b"\r\n".join(head) + b"\r\n\r\n" + body)
            while piece := connection.recv(65536):
                out += piece
        except (BrokenPipeError, ConnectionResetError):
            pass  # the gateway did not wait for the rest
    return out


@in_one_test
@pytest.mark.parametrize("name", REFUSED)
def test_ambiguous_http_is_refused_and_its_connection_closed(name: str) -> None:
    headers, body = REFUSED[name]
    with stand() as served:
        got = replied(served.url, headers, body)
        after = post(served, "chat")

    assert b" 400 " in got.partition(b"\r\n")[0]
    assert 1 == got.count(b"HTTP/1.")
    assert 200 == after.status_code
