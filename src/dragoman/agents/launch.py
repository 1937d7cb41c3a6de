"""Starts an agent, or prints the shell lines for users who start it themselves."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final

from dragoman.agents.agent import Agent, LaunchSpec, Session
from dragoman.agents.gateways import is_loopback
from dragoman.errors import ConfigError
from dragoman.gateway.config.settings import Secret

_SIGNALLED: Final = 128  # what a shell adds to the number of the signal that ended a program
# Signals that a terminal sends to all of its foreground programs, and signals that reach one process.
_FROM_KEYS: Final = ("SIGINT", "SIGQUIT")
_TO_ONE: Final = ("SIGTERM", "SIGHUP")
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_NO_PROXY: Final = ("NO_PROXY", "no_proxy")
_LOOPBACK: Final = "127.0.0.1,localhost,::1"


def launch(
    program: str,
    arguments: Sequence[str],
    spec: LaunchSpec,
    environ: Mapping[str, str],
) -> int:
    """Run an agent at the terminal and return its exit code.

    Raises:
        ConfigError: it cannot be started.
    """
    variables = {name: value for name, value in environ.items() if name not in spec.clashing}
    variables |= spec.variables
    with TemporaryDirectory(prefix="dragoman-") as folder:  # only its owner may look
        given = list(spec.arguments)
        if spec.file is not None:
            flag, content = spec.file
            file = Path(folder, "settings.json")
            file.write_text(content, encoding="utf-8")
            given += [flag, str(file)]
        if spec.home_file is not None:
            name, place, content = spec.home_file
            file = Path(folder, place)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
            variables[name] = folder
        return run_at_terminal([program, *given, *arguments], variables)


def without_proxy(session: Session, environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that keep an agent from sending requests to this machine through a proxy."""
    proxied = any(environ.get(name) or environ.get(name.lower()) for name in _PROXIES)
    if not proxied or not is_loopback(session.url):
        return {}
    held = next((environ[name] for name in _NO_PROXY if environ.get(name)), "")
    return dict.fromkeys(_NO_PROXY, f"{held},{_LOOPBACK}".lstrip(","))


def described(agent: Agent, arguments: Sequence[str], spec: LaunchSpec, key: Secret) -> str:
    """Return the lines of a shell that start an agent in the same way.  They hold no secret."""
    lines = [f"unset {' '.join(spec.clashing)}"] if spec.clashing else []
    for name, value in spec.variables.items():
        hidden = key.source and value == key.value
        lines.append(f"export {name}={_reference(key.source) if hidden else shlex.quote(value)}")
    if spec.home_file is not None:
        name, place, content = spec.home_file
        file = f'"${name}/{place}"'
        lines += [f"export {name}=$(mktemp -d)", f"mkdir -p $(dirname {file})"]
        lines.append(f"printf %s {shlex.quote(content)} > {file}")
    lines.append(shlex.join([agent.program, *spec.arguments, *arguments]))
    return "\n".join(lines)


def _reference(source: str) -> str:
    """Return what a shell puts in the place of a secret."""
    kind, _, rest = source.partition(":")
    return f'"${rest}"' if kind == "env" else f'"$(cat {shlex.quote(rest)})"'


# --- the process ---


def run_at_terminal(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a program in the foreground and return its exit code; signals reach it, each once.

    Raises:
        ConfigError: it cannot be started.
    """
    child = _Child()
    with child.hears_signals():
        return child.run(command, environ)


class _Child:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []  # signals that came before there was a process

    @contextmanager
    def hears_signals(self) -> Iterator[None]:
        """Handle the signals that are meant for the program while it runs."""
        # The terminal sends Ctrl-C to the program itself; a second one from here would have another meaning.
        # Windows has no other way to send it.
        from_keys = sys.platform == "win32" or any(os.isatty(number) for number in (0, 1, 2))
        handlers = dict.fromkeys(_FROM_KEYS, self._ignore if from_keys else self._pass_on)
        handlers |= dict.fromkeys(_TO_ONE, self._pass_on)
        numbers = {
            getattr(signal, name): handler
            for name, handler in handlers.items()
            if hasattr(signal, name)
        }
        # A signal that is ignored already, as under `nohup`, stays ignored, for the program too.
        before = {
            number: signal.signal(number, handler)
            for number, handler in numbers.items()
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def run(self, command: Sequence[str], environ: Mapping[str, str]) -> int:
        try:
            self._process = subprocess.Popen(command, env=environ)  # noqa: S603 -- the user's own agent
        except OSError as error:
            raise ConfigError(f"cannot start {command[0]}: {error.strerror}") from error
        for number in self._early:
            self._process.send_signal(number)
        code = self._process.wait()
        return _SIGNALLED - code if code < 0 else code

    def _ignore(self, number: int, frame: FrameType | None) -> None:
        """Leave it to the program."""

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)
