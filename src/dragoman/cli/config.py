"""`dragoman config`: write, check and show the gateway's settings."""

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

_HELP: Final = """Write, check and show the gateway's settings.

The settings are one TOML file: FILE if you name one, else $DRAGOMAN_CONFIG, else ./dragoman.toml, else
`dragoman/dragoman.toml` in $XDG_CONFIG_HOME or ~/.config.  Environment variables that it refers to may
also be set in a file `.env` next to it.

\b
Examples:
  dragoman config init --vendor openrouter
  dragoman config check
  dragoman config show
"""

_CHECK_HELP: Final = """Check the settings and list all mistakes, each with what to write instead.

\b
Exit codes:
  0  the settings are valid; prints a summary and one line for each warning
  1  the settings are not valid; prints one line for each mistake
  2  there is no settings file, or wrong usage

\b
Examples:
  dragoman config check
  dragoman config check deploy/dragoman.toml --json | jq .mistakes
"""

_SHOW_HELP: Final = """Show the effective settings: the file, overridden by environment variables.

Settings that have their default value are left out unless you pass --defaults.  Of a secret only its
source is shown and whether it is set, never its value.

\b
Exit codes:
  0  printed
  2  there is no settings file, it is not valid, or wrong usage

\b
Examples:
  dragoman config show
  dragoman config show --defaults deploy/dragoman.toml
  dragoman config show --json | jq .upstreams
"""

_INIT_HELP: Final = """Write a first settings file for a vendor, with comments on what to change next.

At a terminal it prompts for a missing --vendor and --model.  An existing file is only overwritten with
--force.

\b
Exit codes:
  0  the file was written
  2  the file exists or cannot be written, the vendor is unknown, or wrong usage

\b
Vendors:
{vendors}

\b
Examples:
  dragoman config init
  dragoman config init --vendor openrouter --model moonshotai/kimi-k2-thinking
  dragoman config init --vendor vllm --base-url http://gpu:8000/v1 --output -
"""

_VENDOR_LINES: Final = "\n".join(f"  {one.name:14}{one.description}" for one in VENDORS.values())
_Command = TypeVar("_Command", bound=Callable[..., None])


@click.group("config", help=_HELP, short_help="Write, check and show the gateway's settings.")
def command() -> None:
    pass


def _file_argument(function: _Command) -> _Command:
    return click.argument("file", type=click.Path(path_type=Path), required=False)(function)


@command.command("check", help=_CHECK_HELP, short_help="Check the settings and list all mistakes.")
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


@command.command("show", help=_SHOW_HELP, short_help="Show the effective settings.")
@click.option("--defaults", is_flag=True, help="Also show keys that have their default value.")
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
    "init", help=_INIT_HELP.format(vendors=_VENDOR_LINES), short_help="Write a first settings file."
)
@click.option("--vendor", help="The vendor or server; see the list above.")
@click.option("--model", help="The vendor's name for the model.")
@click.option(
    "--dialect", type=click.Choice(DIALECT_NAMES), help="The dialect to use with the vendor."
)
@click.option("--base-url", help="The server's base URL.  [default: the vendor's]")
@click.option(
    "--output", "-o", default=FILE_NAME, show_default=True, help="The file to write; `-` prints it."
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
        raise ConfigError(
            f"{path} exists; overwrite it with --force, or choose another file with --output"
        )
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    if vendor is None:
        if not asks:
            raise ConfigError(f"--vendor is missing; choose one of {', '.join(VENDORS)}")
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
            f"there is no {FILE_NAME} in this folder or in your configuration folder; "
            "write one with `dragoman config init`"
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
    return f"valid: {loaded.path}: {counts}"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error
