"""What the pages' commands run on: one gateway and one simulator for all of them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from dragoman.testing import Simulator
from tests.docs.pasted import Stage


class Serving(NamedTuple):
    url: str
    printed: str


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Start the gateway as `make run` does, on a free port and without settings."""
    folder = tmp_path_factory.mktemp("minute")
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman.cli.main", "serve", "--port", "0"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        while " run claude " not in lines[-1] and lines[-1]:
            lines.append(process.stdout.readline())
        yield Serving(lines[0].split()[3].rstrip(","), "".join(lines))
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def simulated() -> Iterator[Simulator]:
    with Simulator() as simulator:
        yield simulator


@pytest.fixture
def stage(tmp_path: Path, serving: Serving, simulated: Simulator) -> Stage:
    return Stage(tmp_path, simulated.url, serving.url)
