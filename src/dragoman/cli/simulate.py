"""`dragoman simulate`: an offline model on a socket."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from dragoman.simulator.server import DEFAULT_HOST, DEFAULT_PORT, Simulator

_HELP: Final = """Play a model: a server that answers without a key, a network or chance.

It speaks Chat Completions, Messages and Responses, streaming and not, and answers the same bytes to the
same request.  Without tools it answers with text; with tools it calls one, by its schema; once they
have answered it ends with text.

The model's name says how: `sim/plain` makes structural calls, `sim/kimi-k2` and every other family
writes them as text in its own grammar, and quirks are added with a plus: `sim/kimi-k2+chunk:byte`,
`sim/plain+cut:300`.  Lines such as `sim: call NAME {"json": "arguments"}` in the user's text say exactly
what it answers.

\b
Exit codes:
  0  it was stopped, by Ctrl-C or SIGTERM
  2  wrong usage, a wrong script, or the port is in use

\b
Examples:
  dragoman simulate
  dragoman simulate --port 9000 --script replies.toml
  dragoman simulate --list
  curl -s localhost:8485/v1/messages -d '{"model": "sim/plain", "max_tokens": 99,
       "messages": [{"role": "user", "content": "Hello"}]}'
"""


@click.command("simulate", help=_HELP, short_help="Play a model, offline.")
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="The address to serve on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port to serve on; 0 takes any free one.",
)
@click.option(
    "--script",
    type=click.Path(path_type=Path),
    help="A TOML or JSON file of exact replies, tried in order before the model's own.",
)
@click.option(
    "--list", "listed", is_flag=True, help="List bases and quirks of model names and exit."
)
def command(host: str, port: int, script: Path | None, *, listed: bool) -> None:
    if listed:
        _print_names()
        return
    from dragoman.simulator.script import load_script

    loaded = load_script(script) if script is not None else None
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(Simulator(host, port, loaded)))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not on every platform
        return None
    return uvloop.new_event_loop


async def _serve(simulator: Simulator) -> None:
    """Serve until a signal comes."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    async with simulator:
        click.echo(f"dragoman: simulating a model on {simulator.url}")
        await stop.wait()


def _print_names() -> None:
    from dragoman.simulator.model_names import PLAIN, PREFIX
    from dragoman.simulator.native import FAMILIES
    from dragoman.simulator.quirks import QUIRKS
    from dragoman.toolcalls.formats import FORMATS

    click.echo(f"A model's name is {PREFIX}BASE[+QUIRK[:VALUE]]…\n\nBases")
    rows = {PLAIN: "structural calls"}
    rows |= {key.replace("_", "-"): FORMATS[key].description for key in FAMILIES}
    _print_rows(rows)
    click.echo("  and the id of any model of these families, such as glm-4.6\n\nQuirks")
    _print_rows({quirk.usage: quirk.says for quirk in QUIRKS.values()})


def _print_rows(rows: dict[str, str]) -> None:
    width = max(map(len, rows))
    for name, says in rows.items():
        click.echo(f"  {name:{width}}  {says}")
