"""`dragoman models`: the models that clients of the gateway can request."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dragoman.cli.options import address_options

if TYPE_CHECKING:
    from dragoman.gateway.config.load import Flags
    from dragoman.gateway.config.settings import Settings
    from dragoman.gateway.routing import Listed
    from dragoman.turn.events import Fault

_HELP: Final = """List the models that clients of the gateway can request, each with its upstream.

An upstream whose settings list no models is asked for its list, with its configured key.  Without
settings and --upstream the models of the built-in simulator are listed.

\b
Exit codes:
  0  all models were listed
  2  wrong usage or settings
  3  an upstream could not be reached; the models of the others are listed

\b
Examples:
  dragoman models
  dragoman models --upstream http://127.0.0.1:8000/v1 --json
"""
UPSTREAM_FAILED: Final = 3


@click.command("models", help=_HELP, short_help="List the models that clients can request.")
@address_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(
    path: Path | None,
    *,
    flags: "Flags",
    as_json: bool,
) -> None:
    from dragoman.gateway.config.load import load

    settings = load(path, environ=os.environ, cwd=Path.cwd(), flags=flags).settings
    listed, faults = asyncio.run(list_models(settings))
    if as_json:
        _print_json(listed)
    elif listed or not faults:
        _print_table(listed)
    for fault in faults:
        click.echo(f"dragoman: {fault.message}", err=True)
    if faults:
        click.get_current_context().exit(UPSTREAM_FAILED)


async def list_models(settings: "Settings") -> "tuple[tuple[Listed, ...], list[Fault]]":
    """Return the models of all upstreams, and a fault for each upstream that could not be reached."""
    from dragoman.cli.serve import simulated
    from dragoman.gateway.keys import Keyring
    from dragoman.gateway.models import ask_models
    from dragoman.gateway.plan import Plan
    from dragoman.transport import Connector
    from dragoman.turn.events import Fault

    if not settings.upstreams:
        async with simulated(settings) as changed:
            return await list_models(changed)
    plan = Plan(settings, seal_key=b"", keyring=Keyring(()))
    connector = Connector()
    listed_models: dict[str, list[str]] = {}
    faults: list[Fault] = []
    try:
        for hop in plan.router.upstreams():
            if hop.upstream.models:
                continue
            answer = await ask_models(connector, plan, hop)
            if isinstance(answer, Fault):
                faults.append(answer)
            else:
                listed_models[hop.upstream_name] = answer
    finally:
        await connector.close()
    return plan.router.models(listed_models), faults


def _print_json(listed: "tuple[Listed, ...]") -> None:
    import msgspec

    for one in listed:
        facts = one.facts
        row = {
            "id": one.name,
            "upstream": one.owner,
            "context": facts.context,
            "output": facts.output,
        }
        click.echo(msgspec.json.encode(row))


def _print_table(listed: "tuple[Listed, ...]") -> None:
    if not listed:
        click.echo(
            "no models: the routes match names by pattern, and no upstream lists its models; "
            "add `models` to an upstream in the settings"
        )
        return
    width = max(len(one.name) for one in listed)
    for one in listed:
        facts = one.facts
        line = f"{one.name:{width}}  {one.owner}"
        if facts.context:
            line += f"  {facts.context} tokens"
        click.echo(line)
