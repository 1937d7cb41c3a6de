"""Servers that do their worst, and the error that a program gets for each."""

import asyncio
import gzip
import zlib
from typing import Any, NamedTuple

from dragoman import Limits, Timeouts
from tests.support.peers import CHAT, Script, Talk, body, http, sse

MIB = 1024 * 1024
QUICK = {"timeouts": Timeouts(first_byte=1)}
JSON = "application/json"


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


def bomb(beginning: bytes, repeated: bytes, times: int) -> bytes:
    """Return a little gzip of which much comes: the same block, packed once, again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = block.compress(repeated) + block.flush(zlib.Z_FULL_FLUSH)
    return packer.compress(beginning) + packer.flush(zlib.Z_FULL_FLUSH) + packed * times


GZIP = "content-encoding: gzip\r\n"
HEAD = http(length=None)
CHUNKED = http(length=None, headers="transfer-encoding: chunked\r\n")


class Case(NamedTuple):
    """A server's behaviour, and the error that a program gets for it."""

    script: Script | bytes
    stage: str
    code: str
    options: dict[str, Any] = {}


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
        for_ever(http(status="500 Oh", kind="text/html", length=None), b"<p>" * 999),
        "http",
        "upstream_html",
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
    "too many informational responses (1xx)": Case(
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
    "a gzip bomb": Case(
        http(bomb(b'{"a":"', b"a" * MIB, 512), kind=JSON, headers=GZIP),
        "limit",
        "max_response_bytes",
        {"limits": Limits(max_response_bytes=4 * MIB), "stream": False},
    ),
    "a gzip bomb of events": Case(
        http(bomb(b"", sse(*CHAT[:1] * 8000, done=False), 512), headers=GZIP),
        "limit",
        "max_response_bytes",
        {"limits": Limits(max_response_bytes=4 * MIB)},
    ),
    "a gzip bomb of one event": Case(
        http(bomb(b"data: ", b"a" * MIB, 512), headers=GZIP),
        "limit",
        "max_sse_event_bytes",
        {"limits": Limits(max_sse_event_bytes=4 * MIB)},
    ),
    "gzip that is none": Case(http(sse(*CHAT), headers=GZIP), "http", "upstream_malformed"),
    "gzip that breaks off": Case(
        http(gzip.compress(sse(*CHAT))[:60], headers=GZIP), "http", "upstream_malformed"
    ),
    "a packing that nobody knows": Case(
        http(sse(*CHAT), headers="content-encoding: br\r\n"), "http", "upstream_malformed"
    ),
    "too many informational responses (1xx) or pause": Case(
        for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 9), "http", "upstream_malformed"
    ),
    "a never-ending extension of a chunk": Case(
        for_ever(CHUNKED + b"5;", b"a" * 999), "http", "upstream_malformed"
    ),
    "never-ending trailers": Case(
        for_ever(CHUNKED + b"1\r\na\r\n0\r\n", b"x-more: 1\r\n"), "limit", "max_headers"
    ),
    "a never-ending trailer": Case(
        for_ever(CHUNKED + b"1\r\na\r\n0\r\nx-more: ", b"a" * 999), "http", "upstream_malformed"
    ),
    "two answers": Case(
        http(sse(CHAT[0], done=False), keep=True) * 2, "http", "upstream_malformed"
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
        http(b"<html><body>Hello</body></html>", kind="text/html"), "sse", "upstream_html"
    ),
    "a page instead of JSON": Case(
        http(b"<html><body>Hello</body></html>", kind="text/html"),
        "json",
        "upstream_html",
        {"stream": False},
    ),
    "JSON of another kind": Case(
        http(b'{"choices": 5}', kind=JSON), "protocol", "upstream_malformed", {"stream": False}
    ),
    "a call that never gets a name": Case(
        http(
            sse(
                {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c"}]}}]},
                {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            )
        ),
        "protocol",
        "call_without_name",
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
