"""How long a server may take."""

import asyncio

import pytest

from dragoman import Client, MisuseError, SyncClient, Timeouts
from dragoman.turn.events import TextDelta
from tests.support.client import FACES, REQUEST, asked, failure, stalled
from tests.support.peers import CHAT, HELLO, Talk, http, nothing_left, peer, sse


def test_a_slow_program_is_not_a_silent_server() -> None:
    async def run() -> None:
        go_on = asyncio.Event()

        async def script(talk: Talk) -> None:
            await talk.say(http(length=None) + sse(CHAT[0], done=False))
            await go_on.wait()
            await talk.say(sse(*CHAT[1:]))

        timeouts = Timeouts(idle=3)
        async with peer(script) as server, Client(server.url, timeouts=timeouts) as client:
            async with client.stream(REQUEST) as turn:
                async for event in turn:
                    if isinstance(event, TextDelta) and not go_on.is_set():
                        await asyncio.sleep(3.5)  # the program's own time
                        go_on.set()
            assert "Hello" == turn.answer().text

    asyncio.run(run())


def test_no_clock_runs_where_none_is_set() -> None:
    async def run() -> str:
        timeouts = Timeouts(connect=0, first_byte=0, idle=0, total=0)
        async with peer(HELLO) as server, nothing_left():
            return (await asked(server.url, timeouts=timeouts)).text

    assert "Hello" == asyncio.run(run())


def test_the_total_is_over_even_while_events_come() -> None:
    async def script(talk: Talk) -> None:
        await talk.say(http(length=None))
        while True:
            await talk.say(sse(CHAT[0], done=False))
            await asyncio.sleep(0.001)

    error = failure(script, timeouts=Timeouts(total=1))

    assert ("timeout", "total_timeout", "timeout") == (error.stage, error.code, error.kind)
    assert error.received is not None
    assert error.received.text.startswith("Hel")


def test_an_error_whose_body_does_not_come_is_reported_all_the_same() -> None:
    beginning = http(b'{"error":', status="503 Busy", length=999, headers="retry-after: 7\r\n")
    error = failure(stalled(beginning), timeouts=Timeouts(first_byte=5))

    assert ("http", 503, 7.0) == (error.stage, error.status, error.retry_after)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "body"])
def test_a_request_may_have_a_shorter_time_of_its_own(streamed: bool, face: str) -> None:
    options = {"stream": streamed, "timeout": 0.5, "timeouts": Timeouts(total=600)}
    error = failure(stalled(http(length=None)), face=face, **options)

    assert ("timeout", "request_timeout", "timeout") == (error.stage, error.code, error.kind)
    assert "within the 0.5 s of this request" in error.message


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf")])
def test_a_time_that_cannot_be_is_refused(timeout: float) -> None:
    with (
        SyncClient("http://127.0.0.1:9") as client,
        pytest.raises(MisuseError, match="`timeout` is"),
    ):
        client.create(REQUEST, timeout=timeout)


@pytest.mark.parametrize(
    ("timeouts", "timeout", "code"),
    [
        (Timeouts(total=0.3), 600.0, "total_timeout"),
        (Timeouts(total=600), 0.3, "request_timeout"),
        (Timeouts(first_byte=0.3), 600.0, "first_byte_timeout"),
        (Timeouts(first_byte=0, idle=0), 0.3, "request_timeout"),
    ],
)
def test_the_clock_that_runs_out_first_is_named(
    timeouts: Timeouts, timeout: float, code: str
) -> None:
    error = failure(stalled(b""), stream=False, timeouts=timeouts, timeout=timeout)

    assert code == error.code
