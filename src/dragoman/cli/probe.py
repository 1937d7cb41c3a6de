"""`dragoman probe`: test what an upstream gets right and wrong."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

from dragoman.cli.options import connection_options
from dragoman.cli.tables import print_table, progress, table_console
from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.cli.probe_target import Chosen
    from dragoman.gateway.config.load import Flags
    from dragoman.gateway.config.render import NewProfile, NewUpstream
    from dragoman.probe.finding import Check, Fact
    from dragoman.probe.run import Report

_HELP: Final = """Send an upstream a series of small requests and report what it gets right and wrong.

URL is the upstream's base URL, without `/chat/completions` and the like; NAME is an upstream in the
settings file.  Without either, the only upstream of the settings is probed, and without settings the
built-in simulator.  Without --model the first model of its routes is used, or of the upstream's own list.

The responses cost tokens.  The command prints the maximum and asks for confirmation before it starts;
--yes skips the question, and is required without a terminal.

--write adds a profile with all differences to the settings file, and sets `profile` and, if the model
writes calls as text in a format that its name does not imply, `format` of the upstream.

\b
Exit codes:
  0  the upstream was probed; deviations (quirks) are not failures
  1  something essential fails: no tool calls at all, or answers that break the dialect
  2  wrong usage or settings, or the probe was not confirmed
  3  the upstream cannot be reached, or rejects the key

\b
Examples:
  dragoman probe http://127.0.0.1:8000/v1 --model qwen3-coder-30b --yes
  dragoman probe https://openrouter.ai/api/v1 --model z-ai/glm-4.7 --key-env OPENROUTER_API_KEY
  dragoman probe local --write
  dragoman probe local --only tools-auto,native,schema --json --yes | jq .checks
  dragoman probe --list
"""
_EXIT: Final = {"good": 0, "bad": 1, "unreachable": 3}
_PRINT: Final = "-"  # of --write: print it
_USUAL_NAME: Final = "\0"  # of --write: none was given
_COLOURS: Final = {"ok": "green", "quirk": "yellow", "fails": "bold red", "unknown": "dim"}
_UNFIT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9-]+")


@click.command("probe", help=_HELP, short_help="Test what an upstream gets right and wrong.")
@click.argument("where", metavar="[URL|NAME]", required=False)
@click.option("--model", help="The upstream's name for the model.")
@click.option(
    "--dialect",
    type=click.Choice(DIALECT_NAMES),
    help="The upstream's dialect.  [default: from the settings, else chat]",
)
@click.option("--key-env", metavar="VAR", help="The environment variable that holds its key.")
@click.option(
    "--no-key", is_flag=True, help="Send no key, also to a vendor that usually needs one."
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="A header to send; may be repeated.",
)
@connection_options
@click.option("--config", "path", type=click.Path(path_type=Path), help="The settings file.")
@click.option("--only", metavar="NAME,…", help="Run only these checks.")
@click.option("--list", "listed", is_flag=True, help="List the checks and exit.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    help="Seconds to wait for one response.",
)
@click.option("--yes", "-y", is_flag=True, help="Start without asking for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--write",
    "name",
    is_flag=False,
    flag_value=_USUAL_NAME,
    metavar="[NAME]",
    help="Save the result as a profile; `-` prints it.  Put this option after the URL.",
)
def command(  # noqa: PLR0913 -- one for each flag
    where: str | None,
    *,
    model: str | None,
    dialect: str | None,
    key_env: str | None,
    no_key: bool,
    headers: tuple[str, ...],
    flags: "Flags",
    path: Path | None,
    only: str | None,
    listed: bool,
    timeout: float,
    yes: bool,
    as_json: bool,
    name: str | None,
) -> None:
    if listed:
        _print_checks()
        return
    from dragoman.cli.probe_target import Wanted, chosen
    from dragoman.probe import run as running

    if name == _PRINT and as_json:
        raise click.UsageError(
            "--json and `--write -` both print to standard output; use one of them"
        )
    if name and "://" in name:
        raise click.UsageError(
            "--write took the URL as the profile's name; put --write after the URL"
        )
    wanted = Wanted(
        where=where,
        model=model,
        dialect=dialect,
        key_env=key_env,
        no_key=no_key,
        headers=headers,
        flags=flags,
    )
    found = chosen(wanted, path, timeout=timeout, environ=os.environ, cwd=Path.cwd())
    names = [one.strip() for one in (only or "").split(",") if one.strip()]
    checks = running.chosen(names, found.peer.dialect)
    _confirm(found, checks, yes=yes)
    report = asyncio.run(_run(found, checks))
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(report))
    else:
        _print_report(report, base=found.base, to_stderr=name == _PRINT)
    if name is not None and report.outcome != "unreachable":
        _write(found, report, "" if name == _USUAL_NAME else name)
    click.get_current_context().exit(_EXIT[report.outcome])


def _confirm(found: "Chosen", checks: "tuple[Check, ...]", *, yes: bool) -> None:
    """Print what the probe may cost, and ask for confirmation."""
    from dragoman.probe.run import cost

    most = cost(checks, found.peer.dialect)
    click.echo(
        f"dragoman: about {most.requests} requests to {found.shown}, "
        f"with at most {most.output_tokens} output tokens in total",
        err=True,
    )
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError("there is no terminal to ask for confirmation; pass --yes to start")
    if not click.confirm("Continue?", default=True, err=True):
        raise ConfigError("cancelled; no request was sent")


async def _run(found: "Chosen", checks: "tuple[Check, ...]") -> "Report":
    from msgspec import structs

    from dragoman.probe.run import run
    from dragoman.transport import Connector

    connector = Connector()
    try:
        async with _simulated(found) as url:
            peer = structs.replace(found.peer, url=url)
            with progress(len(checks)) as before:
                return await run(peer, checks, connector, before=lambda one: before(one.name))
    finally:
        await connector.close()


@asynccontextmanager
async def _simulated(found: "Chosen") -> "AsyncIterator[str]":
    """Run the simulator during the probe if it is the target; yield the upstream's URL."""
    if not found.simulated:
        yield found.peer.url
        return
    from dragoman.simulator.server import Simulator

    async with Simulator(port=0) as simulator:
        yield f"{simulator.url}/v1"


