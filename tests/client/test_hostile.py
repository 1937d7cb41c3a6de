"""A server that does its worst gets an error of the right stage, and keeps nobody waiting or filled."""

import asyncio
import gzip
import tracemalloc
import zlib
from typing import NamedTuple

import pytest

from dragoman import Client, ClientError, Limits, Timeouts, ask, user
from dragoman.limits import DEFAULT_LIMITS
from tests.support.peers import CHAT, HELLO, Script, Talk, body, http, nothing_left, peer, sse

MIB = 1024 * 1024
REQUEST = ask(user("hello"), model="m")
PATIENT = Timeouts(connect=30, first_byte=30, idle=30)
QUICK = {"timeouts": Timeouts(first_byte=1)}
JSON = "application/json"


async def ask_it(
    url: str,
    *,
    stream: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    timeouts: Timeouts = PATIENT,
    strict: bool = False,
) -> str:
    """Return the text of the answer."""
    client = Client(url, key="sk-secret-secret", limits=limits, timeouts=timeouts, strict=strict)
    async with client:
        if not stream:
            return (await client.create(REQUEST)).text
        async with client.stream(REQUEST) as turn:
            async for _ in turn:
                pass
            return turn.message().text


def fail(script: Script | bytes, *, reads: bool = True, **options) -> ClientError:
    """Return the error that a server of this kind leads to; nothing else is left of it."""

    async def run() -> ClientError:
        async with peer(script, reads=reads) as server, nothing_left():
            with pytest.raises(ClientError) as caught:
                await ask_it(server.url, **options)
        assert "sk-secret" not in str(caught.value)
        return caught.value

    return asyncio.run(run(), debug=False)


def for_ever(beginning: bytes, repeated: bytes) -> Script:
    """Return a script that does not stop until the client leaves."""

    async def script(talk: Talk) -> None:
        await talk.say(beginning)
        while True:
            await talk.say(repeated)
            await asyncio.sleep(0)

    return script


def slowly(beginning: bytes, pieces: bytes, seconds: float) -> Script:
    """Return a script that says one byte at a time."""

    async def script(talk: Talk) -> None:
        await talk.say(beginning)
        for at in range(len(pieces)):
            await talk.say(pieces[at : at + 1])
            await asyncio.sleep(seconds)
        await talk.gone()

    return script


async def silent(talk: Talk) -> None:
    await talk.gone()


HEAD = http(length=None)
CHUNKED = http(length=None, headers="transfer-encoding: chunked\r\n")


class Case(NamedTuple):
    """A server's behaviour and what a program is told of it."""

    script: Script | bytes
    stage: str
    code: str
    options: dict = {}


