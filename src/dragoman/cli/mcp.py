"""`dragoman mcp`: the library as MCP tools, and the upstreams that they use."""

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click
from msgspec import structs
from yarl import URL

from dragoman.cli.models import list_models
from dragoman.cli.options import load_settings, upstream_options
from dragoman.cli.serve import simulated
from dragoman.client.client import Client
from dragoman.client.settings import Timeouts
from dragoman.dialects import dialect as find_dialect
from dragoman.errors import ConfigError
from dragoman.gateway.config.formats import declared_formats
from dragoman.gateway.config.load import Flags
from dragoman.gateway.config.settings import Route, Settings
from dragoman.gateway.plan import upstream_headers
from dragoman.gateway.routing import Hop, Question, RouteChoice, Router
from dragoman.mcp_server.upstreams import ListedModel, ModelList, Target
from dragoman.toolcalls.format import Format
from dragoman.transport import TLS

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

# Headers that carry a key: see `_headers`.
_AUTH: Final = frozenset({"authorization", "x-api-key", "x-goog-api-key"})


@click.command("mcp", help=_HELP, short_help="Serve the library as MCP tools.")
@upstream_options
@click.option("--model", help="The model to use, whatever callers request.")
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    help="Serve over HTTP on this port of 127.0.0.1; 0 picks a free port.",
)
def command(
    path: Path | None,
    *,
    flags: Flags,
    model: str | None,
    port: int | None,
) -> None:
    loaded = load_settings(path, structs.replace(flags, model=model))
    try:
        from dragoman.mcp_server import server  # noqa: F401 -- checks that it is installed
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "uvicorn"):
            raise
        raise ConfigError(_INSTALL) from error
    asyncio.run(_serve(loaded.settings, port))


async def _serve(settings: Settings, port: int | None) -> None:
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


# --- upstreams ---


class RoutedUpstreams:
    """The upstream of each model, by the settings: a client for the first target of each route.

    Retries, fallbacks to further targets and changes to requests are features of the gateway, not of this class.

    Raises:
        ConfigError: a route names an unknown upstream.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._router = Router(settings)
        self._clients: dict[tuple[str, str], Client] = {}  # by route and upstream
        self.formats: tuple[Format, ...] = declared_formats(settings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Settings that have no effect here."""
        paths = [
            f"upstreams.{name}.body" for name, up in self._settings.upstreams.items() if up.body
        ]
        for number, route in enumerate(self._settings.routes, start=1):
            paths += [f"routes[{number}].body"] if route.body else []
            paths += [f"routes[{number}].params"] if route.params else []
            paths += [f"routes[{number}].auth"] if route.auth == "passthrough" else []
        return tuple(f"`{path}` has no effect here" for path in paths)

    def target(self, model: str, /) -> Target:
        """Return the client and the upstream's name for a model.

        Raises:
            ConfigError: no route matches.
        """
        choice = self._router.choose(Question(model=model))
        if choice is None:
            raise ConfigError(
                f"no route for the model `{model[:200]}`; `list_models` lists the models"
            )
        hop = choice.hops[0]
        if not hop.model:
            raise ConfigError("no default model is set; pass `model`")
        key = (choice.route_name, hop.upstream_name)
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = self._client(choice, hop)
        return Target(client, hop.model)

    async def models(self) -> ModelList:
        listed, faults = await list_models(self._settings)
        models = [
            ListedModel(
                name=one.name,
                owner=one.owner,
                context=one.facts.context or None,
                output=one.facts.output or None,
            )
            for one in listed
        ]
        return ModelList(models=models, unreachable=[fault.message for fault in faults])

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    def _client(self, choice: RouteChoice, hop: Hop) -> Client:
        upstream, times = hop.upstream, hop.timeouts
        tls, rule = upstream.tls, upstream.proxy
        as_usual = upstream.auth in ("auto", find_dialect(upstream.dialect).auth)
        key = upstream.key.value if upstream.key is not None and as_usual else ""
        return Client(
            upstream.base_url,
            dialect=upstream.dialect,
            api_key=key,
            profile=hop.profile,
            native_format=hop.native_format,
            limits=self._settings.server.limits,
            timeouts=Timeouts(
                connect=times.connect,
                first_byte=times.first_byte,
                idle=times.idle,
                total=times.total,
            ),
            tls=TLS(verify=tls.verify, ca=tls.ca, cert=tls.cert, key=tls.key),
            proxy="" if rule is None else rule.address(URL(upstream.base_url)),
            headers=_headers(hop, choice.route, has_key=bool(key)),
            strict=upstream.strict,
        )


def _headers(hop: Hop, route: Route, *, has_key: bool) -> Mapping[str, str]:
    """Return the headers that the settings add, without those that the client sends itself."""
    sent = {"content-type", *dict(find_dialect(hop.upstream.dialect).request_headers)}
    own = sent | (_AUTH if has_key else set())
    set_by_hand = {name.lower() for name in (*hop.upstream.headers, *route.headers)}
    headers = upstream_headers(hop, route, {}, same_dialect=False)
    return {
        name: value for name, value in headers.items() if name not in own or name in set_by_hand
    }
