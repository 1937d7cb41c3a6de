"""Options and input that several commands share: settings or one upstream, tools, standard input."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from dragoman.errors import MalformedError
from dragoman.toolcalls.format import Format
from dragoman.turn.request import Tool

F = TypeVar("F", bound=Callable[..., Any])

_CONNECTION_OPTIONS: Final = (
    click.option(
        "--proxy",
        metavar="URL|env",
        help="The HTTP proxy between here and the upstreams: http://HOST:PORT, `env` for HTTPS_PROXY, "
        "HTTP_PROXY and NO_PROXY, or env:NAME for an address with a password.",
    ),
    click.option(
        "--tls-ca",
        metavar="FILE",
        type=click.Path(),
        help="The certificate authorities to trust instead of the system's (PEM).",
    ),
)
_ADDRESS_OPTIONS: Final = (
    click.option(
        "--config",
        "path",
        type=click.Path(path_type=Path),
        help="The settings file.  [default: $DRAGOMAN_CONFIG, ./dragoman.toml or the one in ~/.config/dragoman]",
    ),
    click.option(
        "--upstream",
        metavar="URL",
        help="The upstream's base URL, without `/chat/completions` and the like.",
    ),
    click.option(
        "--upstream-dialect",
        type=click.Choice(["chat", "anthropic", "responses"]),
        help="The upstream's dialect.  [default: chat]",
    ),
    click.option(
        "--upstream-key-env",
        metavar="VAR",
        help="The environment variable that holds the upstream's key.  [default: the vendor's usual one]",
    ),
    click.option(
        "--no-key",
        is_flag=True,
        default=None,
        help="Send no key, also to a vendor that usually needs one.",
    ),
    *_CONNECTION_OPTIONS,
)
_FORMAT_OPTION: Final = click.option(
    "--format",
    "native_format",
    metavar="FAMILY|auto|none",
    help="The format of tool calls written as text; see `dragoman formats`.  [default: auto]",
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


def connection_options(command: F) -> F:
    """Give a command `proxy` and `tls_ca`."""
    for option in reversed(_CONNECTION_OPTIONS):
        command = option(command)
    return command


def address_options(command: F) -> F:
    """Give a command `path`, `upstream`, `upstream_dialect`, `upstream_key_env`, `no_key`, `proxy` and `tls_ca`."""
    for option in reversed(_ADDRESS_OPTIONS):
        command = option(command)
    return command


def upstream_options(command: F) -> F:
    """Give a command the options of `address_options`, and `native_format`."""
    return address_options(_FORMAT_OPTION(command))


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


def warn_if_terminal() -> None:
    """Print a hint if standard input is a terminal, where a missing `< FILE` looks like a hang."""
    if sys.stdin.isatty():
        click.echo("dragoman: reading standard input; end it with Ctrl-D", err=True)
