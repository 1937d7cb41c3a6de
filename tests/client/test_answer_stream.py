"""A streamed answer while it arrives: its events, its end, and who may read it."""

import asyncio

import pytest

from dragoman import Client, ClientError, MisuseError, UntranslatableError, request, user
from dragoman.simulator.server import Simulator
from dragoman.turn.events import Finish, Start, TextDelta
from dragoman.turn.losses import Loss
from tests.support.client import REQUEST, stalled
from tests.support.peers import CHAT, HELLO, Talk, http, nothing_left, peer, sse


def test_events_come_as_they_are_sent() -> None:
    async def run() -> None:
        go_on = asyncio.Event()

        async def script(talk: Talk) -> None:
            await talk.say(http(length=None) + sse(CHAT[0], done=False))
            await go_on.wait()
            await talk.say(sse(*CHAT[1:]))

        async with peer(script) as server, Client(server.url) as client:
            async with client.stream(REQUEST) as turn:
                seen = []
                async for event in turn:
                    seen.append(event)
                    if isinstance(event, TextDelta):
                        go_on.set()
            assert isinstance(seen[0], Start)
            assert ["Hel", "lo"] == [e.text for e in seen if isinstance(e, TextDelta)]
            assert isinstance(seen[-1], Finish)

    asyncio.run(run())


def test_an_answer_that_is_not_read_to_its_end_is_unfinished() -> None:
    async def run() -> None:
        beginning = http(length=None) + sse(CHAT[0], done=False)
        async with peer(stalled(beginning, asyncio.Event())) as server, nothing_left():
            async with Client(server.url) as client, client.stream(REQUEST) as turn:
                assert isinstance(await anext(turn), Start)
            message = turn.answer()
            assert message.finish is None
            assert message.fault is not None
            assert "unfinished" == message.fault.code
            assert "Hel" == message.text
            assert not message.blocks[0].complete

    asyncio.run(run())


def test_leaving_a_stream_closes_its_connection_at_once() -> None:
    async def run() -> None:
        left = asyncio.Event()
        beginning = http(length=None) + sse(CHAT[0], done=False)
        async with peer(stalled(beginning, left)) as server, nothing_left():
            async with Client(server.url) as client, client.stream(REQUEST) as turn:
                await anext(turn)
            await asyncio.wait_for(left.wait(), 30)

    asyncio.run(run())


def test_what_the_server_cannot_express_comes_first_and_is_kept() -> None:
    async def run() -> None:
        asked = request(user("x"), model="sim/plain", temperature=1.5, max_tokens=50)
        async with Simulator() as sim:
            async with Client(f"{sim.url}/v1", dialect="anthropic") as client:
                async with client.stream(asked) as turn:
                    first = await anext(turn)
                    async for _ in turn:
                        pass
                answer = await client.create(asked)
            assert isinstance(first, Loss)
            assert first in turn.losses
            for losses in (turn.answer().losses, answer.losses):
                assert "value_clamped" in [loss.code for loss in losses]
            with pytest.raises(UntranslatableError):
                Client(sim.url, dialect="anthropic", strict=True).stream(asked)

    asyncio.run(run())


@pytest.mark.parametrize("what", ["stream", "client"])
def test_a_stream_that_another_task_closes_ends_as_cancelled(what: str) -> None:
    async def run() -> ClientError:
        left = asyncio.Event()
        beginning = http(length=None) + sse(CHAT[0], done=False)
        async with peer(stalled(beginning, left)) as server, nothing_left():
            client = Client(server.url)
            async with client, client.stream(REQUEST) as turn:
                async for event in turn:
                    if isinstance(event, TextDelta):
                        break
                task = asyncio.create_task(turn.pump())
                await asyncio.sleep(0)
                await (turn if what == "stream" else client).close()
                with pytest.raises(ClientError) as caught:
                    await task
                with pytest.raises(ClientError):
                    await anext(turn)
            await asyncio.wait_for(left.wait(), 30)
        return caught.value

    error = asyncio.run(run())

    assert ("cancelled", "cancelled") == (error.stage, error.code)
    assert error.received is not None
    assert "Hel" == error.received.text


def test_two_tasks_do_not_read_one_stream_at_once() -> None:
    async def run() -> None:
        left = asyncio.Event()
        async with (
            peer(stalled(http(length=None), left)) as server,
            nothing_left(),
            Client(server.url) as client,
            client.stream(REQUEST) as turn,
        ):
            task = asyncio.create_task(turn.pump())
            await asyncio.sleep(0)
            with pytest.raises(MisuseError, match="one task at a time"):
                await turn.pump()
            await turn.close()
            with pytest.raises(ClientError):
                await task

    asyncio.run(run())


def test_a_stream_is_entered_once_and_read_inside() -> None:
    async def run() -> None:
        async with peer(HELLO) as server, Client(server.url) as client:
            turn = client.stream(REQUEST)
            with pytest.raises(MisuseError):
                await anext(turn)
            async with turn:
                pass
            with pytest.raises(MisuseError):
                await turn.__aenter__()
            with pytest.raises(MisuseError):
                await anext(turn)

    asyncio.run(run())
