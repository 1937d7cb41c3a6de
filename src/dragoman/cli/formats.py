"""`dragoman formats`: the families of tool calls that models write as text."""

import sys

import click
import msgspec

from dragoman.toolcalls.formats import ALIASES, FORMATS


@click.command(name="formats")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object a line")
def command(*, as_json: bool) -> None:
    """List the families: key and other names, markers, and the ids of models that write them.

    A family is chosen by `--format KEY`, or by the model's id with `--format auto`.
    """
    if as_json:
        for one in FORMATS.values():
            row = {
                "key": one.key,
                "aliases": _aliases(one.key),
                "says": one.description,
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
