"""LiteLLM's proxy as a process over the simulator, and a gateway's settings that have it as upstream."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.gateway.config.settings import Match, Route, Secret, Server, Settings, Upstream
from tests.servers.process import served
from tests.support.gateway import FIXED_PATHS

FOLDER_VARIABLE = "DRAGOMAN_LITELLM"  # set by tools/servers.py
KEY = "sk-0123456789abcdef0123456789abcdef"  # it refuses to start without one
# What stands behind it: to each it speaks another dialect.
BEHIND = {"chat": "openai", "anthropic": "anthropic"}


def config(simulator: str) -> str:
    """Return the proxy's settings: `chat/sim/plain` asks the simulator for `sim/plain` in Chat."""
    bases = {"chat": f"{simulator}/v1", "anthropic": simulator}
    models = [
        {
            "model_name": f"{behind}/*",
            "litellm_params": {
                "model": f"{provider}/*",
                "api_base": bases[behind],
                "api_key": "none",
            },
        }
        for behind, provider in BEHIND.items()
    ]
    # JSON is YAML.
    return json.dumps(
        {
            "model_list": models,
            "litellm_settings": {"telemetry": False, "num_retries": 0, "request_timeout": 60},
            "general_settings": {"master_key": KEY},
        }
    )


@contextmanager
def running(simulator: str, folder: Path) -> Iterator[str]:
    """Run the proxy, and give its address."""
    path = folder / "config.yaml"
    path.write_text(config(simulator), encoding="utf-8")
    more = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # else it fetches a price list
    with served(FOLDER_VARIABLE, "litellm_program.py", path, folder=folder, more=more) as address:
        yield address


def lite_settings(url: str) -> Settings:
    """Return settings with one upstream for each dialect: `responses/chat/sim/plain`."""
    upstreams = {
        dialect: Upstream(
            base_url=f"{url}/v1",
            dialect=dialect,
            profile="litellm",
            key=Secret("env:LITELLM", KEY),
            retries=0,
        )
        for dialect in FIXED_PATHS
    }
    routes = tuple(
        Route(name=name, match=Match(model=f"{name}/*"), to=(f"{name}/*",)) for name in upstreams
    )
    return Settings(server=Server(port=0), upstreams=upstreams, routes=routes)
