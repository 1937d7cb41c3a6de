"""`dragoman config`: write, judge and show the gateway's settings."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import click
import msgspec

from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import ConfigError
from dragoman.gateway.config.load import FILE_NAME, Loaded, find_file, load
from dragoman.gateway.config.problems import ConfigMistakesError
from dragoman.gateway.config.render import chosen_vendor, first_file, plain, toml_text
from dragoman.gateway.config.vendors import VENDORS

_HELP: Final = """Write, judge and show the gateway's settings.

They are one TOML file, `dragoman.toml`: FILE if it is named, else the one in this folder, else
`dragoman/dragoman.toml` in $XDG_CONFIG_HOME or ~/.config.  Variables of the environment may stand in a
file `.env` beside it.
"""

_CHECK_HELP: Final = """Look for mistakes in the settings: all at once, each with what to write instead.

\b
Exit codes:
  0  the settings can be used; one line says what was found, then warnings, one a line
  1  they cannot; every mistake is a line
  2  there is no file, or wrong usage

\b
Examples:
  dragoman config check
  dragoman config check deploy/dragoman.toml --json | jq .mistakes
"""

_SHOW_HELP: Final = """Show the settings in force: the file, with variables of the environment over it.

What is as by default is left out, unless --defaults asks for it.  A secret shows as where it comes from
and whether it is there, never as itself.

\b
Examples:
  dragoman config show
  dragoman config show --defaults deploy/dragoman.toml
  dragoman config show --json | jq .upstreams
"""

_INIT_HELP: Final = """Write a first file for a vendor, with comments on what to change next.

On a terminal it asks for what the flags do not say.  A file that exists is kept unless --force is given.

\b
Vendors:
{vendors}

\b
Examples:
  dragoman config init
  dragoman config init --vendor openrouter --model moonshotai/kimi-k2-thinking
  dragoman config init --vendor vllm --base-url http://gpu:8000/v1 --output -
"""

_VENDOR_LINES: Final = "\n".join(f"  {one.name:14}{one.says}" for one in VENDORS.values())
_Command = TypeVar("_Command", bound=Callable[..., None])


@click.group("config", help=_HELP, short_help="Write, judge and show the gateway's settings.")
def command() -> None:
    pass


def _file_argument(function: _Command) -> _Command:
    return click.argument("file", type=click.Path(path_type=Path), required=False)(function)


@command.command("check", help=_CHECK_HELP, short_help="Look for mistakes in the settings.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_file_argument
def check(file: Path | None, *, as_json: bool) -> None:
    try:
        loaded = _load(file)
    except ConfigMistakesError as error:
        if as_json:
            verdict = {"good": False, "file": error.source, "mistakes": error.mistakes}
            click.echo(msgspec.json.encode(verdict))
        else:
            click.echo(str(error))
        sys.exit(1)
    if as_json:
        verdict = {"good": True, "file": str(loaded.path), "warnings": loaded.warnings}
        click.echo(msgspec.json.encode(verdict))
        return
    click.echo(_summary(loaded))
    for warning in loaded.warnings:
        click.echo(f"  warning: {warning}")


@command.command("show", help=_SHOW_HELP, short_help="Show the settings in force.")
@click.option("--defaults", is_flag=True, help="Show every key, also what is as by default.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with every key.")
@_file_argument
def show(file: Path | None, *, defaults: bool, as_json: bool) -> None:
    loaded = _load(file, need_secrets=False)
    if as_json:
        click.echo(msgspec.json.encode(plain(loaded.settings)))
        return
    click.echo(f"# {loaded.path}")
    click.echo(toml_text(loaded.settings, defaults=defaults), nl=False)


@command.command(
    "init", help=_INIT_HELP.format(vendors=_VENDOR_LINES), short_help="Write a first file."
)
@click.option("--vendor", help="Who answers; see the list above.")
@click.option("--model", help="The model as the vendor calls it.")
@click.option("--dialect", type=click.Choice(DIALECT_NAMES), help="What is spoken to the vendor.")
@click.option("--base-url", help="The server's address, if it is not the usual one.")
@click.option(
    "--output", "-o", default=FILE_NAME, show_default=True, help="The file; `-`: print it."
)
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def init(  # noqa: PLR0913 -- one for each flag
    *,
    vendor: str | None,
    model: str | None,
    dialect: str | None,
    base_url: str | None,
    output: str,
    force: bool,
) -> None:
    path = Path(output)
    if output != "-" and path.exists() and not force:
        raise ConfigError(f"{path} exists; --force overwrites it, --output names another")
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    if vendor is None:
        if not asks:
            raise ConfigError(f"who answers? --vendor is one of {', '.join(VENDORS)}")
        click.echo(_VENDOR_LINES, err=True)
        vendor = click.prompt("Vendor", default="openrouter", err=True)
    chosen = chosen_vendor(vendor)
    if model is None and asks:
        model = click.prompt("Model", default=chosen.model, err=True)
    text = first_file(
        chosen.name,
        model=model or "",
        dialect=dialect,
        base_url=base_url or "",
    )
    if output == "-":
        click.echo(text, nl=False)
        return
    _write(path, text)
    click.echo(f"wrote {path}", err=True)
    if chosen.key_variable and not os.environ.get(chosen.key_variable):
        click.echo(
            f"next: export {chosen.key_variable}=… (or put it into {path.parent / '.env'}), "
            "then `dragoman serve`",
            err=True,
        )


def _load(file: Path | None, *, need_secrets: bool = True) -> Loaded:
    cwd = Path.cwd()
    if file is None and find_file(os.environ, cwd) is None:
        raise ConfigError(
            f"there is no {FILE_NAME} here or in the folder for settings; "
            "`dragoman config init` writes one"
        )
    return load(file, environ=os.environ, cwd=cwd, need_secrets=need_secrets)


def _summary(loaded: Loaded) -> str:
    settings = loaded.settings
    counts = ", ".join(
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in (
            (len(settings.upstreams), "upstream"),
            (len(settings.routes), "route"),
            (len(loaded.warnings), "warning"),
        )
    )
    return f"good: {loaded.path}: {counts}"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error
