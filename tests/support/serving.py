"""`dragoman serve` as its own process, over a simulator that runs here."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dragoman.simulator.server import Simulator
from tests.support.event_loops import loop_in_thread
from tests.support.waiting import until

_URL = re.compile(r"https?://[^\s,]+")
_QUIET = {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "dragoman.cli.main", "serve", *options]


def environment(folder: Path, more: Mapping[str, str] = {}) -> dict[str, str]:
    """Return an environment in which no user's settings are found."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, **_QUIET, "HOME": str(folder), **more}


class Served:
    """A running gateway: where it is, and what it has said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []  # of standard error
        self.said: list[str] = []  # on standard output
        self._readers = [
            threading.Thread(target=self._read, args=(stream, lines), daemon=True)
            for stream, lines in ((process.stderr, self.lines), (process.stdout, self.said))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: Any, lines: list[str]) -> None:
        lines.extend(iter(stream.readline, ""))

    @property
    def url(self) -> str:
        return until(
            lambda: next((found[0] for one in self.said if (found := _URL.search(one))), "")
        )

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def notices(self, event: str) -> list[dict[str, Any]]:
        """Return what the log has under a name, so far."""
        found = [json.loads(line) for line in list(self.lines) if line.startswith("{")]
        return [one for one in found if one["event"] == event]

    def send_signal(self, name: str) -> None:
        self.process.send_signal(signal.Signals[name])

    def end(self, seconds: float = 60.0) -> int:
        """Wait for its end and return its exit code; all that it said is there then."""
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(60)
        return code


@contextmanager
def serving(
    folder: Path, *options: str, descriptors: int = 0, soft: int = 0, **more: str
) -> Iterator[Served]:
    """Run the gateway in a folder; `more` goes into its environment.

    It may have `descriptors` at most, and begins with `soft` of them.
    """
    limits = [f"ulimit -n {descriptors}"] if descriptors else []
    limits += [f"ulimit -Sn {soft}"] if soft else []
    limited = ["sh", "-c", " && ".join([*limits, 'exec "$@"']), "sh"] if limits else []
    with serving_process([*limited, *command("--port", "0", *options)], folder, **more) as served:
        yield served


@contextmanager
def serving_process(
    words: list[str], folder: Path, *, passed: tuple[int, ...] = (), **more: str
) -> Iterator[Served]:
    """Run a command that serves; `more` goes into its environment.  It is killed if it does not end.

    It inherits the file descriptors `passed`.
    """
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(folder, more),
        pass_fds=passed,
    )
    served = Served(process)
    try:
        yield served
    finally:
        if process.poll() is None:
            process.kill()
        served.end()
        for stream in (process.stdout, process.stderr):
            stream.close()


@contextmanager
def simulating() -> Iterator[Simulator]:
    """Run a simulator in its own thread."""
    simulator = Simulator(port=0)
    with loop_in_thread() as do:
        do(simulator.start())
        try:
            yield simulator
        finally:
            do(simulator.close())
