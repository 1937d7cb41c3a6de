"""llama.cpp's server as a process, and a gateway's settings that have it as upstream in every dialect."""

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from msgspec import structs

from dragoman.gateway.config.settings import Match, Route, Settings, Upstream
from tests.support.gateway import DIALECTS, settings_for

FOLDER_VARIABLE = "DRAGOMAN_LLAMA_CPP"  # set by tools/servers.py
PROGRAM = Path(__file__).parent / "llama_program.py"
START_SECONDS = 60.0  # on a free machine it takes one


class Llama:
    """A running server, and what can be asked of it directly."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        # Its one line, or nothing if it ended.
        with ThreadPoolExecutor(1) as waiting:
            line = waiting.submit(process.stdout.readline)
            try:
                self.url = line.result(START_SECONDS).split()[1]
            except BaseException:
                process.kill()  # so that the line ends
                raise

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
    # Apart from what it prints: its log comes from other threads, in the middle of lines.
    log = (folder / "log").open("w", encoding="utf-8")
    process = subprocess.Popen(
        [python, PROGRAM, kind, folder, str(context)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        errors="replace",
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "LLAMA_CACHE": str(folder)},
    )
    try:
        yield Llama(process)
    finally:
        process.kill()
        process.wait(20)
        for stream in (process.stdin, process.stdout, log):
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
