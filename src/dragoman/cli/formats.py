"""`dragoman formats`: the formats of tool calls that models write as text; `check`: tests a format of the user."""

import importlib
import importlib.util
import os
import pkgutil
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Final

import click
import msgspec

from dragoman.cli.options import config_option, own_formats
from dragoman.errors import ConfigError
from dragoman.toolcalls import formats as built_in
from dragoman.toolcalls.format import Action, Format, ObjectsSpec, Rule, groups_of
from dragoman.toolcalls.format_names import (
    aliases_of,
    broken_plugins,
    find_format,
    installed_formats,
)
from dragoman.toolcalls.format_samples import written
from dragoman.toolcalls.formats import FORMATS
from dragoman.toolcalls.own_formats import FormatError

_HELP: Final = """List the formats in which models write tool calls as text.

Each row has the format's key with its other names, the models it belongs to, the text that opens a call,
and patterns of model ids.  Commands with a --format option accept a key or another name, in any case and
with `-` or `_`, or `auto` to choose by the model's id.  Formats that other packages install are listed
too, and with --config the formats of a settings file.

With --json a row also has the text around reasoning, whether calls have ids, the channels that are
searched, and the file that defines the format.

\b
Exit codes:
  0  printed
  2  wrong usage or settings

\b
Examples:
  dragoman formats
  dragoman formats --json | jq 'select(.key == "kimi_k2")'
  dragoman formats check my-formats.toml
"""

_CHECK_HELP: Final = """Test a format with the checks that all built-in formats pass.

SOURCE is a TOML file with `[formats.NAME]` tables, a Python file (all of its formats, or one with
`FILE.py:NAME`), an importable `MODULE:NAME`, or the name of a format.

An answer of two calls is written in the format and parsed: whole, split at every character, cut at every
character, with each marker, bracket and quote deleted, and with text around the calls.  Other text must
stay unchanged, and the work must grow linearly with the text.

\b
Exit codes:
  0  all checks passed
  1  a check failed, or the format's table is not legal
  2  wrong usage, or SOURCE cannot be read

\b
Examples:
  dragoman formats check dragoman.toml
  dragoman formats check acme_formats.py:ACME
  dragoman formats check kimi_k2
"""

_SHOWN: Final = 3  # failures of one check that are printed
_EXCERPT: Final = 300  # characters of a text that is printed


