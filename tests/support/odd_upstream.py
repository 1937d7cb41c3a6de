"""An upstream that answers what a test says, for answers that no model gives."""

import json
import ssl
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

SSE = {"content-type": "text/event-stream"}


class Asked(NamedTuple):
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    method: str = "POST"


class Reply(NamedTuple):
    """What an upstream answers; the connection closes behind it."""

    status: int = 200
    body: bytes | Iterable[bytes] = b""  # pieces leave one by one
    headers: Mapping[str, str] = {"content-type": "application/json"}


class OddUpstream:
    """An upstream whose answers a test writes itself."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.port = int(url.rpartition(":")[2])
        self.asked: list[Asked] = []
        self.answer: Callable[[Asked], Reply] = lambda _asked: Reply()

    def answer_with(self, status: int, body: Any = b"", **headers: str) -> None:
        """Answer every request alike; names of headers are written with underscores."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        reply = Reply(status, data, {"content-type": "application/json", **named})
        self.answer = lambda _asked: reply

    def streams(self, *frames: Any) -> None:
        """Answer every request with a Chat stream of these chunks."""
        body = b"".join(b"data: %b\n\n" % _data(frame) for frame in frames)
        self.answer = lambda _asked: Reply(200, body, SSE)


class Gate:
    """Lets the pieces of an answer leave one by one, each when a test says so."""

    def __init__(self) -> None:
        self._free = threading.Semaphore(0)

    def open(self, count: int = 1) -> None:
        self._free.release(count)

    def wait(self) -> None:
        assert self._free.acquire(timeout=60), "nobody opened the gate"

    def each(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.wait()
            yield piece


def chat_stream(*words: str) -> list[bytes]:
    """Return the frames of a Chat stream that says these words, one a frame."""
    said: list[Any] = [{"delta": {"content": word}, "finish_reason": None} for word in words]
    said[0]["delta"]["role"] = "assistant"
    said.append({"delta": {}, "finish_reason": "stop"})
    same = {"id": "c", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m"}
    frames = [{**same, "choices": [{"index": 0, **one}]} for one in said]
    return [b"data: %b\n\n" % _data(frame) for frame in (*frames, b"[DONE]")]


def _data(frame: Any) -> bytes:
    return frame if isinstance(frame, bytes) else json.dumps(frame).encode()


@contextmanager
def odd_upstream(certificate: str = "") -> Iterator[OddUpstream]:
    """Run an upstream on a socket, over TLS if it has a certificate."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("content-length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.path, headers, self.rfile.read(size), self.command)
            found.asked.append(asked)
            reply = found.answer(asked)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            for piece in (reply.body,) if isinstance(reply.body, bytes) else reply.body:
                self.wfile.write(piece)

        do_GET = do_DELETE = do_POST  # noqa: N815 -- the name that the base class calls

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 256  # many ask at once

        def handle_error(self, request: object, client_address: object) -> None:
            """Print nothing about a gateway that left: the sources for a traceback stay in memory."""
            if not isinstance(sys.exc_info()[1], ConnectionError | ssl.SSLError):
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    if certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "https" if certificate else "http"
    found = OddUpstream(f"{scheme}://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)
