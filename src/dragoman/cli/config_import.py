"""`dragoman config import`: another gateway's configuration as a settings file."""

import os
from pathlib import Path
from typing import Final

import click
import msgspec

from dragoman.errors import ConfigError
from dragoman.gateway.config.environment import read_text
from dragoman.gateway.config.import_ccr import import_claude_code_router, without_comments
from dragoman.gateway.config.import_draft import Draft, Table
from dragoman.gateway.config.import_litellm import SECTIONS, import_litellm
from dragoman.gateway.config.problems import Problem

HELP: Final = """Convert another gateway's configuration to a settings file.

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


def convert(file: Path) -> tuple[Draft, str]:
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


def report(draft: Draft) -> None:
    """Print what was converted, what to set and what was not carried over."""
    click.echo(
        f"{draft.kind}: carried over {counted(len(draft.upstreams), 'upstream')} and "
        f"{counted(len(draft.routes), 'route')}; not carried over: "
        f"{counted(len(draft.lost), 'setting')}",
        err=True,
    )
    for name, path in draft.variables.items():
        click.echo(f"  set: export {name}=… (the key at {path})", err=True)
    for one in draft.lost:
        click.echo(f"  not carried over: {one}", err=True)


def counted(number: int, noun: str) -> str:
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