CASES = {
    "never-ending headers": Case(
        for_ever(b"HTTP/1.1 200 OK\r\n", b"x-more: 1\r\n"), "limit", "max_headers"
    ),
    "a never-ending header": Case(
        for_ever(b"HTTP/1.1 200 OK\r\nx-more: ", b"a" * 999), "limit", "max_header_bytes"
    ),
    "a never-ending name of a header": Case(
        for_ever(b"HTTP/1.1 200 OK\r\n", b"a" * 999), "limit", "max_header_bytes"
    ),
    "a huge status line": Case(
        for_ever(b"HTTP/1.1 200 ", b"OK" * 999), "limit", "max_header_bytes"
    ),
    "a never-ending event": Case(
        for_ever(HEAD + b"data: ", b"a" * 65536),
        "limit",
        "max_sse_event_bytes",
        {"limits": Limits(max_sse_event_bytes=MIB)},
    ),
    "a never-ending line": Case(
        for_ever(HEAD, b":" * 65536),
        "limit",
        "max_sse_buffer_bytes",
        {"limits": Limits(max_sse_buffer_bytes=MIB)},
    ),
    "a never-ending body": Case(
        for_ever(http(kind=JSON, length=None) + b'{"a":"', b"a" * 65536),
        "limit",
        "max_response_bytes",
        {"limits": Limits(max_response_bytes=MIB), "stream": False},
    ),
    "a never-ending body where a stream was asked for": Case(
        for_ever(http(kind=JSON, length=None) + b'{"a":"', b"a" * 65536),
        "limit",
        "max_response_bytes",
        {"limits": Limits(max_response_bytes=MIB)},
    ),
    "never-ending comments": Case(
        for_ever(HEAD, b": still here\n\n" * 500),
        "limit",
        "max_events",
        {"limits": Limits(max_events=5000)},
    ),
    "never-ending text": Case(
        for_ever(HEAD, sse(*CHAT[:1] * 200, done=False)),
        "limit",
        "max_response_bytes",
        {"limits": Limits(max_response_bytes=MIB)},
    ),
    "a never-ending error": Case(
        for_ever(http(status="500 Oh", kind="text/html", length=None), b"<p>" * 999), "http", ""
    ),
    "ten thousand empty events": Case(HEAD + b"data:\n\n" * 10_000, "protocol", "upstream_empty"),
    "ten thousand empty events, one too many": Case(
        HEAD + b"data:\n\n" * 10_000, "limit", "max_events", {"limits": Limits(max_events=9999)}
    ),
    "one byte at a time, of headers": Case(
        slowly(b"HTTP/1.1 200 OK\r\nx-slow: ", b"a" * 100, 0.1),
        "timeout",
        "first_byte_timeout",
        QUICK,
    ),
    "one byte at a time, of an event": Case(
        slowly(HEAD, b"data: " + b"a" * 100, 0.1),
        "timeout",
        "total_timeout",
        {"timeouts": Timeouts(idle=5, total=1)},
    ),
    "silence at once": Case(silent, "timeout", "first_byte_timeout", QUICK),
    "silence after the headers": Case(slowly(HEAD, b"", 0), "timeout", "first_byte_timeout", QUICK),
    "silence in the middle": Case(
        slowly(HEAD + sse(CHAT[0], done=False), b"", 0),
        "timeout",
        "idle_timeout",
        {"timeouts": Timeouts(idle=0.5)},
    ),
    "informational answers without end": Case(
        slowly(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 99, 0.01),
        "timeout",
        "first_byte_timeout",
        QUICK,
    ),
    "a length that is too long": Case(
        http(sse(CHAT[0], done=False), length=9999), "http", "upstream_truncated"
    ),
    "a length that is too short, of a body": Case(
        http(body(), kind=JSON, length=20), "http", "upstream_malformed", {"stream": False}
    ),
    "a length that is too short, of a stream": Case(
        http(sse(*CHAT), length=30), "http", "upstream_malformed"
    ),
    "two lengths": Case(
        http(sse(*CHAT), headers="content-length: 5\r\n"), "http", "upstream_malformed"
    ),
    "a length that is no number": Case(
        http(sse(*CHAT), headers="content-length: many\r\n", length=None),
        "http",
        "upstream_malformed",
    ),
    "a length below nothing": Case(http(sse(*CHAT), length=-5), "http", "upstream_malformed"),
    "chunks that are none": Case(CHUNKED + b"zz\r\n" + sse(*CHAT), "http", "upstream_malformed"),
    "a chunk that is too short": Case(CHUNKED + b"ff\r\nabc", "http", "upstream_truncated"),
    "a chunk of an absurd size": Case(
        CHUNKED + b"f" * 40 + b"\r\nabc", "http", "upstream_malformed"
    ),
    "gzip that is none": Case(
        http(sse(*CHAT), headers="content-encoding: gzip\r\n"), "http", "upstream_truncated"
    ),
    "no answer": Case(b"", "http", "upstream_closed"),
    "half a status line": Case(b"HTTP/1.1 2", "http", "upstream_closed"),
    "another protocol": Case(b"SSH-2.0-OpenSSH_9.9\r\n", "http", "upstream_malformed"),
    "bytes without sense": Case(bytes(range(256)), "http", "upstream_malformed"),
    "HTTP of another age": Case(b"HTTP/9.9 200 OK\r\n\r\n", "http", "upstream_malformed"),
    "NUL in a header": Case(
        http(sse(*CHAT), headers="x-nul: a\0b\r\n"), "http", "upstream_malformed"
    ),
    "NUL where a stream should be": Case(http(b"\0" * 99), "sse", "upstream_malformed"),
    "NUL where JSON should be": Case(
        http(b"\0" * 99, kind=JSON), "json", "upstream_malformed", {"stream": False}
    ),
    "NUL in an event": Case(
        http(sse(CHAT[0], b"data: {\0}\n\n")), "json", "upstream_malformed", {"strict": True}
    ),
    "invalid UTF-8 in an event": Case(
        http(sse(b'data: {"choices":[{"delta":{"content":"\xff\xfe"}}]}\n\n')),
        "json",
        "upstream_malformed",
        {"strict": True},
    ),
    "invalid UTF-8 where a stream should be": Case(
        http(b"\xff\xfe\xfd" * 9), "sse", "upstream_malformed"
    ),
    "invalid UTF-8 where JSON should be": Case(
        http(b"\xff\xfe\xfd" * 9, kind=JSON), "json", "upstream_malformed", {"stream": False}
    ),
    "a page instead of a stream": Case(
        http(b"<html><body>Hello</body></html>", kind="text/html"), "sse", "upstream_malformed"
    ),
    "a page instead of JSON": Case(
        http(b"<html><body>Hello</body></html>", kind="text/html"),
        "json",
        "upstream_malformed",
        {"stream": False},
    ),
    "JSON of another kind": Case(
        http(b'{"choices": 5}', kind=JSON), "protocol", "upstream_malformed", {"stream": False}
    ),
    "an empty stream": Case(http(b""), "protocol", "upstream_empty"),
    "an empty body": Case(http(b"", kind=JSON), "protocol", "upstream_empty", {"stream": False}),
    "no content": Case(http(status="204 No Content"), "protocol", "upstream_empty"),
    "a stream without an end": Case(
        http(sse(CHAT[0], done=False)), "protocol", "upstream_truncated"
    ),
    "a stream that ends inside an event": Case(
        http(sse(CHAT[0], done=False) + b'data: {"choi'), "sse", "upstream_truncated"
    ),
    "another protocol by agreement": Case(
        http(status="101 Switching Protocols", headers="upgrade: h2c\r\nconnection: upgrade\r\n"),
        "http",
        "",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_each_ends_in_the_right_error(case: Case) -> None:
    error = fail(case.script, **case.options)

    assert (case.stage, case.code) == (error.stage, error.code)
    assert str(error).startswith(f"{error.stage}: ")


def test_what_came_before_the_failure_is_kept() -> None:
    error = fail(slowly(HEAD + sse(CHAT[0], done=False), b"", 0), timeouts=Timeouts(idle=0.3))

    assert error.received is not None
    assert "Hel" == error.received.text
    assert not error.received.blocks[0].complete
    assert error.received.fault is not None
    assert "idle_timeout" == error.received.fault.code
    assert 200 == error.status


def test_a_gzip_bomb_is_let_out_no_further_than_the_limit() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = b"a" * MIB
    bomb = packer.compress(b'{"a":"') + b"".join(packer.compress(zeros) for _ in range(512))
    bomb += packer.flush()
    assert len(bomb) < MIB
    answer = http(bomb, kind=JSON, headers="content-encoding: gzip\r\n")
    limits = Limits(max_response_bytes=4 * MIB)
    fail(answer, stream=False, limits=limits)
    tracemalloc.start()
    try:
        error = fail(answer, stream=False, limits=limits)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert ("limit", "max_response_bytes") == (error.stage, error.code)
    assert most < 24 * MIB


def test_gzip_that_was_not_asked_for_is_read_all_the_same() -> None:
    answer = http(gzip.compress(sse(*CHAT)), headers="content-encoding: gzip\r\n")

    async def run() -> str:
        async with peer(answer) as server, nothing_left():
            return await ask_it(server.url)

    assert "Hello" == asyncio.run(run())


@pytest.mark.parametrize(
    ("script", "options"),
    [
        (CASES["never-ending text"].script, {"limits": Limits(max_response_bytes=4 * MIB)}),
        (CASES["a never-ending event"].script, {"limits": Limits(max_sse_event_bytes=4 * MIB)}),
        (CASES["never-ending headers"].script, {}),
        (CASES["never-ending comments"].script, {"limits": Limits(max_events=50_000)}),
    ],
    ids=["text", "event", "headers", "comments"],
)
def test_what_never_ends_fills_no_memory(script: Script, options: dict) -> None:
    fail(script, **options)
    tracemalloc.start()
    try:
        fail(script, **options)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 24 * MIB


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "body"])
def test_a_reset_at_each_byte_is_an_error_of_http(stream: bool) -> None:
    answer = HELLO if stream else http(body(), kind=JSON)

    async def run() -> set[tuple[str, str]]:
        cut = 0

        async def script(talk: Talk) -> None:
            await talk.say(answer[:cut])
            talk.reset()

        errors = set()
        async with peer(script) as server, nothing_left():
            for cut in range(len(answer)):  # noqa: B007 -- the script reads it
                with pytest.raises(ClientError) as caught:
                    await ask_it(server.url, stream=stream)
                errors.add((caught.value.stage, caught.value.code))
        return errors

    expected = {("http", "upstream_closed"), ("http", "upstream_truncated")}

    assert expected == asyncio.run(run())


