"""A server that does its worst gets an error of the right stage, and makes no client wait or fill its memory."""

import asyncio
import gzip
import random
import tracemalloc
from typing import Any

import pytest

from dragoman import Client, ClientError, Timeouts
from tests.client.hostile_servers import CASES, CHUNKED, HEAD, JSON, MIB, Case, slowly
from tests.support.client import FACES, REQUEST, asked, failure, text_of
from tests.support.peers import CHAT, HELLO, Script, Talk, body, http, nothing_left, peer, sse

PATIENT = Timeouts(connect=30, first_byte=30, idle=30)
# What an exchange may hold beside what its limits allow, which is 4 MiB at most in these cases: the server's
# own buffers are in it, for it runs in the same process.
MOST = 16 * MIB


OPTIONS = {"api_key": "sk-secret-secret", "timeouts": PATIENT}


async def ask_it(url: str, **options: Any) -> str:
    return (await asked(url, **OPTIONS | options)).text


def fail(script: Script | bytes, **options: Any) -> ClientError:
    error = failure(script, **OPTIONS | options)
    assert "sk-secret" not in str(error)
    return error


@pytest.fixture(scope="module", autouse=True)
def _everything_is_loaded() -> None:
    """Have what is kept for good before memory is measured."""
    for face in FACES:
        fail(b"", face=face)
        fail(http(sse(CHAT[0], b"data: {", done=False)), face=face, strict=True)
        fail(http(b"{", kind=JSON), face=face, stream=False)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_each_ends_in_the_right_error_within_bounded_memory(case: Case, face: str) -> None:
    tracemalloc.start()
    try:
        error = fail(case.script, face=face, **case.options)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (case.stage, case.code) == (error.stage, error.code)
    assert str(error).startswith(f"{error.stage}: ")
    assert most < MOST


def test_what_came_before_the_failure_is_kept() -> None:
    error = fail(slowly(HEAD + sse(CHAT[0], done=False), b"", 0), timeouts=Timeouts(idle=0.3))

    assert error.received is not None
    assert "Hel" == error.received.text
    assert not error.received.blocks[0].complete
    assert error.received.fault is not None
    assert "idle_timeout" == error.received.fault.code
    assert 200 == error.status


def test_gzip_that_was_not_asked_for_is_read_all_the_same() -> None:
    answer = http(gzip.compress(sse(*CHAT)), headers="content-encoding: gzip\r\n")

    async def run() -> str:
        async with peer(answer) as server, nothing_left():
            return await ask_it(server.url)

    assert "Hello" == asyncio.run(run())


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


def test_a_reset_at_each_byte_of_the_request_is_an_error_of_http() -> None:
    async def run() -> set[tuple[str, str]]:
        read = 0

        async def script(talk: Talk) -> None:
            await talk.reader.readexactly(read)
            talk.reset()

        async with peer(HELLO) as server:
            await ask_it(server.url)
        size, errors = len(server.requests[0]), set()
        async with peer(script, reads=False) as server, nothing_left():
            for read in range(size + 1):  # noqa: B007 -- the script reads it
                with pytest.raises(ClientError) as caught:
                    await ask_it(server.url)
                errors.add((caught.value.stage, caught.value.code))
        return errors

    assert {("http", "upstream_closed")} == asyncio.run(run())


def test_an_end_at_each_byte_is_an_error_or_the_whole_answer() -> None:
    head, payload = http(length=None), sse(*CHAT)
    complete_at = payload.index(b"[DONE]") - len(b"data: ")  # from here on the answer is complete

    async def run() -> None:
        cut = 0

        async def script(talk: Talk) -> None:
            await talk.say(head + payload[:cut])

        async with peer(script) as server, nothing_left():
            for cut in range(len(payload) + 1):
                if cut >= complete_at - 2:
                    assert "Hello" == await ask_it(server.url)
                    continue
                with pytest.raises(ClientError) as caught:
                    await ask_it(server.url)
                whole = payload[:cut].endswith(b"\n\n") or cut == 0
                assert caught.value.stage == ("protocol" if whole else "sse")

    asyncio.run(run())


