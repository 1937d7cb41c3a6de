"""`transformers serve` as a process, and a gateway's settings that have it as upstream."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.gateway.config.settings import Match, Route, Server, Settings, Upstream
from tests.servers.process import served

FOLDER_VARIABLE = "DRAGOMAN_TRANSFORMERS"  # set by tools/servers.py
OFFERED = ("chat", "responses")  # it does not speak Messages
# How the gateway reads the calls of each model: those of the second are text.
MODELS = {"qwen": "none", "llama": "hermes"}


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run the server, and give its address; its models are folders in this one."""
    more = {"HF_HUB_OFFLINE": "1"}
    with served(
        FOLDER_VARIABLE, "transformers_program.py", folder, folder=folder, more=more
    ) as address:
        yield address


def transformers_settings(url: str, folder: Path) -> Settings:
    """Return settings with one upstream for each dialect and model: `chat/qwen`."""
    upstreams = {
        f"{dialect}-{model}": Upstream(
            base_url=f"{url}/v1", dialect=dialect, profile="transformers", retries=0, format=how
        )
        for dialect in OFFERED
        for model, how in MODELS.items()
    }
    routes = tuple(
        Route(
            name=name,
            match=Match(model=name.replace("-", "/")),
            to=(f"{name}/{folder / name.split('-')[1]}",),
        )
        for name in upstreams
    )
    return Settings(server=Server(port=0), upstreams=upstreams, routes=routes)
