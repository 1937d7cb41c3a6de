"""Headers with any value, from clients and from upstreams: never a failure of the gateway's own."""

import json
import socket
import threading
from collections.abc import Iterator
from typing import Self

import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Match, Route, Settings, Upstream
from tests.support.gateway import FIXED_PATHS, PATHS, Stand, settings_for, stand
from tests.support.simulator import question

# What clients send and the gateway, or an upstream behind it, reads.
CLIENT = (
    "host", "origin", "sec-fetch-site", "authorization", "x-api-key", "anthropic-version",
    "anthropic-beta", "content-encoding", "content-type", "expect", "upgrade",
    "accept", "accept-encoding", "user-agent", "x-match", "cookie", "referer", "te", "trailer",
    "x-stainless-retry-count", "openai-beta", "openai-organization", "if-none-match", "range",
)  # fmt: skip
# What upstreams send and the gateway reads.
UPSTREAM = (
    "retry-after", "retry-after-ms", "x-should-retry", "request-id", "x-request-id", "location",
    "content-type", "content-encoding", "x-ratelimit-remaining-tokens", "server", "date",
    "anthropic-ratelimit-tokens-remaining", "x-ratelimit-reset-tokens", "connection", "set-cookie",
    "openai-processing-ms", "via", "keep-alive", "trailer", "upgrade", "link",
)  # fmt: skip
VALUES = (
    b"", b" ", b"0", b"-1", b"1e999", b"nan", b"inf", b"-inf", b"1_000", b"0x10", b"1" * 5000,
    b"\xff\xfe\x80", b"caf\xe9", "\u00b2\u0663".encode(), b"%ff%00", b"a,b;q=1", b"Bearer",
    b"Bearer \xff", b"Basic \xff\xff", b"[", b"[::1", b"]:", b":::", b"a:b:c", b"localhost:\xff",
    b"null", b"http://\xff", b"://", b"gzip, \xff", b"100-continue", b"websocket", b"{}", b"'\"",
    b"Mon, 01 Jan 99999999999 00:00:00 GMT", b"Mon, 01 Jan 0000 00:00:00 GMT",
    b"Mon, 99 Foo 2030 99:99:99 GMT", b"Fri, 31 Dec 9999 23:59:59 -2359",
    b"Mon, 01 Jan 2024 00:00:00 +99999999999", b"Sat, 01 Jan 0001 00:00:00 +2359",
    b"1 Jan 2024 1:1:1 +0000 (" + b"(" * 500, b"=?utf-8?q?=ff?=", b"claude-\xc3", b"\t",
)  # fmt: skip


@pytest.fixture(scope="module")
def peer() -> Iterator["Peer"]:
    with Peer() as found:
        yield found


