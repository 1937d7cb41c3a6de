"""`dragoman simulate`: a simulated model over HTTP."""

import asyncio
import signal
from pathlib import Path
from typing import Final

import click

from dragoman.event_loop import new_event_loop, on_signal
from dragoman.simulator.server import DEFAULT_HOST, DEFAULT_PORT, Simulator

_HELP: Final = """Run a simulated model: a server that needs no key and no network, and is deterministic.

It serves Chat Completions, Messages, Responses and Gemini, with and without streaming, and returns the same
bytes for the same request.  Without tools the model replies with text.  With tools it calls one, with arguments that fit
its schema, and replies with text once it has the result.

The model's name selects the behaviour: `sim/plain` makes structured calls, `sim/kimi-k2` and the other
families write calls as text in their own format, and quirks are added with a plus sign:
`sim/kimi-k2+chunk:byte`, `sim/plain+cut:300`.  A line such as `sim: call NAME {"json": "arguments"}` in the
user's message sets the exact reply.

\b
Exit codes:
  0  stopped by Ctrl-C or SIGTERM
  2  wrong usage, a script that is not valid, or the port is in use

\b
Examples:
  dragoman simulate
  dragoman simulate --port 9000 --script replies.toml
  dragoman simulate --list
  curl -s localhost:8485/v1/messages -d '{"model": "sim/plain", "max_tokens": 99,
       "messages": [{"role": "user", "content": "Hello"}]}'
"""


@click.command("simulate", help=_HELP, short_help="Run a simulated model, offline.")
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port to listen on; 0 picks a free port.",
)
@click.option(
    "--script",
    type=click.Path(path_type=Path),
    help="A TOML or JSON file of fixed replies; the first that matches a request is used.",
)
@click.option("--list", "listed", is_flag=True, help="List the model names and quirks, and exit.")
def command(host: str, port: int, script: Path | None, *, listed: bool) -> None:
    if listed:
        _print_names()
        return
    from dragoman.simulator.script import load_script

    loaded = load_script(script) if script is not None else None
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(Simulator(host, port, loaded)))


async def _serve(simulator: Simulator) -> None:
    """Serve until SIGINT or SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        on_signal(number, stop.set)
    async with simulator:
        click.echo(f"dragoman: simulating a model on {simulator.url}")
        await stop.wait()


def _print_names() -> None:
    from dragoman.simulator.model_names import PLAIN, PREFIX
    from dragoman.simulator.native import FAMILIES
    from dragoman.simulator.quirks import QUIRKS
    from dragoman.toolcalls.formats import FORMATS

    click.echo(f"A model's name is {PREFIX}BASE[+QUIRK[:VALUE]]…\n\nBases")
    rows = {PLAIN: "structured calls"}
    rows |= {key.replace("_", "-"): FORMATS[key].description for key in FAMILIES}
    _print_rows(rows)
    click.echo("  or the id of any model of these families, such as glm-4.6\n\nQuirks")
    _print_rows({quirk.usage: quirk.description for quirk in QUIRKS.values()})


def _print_rows(rows: dict[str, str]) -> None:
    width = max(map(len, rows))
    for name, description in rows.items():
        click.echo(f"  {name:{width}}  {description}")
