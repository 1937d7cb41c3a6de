"""Serve LiteLLM's proxy on any free port; runs in the servers' environment.

    python litellm_program.py CONFIG

Prints its address once it serves, and ends when its standard input does.
"""

import asyncio
import os
import socket
import sys

import uvicorn


class Server(uvicorn.Server):
    """Tell the address once it serves, and stop with the standard input."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        host, port = sockets[0].getsockname()
        print(f"serving http://{host}:{port}", file=OUTPUT, flush=True)


async def main() -> None:
    from litellm.proxy.proxy_server import app

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        server = Server(uvicorn.Config(app, log_level="warning"))
        serving = asyncio.create_task(server.serve([one]))
        await asyncio.to_thread(sys.stdin.read)
        server.should_exit = server.force_exit = True
        await serving


if __name__ == "__main__":
    # It prints banners, which belong into the log.
    OUTPUT = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ["CONFIG_FILE_PATH"] = sys.argv[1]
    asyncio.run(main())
