"""llama.cpp's server as a process, and a gateway's settings that have it as upstream in every dialect."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from msgspec import structs

from dragoman.gateway.config.settings import Match, Route, Settings, Upstream
from tests.support.gateway import DIALECTS, settings_for
from tests.support.waiting import until

FOLDER_VARIABLE = "DRAGOMAN_LLAMA_CPP"  # set by tools/servers.py
PROGRAM = Path(__file__).parent / "llama_program.py"
START_SECONDS = 60.0  # on a free machine it takes one


class Llama:
    """A running server, and what can be asked of it directly."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self.reader = threading.Thread(
            target=lambda: self.lines.extend(iter(process.stdout.readline, "")), daemon=True
        )
        self.reader.start()
        self.url = until(self._address, START_SECONDS)

    def _address(self) -> str:
        found = [line.split()[1] for line in list(self.lines) if line.startswith("serving ")]
        assert self.process.poll() is None, "".join(self.lines)
        return found[0] if found else ""

    def post(self, path: str, body: Any) -> httpx2.Response:
        return httpx2.post(self.url + path, json=body, timeout=60)

    @property
    def model(self) -> str:
        return httpx2.get(f"{self.url}/v1/models", timeout=20).json()["data"][0]["id"]

    @property
    def slot(self) -> Any:
        """What its only slot does now."""
        (found,) = httpx2.get(f"{self.url}/slots", timeout=20).json()
        return found


@contextmanager
def running(kind: str, folder: Path, context: int) -> Iterator[Llama]:
    """Run the server over a model of a kind that has so much room."""
    python = Path(os.environ[FOLDER_VARIABLE]) / "bin" / "python"
    process = subprocess.Popen(
        [python, PROGRAM, kind, folder, str(context)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "LLAMA_CACHE": str(folder)},
    )
    found = Llama(process)
    try:
        yield found
    finally:
        process.kill()
        process.wait(20)
        found.reader.join(20)
        for stream in (process.stdin, process.stdout):
            stream.close()


def llama_settings(llama: Llama, noisy: Llama) -> Settings:
    """Return settings with one upstream for each dialect and server: `chat/m`, `noisy-chat/m`."""
    servers = {"": llama, "noisy-": noisy}
    upstreams = {
        f"{prefix}{dialect}": Upstream(
            base_url=f"{server.url}/v1",
            dialect=dialect,
            profile="llama-server",
            retries=0,
            models=("tiny",),
        )
        for prefix, server in servers.items()
        for dialect in DIALECTS
    }
    routes = tuple(
        Route(name=name, match=Match(model=f"{name}/*"), to=(f"{name}/*",)) for name in upstreams
    )
    return structs.replace(settings_for(llama.url), upstreams=upstreams, routes=routes)
