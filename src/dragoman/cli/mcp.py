"""`dragoman mcp`: the library as tools for agents."""

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dragoman.cli.options import upstream_options

if TYPE_CHECKING:
    from dragoman.cli.mcp_upstreams import RoutedUpstreams
    from dragoman.gateway.config.settings import Settings

_HELP: Final = """Serve the library's own calls as tools, over the Model Context Protocol.

\b
Tools:
  chat              ask a model; its tool calls are told, never run
  parse_tool_calls  find the calls that a model wrote as text
  translate         a request, answer or stream into another dialect
  check_stream      whether a stream is legal in its dialect
  list_models, list_formats

It speaks over standard input and output, for agents that start it, or with `--http` over HTTP on
127.0.0.1.  Which models can be asked is said by a file or by flags, as for `dragoman serve`; of a route
its first target is asked.  Without either the built-in simulator answers.

\b
Exit codes:
  0  it was stopped
  2  wrong usage or settings, the port is in use, or the MCP SDK is not installed

\b
Examples:
  dragoman mcp --upstream http://127.0.0.1:8000/v1 --model qwen3-coder-30b
  dragoman mcp --config dragoman.toml --http 8486
"""
_INSTALL: Final = "this command needs the MCP SDK: pip install 'dragoman[mcp]'"


@click.command("mcp", help=_HELP, short_help="Serve the library as tools for agents.")
@upstream_options
@click.option("--model", help="The model to ask, whatever callers ask for.")
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    help="Serve over HTTP on this port of 127.0.0.1; 0 takes any free one.",
)
def command(  # noqa: PLR0913 -- one for each flag
    path: Path | None,
    *,
    upstream: str | None,
    upstream_dialect: str | None,
    upstream_key_env: str | None,
    model: str | None,
    native_format: str | None,
    port: int | None,
) -> None:
    from dragoman.errors import ConfigError
    from dragoman.gateway.config.load import Flags, load

    flags = Flags(
        upstream=upstream,
        upstream_dialect=upstream_dialect,
        upstream_key_env=upstream_key_env,
        model=model,
        format=native_format,
    )
    loaded = load(path, environ=os.environ, cwd=Path.cwd(), flags=flags)
    for warning in loaded.warnings:
        click.echo(f"dragoman: warning: {warning}", err=True)
    try:
        from dragoman.mcp_server import server  # noqa: F401 -- to know that it can be had
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "uvicorn"):
            raise
        raise ConfigError(_INSTALL) from error
    asyncio.run(_serve(loaded.settings, port))


async def _serve(settings: "Settings", port: int | None) -> None:
    from dragoman.cli.mcp_upstreams import RoutedUpstreams
    from dragoman.cli.serve import simulated

    if settings.upstreams:
        await _serve_over(RoutedUpstreams(settings), port)
        return
    async with simulated(settings) as changed:
        await _serve_over(RoutedUpstreams(changed), port)


async def _serve_over(upstreams: "RoutedUpstreams", port: int | None) -> None:
    from dragoman.mcp_server.server import serve_http, serve_stdio

    for warning in upstreams.warnings:
        click.echo(f"dragoman: warning: {warning}", err=True)
    if port is None:
        # A thread waits for standard input, and would hold up an orderly end.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        await serve_stdio(upstreams)
    else:
        # The server takes signals while it serves, and raises them again when it has stopped.
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, _stop)
        await serve_http(upstreams, port, _announce)


def _stop(_number: int, _frame: object) -> None:
    raise SystemExit(0)


def _announce(url: str) -> None:
    click.echo(f"dragoman: MCP on {url}")