def test_an_end_at_each_byte_is_an_error_or_the_whole_answer() -> None:
    head, payload = http(length=None), sse(*CHAT)
    told = payload.index(b"[DONE]") - len(b"data: ")  # from here on the answer is complete

    async def run() -> None:
        cut = 0

        async def script(talk: Talk) -> None:
            await talk.say(head + payload[:cut])

        async with peer(script) as server, nothing_left():
            for cut in range(len(payload) + 1):
                if cut >= told - 2:
                    assert "Hello" == await ask_it(server.url)
                    continue
                with pytest.raises(ClientError) as caught:
                    await ask_it(server.url)
                whole = payload[:cut].endswith(b"\n\n") or cut == 0
                assert caught.value.stage == ("protocol" if whole else "sse")

    asyncio.run(run())


def test_redirects_are_told_and_never_followed() -> None:
    async def run() -> tuple[ClientError, int]:
        async def script(talk: Talk) -> None:
            where = f"location: http://127.0.0.1:{server.port}/v1/chat/completions\r\n"
            await talk.say(http(status="307 Temporary Redirect", headers=where))

        async with peer(script) as server, nothing_left():
            with pytest.raises(ClientError) as caught:
                await ask_it(server.url)
        return caught.value, len(server.requests)

    error, requests = asyncio.run(run())

    assert 1 == requests
    assert ("http", "redirected", 307) == (error.stage, error.code, error.status)
    assert "/v1/chat/completions" in error.message


