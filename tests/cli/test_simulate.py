"""`dragoman simulate` as a user runs it."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dragoman.checker.checker import check
from dragoman.simulator.quirks import QUIRKS
from dragoman.toolcalls.formats import FORMATS
from tests.support.simulator import PATHS, question


def start(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dragoman.cli.main", "simulate", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def serving(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    process = start("--port", "0", *options)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("dragoman: simulating a model on http://127.0.0.1:")
        yield line.split()[-1], process
    finally:
        process.kill()
        process.communicate()


def fetch(url: str, body: dict[str, Any]) -> tuple[int, bytes, str]:
    async def run() -> tuple[int, bytes, str]:
        async with aiohttp.ClientSession() as http, http.post(url, json=body) as response:
            received = bytearray()
            try:
                async for piece in response.content.iter_any():
                    received += piece
            except aiohttp.ClientError as error:
                return response.status, bytes(received), str(error)
            return response.status, bytes(received), ""

    return asyncio.run(run())


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_it_serves_until_a_signal_ends_it(name: str) -> None:
    with serving() as (url, process):
        _, stream, error = fetch(url + PATHS["chat"], question("chat"))
        process.send_signal(signal.Signals[name])
        out, complaint = process.communicate(timeout=60)

    assert check("chat", stream).legal
    assert ("", "", "", 0) == (error, out, complaint, process.returncode)


def test_signal_ends_it_although_answers_are_under_way() -> None:
    async def run(url: str, process: subprocess.Popen[str]) -> None:
        async with aiohttp.ClientSession() as http:
            body = question("chat", "plain+stall:100")
            async with http.post(url + PATHS["chat"], json=body) as response:
                assert 100 == len(await response.content.readexactly(100))
                process.send_signal(signal.SIGTERM)
                with pytest.raises(aiohttp.ClientError):
                    await response.content.read()

    with serving() as (url, process):
        asyncio.run(run(url, process))
        _, complaint = process.communicate(timeout=60)

    assert ("", 0) == (complaint, process.returncode)


@pytest.mark.parametrize(("fault", "says"), [("cut", ""), ("reset", "reset by peer")])
def test_connections_end_as_asked(fault: str, says: str) -> None:
    with serving() as (url, _):
        status, stream, error = fetch(
            url + PATHS["anthropic"], question("anthropic", f"plain+{fault}:500")
        )

    assert (200, 500) == (status, len(stream))
    assert error
    assert says in error


def test_script_answers(tmp_path: Path) -> None:
    script = tmp_path / "replies.toml"
    script.write_text('[[replies]]\ntext = "exactly this"\n')
    with serving("--script", str(script)) as (url, _):
        _, body, _ = fetch(url + PATHS["chat"], question("chat", stream=False))

    assert "exactly this" == json.loads(body)["choices"][0]["message"]["content"]


def failed(*options: str) -> str:
    process = start(*options)
    out, complaint = process.communicate(timeout=60)
    assert ("", 2) == (out, process.returncode)
    return complaint


def test_port_in_use_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        complaint = failed("--port", str(port))

    assert (
        f"dragoman: port {port} on 127.0.0.1 is in use; end the program that listens there "
        f"(`dragoman doctor --port {port}` shows what it is), or choose another port with --port\n"
        == complaint
    )


def test_wrong_script_is_one_clear_line(tmp_path: Path) -> None:
    script = tmp_path / "replies.json"
    script.write_text('{"replies": [{"text": "a"}, {"txet": "b"}]}')

    complaint = failed("--script", str(script))

    assert 1 == complaint.count("\n")
    assert "`txet`" in complaint
    assert "$.replies[1]" in complaint


def test_missing_script_is_one_clear_line(tmp_path: Path) -> None:
    complaint = failed("--script", str(tmp_path / "none.toml"))

    assert complaint.startswith("dragoman: cannot read ")
    assert 1 == complaint.count("\n")


def test_list_shows_every_family_and_quirk() -> None:
    out = subprocess.run(
        [sys.executable, "-m", "dragoman.cli.main", "simulate", "--list"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    for key in FORMATS:
        assert f"\n  {key.replace('_', '-')} " in out
    for quirk in QUIRKS.values():
        assert quirk.description in out
