"""Tables and progress bars for people; `rich` is imported when one is drawn."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH: Final = 120  # where there is no terminal


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], object]]:
    """Show a progress bar on a terminal; yield a function that is called with the name of each step that begins."""
    if not sys.stderr.isatty():
        yield lambda _step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        begun = False

        def before(step: str) -> None:
            nonlocal begun
            bar.update(task, description=step, advance=int(begun))
            begun = True

        yield before


def table_console(*, to_stderr: bool = False) -> "Console":
    """Return a console: with colours on a terminal, else plain and of a fixed width."""
    from rich.console import Console

    console = Console(stderr=to_stderr, highlight=False)
    if console.is_terminal:
        return console
    return Console(stderr=to_stderr, highlight=False, width=_WIDTH, color_system=None)


def print_table(
    console: "Console",
    titles: Sequence[str],
    rows: Sequence[Sequence[str | tuple[str, str]]],
    *,
    fixed: Sequence[str] = (),
) -> None:
    """Print rows of cells; a cell is a text, or a text and its colour.  Columns in `fixed` are never wrapped."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold", no_wrap=title in fixed)
    for row in rows:
        table.add_row(*(Text(*((cell,) if isinstance(cell, str) else cell)) for cell in row))
    console.print(table)
