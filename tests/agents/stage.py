"""Where an agent works in a test: its own home and folder, a clean environment, and a time limit."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

FOLDER_VARIABLE = "DRAGOMAN_AGENTS"  # set by tools/agents.py
ALONE_VARIABLE = "DRAGOMAN_AGENTS_ALONE"  # the same; set if only loopback can be reached
SECONDS = (
    400.0  # no run may take longer; on a free machine they take two to twenty, on a busy one 100
)
NOBODY = "http://127.0.0.1:9"  # a proxy that is not there


class Ran(NamedTuple):
    """How a program ended."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def said(self) -> str:
        return self.out + self.err


class TooSlowError(AssertionError):
    """The program did not end by itself."""


class Stage:
    variable = FOLDER_VARIABLE  # which names the folder of the programs

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.work = folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.installed = Path(os.environ[self.variable])

    def part(self, name: str) -> Self:
        """Return another stage inside the folder of this one."""
        folder = self.folder / name
        folder.mkdir()
        return type(self)(folder)

    @property
    def environ(self) -> dict[str, str]:
        """The environment of every program: nothing of the user's is in it."""
        node = Path(shutil.which("node")).parent
        bins = self.installed / "node_modules" / ".bin"
        alone = ALONE_VARIABLE in os.environ
        return {
            "PATH": f"{bins}:{node}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "TMPDIR": str(self.folder),
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "DO_NOT_TRACK": "1",
            "NO_PROXY": "127.0.0.1,localhost",
            **({} if alone else {"HTTPS_PROXY": NOBODY, "HTTP_PROXY": NOBODY}),
        }

    def program(self, name: str) -> str:
        """Return where an installed program is; its absence is a failure, never a skip."""
        path = self.installed / "node_modules" / ".bin" / name
        assert path.exists(), f"{name} is not installed in {self.installed}"
        return str(path)

    def run(
        self,
        command: Sequence[str],
        environ: Mapping[str, str] | None = None,
        stdin: str = "",
        seconds: float = SECONDS,
    ) -> Ran:
        """Run a program to its end, and end whatever it left behind."""
        begun = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=self.work,
            env={**self.environ, **(environ or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            out, err = process.communicate(stdin, seconds)
        except subprocess.TimeoutExpired as late:
            self._end(process)
            out, err = process.communicate()
            raise TooSlowError(f"{command[0]} still ran after {seconds} s\n{out}\n{err}") from late
        finally:
            self._end(process)
        return Ran(process.returncode, out, err, time.monotonic() - begun)

    def _end(self, process: "subprocess.Popen[str]") -> None:
        with suppress(ProcessLookupError):  # nothing of its group is left
            os.killpg(process.pid, signal.SIGKILL)
