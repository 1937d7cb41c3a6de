"""`chat`: a model is asked, progress is reported, and the request ends when the client leaves."""

import asyncio
import json
from typing import Any

import pytest

from tests.support.mcp_talk import DIALECTS, WEATHER, Talk, run, said


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("family", ["plain", "kimi-k2", "glm-4.6"])
def test_chat_gives_text_reasoning_and_calls(dialect: str, family: str) -> None:
    story = 'sim: think Hm.\nsim: say Let me look.\nsim: call get_weather {"city": "Rome"}'

    async def work(one: Talk) -> Any:
        return await one.good(
            "chat", model=f"{dialect}/{family}", messages=said(story), tools=[WEATHER]
        )

    found = run(work)

    assert "Let me look." == found["text"].strip()
    assert "Hm." == found["reasoning"].strip()
    [call] = found["tool_calls"]
    assert ("get_weather", {"city": "Rome"}, True) == (
        call["name"],
        json.loads(call["arguments"]),
        call["complete"],
    )
    assert "tool_calls" == found["finish"]
    assert family == found["model"]
    assert found["usage"]["input"] > 0


def test_s_10_streaming_stays_streaming() -> None:
    async def work(one: Talk) -> tuple[Any, list[dict[str, Any]], list[float]]:
        story = (
            'sim: think First this.\nsim: say Then that.\nsim: call get_weather {"city": "Rome"}'
            '\nsim: call get_weather {"city": "Oslo"}'
        )
        found = await one.good(
            "chat", model="chat/plain+pace:5", messages=said(story), tools=[WEATHER]
        )
        return found, one.pieces, one.steps

    found, pieces, steps = run(work)

    assert len(pieces) > 5
    assert steps == sorted(set(steps))
    for field in ("text", "reasoning"):
        assert found[field] == "".join(piece.get(field, "") for piece in pieces)
    calls: list[list[str]] = []
    for piece in pieces:
        calls += [[piece["call"], ""]] if "call" in piece else []
        if "arguments" in piece:
            calls[-1][1] += piece["arguments"]
    assert calls == [[call["name"], call["arguments"]] for call in found["tool_calls"]]
    assert 2 == len(calls)


def test_s_10_progress_is_reported_before_the_answer_ends() -> None:
    async def work(one: Talk) -> tuple[bool, list[dict[str, Any]]]:
        model = "chat/plain+stall:700"
        asking = asyncio.create_task(one.call("chat", model=model, messages=said("Hi")))
        async with asyncio.timeout(30):
            while not one.pieces:  # noqa: ASYNC110 -- the SDK tells nobody else
                await asyncio.sleep(0.01)
        over = one.simulator.exchanges[-1].over
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return over, one.pieces

    over, pieces = run(work)

    assert not over
    assert "You" in pieces[0]["text"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_conversation_goes_on_with_calls_and_results(dialect: str) -> None:
    async def work(one: Talk) -> tuple[Any, list[Any]]:
        line = 'sim: call get_weather {"city": "Rome"}\nsim: then\n'
        messages: list[dict[str, Any]] = said(f"{line}{line}sim: say It is sunny.")
        model = f"{dialect}/plain+ids:call_0"
        for _ in range(2):
            found = await one.good("chat", model=model, messages=messages, tools=[WEATHER])
            [call] = found["tool_calls"]
            function = {"name": call["name"], "arguments": call["arguments"]}
            messages += [
                {
                    "role": "assistant",
                    "content": found["text"],
                    "tool_calls": [{"id": call["id"], "type": "function", "function": function}],
                },
                {"role": "tool", "tool_call_id": call["id"], "content": "sunny"},
            ]
        return await one.good("chat", model=model, messages=messages, tools=[WEATHER]), messages

    found, messages = run(work)

    assert "It is sunny." == found["text"]
    assert messages[1]["tool_calls"][0]["id"] != messages[3]["tool_calls"][0]["id"]


def test_settings_of_a_request_reach_the_upstream() -> None:
    async def work(one: Talk) -> Any:
        await one.good(
            "chat",
            model="chat/plain",
            messages=[{"role": "system", "content": "Be kind."}, *said("Hi")],
            system="Be brief.",
            tools=[WEATHER],
            tool_choice="get_weather",
            parallel_tool_calls=False,
            max_tokens=50,
            temperature=0.5,
            top_p=0.9,
            stop=["END"],
            seed=7,
            reasoning="high",
        )
        return one.simulator.exchanges[-1].json

    sent = run(work)

    assert ("plain", 0.5, 0.9, 7) == tuple(
        sent[name] for name in ("model", "temperature", "top_p", "seed")
    )
    assert "get_weather" == sent["tool_choice"]["function"]["name"]
    assert "Be brief." in str(sent["messages"][0])
    assert "Be kind." in str(sent["messages"])
    assert True is sent["stream"]


def test_what_the_upstream_cannot_express_is_a_loss() -> None:
    async def work(one: Talk) -> Any:
        return await one.good("chat", model="anthropic/plain", messages=said("Hi"), seed=7)

    codes = {loss["code"] for loss in run(work)["losses"]}

    assert {"max_tokens_defaulted", "sampling_dropped"} <= codes


def test_calls_at_the_same_time_do_not_mix() -> None:
    async def work(one: Talk) -> list[Any]:
        asked = (
            one.good("chat", model="chat/plain+pace:2", messages=said(f"sim: say Number {n}"))
            for n in range(8)
        )
        return await asyncio.gather(*asked)

    assert [f"Number {n}" for n in range(8)] == [found["text"] for found in run(work)]


def test_a_schema_for_the_answer_reaches_the_upstream() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def work(one: Talk) -> Any:
        return await one.good("chat", model="chat/plain", messages=said("Hi"), schema=schema)

    assert isinstance(json.loads(run(work)["text"])["n"], int)


def test_a_cut_call_is_reported_as_cut() -> None:
    async def work(one: Talk) -> Any:
        return await one.good(
            "chat", model="chat/plain+length", messages=said("get_weather"), tools=[WEATHER]
        )

    found = run(work)

    assert [False] == [call["complete"] for call in found["tool_calls"]]
    assert "length" == found["finish"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_cancelling_a_call_cancels_the_upstream(mode: str) -> None:
    async def work(one: Talk) -> bool:
        model = "chat/plain+stall:300"
        asking = asyncio.create_task(one.call("chat", model=model, messages=said("Hi")))
        await one.simulator.wait_for(lambda exchange: exchange.written > 0)
        asking.cancel()
        exchange = await one.simulator.wait_for(lambda exchange: exchange.over, timeout=30)
        with pytest.raises(asyncio.CancelledError):
            await asking
        return exchange.closed_early

    assert run(work, mode=mode)
