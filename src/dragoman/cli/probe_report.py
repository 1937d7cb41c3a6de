"""What `dragoman probe` prints, and the profile and upstream that it saves."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from dragoman.cli.probe_target import Chosen
from dragoman.gateway.config.render import NewProfile, NewUpstream
from dragoman.probe.run import Report
from dragoman.profiles.catalogue import PROFILES

if TYPE_CHECKING:
    from dragoman.probe.finding import Check, Fact

_COLOURS: Final = {"ok": "green", "quirk": "yellow", "fails": "bold red", "unknown": "dim"}
_WIDTH: Final = 120  # where there is no terminal
_UNFIT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9-]+")


@contextmanager
def progress(total: int) -> "Iterator[Callable[[Check], object]]":
    """Show a progress bar, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _check: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        begun = False

        def before(check: "Check") -> None:
            nonlocal begun
            bar.update(task, description=check.name, advance=int(begun))
            begun = True

        yield before


def print_report(report: Report, *, base: str, to_stderr: bool) -> None:
    """Print the report as a table, with colours on a terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(stderr=to_stderr, highlight=False)
    if not console.is_terminal:
        console = Console(stderr=to_stderr, highlight=False, width=_WIDTH, color_system=None)
    table = Table(box=box.SIMPLE, pad_edge=False)
    for title in ("check", "verdict", "found", "profile"):
        table.add_column(title, overflow="fold", no_wrap=title in ("check", "verdict"))
    asked = [row for row in report.checks if row.found != "not asked"]
    for row in asked:
        implied = _facts(row.implies)
        colour = _COLOURS[row.verdict]
        table.add_row(Text(row.name), Text(row.verdict, style=colour), Text(row.found),
                      Text(implied))  # fmt: skip
    console.print(table)
    counts = {one: sum(row.verdict == one for row in asked) for one in _COLOURS}
    verdicts = ", ".join(f"{count} {one}" for one, count in counts.items() if count)
    console.print(
        Text(
            f"{report.model or 'no model'} at {report.url} ({report.dialect}): {verdicts}; "
            f"{_many(report.requests, 'request')}, {_many(report.output_tokens, 'output token')} reported"
        ),
        soft_wrap=True,
    )
    if report.outcome != "unreachable":
        console.print(Text(_conclusion(report, base)), soft_wrap=True)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _conclusion(report: Report, base: str) -> str:
    """Return how the settings should differ."""
    if not report.profile:
        line = f"no differences from the profile `{base}`"
    else:
        line = f"differs from the profile `{base}` (save with --write): {_facts(report.profile)}"
    if report.format:
        line += f"; the model writes calls as text: format = {report.format}"
    return line


def _facts(facts: "Mapping[str, Fact]") -> str:
    return ", ".join(f"{name} = {_shown(value)}" for name, value in facts.items())


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- saving ---


def new_profile(found: Chosen, report: Report, name: str) -> NewProfile:
    """Return the profile for the differences in a report."""
    wanted = (name or found.upstream or _host_name(report.url)).lower()
    if wanted in PROFILES:
        wanted = f"{wanted}-probed"
    remark = f"What `dragoman probe` found at {report.url}, model {report.model}."
    if report.format:
        remark += f'\nIt writes calls as text: set format = "{report.format}".'
    return NewProfile(name=wanted, base=found.base, facts=report.profile, remark=remark)


def new_upstream(found: Chosen, report: Report) -> NewUpstream:
    """Return the upstream for a file that has none."""
    known = found.family == report.format or not report.format
    return NewUpstream(
        base_url=report.url,
        dialect=report.dialect,
        key=found.key,
        format="" if known else report.format,
    )


def _host_name(url: str) -> str:
    host = urlsplit(url).hostname or "probed"
    plain = _UNFIT_IN_NAME.sub("-", host).strip("-")
    return plain if plain and not plain[0].isdigit() else "probed"
