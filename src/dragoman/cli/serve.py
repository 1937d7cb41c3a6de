"""`dragoman serve`: the gateway."""

import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dragoman.cli.options import load_settings, record_option, upstream_options

if TYPE_CHECKING:
    from dragoman.gateway.config.load import Flags
    from dragoman.gateway.config.settings import Settings

_HELP: Final = """Run the gateway: clients of any dialect, upstreams of any dialect.

Clients use Anthropic Messages (`/v1/messages`), Chat Completions (`/v1/chat/completions`), Responses
(`/v1/responses`) or Gemini (`/v1beta/models/MODEL:generateContent`).  Upstreams and routes come from a settings file or from flags.  The file is --config,
else $DRAGOMAN_CONFIG, else ./dragoman.toml, else `dragoman/dragoman.toml` in $XDG_CONFIG_HOME or ~/.config;
`dragoman config init` writes one.

A known vendor needs its key: from --upstream-key-env, or from its usual variable such as
OPENROUTER_API_KEY.  --no-key starts without one.

Without a file and without --upstream the built-in simulator answers, so that you can try everything
without a key.

On SIGTERM the gateway finishes open streams before it exits; on SIGHUP it reloads the settings.

\b
Exit codes:
  0  the gateway was stopped
  2  wrong usage or settings, or the port is in use

\b
Examples:
  dragoman serve
  dragoman serve --upstream http://127.0.0.1:8000/v1 --model qwen3-coder-30b
  dragoman serve --upstream https://openrouter.ai/api/v1 --upstream-key-env OPENROUTER_API_KEY \\
                 --model moonshotai/kimi-k2-thinking
  dragoman serve --config dragoman.toml --port 9000 --workers 4
"""
SIMULATED: Final = "sim"  # the upstream's name when the simulator answers
_PLAYED: Final = ("kimi-k2", "qwen3-coder", "deepseek-v3.1", "glm-4.6", "minimax-m2", "plain")


@click.command("serve", help=_HELP, short_help="Run the gateway.")
@upstream_options
@click.option("--host", help="The address to listen on.  [default: 127.0.0.1]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The port to listen on; 0 picks a free port.  [default: 8484]",
)
@click.option("--model", help="The upstream's model to use, whatever clients request.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    help="Number of processes that share the port.  [default: 1]",
)
@record_option
@click.option("--insecure", is_flag=True, help="Allow a public address without client keys.")
def command(  # noqa: PLR0913 -- one for each flag
    path: Path | None,
    *,
    flags: "Flags",
    host: str | None,
    port: int | None,
    model: str | None,
    workers: int | None,
    record: Path | None,
    insecure: bool,
) -> None:
    from msgspec import structs

    from dragoman.gateway.config.load import load
    from dragoman.gateway.serve import Service

    flags = structs.replace(
        flags,
        model=model,
        host=host,
        port=port,
        workers=workers,
        insecure=insecure or None,
        record=None if record is None else str(record.absolute()),
    )
    loaded = load_settings(path, flags)
    simulates = not loaded.settings.upstreams

    def reload() -> "Settings":
        return load(loaded.path, environ=os.environ, cwd=Path.cwd(), flags=flags).settings

    service = Service(
        loaded.settings,
        reload=None if loaded.path is None else reload,
        companion=simulated if simulates else None,
        announce=_announce_simulated if simulates else _announce,
    )
    code = service.run()
    if code:
        click.get_current_context().exit(code)


@asynccontextmanager
async def simulated(settings: "Settings") -> "AsyncIterator[Settings]":
    """Run a simulator next to the gateway, and route every request to it."""
    from msgspec import structs

    from dragoman.gateway.config.settings import Match, Route, Upstream
    from dragoman.simulator.server import Simulator

    async with Simulator(port=0) as simulator:
        upstream = Upstream(base_url=f"{simulator.url}/v1", models=_PLAYED)
        routes = (
            Route(name="by-name", match=Match(model=f"{SIMULATED}/*"), to=(f"{SIMULATED}/*",)),
            Route(name="simulator", to=(f"{SIMULATED}/kimi-k2",)),
        )
        yield structs.replace(settings, upstreams={SIMULATED: upstream}, routes=routes)


def _announce(url: str) -> None:
    click.echo(f"dragoman: serving on {url}")


def _announce_simulated(url: str) -> None:
    program = "dragoman" if shutil.which("dragoman") else sys.argv[0]
    asked = '"messages": [{"role": "user", "content": "Which files are here?"}]'
    click.echo(f"""dragoman: serving on {url}, answered by the built-in simulator.  Try:

curl -s {url}/v1/messages -d '{{"model": "claude-sonnet-4-5", "max_tokens": 512,
  {asked},
  "tools": [{{"name": "bash", "input_schema": {{"type": "object", "required": ["command"],
                                              "properties": {{"command": {{"type": "string"}}}}}}}}]}}'
curl -s {url}/v1/chat/completions -d '{{"model": "sim/glm-4.6", {asked}}}'
curl -sN {url}/v1/responses -d '{{"model": "sim/plain", "stream": true, "input": "Hello"}}'
{program} run claude --gateway {url}
""")
