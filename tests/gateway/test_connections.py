"""Connections of clients: broken HTTP, and clients that wait before they send.  `test_capacity.py` has their number and their time."""

import json
import re
import socket

import pytest

from tests.support.asking import get
from tests.support.gateway import PATHS, Stand
from tests.support.simulator import question
from tests.support.waiting import until


def raw(gateway: Stand, sent: bytes) -> bytes:
    """Return the answer, which may come in several pieces."""
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(sent)
        answer = b""
        while more := client.recv(65536):
            answer += more
            head, _, body = answer.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            if length and len(body) >= int(length[1]):
                break
        return answer


def test_client_that_waits_for_leave_to_send_gets_it(gateway) -> None:
    body = json.dumps(question("chat", "chat/plain", stream=False)).encode()
    head = (
        f"POST {PATHS['chat']} HTTP/1.1\r\nhost: localhost\r\n"
        f"expect: 100-continue\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(head.encode())
        leave = client.recv(65536)
        client.sendall(body)
        answer = client.recv(65536)

    assert b"HTTP/1.1 100 Continue\r\n\r\n" == leave
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


INVALID = "the request is not valid HTTP"
LONG = "the URL or a header of the request is longer than 8190 bytes"


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"garbage\r\n\r\n", INVALID),
        (
            b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nx-api-key: sk-hidden-123456\r\nbad\r\n\r\n",
            INVALID,
        ),
        (
            b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            INVALID,
        ),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 100_000 + b"\r\n\r\n", LONG),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", LONG),
    ],
    ids=["garbage", "header", "length", "long header", "long URL"],
)
def test_broken_http_is_refused_without_noise(gateway, capfd, sent: bytes, message: str) -> None:
    answer = raw(gateway, sent)

    assert b" 400 " in answer.partition(b"\r\n")[0]
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"sk-hidden" not in answer
    assert message == json.loads(body)["error"]["message"]
    assert b"server: dragoman" in head.lower()
    for shown in (b"aiohttp", b"python", b"llhttp"):
        assert shown not in answer.lower()
    assert ("", "") == capfd.readouterr()
    assert "sk-hidden" not in gateway.log.getvalue()
    assert "Traceback" not in gateway.log.getvalue()
    until(lambda: get(gateway, "/health").status_code == 200)


@pytest.mark.parametrize("body", [b"{}", b'{"a":\r\nuser-agent: x\r\nuser-agent: y\r\n\r\n1}'])
def test_a_second_user_agent_is_left_out(gateway, body: bytes) -> None:
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nUser-Agent: one\r\nhost: localhost\r\n"
        b"user-agent: two\r\ncontent-length: %d\r\n\r\n" % len(body)
    )

    answer = raw(gateway, head + body)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"not valid HTTP" not in answer


def test_the_next_request_begins_where_the_body_of_a_refused_one_ends(gateway) -> None:
    """The body comes after the response, when a new request could begin."""
    body = b"\r\nuser-agent: one\r\nuser-agent: two\r\n\r\n"
    head = b"POST /health HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(head)
        refused = client.recv(65536)
        client.sendall(body + b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        answer = client.recv(65536)

    assert refused.startswith(b"HTTP/1.1 405 ")
    assert answer.startswith(b"HTTP/1.1 200 ")
