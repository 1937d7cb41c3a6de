"""One run of a framework's program: an environment and a home of its own, and a time limit."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

FOLDER_VARIABLE = "DRAGOMAN_FRAMEWORKS"  # set by tools/frameworks.py
PROGRAMS = Path(__file__).parent / "programs"
SECONDS = 400.0  # no run may take longer; on a free machine they take three, on a busy one 50
NOBODY = "http://127.0.0.1:9"  # a proxy that is not there: nothing but loopback is reached


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def told(self) -> Any:
        """What the program wrote as its result."""
        assert 0 == self.code, self.err
        return json.loads(self.out.splitlines()[-1])


def run_program(name: str, folder: Path, *arguments: str) -> Ended:
    """Run a program to its end."""
    python = Path(os.environ[FOLDER_VARIABLE]) / "bin" / "python"
    done = subprocess.run(
        [python, PROGRAMS / f"{name}.py", *arguments],
        cwd=folder,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "LLM_USER_PATH": str(folder),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "HTTP_PROXY": NOBODY,
            "HTTPS_PROXY": NOBODY,
            "NO_PROXY": "127.0.0.1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)
