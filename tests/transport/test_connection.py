"""Connections: when one is used again, when not, and what a server may do to one."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from yarl import URL

from dragoman.limits import DEFAULT_LIMITS
from dragoman.transport import NO_DESCRIPTORS, Connector, Reply, TransportError
from dragoman.transport.connection import Connection, Server
from dragoman.transport.connector import request_head
from dragoman.transport.failures import unreachable
from tests.support.event_loops import OnLoop
from tests.support.peers import Peer, Script, Talk, http, nothing_left, peer

CHUNKED = http(b"", length=None, headers="transfer-encoding: chunked\r\n", keep=True)
MIB = 1024 * 1024


@asynccontextmanager
async def asking(
    script: Script | bytes, *, reads: bool = True, **options: Any
) -> AsyncIterator[tuple[Peer, Connector]]:
    async with peer(script, reads=reads) as server, nothing_left():
        connector = Connector(**options)
        try:
            async with asyncio.timeout(60):
                yield server, connector
        finally:
            await connector.close()


async def opened(connector: Connector, server: Peer, body: bytes | None = b"{}") -> Reply:
    return await connector.open(
        "POST", URL(server.url), headers={}, body=body, connect_seconds=30, tls=True
    )


async def exchanged(connector: Connector, server: Peer) -> bytes:
    """Read an answer to its end, and let its connection be used again."""
    with await opened(connector, server) as reply:
        said = await reply.read_all(MIB, lambda: None)
        await reply.drain()
    assert said is not None
    return said


def repeating(answer: bytes) -> Script:
    """Return a server that gives the same answer to each request of a connection."""

    async def script(talk: Talk) -> None:
        await talk.say(answer)
        while await talk.next_request():
            await talk.say(answer)

    return script


KEPT = {
    "with a length": http(b"hello", keep=True),
    "in chunks": CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    "with an extension and a trailer": CHUNKED + b"5;a=b\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n",
    "of an older HTTP that says so": http(b"hello", headers="connection: keep-alive\r\n").replace(
        b"HTTP/1.1", b"HTTP/1.0"
    ),
    "after an informational one": b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n"
    + http(b"hello", keep=True),
}


@pytest.mark.parametrize("answer", KEPT.values(), ids=KEPT.keys())
def test_a_connection_is_used_again_after_an_answer(answer: bytes, on_loop: OnLoop) -> None:
    async def run() -> None:
        async with asking(repeating(answer)) as (server, connector):
            for _ in range(3):
                assert b"hello" == await exchanged(connector, server)
            assert 1 == len(server.requests)  # one connection

    on_loop(run())


CLOSED = {
    "that says so": http(b"hello"),
    "that ends with its connection": http(b"hello", length=None, keep=True),
    "of an older HTTP": http(b"hello", keep=True).replace(b"HTTP/1.1", b"HTTP/1.0"),
}


@pytest.mark.parametrize("answer", CLOSED.values(), ids=CLOSED.keys())
def test_a_connection_is_not_used_again_after_an_answer(answer: bytes, on_loop: OnLoop) -> None:
    async def run() -> None:
        async with asking(answer) as (server, connector):
            for _ in range(3):
                assert b"hello" == await exchanged(connector, server)
            assert 3 == len(server.requests)

    on_loop(run())


def test_a_connection_whose_answer_was_not_read_to_its_end_is_closed(on_loop: OnLoop) -> None:
    gone = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.say(CHUNKED + b"5\r\nhello\r\n")
        await talk.gone()
        gone.set()

    async def run() -> None:
        async with asking(script) as (server, connector):
            with await opened(connector, server) as reply:
                assert b"hello" == await reply.read()
            await gone.wait()

    on_loop(run())


def test_a_connection_that_its_server_closed_meanwhile_is_not_used(on_loop: OnLoop) -> None:
    closed = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.say(http(b"hello", keep=True))
        talk.writer.close()
        closed.set()

    async def run() -> None:
        async with asking(script) as (server, connector):
            for _ in range(5):
                closed.clear()
                assert b"hello" == await exchanged(connector, server)
                await closed.wait()
                await asyncio.sleep(0.05)  # for the end to arrive
            assert 5 == len(server.requests)

    on_loop(run())


def test_a_connection_on_which_more_arrives_than_was_asked_is_not_used(on_loop: OnLoop) -> None:
    said = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.say(http(b"hello", keep=True))
        await asyncio.sleep(0.05)
        await talk.say(http(b"evil", keep=True))  # meant to be taken for the next answer
        said.set()
        await talk.gone()

    async def run() -> None:
        async with asking(script) as (server, connector):
            for _ in range(3):
                said.clear()
                assert b"hello" == await exchanged(connector, server)
                await said.wait()
                await asyncio.sleep(0.05)
            assert 3 == len(server.requests)

    on_loop(run())


def test_the_body_of_a_second_response_does_not_join_the_first(on_loop: OnLoop) -> None:
    async def run() -> None:
        two = http(b"hello", keep=True) + http(b"evil", keep=True)
        server = Server(host="peer", port=1, tls=None)
        connection = Connection(
            server, DEFAULT_LIMITS, lambda _lost: None, memoryview(bytearray(two))
        )

        connection.buffer_updated(len(two))  # both in one read

        assert b"hello" == connection.take()
        with pytest.raises(TransportError, match="more than one response"):
            connection.take()

    on_loop(run())


def test_a_connection_is_closed_when_nobody_used_it_for_long(on_loop: OnLoop) -> None:
    gone = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.say(http(b"hello", keep=True))
        await talk.gone()
        gone.set()

    async def run() -> None:
        async with asking(script, keep_seconds=0.05) as (server, connector):
            assert b"hello" == await exchanged(connector, server)
            await gone.wait()

    on_loop(run())


def test_requests_at_once_have_connections_of_their_own_and_leave_them_to_later_ones(
    on_loop: OnLoop,
) -> None:
    async def run() -> None:
        async with asking(repeating(http(b"hello", keep=True))) as (server, connector):
            for _ in range(2):
                said = await asyncio.gather(*(exchanged(connector, server) for _ in range(10)))
                assert [b"hello"] * 10 == said
            assert len(server.requests) <= 10

    on_loop(run())


def test_an_answer_that_comes_before_the_request_was_read_is_read(on_loop: OnLoop) -> None:
    async def script(talk: Talk) -> None:
        await talk.reader.readuntil(b"\r\n\r\n")
        await talk.say(http(b"too large", status="413 Payload Too Large"))
        await talk.gone()

    async def run() -> None:
        async with asking(script, reads=False) as (server, connector):
            with await opened(connector, server, b"a" * 8 * MIB) as reply:
                assert 413 == reply.status
                assert b"too large" == await reply.read_error()

    on_loop(run())


@pytest.mark.parametrize("answer", KEPT.values(), ids=KEPT.keys())
def test_an_answer_may_come_byte_by_byte(answer: bytes, on_loop: OnLoop) -> None:
    async def script(talk: Talk) -> None:
        for at in range(len(answer)):
            await talk.say(answer[at : at + 1])
            await asyncio.sleep(0)
        await talk.gone()

    async def run() -> None:
        async with asking(script) as (server, connector):
            assert b"hello" == await exchanged(connector, server)

    on_loop(run())


def test_a_server_waits_for_a_reader_who_is_slow(on_loop: OnLoop) -> None:
    sent = 0

    async def script(talk: Talk) -> None:
        nonlocal sent
        await talk.say(http(length=None))
        for _ in range(64):
            await talk.say(b"a" * MIB)
            sent += 1

    async def run() -> None:
        async with asking(script) as (server, connector):
            with await opened(connector, server) as reply:
                size = len(await reply.read())
                before = -1
                while sent != before:  # until nothing moves
                    before = sent
                    await asyncio.sleep(0.2)
                assert sent < 32  # what buffers of the system take
                while data := await reply.read():
                    size += len(data)
            assert 64 * MIB == size

    on_loop(run())


def test_a_reader_gets_an_error_when_connections_are_closed(on_loop: OnLoop) -> None:
    async def script(talk: Talk) -> None:
        await talk.say(CHUNKED + b"5\r\nhello\r\n")
        await talk.gone()

    async def run() -> None:
        async with asking(script) as (server, connector):
            reply = await opened(connector, server)
            assert b"hello" == await reply.read()
            reading = asyncio.create_task(reply.read())
            await asyncio.sleep(0)
            await connector.close()
            with pytest.raises(TransportError):
                await reading

    on_loop(run())


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ("retry-after: 2\r\n", 2.0),
        ("retry-after: 1.5\r\n", 1.5),
        ("retry-after: 9\r\nretry-after-ms: 250\r\n", 0.25),
        ("retry-after: Thu, 01 Jan 1970 00:00:00 GMT\r\n", 0.0),
        ("retry-after: soon\r\n", None),
        ("retry-after: -1\r\n", None),
        ("retry-after: nan\r\n", None),
        ("retry-after: inf\r\n", None),
        ("", None),
    ],
)
def test_a_wait_is_reported_in_seconds_or_not_at_all(
    headers: str, seconds: float | None, on_loop: OnLoop
) -> None:
    async def run() -> None:
        async with asking(http(b"", status="429 Slow", headers=headers)) as (server, connector):
            with await opened(connector, server) as reply:
                assert seconds == reply.retry_after

    on_loop(run())


def test_a_header_that_would_begin_another_one_is_refused(on_loop: OnLoop) -> None:
    async def run() -> None:
        async with asking(http(b"hello")) as (server, connector):
            for headers in ({"x-a": "1\r\nx-b: 2"}, {"x-a\n": "1"}, {"x-a": "\0"}):
                with pytest.raises(TransportError, match="x-a"):
                    await connector.open(
                        "POST",
                        URL(server.url),
                        headers=headers,
                        body=b"",
                        connect_seconds=30,
                        tls=True,
                    )
            assert not server.requests

    on_loop(run())


@pytest.mark.parametrize(
    ("url", "line", "host"),
    [
        ("http://127.0.0.1:8000/v1", "POST /v1 HTTP/1.1", "127.0.0.1:8000"),
        ("http://[::1]:8000/v1?a=b%20c", "POST /v1?a=b%20c HTTP/1.1", "[::1]:8000"),
        ("https://example.org/v1", "POST /v1 HTTP/1.1", "example.org"),
        ("https://bücher.example:444", "POST / HTTP/1.1", "xn--bcher-kva.example:444"),
    ],
)
def test_the_head_of_a_request_names_its_host(url: str, line: str, host: str) -> None:
    lines = request_head("POST", URL(url), {"X-Own": "1", "accept": "a"}, b"abc").decode()

    assert lines.startswith(f"{line}\r\nhost: {host}\r\n")
    assert lines.endswith("\r\n\r\n")
    assert 1 == lines.count("accept: ")
    assert "\r\naccept: a\r\n" in lines
    assert "\r\nx-own: 1\r\n" in lines
    assert "\r\ncontent-length: 3\r\n" in lines


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http:///v1", "/v1", "http://a..b/"])
def test_an_invalid_address_is_reported_as_one(url: str, on_loop: OnLoop) -> None:
    async def run() -> None:
        connector = Connector()
        with pytest.raises(TransportError) as caught:
            await connector.open(
                "GET", URL(url), headers={}, body=None, connect_seconds=30, tls=True
            )
        assert ("connect", "upstream_address") == (caught.value.stage, caught.value.code)
        await connector.close()

    on_loop(run())


def test_a_listener_is_called_by_the_event_loop_and_never_inside_a_task(on_loop: OnLoop) -> None:
    called: list[object] = []

    async def run() -> None:
        async def script(talk: Talk) -> None:
            await talk.say(CHUNKED)
            await talk.say(b"2\r\nhe\r\n")
            await talk.next_request()

        async with asking(script) as (server, connector):
            reply = await opened(connector, server)
            arrived = asyncio.Event()

            def listener() -> None:
                called.append(asyncio.current_task())
                arrived.set()

            reply.listen(listener)
            if (data := reply.take()) is None:
                await arrived.wait()
                data = reply.take()
            assert b"he" == data
            reply.abort(TransportError("http", "gone", "gone"))
            heard = len(called)
            await asyncio.sleep(0)
            assert len(called) > heard
            with pytest.raises(TransportError, match="gone"):
                reply.take()

    on_loop(run())

    assert [None] * len(called) == called


# --- descriptors ----------------------------------------------------------------------------------


def test_connections_kept_for_later_give_their_descriptors_to_a_request_now(monkeypatch) -> None:
    async def run() -> None:
        answer = repeating(http(b"good", keep=True))
        async with asking(answer) as (server, connector), peer(answer) as other:
            await exchanged(connector, server)
            connect, failures = connector._connect, 0

            async def short_of(*args: Any) -> Any:
                nonlocal failures
                if connector._idle:
                    failures += 1
                    raise unreachable("it", OSError(errno.EMFILE, "no"), secure=False)
                return await connect(*args)

            monkeypatch.setattr(connector, "_connect", short_of)
            assert b"good" == await exchanged(connector, other)
            assert 1 == failures

    asyncio.run(run())


def test_want_of_descriptors_is_a_failure_of_its_own(monkeypatch) -> None:
    async def run() -> None:
        async with asking(http(b"good")) as (server, connector):

            async def none_left(*_args: object, **_more: object) -> None:
                raise OSError(errno.EMFILE, "no")

            monkeypatch.setattr("dragoman.transport.connector.start_connection", none_left)
            with pytest.raises(TransportError) as caught:
                await opened(connector, server)
            assert NO_DESCRIPTORS == caught.value.code

    asyncio.run(run())
