"""The official client drives the program itself, over both transports."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from dragoman.mcp_server.tools import TOOLS
from tests.support.loops import Played, played
from tests.support.mcp_talk import COMMAND, WEATHER, Talk, said

CHOICE = {"index": 0, "finish_reason": "stop"}
MESSAGE = {"role": "assistant", "content": "Hi"}
BODY = json.dumps({"id": "x", "model": "m", "choices": [CHOICE | {"message": MESSAGE}]})
STREAM = (
    f"data: {json.dumps({'id': 'x', 'model': 'm', 'choices': [CHOICE | {'delta': MESSAGE}]})}\n\n"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Played]:
    with played() as found:
        yield found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")  # far from anybody's settings


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home)}


@pytest.fixture(scope="module")
def address(server: Played, home: Path) -> Iterator[str]:
    """Start the server over HTTP, and say where it is."""
    process = subprocess.Popen(
        [*COMMAND, "--upstream", server.url, "--http", "0"],
        cwd=home,
        env=environment(home),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=20)
    assert 0 == process.returncode


@asynccontextmanager
async def connected(mode: str, server: Played, target: Any) -> AsyncIterator[Talk]:
    async with Client(target, mode=mode) as client:
        yield Talk(client, server.simulator)


async def drive(one: Talk, server: Played) -> None:
    """Use every tool once, fail once, and cancel once."""
    tools = (await one.client.list_tools()).tools
    assert list(TOOLS) == [tool.name for tool in tools]

    story = 'sim: say One moment.\nsim: call get_weather {"city": "Rome"}'
    chat = await one.good("chat", model="kimi-k2+pace:2", messages=said(story), tools=[WEATHER])
    assert "One moment." == chat["text"].strip()
    assert [{"city": "Rome"}] == [json.loads(call["arguments"]) for call in chat["tool_calls"]]
    assert len(one.pieces) > 1
    assert chat["text"] == "".join(piece.get("text", "") for piece in one.pieces)

    parsed = await one.good(
        "parse_tool_calls",
        text='<tool_call>{"name":"a","arguments":{}}</tool_call>',
        format="hermes",
    )
    assert ["a"] == [call["name"] for call in parsed["tool_calls"]]

    ways = {"from": "chat", "to": "anthropic"}
    request = json.dumps({"model": "m", "messages": said("Hi")})
    translated = await one.good("translate", what="request", text=request, **ways)
    assert "max_tokens" in json.loads(translated["text"])
    translated = await one.good("translate", what="body", text=BODY, **ways)
    assert [{"type": "text", "text": "Hi"}] == json.loads(translated["text"])["content"]
    translated = await one.good("translate", what="stream", text=STREAM, **ways)
    assert "event: message_stop" in translated["text"]

    judged = await one.good("check_stream", dialect="anthropic", stream=translated["text"])
    assert (True, "finish") == (judged["legal"], judged["ended"])
    assert not (await one.good("check_stream", dialect="chat", stream="data: 1\n\n"))["legal"]
    assert len((await one.good("list_models"))["models"]) > 5
    assert len((await one.good("list_formats"))["formats"]) > 40

    model = "plain+error:503+retry-after:3"
    failed = await one.bad("chat", model=model, messages=said("Hi"))
    assert ("http", 503, 3.0) == (failed["stage"], failed["status"], failed["retry_after"])

    await cancel(one, server)
    assert "echo" in (await one.good("chat", model="plain", messages=said("sim: say echo")))["text"]


async def cancel(one: Talk, server: Played) -> None:
    """Cancel a call that hangs; its upstream is left, which else would hang for ever."""
    await asyncio.to_thread(server.bodies)  # and forget them
    model = "plain+stall:400"
    asking = asyncio.create_task(one.call("chat", model=model, messages=said("Hi")))
    await _seen(server, lambda exchange: exchange.written > 0, 30.0)
    asking.cancel()
    left = await _seen(server, lambda exchange: exchange.over, 30.0)
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert left.closed_early


async def _seen(server: Played, predicate: Any, seconds: float) -> Any:
    waiting = server.simulator.wait_for(predicate, seconds)
    return await asyncio.to_thread(server.do, waiting)


def test_every_tool_over_standard_streams(server: Played, home: Path) -> None:
    target = StdioServerParameters(
        command=COMMAND[0],
        args=[*COMMAND[1:], "--upstream", server.url],
        cwd=home,
        env={"HOME": str(home)},
    )

    async def main() -> None:
        async with connected("auto", server, target) as one:
            await drive(one, server)

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_every_tool_over_http(mode: str, server: Played, address: str) -> None:
    async def main() -> None:
        async with connected(mode, server, address) as one:
            await drive(one, server)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:80"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 400),
    ],
)
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_pages_in_a_browser_are_refused(
    headers: dict[str, str], status: int, version: str, address: str
) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    usual = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": version,
    }

    async def main() -> tuple[int, Any]:
        async with (
            aiohttp.ClientSession() as http,
            http.post(address, data=json.dumps(body), headers=usual | headers) as response,
        ):
            return response.status, response.headers.get("access-control-allow-origin")

    assert (status, None) == asyncio.run(main())


def test_standard_output_carries_nothing_but_the_protocol(home: Path) -> None:
    """An older client, and no upstream: the built-in simulator answers."""
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {
            "name": "chat",
            "arguments": {"messages": said("sim: say Hi"), "model": "sim/plain"},
        },
    }
    process = subprocess.Popen(
        [sys.executable, "-W", "always", *COMMAND[1:]],
        cwd=home,
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = []
    try:
        for message in (initialize, "not JSON", initialized, call):
            process.stdin.write(f"{json.dumps(message)}\n")
        process.stdin.flush()
        while not lines or lines[-1].get("id") != 2:
            lines.append(json.loads(process.stdout.readline()))
        rest, _ = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()

    assert "" == rest
    assert 0 == process.returncode
    assert "Hi" == lines[-1]["result"]["structuredContent"]["text"]
    assert all("2.0" == line["jsonrpc"] for line in lines)
