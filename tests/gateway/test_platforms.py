"""Other systems, as far as Linux can play them: what they lack is removed before the program is imported."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.support.serving import Served, serving_process
from tests.support.waiting import until

# Imported first: packages that decide by the real platform.
_IMPORTS = """
import asyncio, os, shutil, signal, socket, ssl, sqlite3, subprocess, sys, tempfile
import aiohttp.web, click, httptools, msgspec
"""
MACOS = (
    _IMPORTS
    + """
del socket.SO_REUSEPORT  # it exists there, but gives all connections to one process
sys.platform = "darwin"
"""
)
WINDOWS = (
    _IMPORTS
    + """
for name in ("uvloop", "resource", "fcntl", "termios"):
    sys.modules[name] = None
del os.fork, signal.SIGHUP, signal.pthread_sigmask, socket.SO_REUSEPORT
def refuse(*_):
    raise NotImplementedError
asyncio.SelectorEventLoop.add_signal_handler = refuse
shutil.which = lambda *_: None  # from Python 3.12 on it calls Windows itself
sys.platform = "win32"
"""
)
_MAIN = "\nfrom dragoman.cli.main import main\nmain(prog_name='dragoman')\n"


@contextmanager
def serving_on(system: str, folder: Path, *options: str) -> Iterator[Served]:
    program = [sys.executable, "-c", system + _MAIN]
    with serving_process([*program, "serve", "--port", "0", *options], folder) as served:
        yield served


def answered(served: Served) -> int:
    """Return the status of one request on a new connection."""
    body = {"model": "sim/plain", "messages": [{"role": "user", "content": "Hello"}]}
    return httpx2.post(
        f"{served.url}/v1/chat/completions", json=body, timeout=60, verify=False
    ).status_code


@pytest.mark.parametrize("signal_name", ["SIGINT", "SIGTERM"])
def test_windows_serves_and_stops_in_order(tmp_path: Path, signal_name: str) -> None:
    with serving_on(WINDOWS, tmp_path) as served:
        status = answered(served)
        served.send_signal(signal_name)
        code = served.end()

    assert (200, 0) == (status, code), served.text
    assert [True] == [one["all_streams_ended"] for one in served.notices("stopped")]


def test_windows_refuses_several_workers_in_one_line(tmp_path: Path) -> None:
    with serving_on(WINDOWS, tmp_path, "--workers", "2") as served:
        code = served.end()

    assert 2 == code
    assert "Traceback" not in served.text
    assert (
        "--workers: processes cannot share a port on this system (win32); leave it at 1"
        in served.text
    )


def test_macos_workers_accept_from_one_socket(tmp_path: Path) -> None:
    with serving_on(MACOS, tmp_path, "--workers", "2") as served:
        until(lambda: len(served.notices("started")) == 2)
        first, second = (one["process"] for one in served.notices("started"))
        statuses = [answered(served) for _ in range(5)]
        subprocess.run(["kill", "-KILL", str(first)], check=True)
        statuses += [answered(served) for _ in range(5)]
        until(lambda: len(served.notices("started")) == 3)
        subprocess.run(["kill", "-KILL", str(second)], check=True)
        statuses += [answered(served) for _ in range(5)]
        until(lambda: len(served.notices("started")) == 4)
        host, _, port = served.url.removeprefix("http://").partition(":")
        served.send_signal("SIGTERM")
        code = served.end()

    assert {200} == set(statuses)
    assert 0 == code, served.text
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
