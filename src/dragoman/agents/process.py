"""Running an agent at the user's terminal as if this program were not there."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

from dragoman.errors import ConfigError

_SIGNALLED: Final = 128  # what a shell adds to the number of the signal that ended a program
# What a terminal sends to every program at it by itself, and what reaches only the one it is sent to.
_FROM_KEYS: Final = ("SIGINT", "SIGQUIT")
_TO_ONE: Final = ("SIGTERM", "SIGHUP")


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
        """Take the signals that are the program's for as long as it runs."""
        # Ctrl-C at a terminal reaches the program without us; twice would mean something else to it.
        at_terminal = any(os.isatty(number) for number in (0, 1, 2))
        handlers = dict.fromkeys(_FROM_KEYS, self._ignore if at_terminal else self._pass_on)
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
