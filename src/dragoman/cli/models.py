"""`dragoman models`: what clients of the gateway may ask for."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from dragoman.gateway.config.settings import Settings
    from dragoman.gateway.routing import Listed
    from dragoman.turn.events import Fault

_HELP: Final = """List the models that clients of the gateway may ask for, and who answers.

Upstreams whose settings list no models are asked for theirs, with the keys of the settings.

\b
Exit codes:
  0  every upstream told, or its settings did
  2  wrong usage or settings
  3  an upstream could not be asked; the others are listed all the same

\b
Examples:
  dragoman models
  dragoman models --upstream http://127.0.0.1:8000/v1 --json
"""
UPSTREAM_FAILED: Final = 3


@click.command("models", help=_HELP, short_help="List the models that clients may ask for.")
@click.option("--config", "path", type=click.Path(path_type=Path), help="The file of settings.")
@click.option("--upstream", metavar="URL", help="Ask this upstream instead of those of the file.")
@click.option(
    "--upstream-dialect",
    type=click.Choice(["chat", "anthropic", "responses"]),
    help="What it speaks.  [default: chat]",
)
@click.option("--upstream-key-env", metavar="VAR", help="The variable that holds its key.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(
    path: Path | None,
    *,
    upstream: str | None,
    upstream_dialect: str | None,
    upstream_key_env: str | None,
    as_json: bool,
) -> None:
    from dragoman.gateway.config.load import Flags, load

    flags = Flags(
        upstream=upstream, upstream_dialect=upstream_dialect, upstream_key_env=upstream_key_env
    )
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
    """Return the models of all upstreams, and why some could not be asked."""
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
    told: dict[str, list[str]] = {}
    faults: list[Fault] = []
    try:
        for hop in plan.router.upstreams():
            if hop.upstream.models:
                continue
            answer = await ask_models(connector, plan, hop)
            if isinstance(answer, Fault):
                faults.append(answer)
            else:
                told[hop.upstream_name] = answer
    finally:
        await connector.close()
    return plan.router.models(told), faults


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
        click.echo("no models: the routes take names by globs, and no upstream lists any")
        return
    width = max(len(one.name) for one in listed)
    for one in listed:
        facts = one.facts
        said = f"{one.name:{width}}  {one.owner}"
        if facts.context:
            said += f"  {facts.context} tokens"
        click.echo(said)
