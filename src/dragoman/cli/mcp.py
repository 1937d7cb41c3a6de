"""`dragoman mcp`: the library as MCP tools."""

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

_HELP: Final = """Serve the library as tools over the Model Context Protocol (MCP).

\b
Tools:
  chat              send a conversation to a model; tool calls are returned, never run
  parse_tool_calls  extract tool calls that a model wrote as text
  translate         translate a request, response or stream to another dialect
  check_stream      check whether a stream is legal in its dialect
  list_models       list the models that `chat` can use
  list_formats      list the formats of tool calls written as text

The server uses standard input and output, for agents that start it as a process, or HTTP on 127.0.0.1
with --http.  Upstreams come from a settings file or from flags, as for `dragoman serve`; only the first
target of a route is used, without retries.  Without settings and flags the built-in simulator answers.

\b
Exit codes:
  0  the server was stopped
  2  wrong usage or settings, the port is in use, or the MCP SDK is not installed

\b
Examples:
  dragoman mcp --upstream http://127.0.0.1:8000/v1 --model qwen3-coder-30b
  dragoman mcp --config dragoman.toml --http 8486
"""
_INSTALL: Final = "this command needs the MCP SDK; install it with: pip install 'dragoman[mcp]'"


@click.command("mcp", help=_HELP, short_help="Serve the library as MCP tools.")
@upstream_options
@click.option("--model", help="The model to use, whatever callers request.")
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    help="Serve over HTTP on this port of 127.0.0.1; 0 picks a free port.",
)
def command(  # noqa: PLR0913 -- one for each flag
    path: Path | None,
    *,
    upstream: str | None,
    upstream_dialect: str | None,
    upstream_key_env: str | None,
    model: str | None,
    native_format: str | None,
    proxy: str | None,
    tls_ca: str | None,
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
        proxy=proxy,
        tls_ca=tls_ca,
    )
    loaded = load(path, environ=os.environ, cwd=Path.cwd(), flags=flags)
    for warning in loaded.warnings:
        click.echo(f"dragoman: warning: {warning}", err=True)
    try:
        from dragoman.mcp_server import server  # noqa: F401 -- checks that it is installed
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
        # A thread blocks on standard input, and would delay an orderly shutdown.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        await serve_stdio(upstreams)
    else:
        # The server handles signals while it serves, and raises them again once it has stopped.
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, _stop)
        await serve_http(upstreams, port, _announce)


def _stop(_number: int, _frame: object) -> None:
    raise SystemExit(0)


def _announce(url: str) -> None:
    click.echo(f"dragoman: MCP on {url}")