# --- anything at all ----------------------------------------------------------------------------------

PIECES = [b"\r\n", b"\n\n", b"data: ", b"HTTP/1.1 200 OK\r\n", b"\0", b"\xff", b'{"', b"0\r\n\r\n"]
PIECES += [
    b"content-length: 5\r\n",
    b"transfer-encoding: chunked\r\n",
    b"content-encoding: gzip\r\n",
]
GOOD = [
    HELLO,
    http(body(), kind=JSON),
    http(b'{"error": {"message": "no"}}', status="429 Wait", headers="retry-after: 3\r\n"),
    CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(sse(*CHAT)), sse(*CHAT)),
    http(gzip.compress(sse(*CHAT)), headers="content-encoding: gzip\r\n"),
]


def spoilt(good: bytes, chance: random.Random) -> bytes:
    """Return an answer in which some bytes are changed, gone, doubled or put in."""
    data = bytearray(good)
    for _ in range(chance.randint(1, 6)):
        at = chance.randint(0, len(data))
        match chance.randrange(5):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del data[at : at + chance.randint(1, 30)]
            case 2:
                data[at:at] = chance.choice(PIECES)
            case 3:
                data[at:at] = data[: chance.randint(0, len(data))]
            case _:
                del data[at:]
    return bytes(data)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_comes_is_an_answer_or_an_error_of_a_stage(seed: int) -> None:
    chance = random.Random(seed)

    async def run() -> set[str]:
        answer, stages = b"", set()

        async def script(talk: Talk) -> None:
            step = chance.choice([1, 7, 4096])
            for at in range(0, len(answer), step):
                await talk.say(answer[at : at + step])

        async with peer(script) as server, nothing_left(), Client(server.url) as client:
            for number in range(150):
                answer = spoilt(chance.choice(GOOD), chance)
                try:
                    await (client.create(REQUEST) if number % 2 else text_of(client))
                except ClientError as error:
                    stages.add(error.stage)
        return stages

    assert {"http"} <= asyncio.run(run()) <= {"http", "sse", "json", "protocol", "limit"}


# --- answers that lead elsewhere, or come before their time ------------------------------------------


def test_redirects_are_reported_and_never_followed() -> None:
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


def test_what_a_server_redirects_to_is_not_asked_and_learns_no_key() -> None:
    async def run() -> list[bytes]:
        async with peer(HELLO) as other, nothing_left():
            where = f"location: {other.url}/chat/completions\r\n"
            for status in ("301 Moved", "302 Found", "303 Other", "307 Here", "308 There"):
                async with peer(http(status=status, headers=where)) as server:
                    for ask_so in FACES.values():
                        with pytest.raises(ClientError, match="is not followed"):
                            await ask_so(server.url, **OPTIONS)
        return other.requests

    assert [] == asyncio.run(run())


def test_an_informational_answer_before_the_real_one_is_passed_over() -> None:
    answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + HELLO

    async def run() -> str:
        async with peer(answer) as server, nothing_left():
            return await ask_it(server.url)

    assert "Hello" == asyncio.run(run())


def test_a_lenient_client_repairs_invalid_utf8_and_reports_what_it_could_not_read() -> None:
    answer = http(
        sse(b'data: {"choices":[{"delta":{"content":"a\xffb"}}]}\n\n', b"data: {\0}\n\n", CHAT[2])
    )

    async def run() -> None:
        async with peer(answer) as server, nothing_left(), Client(server.url) as client:
            async with client.stream(REQUEST) as turn:
                async for _ in turn:
                    pass
            assert "a�b" == turn.answer().text
            assert "chunk_malformed" in [loss.code for loss in turn.answer().losses]

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
