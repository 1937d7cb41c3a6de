"""The vendors' SDKs talk to the simulator over a socket, streaming and not, through whole tool loops."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import openai
import pytest

from dragoman.simulator.server import Simulator
from tests.support.simulator import CLOCK, WEATHER, WEATHER_CALL, declared

PROMPT = "What is the weather?"


def run(talk: Callable[[Simulator], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with Simulator() as sim:
            return await talk(sim)

    return asyncio.run(main())


def open_ai(sim: Simulator) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="x", base_url=f"{sim.url}/v1", max_retries=0)


def claude(sim: Simulator, retries: int = 0) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(api_key="x", base_url=sim.url, max_retries=retries)


each_way = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@each_way
def test_chat_tool_loop(stream: bool) -> None:
    async def talk(sim: Simulator) -> tuple[Any, str]:
        async with open_ai(sim) as client:
            messages: list[Any] = [{"role": "user", "content": PROMPT}]
            tools = [declared("chat", tool) for tool in (WEATHER, CLOCK)]

            async def turn() -> Any:
                options = {"model": "sim/plain+parallel:2", "messages": messages, "tools": tools}
                if not stream:
                    return (await client.chat.completions.create(**options)).choices[0].message
                async with client.chat.completions.stream(**options) as events:
                    async for _ in events:
                        pass
                    return (await events.get_final_completion()).choices[0].message

            first = await turn()
            messages.append(first.model_dump(exclude_none=True))
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": f"of {call.function.name}"}
                for call in first.tool_calls
            ]
            return first.tool_calls, (await turn()).content

    calls, text = run(talk)

    assert ["get_weather", "get_time"] == [call.function.name for call in calls]
    assert WEATHER_CALL == json.loads(calls[0].function.arguments)
    assert "get_weather returned: of get_weather." in text


@each_way
def test_messages_tool_loop_with_thinking(stream: bool) -> None:
    async def talk(sim: Simulator) -> tuple[Any, Any]:
        async with claude(sim) as client:
            messages: list[Any] = [{"role": "user", "content": PROMPT}]
            tools = [declared("anthropic", tool) for tool in (WEATHER, CLOCK)]

            async def turn() -> Any:
                options = {
                    "model": "sim/plain+parallel:2",
                    "max_tokens": 4096,
                    "messages": messages,
                    "tools": tools,
                    "thinking": {"type": "enabled", "budget_tokens": 1024},
                }
                if not stream:
                    return await client.messages.create(**options)
                async with client.messages.stream(**options) as events:
                    return await events.get_final_message()

            first = await turn()
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": f"of {block.name}"}
                for block in first.content
                if block.type == "tool_use"
            ]
            messages.append({"role": "assistant", "content": first.to_dict()["content"]})
            messages.append({"role": "user", "content": results})
            return first, await turn()

    first, second = run(talk)

    assert ["thinking", "text", "tool_use", "tool_use"] == [one.type for one in first.content]
    assert first.content[0].signature
    assert WEATHER_CALL == first.content[2].input
    assert ("tool_use", "end_turn") == (first.stop_reason, second.stop_reason)
    assert "get_time returned: of get_time." in second.content[-1].text


@each_way
def test_responses_tool_loop_with_reasoning(stream: bool) -> None:
    async def talk(sim: Simulator) -> tuple[Any, Any]:
        async with open_ai(sim) as client:
            items: list[Any] = [{"role": "user", "content": PROMPT}]
            tools = [declared("responses", tool) for tool in (WEATHER, CLOCK)]

            async def turn() -> Any:
                options = {
                    "model": "sim/plain+parallel:2",
                    "input": items,
                    "tools": tools,
                    "store": False,
                    "include": ["reasoning.encrypted_content"],
                    "reasoning": {"effort": "high", "summary": "auto"},
                }
                if not stream:
                    return await client.responses.create(**options)
                async with client.responses.stream(**options) as events:
                    return await events.get_final_response()

            first = await turn()
            items += [one.model_dump(exclude_none=True) for one in first.output]
            for one in items:
                if isinstance(one, dict):
                    one.pop("parsed_arguments", None)
            items += [
                {
                    "type": "function_call_output",
                    "call_id": one.call_id,
                    "output": f"of {one.name}",
                }
                for one in first.output
                if one.type == "function_call"
            ]
            return first, await turn()

    first, second = run(talk)

    assert ["reasoning", "message", "function_call", "function_call"] == [
        one.type for one in first.output
    ]
    assert first.output[0].encrypted_content
    assert WEATHER_CALL == json.loads(first.output[2].arguments)
    assert "get_weather returned: of get_weather." in second.output_text


def test_sdk_waits_and_tries_again() -> None:
    async def talk(sim: Simulator) -> tuple[Any, list[int]]:
        async with claude(sim, retries=3) as client:
            message = await client.messages.create(
                model="sim/plain+fail:2+error:429+retry-after:0",
                max_tokens=99,
                messages=[{"role": "user", "content": "Hello"}],
            )
            return message, [one.status for one in sim.exchanges]

    message, statuses = run(talk)

    assert "end_turn" == message.stop_reason
    assert [429, 429, 200] == statuses


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "AuthenticationError"),
        (404, "NotFoundError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
    ],
)
def test_sdk_raises_what_the_status_means(status: int, kind: str) -> None:
    async def talk(sim: Simulator) -> None:
        async with open_ai(sim) as client:
            with pytest.raises(getattr(openai, kind), match="simulator"):
                await client.responses.create(model=f"sim/plain+error:{status}", input="x")
        async with claude(sim) as other:
            with pytest.raises(getattr(anthropic, kind), match="simulator"):
                await other.messages.create(
                    model=f"sim/plain+error:{status}",
                    max_tokens=9,
                    messages=[{"role": "user", "content": "x"}],
                )

    run(talk)


def test_sdks_count_tokens_and_list_models() -> None:
    async def talk(sim: Simulator) -> tuple[int, int, list[str], list[str]]:
        async with claude(sim) as client, open_ai(sim) as other:
            messages = [{"role": "user", "content": "Hello"}]
            counted = await client.messages.count_tokens(model="m", messages=messages)
            also = await other.responses.input_tokens.count(model="m", input="Hello")
            ours = [one.id async for one in client.models.list()]
            theirs = [one.id async for one in other.models.list()]
            return counted.input_tokens, also.input_tokens, ours, theirs

    counted, also, ours, theirs = run(talk)

    assert counted > 0
    assert also > 0
    assert ours == theirs
    assert "sim/kimi-k2" in ours
