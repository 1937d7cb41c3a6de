"""llama.cpp's server as a process, and a gateway's settings that have it as upstream in every dialect."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from msgspec import structs

from dragoman.gateway.config.settings import Match, Route, Settings, Upstream
from tests.servers.process import served
from tests.support.gateway import FIXED_PATHS, settings_for

FOLDER_VARIABLE = "DRAGOMAN_LLAMA_CPP"  # set by tools/servers.py


class Llama:
    """A running server, and what can be asked of it directly."""

    def __init__(self, url: str) -> None:
        self.url = url

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
    more = {"LLAMA_CACHE": str(folder)}
    program = "llama_program.py"
    with served(
        FOLDER_VARIABLE, program, kind, folder, context, folder=folder, more=more
    ) as address:
        yield Llama(address)


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
        for dialect in FIXED_PATHS
    }
    routes = tuple(
        Route(name=name, match=Match(model=f"{name}/*"), to=(f"{name}/*",)) for name in upstreams
    )
    return structs.replace(settings_for(llama.url), upstreams=upstreams, routes=routes)
