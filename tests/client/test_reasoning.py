"""Reasoning state goes back to the server that it came from."""

import asyncio
import json

import pytest

from dragoman import Client, answer_turn, request, result, tool, user
from dragoman.simulator.server import Simulator
from dragoman.turn.events import OpaqueKind


@pytest.mark.parametrize(
    ("dialect", "profile", "kind"),
    [
        ("anthropic", "anthropic", OpaqueKind.SIGNATURE),
        ("responses", "openai", OpaqueKind.ENCRYPTED),
        ("chat", "deepseek", OpaqueKind.PLAIN),
    ],
)
@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "body"])
def test_reasoning_state_goes_back_to_its_server_unchanged(
    dialect: str, profile: str, kind: OpaqueKind, streamed: bool
) -> None:
    async def run() -> tuple[str, str, str]:
        question = user("sim: think Hm, so it is.\nsim: call f {}\nsim: then\nsim: say Done")
        options = {
            "tools": [tool("f", description="does", schema={"type": "object"})],
            "model": "sim/plain",
            "reasoning": "high",
            "max_tokens": 9000,
        }
        async with Simulator() as sim:
            async with Client(f"{sim.url}/v1", dialect=dialect, profile=profile) as client:
                if streamed:
                    async with client.stream(request(question, **options)) as turn:
                        async for _ in turn:
                            pass
                    answer = turn.answer()
                else:
                    answer = await client.create(request(question, **options))
                history = (question, answer_turn(answer), result(answer.tool_calls[0].id, "ok"))
                last = await client.create(request(*history, **options))
            state = next(one for block in answer.blocks for one in block.opaque)
            assert kind is state.kind
            assert profile == state.origin
            return state.data, json.dumps(sim.exchanges[-1].json), last.text

    data, sent, text = asyncio.run(run())

    assert "Done" == text
    assert "Hm, so it is." in sent or kind is OpaqueKind.ENCRYPTED
    assert json.dumps(data)[1:-1] in sent


def test_reasoning_state_of_another_server_stays_at_home() -> None:
    async def run() -> None:
        question = user("sim: think Hm.\nsim: call f {}\nsim: then\nsim: say Done")
        tools = [tool("f", description="does", schema={"type": "object"})]
        asked = request(question, tools=tools, model="sim/plain", reasoning="high", max_tokens=9000)
        async with Simulator() as sim:
            url = f"{sim.url}/v1"
            async with Client(url, dialect="anthropic", profile="anthropic") as client:
                answer = await client.create(asked)
            history = (question, answer_turn(answer), result(answer.tool_calls[0].id, "ok"))
            async with Client(url, dialect="responses", profile="openai") as client:
                other = await client.create(request(*history, tools=tools, model="sim/plain"))
            signature = next(one for block in answer.blocks for one in block.opaque).data
            assert "Done" == other.text
            assert signature not in json.dumps(sim.exchanges[-1].json)
            assert "opaque_dropped" in [loss.code for loss in other.losses]

    asyncio.run(run())


@pytest.mark.parametrize("dialect", ["chat", "anthropic", "responses"])
def test_an_unknown_server_gets_back_the_reasoning_of_a_model_that_wants_it(dialect: str) -> None:
    """By the family of the model's name: a client asks once, and learns from no refusal."""

    async def run() -> str:
        question = user("sim: think Hm, so it is.\nsim: call f {}\nsim: then\nsim: say Done")
        options = {
            "tools": [tool("f", description="does", schema={"type": "object"})],
            "model": "sim/kimi-k2-thinking+structural+needs-reasoning",
            "max_tokens": 9000,
        }
        async with (
            Simulator() as sim,
            Client(f"{sim.url}/v1", dialect=dialect) as client,
        ):
            answer = await client.create(request(question, **options))
            history = (question, answer_turn(answer), result(answer.tool_calls[0].id, "ok"))
            last = await client.create(request(*history, **options))
            assert "Hm, so it is." in sim.exchanges[-1].body.decode()
        return last.text

    assert "Done" == asyncio.run(run())
