"""Where a tool loop ends that does not end by itself."""

import asyncio
import itertools

import pytest

from dragoman.client.client import Client
from dragoman.client.messages import request, user
from dragoman.client.sync_client import SyncClient
from dragoman.client.tool_loop import LoopLimits, LoopStoppedError, ToolLoop
from dragoman.turn.request import Request
from tests.support.loops import HANDLERS, STORY, TOOLS, Played


def endless(times: int = 40) -> Request:
    line = 'sim: call get_weather {{"city": "{}"}}'
    return request(user("\nsim: then\n".join(line.format(n) for n in range(times))), tools=TOOLS)


@pytest.mark.parametrize(
    ("bounds", "reason", "asked"),
    [
        (LoopLimits(turns=3), "turns", 3),
        (LoopLimits(calls=3), "calls", 4),
        (LoopLimits(tokens=1), "tokens", 1),
        (LoopLimits(seconds=25), "time", 3),
    ],
    ids=["turns", "calls", "tokens", "time"],
)
def test_s_9_a_loop_is_bounded(server: Played, bounds: LoopLimits, reason: str, asked: int) -> None:
    now = [0.0]

    def slow(city: str) -> str:
        now[0] += 10
        return city

    with SyncClient(server.url, model="sim/plain") as client:
        loop = ToolLoop(client, endless(), limits=bounds, clock=lambda: now[0])
        with pytest.raises(LoopStoppedError) as caught:
            loop.run({"get_weather": slow})

    assert reason == caught.value.reason
    assert asked == len(server.bodies())
    assert asked == loop.transcript.turns


def test_s_9_time_ends_an_answer_that_goes_on(server: Played) -> None:
    clock = itertools.count(0.0, 1.0).__next__  # a second passes with each look
    asked = request(user("Tell me a story"))
    with SyncClient(server.url, model="sim/plain+text:64+pace:1") as client:
        loop = ToolLoop(client, asked, limits=LoopLimits(seconds=20), clock=clock)
        with pytest.raises(LoopStoppedError, match="21 seconds of 20"):
            loop.run({})
        left = server.do(server.simulator.wait_for(lambda exchange: exchange.over))

    assert left.closed_early
    assert asked == loop.transcript.request


@pytest.mark.parametrize("face", ["async", "sync"])
@pytest.mark.parametrize("silence", ["slow:600000", "stall:200"], ids=["at once", "in the middle"])
def test_s_9_time_ends_a_loop_whose_server_is_silent(
    server: Played, silence: str, face: str
) -> None:
    asked, bounds = request(user("Tell me a story")), LoopLimits(seconds=1)

    async def wait() -> ToolLoop:
        async with Client(server.url, model=f"sim/plain+{silence}") as client:
            loop = ToolLoop(client, asked, limits=bounds)
            with pytest.raises(LoopStoppedError, match="the loop used ") as caught:
                await loop.run_async({})
        assert "time" == caught.value.reason
        return loop

    if face == "async":
        loop = asyncio.run(wait())
    else:
        with SyncClient(server.url, model=f"sim/plain+{silence}") as client:
            loop = ToolLoop(client, asked, limits=bounds)
            with pytest.raises(LoopStoppedError, match="the loop used "):
                loop.run({})

    assert asked == loop.transcript.request
    assert loop.transcript.seconds >= 1
    assert server.do(server.simulator.wait_for(lambda exchange: exchange.over)).closed_early


def test_s_9_tokens_are_bounded_although_the_server_reports_none(server: Played) -> None:
    with SyncClient(server.url, model="sim/plain+no-usage") as client:
        loop = ToolLoop(client, endless(), limits=LoopLimits(tokens=1000))
        with pytest.raises(LoopStoppedError, match="tokens of 1000"):
            loop.run(HANDLERS)

    assert 1 < len(server.bodies()) < 10


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_s_9_a_model_that_repeats_itself_is_stopped(server: Played, length: int) -> None:
    lines = [f'sim: call get_weather {{"city": "{n % length}"}}' for n in range(40)]
    with SyncClient(server.url, model="sim/plain") as client:
        loop = ToolLoop(client, request(user("\nsim: then\n".join(lines)), tools=TOOLS))
        with pytest.raises(LoopStoppedError) as caught:
            loop.run(HANDLERS)

    assert "repeats" == caught.value.reason
    assert 5 * length == len(server.bodies())


def test_a_stopped_loop_goes_on_with_other_bounds(server: Played) -> None:
    with SyncClient(server.url, model="sim/plain") as client:
        loop = ToolLoop(client, request(user(STORY), tools=TOOLS), limits=LoopLimits(turns=1))
        with pytest.raises(LoopStoppedError):
            loop.run(HANDLERS)
        again = ToolLoop.resume(client, loop.transcript)

        assert "It is sunny in both." == again.run(HANDLERS).text

    assert 3 == again.transcript.turns
