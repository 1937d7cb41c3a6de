"""One run of a framework's program: its own process, environment and home, and a time limit."""

import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.agents.programs import SmallAgent, Start
from tests.agents.stage import NOBODY, SECONDS, Ran, Stage, TooSlowError

FOLDER_VARIABLE = "DRAGOMAN_FRAMEWORKS"  # set by tools/frameworks.py
PROGRAMS = Path(__file__).parent / "programs"
# What a program needs before its first task: no package of it reads anything of a user.
ENVIRON = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


def python() -> str:
    return str(Path(os.environ[FOLDER_VARIABLE]) / "bin" / "python")


class FrameworkStage(Stage):
    """Where a program works; nothing but loopback is reached, as far as programs respect proxies."""

    variable = FOLDER_VARIABLE

    @property
    def environ(self) -> dict[str, str]:
        return {
            **ENVIRON,
            "HOME": str(self.home),
            "LLM_USER_PATH": str(self.home),
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "HTTP_PROXY": NOBODY,
            "HTTPS_PROXY": NOBODY,
            "NO_PROXY": "127.0.0.1",
        }

    def run(
        self,
        command: Sequence[str],
        environ: Mapping[str, str] | None = None,
        stdin: str = "",
        seconds: float = SECONDS,
    ) -> Ran:
        """Run a program to its end; those of `programs` are forked from one that has imported its framework."""
        interpreter, program, *arguments = command
        if interpreter != python() or Path(program).parent != PROGRAMS:
            return super().run(command, environ, stdin, seconds)
        out, err = self.folder / "out.txt", self.folder / "err.txt"
        order = {
            "arguments": arguments,
            "folder": str(self.work),
            "environ": {**self.environ, **(environ or {})},
            "out": str(out),
            "err": str(err),
        }
        begun = time.monotonic()
        with ONE_AT_A_TIME:
            if program not in LOADED:
                LOADED[program] = LoadedProgram(program)
            code = LOADED[program].run(order, seconds)
        took = time.monotonic() - begun
        return Ran(code, out.read_text("utf-8"), err.read_text("utf-8"), took)


class LoadedProgram:
    """A program that has imported its framework, and forks for each task: see programs/task.py."""

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen(
            [python(), program],
            env={**ENVIRON, "OPENAI_AGENTS_DISABLE_TRACING": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def run(self, order: Mapping[str, object], seconds: float) -> int:
        """Return the exit code of a task."""
        process = self._process
        assert process.stdin is not None
        process.stdin.write(f"{json.dumps(order)}\n".encode())
        child = self._number(seconds)
        try:
            return self._number(seconds)
        except TimeoutError as late:
            os.killpg(child, signal.SIGKILL)
            self._number(seconds)
            said = "".join(Path(str(order[one])).read_text("utf-8") for one in ("out", "err"))
            raise TooSlowError(f"a task still ran after {seconds} s\n{said}") from late

    def _number(self, seconds: float) -> int:
        """Read one line; the pipe has no buffer, so that `select` sees all that has arrived."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            raise TimeoutError
        line = self._process.stdout.readline()
        assert line, "the program has ended; pytest shows its traceback"
        return int(line)

    def close(self) -> None:
        self._process.communicate()


LOADED: dict[str, LoadedProgram] = {}  # by the path of the program
ONE_AT_A_TIME = threading.Lock()


class Framework(SmallAgent):
    """A small agent of this project on a framework's package: a file in `programs`."""

    def __init__(self, name: str, program: str, face: str) -> None:
        self.name = name
        self._program = program
        self._face = face

    def start(self, stage, url, model, prompt):
        program = PROGRAMS / f"{self._program}.py"
        return Start([python(), str(program), url, model, self._face, prompt], {})
