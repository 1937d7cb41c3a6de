"""`dragoman formats`: the formats of tool calls that models write as text."""

import sys
from typing import Final

import click
import msgspec

from dragoman.toolcalls.formats import ALIASES, FORMATS

_HELP: Final = """List the formats in which models write tool calls as text.

Each row has the format's key with its other names, the models it belongs to, the text that opens a call,
and patterns of model ids.  Commands with a --format option accept a key, or `auto` to choose by the
model's id.

\b
Exit codes:
  0  printed
  2  wrong usage

\b
Examples:
  dragoman formats
  dragoman formats --json | jq 'select(.key == "kimi_k2")'
"""


@click.command("formats", help=_HELP, short_help="List the formats of tool calls written as text.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(*, as_json: bool) -> None:
    if as_json:
        for one in FORMATS.values():
            row = {
                "key": one.key,
                "aliases": _aliases(one.key),
                "description": one.description,
                "markers": one.opens,
                "models": one.models,
            }
            print(msgspec.json.encode(row).decode())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("key", "models", "opens with", "model ids"):
        table.add_column(title, overflow="fold", no_wrap=title == "key")
    for one in FORMATS.values():
        keys = "\n".join([one.key, *(f"  = {alias}" for alias in _aliases(one.key))])
        table.add_row(keys, one.description, "\n".join(one.opens), ", ".join(one.models))
    width = None if sys.stdout.isatty() else 140
    Console(markup=False, highlight=False, width=width).print(table)


def _aliases(key: str) -> list[str]:
    return [alias for alias, meant in ALIASES.items() if meant == key]