def _print_checks() -> None:
    from dragoman.probe.checks import CHECKS

    width = max(map(len, CHECKS))
    for check in CHECKS.values():
        spoken = "" if len(check.dialects) > 2 else f"  ({', '.join(check.dialects)})"
        click.echo(f"{check.name:{width}}  {check.asks}{spoken}")


# --- what is printed ---


def _print_report(report: "Report", *, base: str, to_stderr: bool) -> None:
    """Print the report as a table, with colours on a terminal."""
    from rich.text import Text

    console = table_console(to_stderr=to_stderr)
    asked = [row for row in report.checks if row.found != "not asked"]
    rows = [
        (row.name, (row.verdict, _COLOURS[row.verdict]), row.found, _facts(row.implies))
        for row in asked
    ]
    print_table(console, ("check", "verdict", "found", "profile"), rows, fixed=("check", "verdict"))
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


def _conclusion(report: "Report", base: str) -> str:
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
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- what is saved ---


def _write(found: "Chosen", report: "Report", name: str) -> None:
    """Save the profile, or print it."""
    from dragoman.gateway.config.render import add_profile, profile_table, write_file

    profile = _new_profile(found, report, "" if name == _PRINT else name)
    if name == _PRINT:
        click.echo(profile_table(profile), nl=False)
        return
    text = found.file.read_text("utf-8") if found.file.exists() else ""
    new = None if text.strip() or found.simulated else _new_upstream(found, report)
    family = "" if found.family == report.format else report.format
    whole, used = add_profile(text, profile, upstream=found.upstream, family=family, new=new)
    write_file(found.file, whole)
    click.echo(f"dragoman: wrote profile `{profile.name}` into {found.file}", err=True)
    setting = f'format = "{family}"'
    if not used:
        wanted = f'profile = "{profile.name}"' + (f" and {setting}" if family else "")
        click.echo(f"dragoman: to use it, set {wanted} in the upstream", err=True)
    elif family:
        where = found.upstream or profile.name
        click.echo(
            f"dragoman: the model writes calls as text; set {setting} in upstream `{where}`",
            err=True,
        )


def _new_profile(found: "Chosen", report: "Report", name: str) -> "NewProfile":
    """Return the profile for the differences in a report."""
    from dragoman.gateway.config.render import NewProfile
    from dragoman.profiles.catalogue import PROFILES

    wanted = (name or found.upstream or _host_name(report.url)).lower()
    if wanted in PROFILES:
        wanted = f"{wanted}-probed"
    remark = f"What `dragoman probe` found at {report.url}, model {report.model}."
    if report.format:
        remark += f'\nIt writes calls as text: format = "{report.format}" of the upstream.'
    return NewProfile(name=wanted, base=found.base, facts=report.profile, remark=remark)


def _new_upstream(found: "Chosen", report: "Report") -> "NewUpstream":
    """Return the upstream for a file that has none."""
    from dragoman.gateway.config.render import NewUpstream

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
