"""A client: its connections, its requests, and who may end them."""

import asyncio

import pytest

from dragoman import Client, ClientError
from tests.support.client import REQUEST, stalled, text_of
from tests.support.peers import CHAT, HELLO, Talk, http, nothing_left, peer, sse


def test_a_connection_serves_several_requests() -> None:
    async def run() -> None:
        connections = 0
        answer = http(sse(*CHAT), keep=True)

        async def script(talk: Talk) -> None:
            nonlocal connections
            connections += 1
            await talk.say(answer)
            while await talk.next_request():
                await talk.say(answer)

        async with peer(script) as server, nothing_left(), Client(server.url) as client:
            for _ in range(3):
                assert "Hello" == await text_of(client)
            assert 1 == connections

    asyncio.run(run())


def test_a_client_may_be_used_again_after_it_was_closed() -> None:
    async def run() -> None:
        async with peer(HELLO) as server, nothing_left():
            client = Client(server.url)
            for _ in range(2):
                assert "Hello" == await text_of(client)
                await client.close()
                await client.close()

    asyncio.run(run())


def test_a_request_that_waits_for_its_answer_is_cancelled_too() -> None:
    async def run() -> ClientError:
        left = asyncio.Event()
        async with peer(stalled(b"", left)) as server, nothing_left():
            client = Client(server.url)
            task = asyncio.create_task(client.create(REQUEST))
            await server.asked.wait()
            await client.close()
            with pytest.raises(ClientError) as caught:
                await task
            await asyncio.wait_for(left.wait(), 30)
        return caught.value

    assert "cancelled" == asyncio.run(run()).stage


@pytest.mark.parametrize("beginning", [b"", http(length=None)], ids=["no answer", "no event"])
def test_a_cancelled_task_stays_cancelled(beginning: bytes) -> None:
    async def run() -> None:
        left = asyncio.Event()
        async with (
            peer(stalled(beginning, left)) as server,
            nothing_left(),
            Client(server.url) as client,
        ):
            task = asyncio.create_task(text_of(client))
            await server.asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(left.wait(), 30)

    asyncio.run(run())


def test_a_caller_s_own_timeout_stays_its_own() -> None:
    async def run() -> None:
        async with (
            peer(stalled(b"", asyncio.Event())) as server,
            nothing_left(),
            Client(server.url) as client,
        ):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.create(REQUEST)

    asyncio.run(run())