class Peer:
    """An upstream on a bare socket, whose headers are bytes that a test writes."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.status = 200
        self.header = b"x: y"
        self.message = "no"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(60)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                client.settimeout(60)
                data = b""
                while b"\r\n\r\n" not in data:
                    data += client.recv(65536)
                head, _, body = data.partition(b"\r\n\r\n")
                lines = head.lower().split(b"\r\n")
                lengths = [one for one in lines if one.startswith(b"content-length:")]
                length = int(lengths[0].split(b":")[1]) if lengths else 0
                while len(body) < length:
                    body += client.recv(65536)
                answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "So"},
                                       "finish_reason": "stop"}]}  # fmt: skip
                body = json.dumps(
                    answer if self.status == 200 else {"error": {"message": self.message}}
                )
                client.sendall(
                    b"HTTP/1.1 %d X\r\n%b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
                    % (self.status, self.header, len(body), body.encode())
                )


@pytest.fixture(scope="module")
def gateway(peer: Peer) -> Iterator[Stand]:
    def make(url: str) -> Settings:
        plain = settings_for(url)
        odd = Upstream(base_url=f"{peer.url}/v1", retries=0, cooldown=0)
        routes = (
            Route(match=Match(model="odd"), to=("odd/m",)),
            Route(match=Match(model="*", header={"x-match": "a*b"}), to=("chat/plain",)),
            *(
                Route(match=Match(model=f"own/{one}"), to=(f"{one}/plain",), auth="passthrough")
                for one in FIXED_PATHS
            ),
            *plain.routes,
        )
        return structs.replace(plain, upstreams={**plain.upstreams, "odd": odd}, routes=routes)

    with stand(make) as found:
        yield found


def send(gateway: Stand, path: str, body: bytes, *headers: bytes) -> tuple[int, bytes]:
    """Return the status and all that comes back; 0 if the connection is closed without an answer."""
    host, port = gateway.url.removeprefix("http://").split(":")
    own = [one.partition(b":")[0] for one in headers]
    usual = {
        b"host": b"localhost",
        b"content-type": b"application/json",
        b"content-length": b"%d" % len(body),
        b"connection": b"close",
    }
    lines = [b"%b: %b" % (name, value) for name, value in usual.items() if name not in own]
    head = b"POST %b HTTP/1.1\r\n%b\r\n\r\n" % (path.encode(), b"\r\n".join([*lines, *headers]))
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(head + body)
        data = b""
        while more := client.recv(65536):
            data += more
    while data.startswith(b"HTTP/1.1 100"):
        data = data.partition(b"\r\n\r\n")[2]
    return int(data[9:12] or 0), data


@pytest.mark.parametrize("name", CLIENT)
@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_clients_header_of_any_value_breaks_nothing(
    gateway: Stand, dialect: str, name: str
) -> None:
    before = len(gateway.log.getvalue())
    body = json.dumps(question(dialect, f"{dialect}/plain", stream=False)).encode()
    own = json.dumps(question(dialect, f"own/{dialect}", stream=False)).encode()
    first = FIXED_PATHS.index(dialect)
    for number, value in enumerate(VALUES, first):  # the next dialect sends it to the other route
        asked = own if number % 2 else body
        status, data = send(gateway, PATHS[dialect], asked, b"%b: %b" % (name.encode(), value))

        assert 200 <= status < 500, (value, data)
    assert "gateway failed" not in gateway.log.getvalue()[before:]


@pytest.mark.parametrize("status", [200, 307, 429, 503])
@pytest.mark.parametrize("name", UPSTREAM)
def test_upstreams_header_of_any_value_breaks_nothing(
    gateway: Stand, peer: Peer, name: str, status: int
) -> None:
    before = len(gateway.log.getvalue())
    body = json.dumps(question("chat", "odd", stream=False)).encode()
    for value in VALUES:
        peer.status = status
        peer.header = b"%b: %b" % (name.encode(), value)
        got, data = send(gateway, PATHS["chat"], body)

        assert b"gateway_error" not in data, (value, data)
        assert got in (200, 424, 429, 502, 503), (value, data)
    assert "gateway failed" not in gateway.log.getvalue()[before:]


@pytest.mark.parametrize("digits", [1, 20, 400, 5000])
@pytest.mark.parametrize("unit", ["s", "ms", "m", "h", "m1s", " seconds", " minutes"])
@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_wait_of_any_length_that_an_upstream_names_breaks_nothing(
    gateway: Stand, peer: Peer, dialect: str, unit: str, digits: int
) -> None:
    before = len(gateway.log.getvalue())
    peer.status, peer.header = 429, b"x: y"
    peer.message = f"slow down; please try again in {'9' * digits}{unit}"
    body = json.dumps(question(dialect, "odd", stream=False)).encode()
    try:
        status, data = send(gateway, PATHS[dialect], body)
    finally:
        peer.message = "no"

    assert 429 == status, data
    assert len(data.partition(b"retry-after: ")[2].partition(b"\r")[0]) <= 9
    assert "gateway failed" not in gateway.log.getvalue()[before:]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/%ff", "/v1/models?limit=%ff", "/v1/models?after_id=%00", "/v1/models/%00",
        "/v1/responses/%ff", "/v1/responses/%2e%2e", "/v1/responses/a/input_items?limit=%C2%B2",
        "/v1/responses/a/input_items?order=%ff&after=%ff", "/%ff", "//", "/v1//models", "/v1/../x",
        "/v1/responses/a/input_items?limit=99999999999999999999", "*", "/v1/models?limit=1e3",
    ],
)  # fmt: skip
def test_path_of_any_kind_breaks_nothing(gateway: Stand, path: str) -> None:
    before = len(gateway.log.getvalue())
    host, port = gateway.url.removeprefix("http://").split(":")
    for method in (b"GET", b"POST", b"DELETE", b"OPTIONS", b"HEAD", b"PUT", b"TRACE", b"X"):
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(
                b"%b %b HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
                % (method, path.encode())
            )
            data = client.recv(65536)

        assert 200 <= int(data[9:12]) < 500, (method, data)
    assert "gateway failed" not in gateway.log.getvalue()[before:]
