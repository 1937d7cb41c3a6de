"""How long a server may take."""

import asyncio

import pytest

from dragoman import Client, ClientError, Timeouts
from dragoman.turn.events import TextDelta
from tests.support.client import REQUEST, stalled, text_of
from tests.support.peers import CHAT, HELLO, Talk, http, nothing_left, peer, sse


def test_a_slow_program_is_not_a_silent_server() -> None:
    async def run() -> None:
        go_on = asyncio.Event()

        async def script(talk: Talk) -> None:
            await talk.say(http(length=None) + sse(CHAT[0], done=False))
            await go_on.wait()
            await talk.say(sse(*CHAT[1:]))

        timeouts = Timeouts(idle=2)
        async with peer(script) as server, Client(server.url, timeouts=timeouts) as client:
            async with client.stream(REQUEST) as turn:
                async for event in turn:
                    if isinstance(event, TextDelta) and not go_on.is_set():
                        await asyncio.sleep(2.5)  # the program's own time
                        go_on.set()
            assert "Hello" == turn.message().text

    asyncio.run(run())


def test_no_clock_runs_where_none_is_set() -> None:
    async def run() -> str:
        timeouts = Timeouts(connect=0, first_byte=0, idle=0, total=0)
        async with (
            peer(HELLO) as server,
            nothing_left(),
            Client(server.url, timeouts=timeouts) as client,
        ):
            return await text_of(client)

    assert "Hello" == asyncio.run(run())


def test_the_total_is_over_even_while_events_come() -> None:
    async def run() -> ClientError:
        async def script(talk: Talk) -> None:
            await talk.say(http(length=None))
            while True:
                await talk.say(sse(CHAT[0], done=False))
                await asyncio.sleep(0.001)

        timeouts = Timeouts(total=1)
        async with (
            peer(script) as server,
            nothing_left(),
            Client(server.url, timeouts=timeouts) as client,
        ):
            with pytest.raises(ClientError) as caught:
                await text_of(client)
        return caught.value

    error = asyncio.run(run())

    assert ("timeout", "total_timeout", "timeout") == (error.stage, error.code, error.kind)
    assert error.received is not None
    assert error.received.text.startswith("Hel")


def test_an_error_whose_body_does_not_come_is_told_all_the_same() -> None:
    async def run() -> ClientError:
        beginning = http(b'{"error":', status="503 Busy", length=999, headers="retry-after: 7\r\n")
        async with (
            peer(stalled(beginning, asyncio.Event())) as server,
            nothing_left(),
            Client(server.url, timeouts=Timeouts(first_byte=3)) as client,
        ):
            with pytest.raises(ClientError) as caught:
                await client.create(REQUEST)
        return caught.value

    error = asyncio.run(run())

    assert ("http", 503, 7.0) == (error.stage, error.status, error.retry_after)
