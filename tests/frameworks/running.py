"""One run of a framework's program: its own environment and home, and a time limit."""

import os
from pathlib import Path

from tests.agents.programs import SmallAgent, Start
from tests.agents.stage import NOBODY, Stage

FOLDER_VARIABLE = "DRAGOMAN_FRAMEWORKS"  # set by tools/frameworks.py
PROGRAMS = Path(__file__).parent / "programs"


class FrameworkStage(Stage):
    """Where a program works; nothing but loopback is reached, as far as programs respect proxies."""

    variable = FOLDER_VARIABLE

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "LLM_USER_PATH": str(self.home),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "HTTP_PROXY": NOBODY,
            "HTTPS_PROXY": NOBODY,
            "NO_PROXY": "127.0.0.1",
        }


class Framework(SmallAgent):
    """A small agent of this project on a framework's package: a file in `programs`."""

    def __init__(self, name: str, program: str, face: str) -> None:
        self.name = name
        self._program = program
        self._face = face

    def start(self, stage, url, model, prompt):
        python = Path(os.environ[FOLDER_VARIABLE]) / "bin" / "python"
        program = PROGRAMS / f"{self._program}.py"
        return Start([str(python), str(program), url, model, self._face, prompt], {})