@click.group(
    "formats",
    help=_HELP,
    short_help="List the formats of tool calls written as text.",
    invoke_without_command=True,
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@config_option
@click.pass_context
def command(context: click.Context, *, as_json: bool, path: Path | None) -> None:
    if context.invoked_subcommand is not None:
        return
    declared = own_formats(path)
    installed = installed_formats()
    rows = [*declared, *installed, *FORMATS.values()]
    if as_json:
        for one in rows:
            print(msgspec.json.encode(_described(one, declared, installed)).decode())
    else:
        _print_table(rows)
    for problem in broken_plugins():
        click.echo(f"dragoman: {problem}", err=True)


@command.command("check", help=_CHECK_HELP, short_help="Test a format of your own.")
@click.argument("source")
def check(source: str) -> None:
    from dragoman.gateway.config.problems import ConfigMistakesError

    try:
        formats = _load(source)
    except FormatError as error:
        click.echo(f"dragoman: {source}: not legal: {error}", err=True)
        sys.exit(1)
    except ConfigMistakesError as error:
        click.echo(f"dragoman: {error}", err=True)
        sys.exit(1)
    sys.exit(not all([_passes(one) for one in formats]))  # noqa: C419 -- all of them are tested


# --- the list -------------------------------------------------------------------------------------------


def _described(
    one: Format, declared: tuple[Format, ...], installed: tuple[Format, ...]
) -> dict[str, object]:
    origin = "settings" if one in declared else "installed" if one in installed else "built-in"
    return {
        "key": one.key,
        "aliases": aliases_of(one.key) if origin == "built-in" else [],
        "description": one.description,
        "markers": one.opens,
        "models": one.models,
        "channels": ["content", "reasoning"],
        "reasoning": [[written((tag,), groups={}) for tag in pair] for pair in one.think],
        "starts_thinking": one.starts_thinking,
        "ids": any(_has_id(rule) for rule in one.rules),
        "auto": not one.bare and origin == "built-in",
        "origin": origin,
        "source": _source(one) if origin == "built-in" else "",
    }


def _has_id(rule: Rule) -> bool:
    if rule.action is not Action.CALL:
        return False
    if isinstance(rule.body, ObjectsSpec) and rule.body.id_keys:
        return True
    return "id" in groups_of(rule.pattern)


def _source(one: Format) -> str:
    """Return the file of a built-in family, relative to the package."""
    for found in pkgutil.iter_modules(built_in.__path__):
        module = importlib.import_module(f"{built_in.__name__}.{found.name}")
        if any(value is one for value in vars(module).values()):
            return f"toolcalls/formats/{found.name}.py"
    return ""


def _print_table(rows: list[Format]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("key", "models", "opens with", "model ids"):
        table.add_column(title, overflow="fold", no_wrap=title == "key")
    for one in rows:
        other = aliases_of(one.key) if FORMATS.get(one.key) is one else []
        keys = "\n".join([one.key, *(f"  = {alias}" for alias in other)])
        table.add_row(keys, one.description, "\n".join(one.opens), ", ".join(one.models))
    width = None if sys.stdout.isatty() else 140
    Console(markup=False, highlight=False, width=width).print(table)


# --- the check ------------------------------------------------------------------------------------------


def _load(source: str) -> list[Format]:
    """Return the formats of a file, a module or a name.

    Raises:
        ConfigError: the source cannot be read or has no format; `FormatError` if one is not legal.
    """
    if source.endswith(".toml"):
        return _from_toml(Path(source))
    place, colon, name = source.rpartition(":")
    if not colon:
        place, name = source, ""
    if place.endswith(".py"):
        module = _run_file(Path(place))
    elif colon:
        module = _import(place)
    else:
        return [find_format(source)]
    if name:
        found = getattr(module, name, None)
        if not isinstance(found, Format):
            raise ConfigError(f"`{name}` of {place} is not a `dragoman.Format`")
        return [find_format(found)]
    formats = [value for value in vars(module).values() if isinstance(value, Format)]
    if not formats:
        raise ConfigError(f"{place} has no `dragoman.Format`")
    return [find_format(one) for one in formats]


def _from_toml(path: Path) -> list[Format]:
    from dragoman.gateway.config.environment import ConfigEnvironment
    from dragoman.gateway.config.formats import declared_formats
    from dragoman.gateway.config.load import make_settings, parse
    from dragoman.gateway.config.problems import ConfigMistakesError

    cwd = Path.cwd()
    tables = parse(cwd / path, cwd).get("formats")
    if not tables:
        raise ConfigError(f"{path} has no table `[formats.NAME]`")
    environment = ConfigEnvironment(environ={}, folder=path.parent)
    try:
        settings = make_settings({"formats": tables}, environment).settings
    except ConfigMistakesError as error:
        raise ConfigMistakesError(error.mistakes, source=str(path)) from None
    return list(declared_formats(settings))


def _run_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _import(name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 -- as `python -m` does
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"cannot import `{name}`: {error}") from error


def _passes(format_: Format) -> bool:
    """Run all checks of a format and print what they found."""
    from dragoman.toolcalls.format_suite import check_format

    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    click.echo(format_.key)
    current = ""
    for outcome in check_format(format_):
        if outcome.check != current:
            _print_count(current, passed, failed)
            current = outcome.check
        if outcome.passed:
            passed[current] += 1
            continue
        failed[current] += 1
        if failed[current] <= _SHOWN:
            click.echo(f"  FAILED {current}: {outcome.detail}")
            if outcome.text:
                click.echo(f"    in {outcome.text[:_EXCERPT]!r}")
    _print_count(current, passed, failed)
    total = passed.total() + failed.total()
    if failed:
        click.echo(f"{format_.key}: {failed.total()} of {total} checks failed")
    else:
        click.echo(f"{format_.key}: all {total} checks passed")
    return not failed


def _print_count(check: str, passed: Counter[str], failed: Counter[str]) -> None:
    if check:
        tail = f", {failed[check]} failed" if failed[check] else ""
        click.echo(f"  {check:<18} {passed[check]:>5} passed{tail}")
