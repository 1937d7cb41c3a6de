"""What every framework is asked to do: two tools, one prompt, and one line of JSON at the end.

python PROGRAM.py URL MODEL DIALECT PROMPT
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

MOST_TURNS = 10
MOST_TOKENS = 64_000


class Task(NamedTuple):
    url: str
    model: str
    dialect: str
    prompt: str


class Ran(NamedTuple):
    text: str  # the last answer
    pieces: int  # how many pieces of text were streamed


def shell(command: str) -> str:
    """Run a command."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    return done.stdout


def write(path: str, content: str) -> str:
    """Write a file."""
    Path(path).write_text(content, "utf-8")
    return f"wrote {len(content)} characters"


TOOLS = {"shell": shell, "write": write}


def main(run: Callable[[Task], Ran]) -> None:
    """Run a program; what it raises ends it."""
    print(json.dumps(run(Task(*sys.argv[1:]))._asdict()))  # noqa: T201 -- what it tells its caller
