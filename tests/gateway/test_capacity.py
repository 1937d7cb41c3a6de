"""What one process takes on at once, what it refuses, and what it holds afterwards."""

import gzip
import http.client
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import pytest

from tests.support.gateway import DIALECTS, FIXED_PATHS, PATHS
from tests.support.memory import resident_bytes
from tests.support.odd_upstream import (
    SSE,
    Asked,
    Gate,
    OddUpstream,
    Reply,
    chat_stream,
    odd_upstream,
)
from tests.support.serving import Served, serving
from tests.support.simulator import question, wire
from tests.support.waiting import until

MIB = 1 << 20
MOST_LEFT = 20_000_000  # bytes of memory


def config(folder: Path, odd: OddUpstream, **server: Any) -> None:
    lines = ["[server]", *(f"{name} = {json.dumps(value)}" for name, value in server.items())]
    for dialect in FIXED_PATHS:
        lines += [f"[upstreams.{dialect}]", f'base_url = "{odd.url}/v1"', "retries = 0"]
        lines += [f'dialect = "{dialect}"', 'models = ["m"]']
    lines += ["[store]", 'responses = "off"']  # what is kept on purpose is not what is looked for
    (folder / "dragoman.toml").write_text("\n".join(lines) + "\n")


def complete(asked: Asked) -> Reply:
    message = {"role": "assistant", "content": "It rains."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return Reply(200, json.dumps(body).encode())


class Got(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        return json.loads(self.body)["error"]


class Client:
    """One connection; it may ask several times."""

    def __init__(self, served: Served) -> None:
        self._http = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=60)
        self._http.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.close()

    def send(self, path: str, body: Any = b"", method: str = "POST", **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._http.request(method, path, data, {"content-type": "application/json", **named})

    def status(self) -> int:
        """Return the status, before the end of the body."""
        self._response = self._http.getresponse()
        return self._response.status

    def ask(self, path: str, body: Any = b"", method: str = "POST", **headers: str) -> Got:
        self.send(path, body, method, **headers)
        self.status()
        names = {name.lower(): value for name, value in self._response.getheaders()}
        return Got(self._response.status, names, self._response.read())


# --- memory -----------------------------------------------------------------------------------------


def path_of(dialect: str) -> str:
    """Return the path of complete answers."""
    return wire(dialect, {"model": "chat/m", "stream": False})[0]


def twenty_megabytes(dialect: str) -> tuple[bytes, dict[str, str], int]:
    _, body = wire(dialect, question(dialect, "chat/m", "a word " * (20 * MIB // 7), stream=False))
    return json.dumps(body).encode(), {}, 200


def twenty_megabytes_streamed(dialect: str) -> tuple[bytes, dict[str, str], int]:
    body = question(dialect, "chat/m", "a word " * (20 * MIB // 7), stream=True)
    return json.dumps(body).encode(), {}, 200


def small_and_packed(dialect: str) -> tuple[bytes, dict[str, str], int]:
    _, body = wire(dialect, question(dialect, "chat/m", "a" * (45 * MIB), stream=False))
    return gzip.compress(json.dumps(body).encode(), 1), {"content_encoding": "gzip"}, 200


def packed_bomb(dialect: str) -> tuple[bytes, dict[str, str], int]:
    return gzip.compress(b" " * (100 * MIB), 1), {"content_encoding": "gzip"}, 413


def wrong_json(dialect: str) -> tuple[bytes, dict[str, str], int]:
    return twenty_megabytes(dialect)[0][:-1], {}, 400


@pytest.mark.parametrize(
    ("make", "dialect"),
    [
        (twenty_megabytes, "gemini"),
        (twenty_megabytes_streamed, "anthropic"),
        (small_and_packed, "anthropic"),
        (packed_bomb, "chat"),
        (wrong_json, "responses"),
    ],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_memory_after_ten_large_requests_is_as_before(
    tmp_path, capsys, make: Callable[[str], tuple[bytes, dict[str, str], int]], dialect: str
) -> None:
    with odd_upstream() as odd:
        odd.answer = lambda asked: (
            Reply(200, b"".join(chat_stream("It ", "rains.")), SSE)
            if b'"stream":true' in asked.body
            else complete(asked)
        )
        config(tmp_path, odd)
        body, headers, status = make(dialect)
        with serving(tmp_path) as served, Client(served) as client:
            for _ in range(2):  # what is made once, and kept
                assert 200 == client.ask(*wire(dialect, question(dialect, "chat/m"))).status
            before = resident_bytes(served.process.pid)
            for _ in range(10):  # one body that stays is more than MOST_LEFT
                with Client(served) as other:
                    got = other.ask(path_of(dialect), body, **headers)
                odd.asked.clear()
                assert status == got.status, got.body[:500]
            assert 200 == client.ask("/health", method="GET").status
            with suppress(AssertionError):  # large bodies' memory is given back half a second later
                until(lambda: resident_bytes(served.process.pid) - before < MOST_LEFT, 10.0)
            after = resident_bytes(served.process.pid)
    with capsys.disabled():
        print(  # noqa: T201 -- the figures are what this test is for
            f"\n{make.__name__} of {dialect}, 10 times:"
            f" {before / MIB:.1f} MiB before, {after / MIB:.1f} MiB after"
        )
    assert after - before < MOST_LEFT


# --- admission --------------------------------------------------------------------------------------


@contextmanager
def waiting(folder: Path, *, descriptors: int = 0, **server: Any) -> Iterator[tuple[Served, Gate]]:
    """Run a gateway whose upstream begins an answer at once, and ends it when the gate opens."""
    gate = Gate()
    first, *rest = chat_stream("It ", "rains.")

    def answer(asked: Asked) -> Reply:
        if b"at once" in asked.body:
            return complete(asked)
        return Reply(200, itertools.chain([first], gate.each([b"".join(rest)])), SSE)

    with odd_upstream() as odd:
        odd.answer = answer
        config(folder, odd, **server)
        with serving(folder, descriptors=descriptors) as served:
            yield served, gate


def is_busy(got: Got, dialect: str, limit: str) -> None:
    """Check that a refusal says when to come again, in the client's dialect."""
    assert (503, "1") == (got.status, got.headers["retry-after"])
    assert f"`server.{limit}`" in got.error["message"]
    if dialect == "anthropic":
        assert "overloaded_error" == got.error["type"]
    else:
        assert "code" in got.error


def test_more_requests_than_allowed_get_a_retry_after(tmp_path) -> None:
    with waiting(tmp_path, max_requests=2) as (served, gate), ExitStack() as stack:
        busy = [stack.enter_context(Client(served)) for _ in range(2)]
        for client, dialect in zip(busy, ("gemini", "anthropic"), strict=True):
            client.send(*wire(dialect, question(dialect, "chat/m")))
            assert 200 == client.status()
        other = stack.enter_context(Client(served))
        refused = {
            dialect: other.ask(*wire(dialect, question(dialect, "chat/m"))) for dialect in DIALECTS
        }
        states = [other.ask(path, method="GET").status for path in ("/health", "/ready")]
        gate.open(2)
        for client in busy:
            assert client._response.read()
        asked = wire("gemini", question("gemini", "chat/m", "at once", stream=False))
        again = until(lambda: (got := other.ask(*asked)).status == 200 and got)

    for dialect, got in refused.items():
        is_busy(got, dialect, "max_requests")
    assert [200, 200] == states
    assert 200 == again.status


def test_more_connections_than_allowed_get_a_retry_after(tmp_path) -> None:
    asked = {
        dialect: wire(dialect, question(dialect, "chat/m", "at once", stream=False))
        for dialect in DIALECTS
    }
    with waiting(tmp_path, max_connections=2) as (served, _gate):
        with ExitStack() as stack:
            for dialect in ("chat", "gemini"):
                assert 200 == stack.enter_context(Client(served)).ask(*asked[dialect]).status
            refused = {
                dialect: stack.enter_context(Client(served)).ask(*asked[dialect])
                for dialect in DIALECTS
            }
            states = [
                stack.enter_context(Client(served)).ask(path, method="GET").status
                for path in ("/health", "/ready")
            ]

        def again() -> bool:
            with Client(served) as other:
                return other.ask(*asked["gemini"]).status == 200

        until(again)

    for dialect, got in refused.items():
        is_busy(got, dialect, "max_connections")
        assert "close" == got.headers["connection"]
    assert [200, 200] == states


def test_bodies_of_all_requests_are_bounded_while_they_are_unpacked(tmp_path) -> None:
    limits = {"max_inflight_bytes": 80 * MIB}
    packed = small_and_packed("chat")[0]
    gate = Gate()

    def answer(asked: Asked) -> Reply:
        gate.wait()
        return complete(asked)

    with odd_upstream() as odd:
        odd.answer = answer
        config(tmp_path, odd, **limits)
        with serving(tmp_path) as served, Client(served) as first, Client(served) as second:
            first.send(PATHS["chat"], packed, content_encoding="gzip")
            until(lambda: odd.asked)
            refused = {
                dialect: second.ask(
                    path_of(dialect), small_and_packed(dialect)[0], content_encoding="gzip"
                )
                for dialect in DIALECTS
            }
            gate.open(2)
            assert 200 == first.status()
            first._response.read()
            again = until(
                lambda: (
                    (got := second.ask(PATHS["chat"], packed, content_encoding="gzip")).status
                    != 503
                    and got
                )
            )

    for dialect, got in refused.items():
        is_busy(got, dialect, "max_inflight_bytes")
    assert 200 == again.status


def test_streams_that_have_begun_hold_no_bytes_of_their_requests(tmp_path) -> None:
    large = question("anthropic", "chat/m", "a" * (50 * MIB))
    with (
        waiting(tmp_path, max_inflight_bytes=80 * MIB) as (served, gate),
        Client(served) as first,
        Client(served) as second,
    ):
        for client in (first, second):
            client.send(PATHS["anthropic"], large)
            assert 200 == client.status()
        gate.open(2)


# --- descriptors ------------------------------------------------------------------------------------


def test_soft_limit_of_descriptors_is_raised_to_the_hard_one(tmp_path) -> None:
    with odd_upstream() as odd:
        config(tmp_path, odd)
        with serving(tmp_path, descriptors=1024, soft=256) as served:
            until(lambda: served.notices("started"))
            limits = Path(f"/proc/{served.process.pid}/limits").read_text()

    line = next(one for one in limits.splitlines() if one.startswith("Max open files"))
    assert ["1024", "1024"] == line.split()[3:5]


def is_healthy(served: Served) -> bool:
    with Client(served) as client:
        return client.ask("/health", method="GET").status == 200


def test_no_connection_is_closed_without_a_byte_when_descriptors_run_out(tmp_path) -> None:
    """Of 300 clients on 128 descriptors, each gets an answer or 503; none is cut off."""
    with waiting(tmp_path, descriptors=128) as (served, gate):
        place = urlsplit(served.url)
        body = json.dumps(question("chat", "chat/m")).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
        request = head + b"content-length: %d\r\n\r\n%b" % (len(body), body)
        with ExitStack() as stack:
            links = []
            for _ in range(300):
                link = stack.enter_context(socket.create_connection((place.hostname, place.port)))
                link.settimeout(60)
                links.append(link)
            for link in links:
                with suppress(OSError):  # it was refused and closed
                    link.sendall(request)
            answers = [link.recv(4096) for link in links]
            until(lambda: is_healthy(served))
            gate.open(300)
        statuses = [int(answer.split(b" ")[1]) if answer else 0 for answer in answers]
        refused = [one for one in answers if b" 503 " in one[:20]]

        def again() -> bool:
            with Client(served) as other:
                asked = question("chat", "chat/m", "at once", stream=False)
                return other.ask(PATHS["chat"], asked).status == 200

        until(again)
        notices = served.notices("connections refused")

    assert {200, 503} == set(statuses), statuses
    assert statuses.count(200) >= 20
    assert all(b"retry-after: 1" in one.lower() for one in refused)
    assert notices
    assert "Traceback" not in served.text


# --- clients that keep the gateway waiting ----------------------------------------------------------


def test_client_that_never_finishes_the_head_of_its_request_is_closed(tmp_path) -> None:
    with waiting(tmp_path, client_idle=1.0) as (served, _gate):
        place = urlsplit(served.url)
        with socket.create_connection((place.hostname, place.port)) as link:
            link.settimeout(60)
            link.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n")
            stop = threading.Event()

            def trickle() -> None:
                while not stop.wait(0.1):
                    try:
                        link.sendall(b"x: y\r\n")
                    except OSError:
                        return

            thread = threading.Thread(target=trickle)
            thread.start()
            said = link.recv(4096)
            stop.set()
            thread.join()
        notices = until(lambda: served.notices("connections closed"))

    assert said.startswith(b"HTTP/1.1 408 ")
    assert "head of its request" in notices[0]["why"]


def test_silent_client_is_closed_and_an_idle_one_is_not(tmp_path) -> None:
    with waiting(tmp_path, client_idle=1.0) as (served, _gate), Client(served) as idle:
        assert 200 == idle.ask("/health", method="GET").status
        place = urlsplit(served.url)
        with socket.create_connection((place.hostname, place.port)) as link:
            link.settimeout(60)
            said = link.recv(1)
        time.sleep(1.0)
        again = idle.ask("/health", method="GET").status

    assert b"" == said
    assert 200 == again


@pytest.mark.parametrize("stream", [False, True], ids=["complete", "stream"])
def test_client_that_does_not_read_is_closed(tmp_path, stream: bool) -> None:
    text = "a word " * (16 * MIB // 7)

    def answer(asked: Asked) -> Reply:
        if stream:
            return Reply(200, b"".join(chat_stream(*([text[: 64 * 1024]] * 256))), SSE)
        reply = json.loads(complete(asked).body)
        reply["choices"][0]["message"]["content"] = text
        return Reply(200, json.dumps(reply).encode())

    with odd_upstream() as odd:
        odd.answer = answer
        config(tmp_path, odd, client_idle=1.0)
        with serving(tmp_path) as served:
            place = urlsplit(served.url)
            body = json.dumps(question("anthropic", "chat/m", stream=stream)).encode()
            head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n"
            with socket.socket() as link:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                link.connect((place.hostname, place.port))
                link.sendall(head + b"content-length: %d\r\n\r\n%b" % (len(body), body))
                notices = until(lambda: served.notices("connections closed"))
            lines = until(lambda: served.notices("request"))

    assert "does not read" in notices[0]["why"]
    assert stream == ("client_left" == lines[0]["ended"])


def test_client_that_reads_slowly_is_not_closed(tmp_path) -> None:
    text = "a word " * (4 * MIB // 7)

    def answer(asked: Asked) -> Reply:
        reply = json.loads(complete(asked).body)
        reply["choices"][0]["message"]["content"] = text
        return Reply(200, json.dumps(reply).encode())

    with odd_upstream() as odd:
        odd.answer = answer
        config(tmp_path, odd, client_idle=2.0)
        with serving(tmp_path) as served:
            place = urlsplit(served.url)
            body = json.dumps(question("chat", "chat/m", stream=False)).encode()
            head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
            with socket.socket() as link:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                link.connect((place.hostname, place.port))
                link.settimeout(60)
                link.sendall(head + b"content-length: %d\r\n\r\n%b" % (len(body), body))
                got, began = 0, time.monotonic()
                while got < len(text):
                    data = link.recv(1 << 20 if time.monotonic() - began > 5 else 16 * 1024)
                    assert data, "it was closed"
                    got += len(data)
                    if time.monotonic() - began < 5:
                        time.sleep(0.2)
