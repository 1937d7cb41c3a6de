"""A server of another project, as a process in its own environment."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_SECONDS = 240.0  # on a free machine the slowest takes 15, most of it for imports


@contextmanager
def served(
    environment: str, program: str, *arguments: Any, folder: Path, more: Mapping[str, str]
) -> Iterator[str]:
    """Run a program of this folder, and give the address of its server.

    The program prints `serving ADDRESS` as its only line, and ends with its standard input.
    """
    python = Path(os.environ[environment]) / "bin" / "python"
    # Apart from what it prints: logs come from other threads, in the middle of lines.
    with (folder / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [python, Path(__file__).parent / program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            errors="replace",
            env={"PATH": os.environ["PATH"], "HOME": str(folder), **more},
        )
        try:
            yield _address(process, folder / "log")
        finally:
            process.stdin.close()  # in order: a killed proxy.py would leave its children behind
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
            process.stdout.close()


def _address(process: subprocess.Popen[str], log: Path) -> str:
    with ThreadPoolExecutor(1) as waiting:
        line = waiting.submit(process.stdout.readline)
        try:
            words = line.result(START_SECONDS).split()
        except BaseException:
            process.kill()  # so that the line ends
            raise
    # Nothing, if it ended.
    assert ["serving"] == words[:1], log.read_text("utf-8", "replace")[-4000:]
    return words[1]
