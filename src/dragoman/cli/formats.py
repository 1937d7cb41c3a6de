"""`dragoman formats`: the families of tool calls that models write as text."""

import sys

import click
import msgspec

from dragoman.toolcalls.format import Do, Format
from dragoman.toolcalls.formats import FORMATS
from dragoman.toolcalls.scanner import OneOf, Pattern


@click.command(name="formats")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object a line")
def command(*, as_json: bool) -> None:
    """List the families: key, markers, and the ids of models that write them.

    A family is chosen by `--format KEY`, or by the model's id with `--format auto`.
    """
    rows = [(one, openers(one)) for one in FORMATS.values()]
    if as_json:
        for one, markers in rows:
            row = {"key": one.key, "says": one.says, "markers": markers, "models": one.models}
            print(msgspec.json.encode(row).decode())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("key", "models", "opens with", "model ids"):
        table.add_column(title, overflow="fold", no_wrap=title == "key")
    for one, markers in rows:
        table.add_row(one.key, one.says, "\n".join(markers), ", ".join(one.models))
    width = None if sys.stdout.isatty() else 140
    Console(markup=False, highlight=False, width=width).print(table)


def openers(family: Format) -> list[str]:
    """Return the literal texts that begin a call or a section of a family."""
    found: dict[str, None] = {}
    for rule in family.rules:
        if rule.do is Do.CALL or rule.section:
            for text in _beginnings(rule.pattern):
                found[text] = None
    return list(found)


def _beginnings(pattern: Pattern) -> list[str]:
    for element in pattern:
        if isinstance(element, str):
            return [element] if element.strip() else []
        if isinstance(element, OneOf):
            return [text for choice in element.choices for text in _beginnings(choice)]
    return []
