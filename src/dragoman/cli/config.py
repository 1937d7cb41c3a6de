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
from dragoman.gateway.config.environment import read_text
from dragoman.gateway.config.import_ccr import import_claude_code_router, without_comments
from dragoman.gateway.config.import_draft import Draft, Table
from dragoman.gateway.config.import_litellm import SECTIONS, import_litellm
from dragoman.gateway.config.load import FILE_NAME, Loaded, find_file, load
from dragoman.gateway.config.problems import ConfigMistakesError, Problem
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
  dragoman config import litellm.yaml --output dragoman.toml
"""

_CHECK_HELP: Final = """Check the settings and list all mistakes, each with what to write instead.

With --live every upstream is asked for its models, and one model of each for one token, with the
configured keys.  The table shows what answered and what does not work, with the reason.

\b
Exit codes:
  0  the settings are valid; prints a summary and one line for each warning
  1  the settings are not valid; prints one line for each mistake.
     With --live also: an upstream does not have a model that a route names
  2  there is no settings file, or wrong usage
  3  with --live: an upstream cannot be reached, refuses the key or fails

\b
Examples:
  dragoman config check
  dragoman config check --live
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

_IMPORT_HELP: Final = """Convert another gateway's configuration to a settings file.

FILE is LiteLLM's proxy configuration (`config.yaml`) or claude-code-router's `config.json`; its content
shows which.  YAML needs the extra `import`: `pip install 'dragoman[import]'`.

Keys are never copied.  A reference to an environment variable stays a reference; a key that is written in
FILE becomes `env:NAME`, and the variables to set are listed.  Settings that cannot be carried over are
listed on standard error and as comments in the new file.

\b
Exit codes:
  0  converted; read the list of settings that were not carried over
  2  FILE cannot be read, or is neither of the two, or no upstream can be carried over

\b
Examples:
  dragoman config import ~/.claude-code-router/config.json
  dragoman config import litellm.yaml --output dragoman.toml
"""

_VENDOR_LINES: Final = "\n".join(f"  {one.name:14}{one.description}" for one in VENDORS.values())
_Command = TypeVar("_Command", bound=Callable[..., None])


def _name_the_file(ctx: click.Context, _option: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.fail(f"the file is named without --config: {ctx.command_path} {value}")


# Other commands have it, so it is tried here too.
_no_config_option = click.option(
    "--config",
    hidden=True,
    expose_value=False,
    callback=_name_the_file,
    help="Not an option of this command: the file is an argument.",
)


@click.group("config", help=_HELP, short_help="Write, check and show the gateway's settings.")
def command() -> None:
    pass


def _file_argument(function: _Command) -> _Command:
    return click.argument("file", type=click.Path(path_type=Path), required=False)(function)


@command.command("check", help=_CHECK_HELP, short_help="Check the settings and list all mistakes.")
@_no_config_option
@click.option("--live", is_flag=True, help="Also ask every upstream for its models and one token.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1, max=600),
    default=30.0,
    show_default=True,
    help="Seconds to wait for the one token, with --live.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_file_argument
def check(file: Path | None, *, live: bool, timeout: float, as_json: bool) -> None:
    try:
        loaded = _load(file)
    except ConfigMistakesError as error:
        if as_json:
            verdict = {"good": False, "file": error.source, "mistakes": error.mistakes}
            click.echo(msgspec.json.encode(verdict))
        else:
            click.echo(str(error))
        sys.exit(1)
    verdict = {"good": True, "file": str(loaded.path), "warnings": loaded.warnings}
    if not as_json:
        click.echo(_summary(loaded))
        for warning in loaded.warnings:
            click.echo(f"  warning: {warning}")
    code = 0
    if live:
        from dragoman.cli.live_check import ask_upstreams, exit_code, print_rows

        rows = ask_upstreams(loaded.settings, seconds=timeout)
        code = exit_code(rows)
        verdict |= {"good": code == 0, "upstreams": rows}
        if not as_json:
            print_rows(rows)
    if as_json:
        click.echo(msgspec.json.encode(verdict))
    sys.exit(code)


@command.command("show", help=_SHOW_HELP, short_help="Show the effective settings.")
@_no_config_option
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
    if output != "-":
        _refuse_existing(path, force=force)
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


@command.command("import", help=_IMPORT_HELP, short_help="Convert another gateway's configuration.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--output", "-o", default="-", help="The file to write.  [default: standard output]")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def import_file(file: Path, *, output: str, force: bool) -> None:
    path = Path(output)
    if output != "-":
        _refuse_existing(path, force=force)
    draft, text = _convert(file)
    if output == "-":
        click.echo(text, nl=False)
    else:
        _write(path, text)
        click.echo(f"wrote {path}", err=True)
    _report(draft)


def _refuse_existing(path: Path, *, force: bool) -> None:
    if path.exists() and not force:
        raise ConfigError(
            f"{path} exists; overwrite it with --force, or choose another file with --output"
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
        _counted(count, noun)
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


# --- files of other gateways ---


def _convert(file: Path) -> tuple[Draft, str]:
    """Return the draft of a file, and its text.

    Raises:
        ConfigError: the file cannot be read or is of an unknown kind, or no upstream can be carried over.
    """
    text = read_text(file)
    if isinstance(text, Problem):
        raise ConfigError(text.message)
    document = _document(text, file)
    sections = [name for name in SECTIONS if name in document]
    is_litellm = bool(sections)
    if not is_litellm and not {"Providers", "providers", "Router"} & document.keys():
        raise ConfigError(
            f"{file}: neither LiteLLM's configuration (no `model_list`) nor claude-code-router's "
            "(no `Providers`)"
        )
    kind = "LiteLLM" if is_litellm else "claude-code-router"
    draft = Draft(kind, str(file), environ=os.environ, folder=file.resolve().parent)
    (import_litellm if is_litellm else import_claude_code_router)(document, draft)
    return draft, draft.text()


def _report(draft: Draft) -> None:
    """Print what was converted, what to set and what was not carried over."""
    click.echo(
        f"{draft.kind}: carried over {_counted(len(draft.upstreams), 'upstream')} and "
        f"{_counted(len(draft.routes), 'route')}; not carried over: "
        f"{_counted(len(draft.lost), 'setting')}",
        err=True,
    )
    for name, path in draft.variables.items():
        click.echo(f"  set: export {name}=… (the key at {path})", err=True)
    for one in draft.lost:
        click.echo(f"  not carried over: {one}", err=True)


def _counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _document(text: str, file: Path) -> Table:
    """Return the content of a JSON or YAML file."""
    try:
        document = msgspec.json.decode(without_comments(text))
    except (msgspec.DecodeError, RecursionError) as error:
        if file.suffix == ".json" or text.lstrip()[:1] in ("{", "["):
            raise ConfigError(f"{file}: not JSON: {error}") from error
        document = _yaml(text, file)
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: expected a table of settings")
    return {str(name): value for name, value in document.items()}


def _yaml(text: str, file: Path) -> object:
    try:
        return msgspec.yaml.decode(text)
    except ImportError as error:
        raise ConfigError(
            f"{file}: reading YAML needs PyYAML; install it with `pip install 'dragoman[import]'`"
        ) from error
    except (msgspec.DecodeError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise ConfigError(f"{file}: not YAML: {problem}") from error
