"""Starts, pins, observes and always ends the processes of a measurement."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PATIENCE: Final = 20.0  # seconds for a process to start, and to end
HAS_PROC: Final = Path("/proc/self/stat").exists()


class Cores:
    """The cores: the measured process has one to itself, its peers share another."""

    def __init__(self) -> None:
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self.apart = len(cores) > 1
        self._measured, self._peers = ({cores[-1]}, {cores[0]}) if self.apart else (set(), set())

    def pin(self, process: int, *, measured: bool) -> None:
        """Pin a process to its core, where the system supports it."""
        if self.apart:
            os.sched_setaffinity(process, self._measured if measured else self._peers)


class Server:
    """A process that serves on a port."""

    def __init__(self, process: int, port: int) -> None:
        self.process = process
        self.port = port


@contextmanager
def serving(
    arguments: Sequence[str], log: Path, cores: Cores, *, measured: bool
) -> Iterator[Server]:
    """Run a server that writes its address to its output; its other output goes to `log`."""
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as child,
    ):
        try:
            cores.pin(child.pid, measured=measured)
            assert child.stdout is not None
            line = child.stdout.readline().decode()
            if not line:
                raise RuntimeError(f"{arguments} did not start: {log.read_text()[-2000:]}")
            yield Server(child.pid, int(line.strip().rpartition(":")[2]))
        finally:
            _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End a process; streams that are open need not end first."""
    if child.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGTERM):  # the second signal skips the graceful shutdown
        child.send_signal(number)
        time.sleep(0.05)
    try:
        child.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def cpu_seconds(process: int) -> float:
    """Return the CPU time that a process has used; 0 where the system does not report it."""
    if not HAS_PROC:
        return 0.0
    # The name, in brackets, may hold anything; user and system time are the 14th and 15th fields.
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(process: int) -> int:
    """Return the memory of a process; 0 where the system does not report it."""
    if not HAS_PROC:
        return 0
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
