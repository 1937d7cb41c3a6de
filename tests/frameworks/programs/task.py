"""What every framework is asked to do: two tools, one prompt, and one line of JSON at the end.

    python PROGRAM.py

imports its framework, which takes up to three seconds of a processor, and then forks for each line that it reads.
The fork runs one task as a process with its own folder, environment and outputs, and ends with an exit code.
"""

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
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


class Order(NamedTuple):
    """A line of standard input: a task, and the process that runs it."""

    arguments: list[str]  # of the task
    folder: str  # the working folder
    environ: dict[str, str]
    out: str  # a file
    err: str  # a file


def main(run: Callable[[Task], Ran]) -> None:
    """Fork for each order, and print the id of the fork, and its exit code when it has ended."""
    gc.freeze()
    for line in sys.stdin:
        order = Order(**json.loads(line))
        child = os.fork()
        if not child:
            become(order)
            print(json.dumps(run(Task(*order.arguments))._asdict()))  # noqa: T201 -- for the test
            return
        print(child, flush=True)  # noqa: T201 -- the same
        _, status = os.waitpid(child, 0)
        with suppress(ProcessLookupError):  # nothing of its group is left
            os.killpg(child, signal.SIGKILL)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 -- the same


def become(order: Order) -> None:
    """Turn a fork into the process that an order describes."""
    os.setsid()
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environ)
    write = os.O_WRONLY | os.O_CREAT
    for number, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, order.out, write),
        (2, order.err, write),
    ):
        opened = os.open(name, flags)
        os.dup2(opened, number)
        os.close(opened)
