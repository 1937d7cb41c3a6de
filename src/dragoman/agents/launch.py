"""Starting an agent with what it was given, or showing that to people who start it themselves."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from dragoman.agents.agent import Agent, Outfit, Session
from dragoman.agents.process import run_at_terminal
from dragoman.agents.visit import is_loopback
from dragoman.gateway.config.settings import Secret

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_NO_PROXY: Final = ("NO_PROXY", "no_proxy")
_LOOPBACK: Final = "127.0.0.1,localhost,::1"


def launch(
    program: str,
    arguments: Sequence[str],
    outfit: Outfit,
    environ: Mapping[str, str],
) -> int:
    """Run an agent at the terminal and return its exit code.

    Raises:
        ConfigError: it cannot be started.
    """
    variables = {name: value for name, value in environ.items() if name not in outfit.clashing}
    variables |= outfit.variables
    with TemporaryDirectory(prefix="dragoman-") as folder:  # only its owner may look
        given = list(outfit.arguments)
        if outfit.file is not None:
            flag, content = outfit.file
            file = Path(folder, "settings.json")
            file.write_text(content, encoding="utf-8")
            given += [flag, str(file)]
        return run_at_terminal([program, *given, *arguments], variables)


def without_proxy(session: Session, environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that keep an agent from sending what is for this machine through a proxy."""
    proxied = any(environ.get(name) or environ.get(name.lower()) for name in _PROXIES)
    if not proxied or not is_loopback(session.url):
        return {}
    held = next((environ[name] for name in _NO_PROXY if environ.get(name)), "")
    return dict.fromkeys(_NO_PROXY, f"{held},{_LOOPBACK}".lstrip(","))


def described(agent: Agent, arguments: Sequence[str], outfit: Outfit, key: Secret) -> str:
    """Return the lines of a shell that start an agent in the same way.  No secret stands in them."""
    lines = [f"unset {' '.join(outfit.clashing)}"] if outfit.clashing else []
    for name, value in outfit.variables.items():
        hidden = key.source and value == key.value
        lines.append(f"export {name}={_reference(key.source) if hidden else shlex.quote(value)}")
    lines.append(shlex.join([agent.program, *outfit.arguments, *arguments]))
    return "\n".join(lines)


def _reference(source: str) -> str:
    """Return what a shell puts in the place of a secret."""
    kind, _, rest = source.partition(":")
    return f'"${rest}"' if kind == "env" else f'"$(cat {shlex.quote(rest)})"'
