"""`dragoman.testing.Simulator`: a model for other people's tests."""

import asyncio
from pathlib import Path

import pytest

from dragoman import Client, SyncClient, request, tool
from dragoman.dialects import DIALECT_NAMES
from dragoman.testing import Simulator


def test_it_serves_a_synchronous_program_and_remembers_its_requests() -> None:
    with (
        Simulator() as simulator,
        SyncClient(simulator.base_url, model="sim/plain", api_key="k") as client,
    ):
        answer = client.create(request("sim: say Good morning"))
        (received,) = simulator.requests

        assert "Good morning" == answer.text
        assert ("POST", "/v1/chat/completions", 200) == (
            received.method,
            received.path,
            received.status,
        )
        assert "sim/plain" == received.json["model"]
        simulator.clear()
        assert () == simulator.requests


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_it_serves_an_asynchronous_program_in_every_dialect(dialect) -> None:
    async def run() -> str:
        with Simulator() as simulator:
            async with Client(simulator.base_url, dialect=dialect, model="sim/plain") as client:
                question = request("sim: say Hello", tools=[tool("f")])
                async with client.stream(question) as stream:
                    return "".join([text async for text in stream.text])

    assert "Hello" == asyncio.run(run())


def test_a_script_is_followed(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text('[[replies]]\ntext = "From the script."\n', "utf-8")

    with (
        Simulator(script=str(script)) as simulator,
        SyncClient(simulator.base_url, model="sim/plain") as client,
    ):
        assert "From the script." == client.create(request("Hi")).text


def test_it_does_not_serve_outside_of_its_context() -> None:
    simulator = Simulator()

    with pytest.raises(RuntimeError, match="enter its context"):
        simulator.clear()
