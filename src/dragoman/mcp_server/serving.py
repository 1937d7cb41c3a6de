"""The two ways to the server: standard streams, and streamable HTTP on loopback."""

import socket
from collections.abc import Callable
from typing import Final

import uvicorn
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from dragoman.errors import ConfigError
from dragoman.limits import DEFAULT_LIMITS
from dragoman.mcp_server.server import make_server
from dragoman.mcp_server.upstreams import Upstreams

HOST: Final = "127.0.0.1"  # and nothing else: whoever reaches the server asks with our keys
PATH: Final = "/mcp"
_BACKLOG: Final = 128
_DRAIN_SECONDS: Final = 3


async def serve_stdio(upstreams: Upstreams) -> None:
    """Serve whoever started this process, until it closes our standard input.

    Standard output carries the protocol alone; the SDK turns everything else to standard error.
    """
    server = make_server(upstreams)
    try:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        await upstreams.close()


async def serve_http(upstreams: Upstreams, port: int, announce: Callable[[str], object]) -> None:
    """Serve programs of this machine until a signal says to stop; pages in a browser are refused.

    Raises:
        ConfigError: the port cannot be had.
    """
    listening = _listen(port)
    port = listening.getsockname()[1]
    app = make_server(upstreams).streamable_http_app(
        streamable_http_path=PATH,
        host=HOST,
        max_request_body_size=DEFAULT_LIMITS.max_request_bytes,
        transport_security=TransportSecuritySettings(
            allowed_hosts=[f"{name}:{port}" for name in (HOST, "localhost")],
            allowed_origins=[],  # no page at all: its scripts are not the user's programs
        ),
    )
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
    server = _Announced(config, lambda: announce(f"http://{HOST}:{port}{PATH}"))
    try:
        await server.serve(sockets=[listening])
    finally:
        listening.close()
        await upstreams.close()


class _Announced(uvicorn.Server):
    """A server that says when it serves, and takes signals by then."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], object]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigError(f"cannot serve on {HOST}:{port}: {error.strerror}") from error
    return listening
