"""Options that several commands share: where the settings are, and which upstream takes their place."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: Final = (
    click.option("--config", "path", type=click.Path(path_type=Path), help="The file of settings."),
    click.option(
        "--upstream", metavar="URL", help="What stands before `/chat/completions` and the like."
    ),
    click.option(
        "--upstream-dialect",
        type=click.Choice(["chat", "anthropic", "responses"]),
        help="What the upstream speaks.  [default: chat]",
    ),
    click.option(
        "--upstream-key-env", metavar="VAR", help="The variable that holds the upstream's key."
    ),
    click.option(
        "--format",
        "native_format",
        metavar="FAMILY|auto|none",
        help="How the model writes tool calls as text.  [default: auto]",
    ),
)


def upstream_options(command: F) -> F:
    """Give a command `path`, `upstream`, `upstream_dialect`, `upstream_key_env` and `native_format`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