def test_an_informational_answer_before_the_real_one_is_passed_over() -> None:
    answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + HELLO

    async def run() -> str:
        async with peer(answer) as server, nothing_left():
            return await ask_it(server.url)

    assert "Hello" == asyncio.run(run())


def test_a_lenient_client_mends_invalid_utf8_and_says_what_it_could_not_read() -> None:
    answer = http(
        sse(b'data: {"choices":[{"delta":{"content":"a\xffb"}}]}\n\n', b"data: {\0}\n\n", CHAT[2])
    )

    async def run() -> None:
        async with peer(answer) as server, nothing_left(), Client(server.url) as client:
            async with client.stream(REQUEST) as turn:
                async for _ in turn:
                    pass
            assert "a�b" == turn.message().text
            assert "chunk_malformed" in [loss.code for loss in turn.message().losses]

    asyncio.run(run())


def test_a_server_that_answers_before_it_has_read_the_request_is_heard() -> None:
    async def script(talk: Talk) -> None:
        await talk.say(HELLO)
        await talk.gone()

    async def run() -> str:
        async with peer(script, reads=False) as server, nothing_left():
            return await ask_it(server.url)

    assert "Hello" == asyncio.run(run())


def test_no_server_is_an_error_of_connecting() -> None:
    async def run() -> ClientError:
        async with peer(HELLO) as server:
            url = server.url
        async with nothing_left():
            with pytest.raises(ClientError) as caught:
                await ask_it(url)
        return caught.value

    error = asyncio.run(run())

    assert ("connect", "upstream_unreachable") == (error.stage, error.code)
    assert error.received is None
