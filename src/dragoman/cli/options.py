"""Options and input that several commands share: settings or one upstream, tools, standard input."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import MalformedError
from dragoman.toolcalls.format import Format
from dragoman.turn.request import Tool

if TYPE_CHECKING:
    from dragoman.gateway.config.load import Flags, Loaded

Command = Callable[..., Any]
Options = dict[str, Callable[[Command], Command]]  # by the field of `Flags` that each one sets

_CONNECTION_OPTIONS: Final[Options] = {
    "proxy": click.option(
        "--proxy",
        metavar="URL|env",
        help="The HTTP proxy between here and the upstreams: http://HOST:PORT, `env` for HTTPS_PROXY, "
        "HTTP_PROXY and NO_PROXY, or env:NAME for an address with a password.",
    ),
    "tls_ca": click.option(
        "--tls-ca",
        metavar="FILE",
        type=click.Path(),
        help="The certificate authorities to trust instead of the system's (PEM).",
    ),
}
_ADDRESS_OPTIONS: Final[Options] = {
    "upstream": click.option(
        "--upstream",
        metavar="URL",
        help="The upstream's base URL, without `/chat/completions` and the like.",
    ),
    "upstream_dialect": click.option(
        "--upstream-dialect",
        type=click.Choice(DIALECT_NAMES),
        help="The upstream's dialect.  [default: chat]",
    ),
    "upstream_key_env": click.option(
        "--upstream-key-env",
        metavar="VAR",
        help="The environment variable that holds the upstream's key.  [default: the vendor's usual one]",
    ),
    "no_key": click.option(
        "--no-key",
        is_flag=True,
        default=None,
        help="Send no key, also to a vendor that usually needs one.",
    ),
    **_CONNECTION_OPTIONS,
}
_UPSTREAM_OPTIONS: Final[Options] = {
    **_ADDRESS_OPTIONS,
    "format": click.option(
        "--format",
        metavar="FAMILY|auto|none",
        help="The format of tool calls written as text; see `dragoman formats`.  [default: auto]",
    ),
}
_settings_option: Final = click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    help="The settings file.  [default: $DRAGOMAN_CONFIG, ./dragoman.toml or the one in ~/.config/dragoman]",
)

record_option: Final = click.option(
    "--record",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Record every exchange as a file in this folder; see `dragoman show`.",
)

config_option: Final = click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    help="A settings file whose `[formats.NAME]` tables are used too.",
)


def own_formats(path: Path | None) -> tuple[Format, ...]:
    """Return the formats that a settings file declares; none without a file.

    Raises:
        ConfigError: the file cannot be read or is not valid.
    """
    if path is None:
        return ()
    from dragoman.gateway.config.formats import declared_formats
    from dragoman.gateway.config.load import load

    loaded = load(path, environ=os.environ, cwd=Path.cwd(), need_secrets=False)
    return declared_formats(loaded.settings)


def connection_options(command: Command) -> Command:
    """Give a command the options `--proxy` and `--tls-ca`, as one argument `flags`."""
    return _with_flags(command, _CONNECTION_OPTIONS)


def address_options(command: Command) -> Command:
    """Give a command the arguments `path`, of `--config`, and `flags`, of the options that name one upstream."""
    return _settings_option(_with_flags(command, _ADDRESS_OPTIONS))


def upstream_options(command: Command) -> Command:
    """Give a command the options of `address_options` and `--format`, as `path` and `flags`."""
    return _settings_option(_with_flags(command, _UPSTREAM_OPTIONS))


def _with_flags(command: Command, options: Options) -> Command:
    """Add options to a command, which gets their values as one `Flags`."""

    @wraps(command)
    def with_flags(*args: Any, **values: Any) -> Any:
        from dragoman.gateway.config.load import Flags

        given = {name: values.pop(name) for name in options}
        return command(*args, flags=Flags(**given), **values)

    wrapped: Command = with_flags
    for option in reversed(options.values()):
        wrapped = option(wrapped)
    return wrapped


def load_settings(path: Path | None, flags: "Flags") -> "Loaded":
    """Load the settings of this process's environment and folder, and print their warnings.

    Raises:
        ConfigError: the file cannot be read, or the settings are not valid.
    """
    from dragoman.gateway.config.load import load

    loaded = load(path, environ=os.environ, cwd=Path.cwd(), flags=flags)
    for warning in loaded.warnings:
        with suppress(OSError):  # a gateway also starts if the disk of its log is full
            click.echo(f"dragoman: warning: {warning}", err=True)
    return loaded


def read_tools(path: Path) -> tuple[Tool, ...]:
    """Read the file of `--tools`: a JSON list of tools in the shape of any dialect.

    Raises:
        MalformedError: it is not such a list; names the file.
    """
    from dragoman.translate_requests import decode_tools

    try:
        return decode_tools(path.read_bytes())
    except MalformedError as error:
        reason = f"--tools {path} is not a JSON list of tools: {error.reason}"
        raise MalformedError(reason, path=error.path, code=error.code) from error


class InputCommand(click.Command):
    """A command that reads standard input: if a file is named instead, the error shows how to pass it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            ctx.fail(
                f"{ctx.command_path} reads standard input; to read a file, write: "
                f"{ctx.command_path} [OPTIONS] < {rest[0]}"
            )
        return rest


def warn_if_terminal() -> None:
    """Print a hint if standard input is a terminal, where a missing `< FILE` looks like a hang."""
    if sys.stdin.isatty():
        click.echo("dragoman: reading standard input; end it with Ctrl-D", err=True)
