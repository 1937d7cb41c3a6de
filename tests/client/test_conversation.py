"""The same small program against every dialect and several native formats, by both clients."""

import asyncio
import json
from functools import cache

import msgspec
import pytest

from dragoman import Client, SyncClient, answer_turn, request, result, system, tool, user
from dragoman.dialects import DIALECT_NAMES
from dragoman.simulator.server import Simulator
from dragoman.turn.answer import Answer
from dragoman.turn.request import Request, Turn
from tests.support.tables import in_one_test

DIALECTS = DIALECT_NAMES
FAMILIES = ("plain", "kimi-k2", "qwen3-coder", "deepseek-v31", "glm-4.6", "minimax-m2")
QUESTION = """What is the weather, and what time is it?
sim: think Two tools will do.
sim: call get_weather {"city": "Rome", "days": 2}
sim: call get_time {"zone": "Europe/Rome"}
sim: then
sim: say "It is warm.\\nIt is late."
"""


def get_weather(city: str, days: int = 1) -> str:
    """The weather of a city.

    Args:
        city: its name
        days: how many days ahead
    """
    return f"{city}: 30 degrees for {days} days"


def get_time(zone: str) -> str:
    """The time in a zone."""
    return f"{zone}: 23:59"


TOOLS = [tool(get_weather), tool(get_time)]
RUN = {"get_weather": get_weather, "get_time": get_time}
BEGINNING = (system("Be brief."), user(QUESTION))


def first() -> Request:
    return request(*BEGINNING, tools=TOOLS, max_tokens=1000)


def second(answer: Answer) -> Request:
    """Run the tools, which is the program's own business, and go on."""
    results: list[Turn] = [
        result(call.id, RUN[call.name](**json.loads(call.arguments))) for call in answer.tool_calls
    ]
    return request(*BEGINNING, answer_turn(answer), *results, tools=TOOLS, max_tokens=1000)


async def talk(client: Client, *, streamed: bool) -> list[Answer]:
    async def answer(asked: Request) -> Answer:
        if not streamed:
            return await client.create(asked)
        async with client.stream(asked) as turn:
            async for _ in turn:
                pass
            return turn.answer()

    one = await answer(first())
    return [one, await answer(second(one))]


def talk_sync(client: SyncClient, *, streamed: bool) -> list[Answer]:
    def answer(asked: Request) -> Answer:
        if not streamed:
            return client.create(asked)
        with client.stream(asked) as turn:
            for _ in turn:
                pass
            return turn.answer()

    one = answer(first())
    return [one, answer(second(one))]


def transcript(answers: list[Answer]) -> list[list[tuple[str, ...]]]:
    """Return what was said and called.  Ids are each server's own, and so are blanks in JSON."""
    said = []
    for answer in answers:
        assert answer.finish is not None
        turn: list[tuple[str, ...]] = [("finish", answer.finish.reason)]
        turn += [("reasoning", answer.reasoning.strip()), ("text", answer.text.strip())]
        for call in answer.tool_calls:
            assert call.complete
            arguments = msgspec.json.encode(msgspec.json.decode(call.arguments), order="sorted")
            turn.append(("call", call.name, arguments.decode()))
        said.append(turn)
    return said


@cache
def transcripts() -> dict[tuple[str, ...], list[list[tuple[str, ...]]]]:
    """Return what each pair of client and server said to one another."""

    async def run() -> dict[tuple[str, ...], list[list[tuple[str, ...]]]]:
        found = {}
        async with Simulator() as sim:
            for dialect in DIALECTS:
                for family in FAMILIES:
                    for streamed in (True, False):
                        mode = "stream" if streamed else "body"
                        options = {"dialect": dialect, "model": f"sim/{family}", "api_key": "k"}
                        async with Client(f"{sim.url}/v1", **options) as client:
                            answers = await talk(client, streamed=streamed)
                        found[dialect, family, mode, "async"] = transcript(answers)
                        with SyncClient(f"{sim.url}/v1", **options) as sync_client:
                            answers = await asyncio.to_thread(
                                talk_sync, sync_client, streamed=streamed
                            )
                        found[dialect, family, mode, "sync"] = transcript(answers)
        return found

    return asyncio.run(run())


CASES = [
    (dialect, family, mode, kind)
    for dialect in DIALECTS
    for family in FAMILIES
    for mode in ("stream", "body")
    for kind in ("async", "sync")
]
EXPECTED = [
    [
        ("finish", "tool_calls"),
        ("reasoning", "Two tools will do."),
        ("text", ""),
        ("call", "get_weather", '{"city":"Rome","days":2}'),
        ("call", "get_time", '{"zone":"Europe/Rome"}'),
    ],
    [("finish", "stop"), ("reasoning", ""), ("text", "It is warm.\nIt is late.")],
]


@in_one_test
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_one_program_has_the_same_conversation_everywhere(case: tuple[str, ...]) -> None:
    assert EXPECTED == transcripts()[case]
