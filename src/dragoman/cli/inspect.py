"""`dragoman inspect`: the inspector page over a folder of recordings."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Final

import click

_HELP: Final = """Serve a web page over recorded exchanges.

It lists the recordings of a folder, and shows each exchange as a timeline: what the upstream sent, what it means,
and what the client got.  New recordings appear while the page is open.  A running gateway has the same page
at /inspector.

\b
Exit codes:
  0  stopped by Ctrl-C or SIGTERM
  2  wrong usage, or the port is in use

\b
Examples:
  dragoman inspect recordings
  dragoman inspect recordings --port 9000
"""
DEFAULT_PORT: Final = 8486


@click.command("inspect", help=_HELP, short_help="Look at recordings in a web page.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port to listen on, on 127.0.0.1; 0 picks a free port.",
)
def command(folder: Path, *, port: int) -> None:
    from dragoman.event_loop import new_event_loop

    if not folder.is_dir():
        raise click.BadParameter(f"there is no folder {folder}", param_hint="FOLDER")
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(folder, port))


async def _serve(folder: Path, port: int) -> None:
    """Serve until SIGINT or SIGTERM."""
    from aiohttp import web

    from dragoman.event_loop import on_signal
    from dragoman.gateway.config.settings import Server
    from dragoman.gateway.origins import refuse_page
    from dragoman.gateway.serve import bind
    from dragoman.inspector.access import EveryoneAccess
    from dragoman.inspector.api import PREFIX, Facts, Inspector

    server = Server(host="127.0.0.1", port=port)
    bound = bind(server.host, server.port)
    address = f"{server.host}:{bound.getsockname()[1]}"
    inspector = Inspector(
        folder,
        access=EveryoneAccess(),
        secret=os.urandom(32),
        facts=lambda: Facts(address=address, recording="off", folder=folder.name),
    )

    inspector.scan()

    async def handle(http: web.BaseRequest) -> web.StreamResponse:
        host = http.headers.get("host", "")
        fault = refuse_page(host=host, origin="", fetch_site="", method="GET", server=server)
        if fault is not None:
            return web.Response(status=403, text=fault.message)
        if http.path == "/":
            return web.Response(status=307, headers={"location": PREFIX})
        if http.path != PREFIX and not http.path.startswith(f"{PREFIX}/"):
            return web.Response(status=404)
        return await inspector.handle(http)

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        on_signal(number, stop.set)
    runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, bound).start()
        click.echo(f"dragoman: inspecting {folder} on http://{address}{PREFIX}")
        await stop.wait()
    finally:
        inspector.close()
        await runner.cleanup()
