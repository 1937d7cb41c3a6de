"""Starts, pins, observes and always ends the processes of a measurement."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from tools.bench.measure import Result
from tools.bench.traffic import workload

_PATIENCE: Final = 20.0  # seconds for a process to end
_LOAD_SECONDS: Final = (
    120.0  # beside its window: 400 streams of a slow server begin one after the other
)
HAS_PROC: Final = Path("/proc/self/stat").exists()


class Cores:
    """The cores: the measured process has one to itself, its peers share another."""

    def __init__(self, *, apart: bool = True) -> None:
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self.apart = apart and len(cores) > 1
        self._measured, self._peers = ({cores[-1]}, {cores[0]}) if self.apart else (set(), set())

    def pin(self, process: int, *, measured: bool) -> None:
        """Pin a process to its core, where the system supports it."""
        if self.apart:
            os.sched_setaffinity(process, self._measured if measured else self._peers)

    def share(self, process: int) -> None:
        """Let a process run on the core of the measured process and on that of its peers."""
        if self.apart:
            os.sched_setaffinity(process, self._measured | self._peers)


class Server:
    """A process that serves on a port."""

    def __init__(
        self, process: int, port: int, *, relays: bool = False, headers: str = "", model: str = ""
    ) -> None:
        self.process = process
        self.port = port
        self.relays = relays  # it forwards bytes unchanged
        self.headers = headers  # that its clients send, each with its line end
        self.model = model  # that its clients name, instead of the workload's


@contextmanager
def serving(  # noqa: PLR0913 -- how a process runs
    arguments: Sequence[str],
    log: Path,
    cores: Cores,
    *,
    measured: bool,
    python: str = sys.executable,
    relays: bool = False,
) -> Iterator[Server]:
    """Run a server that writes its address to its output; its other output goes to `log`."""
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [python, *arguments],
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
            yield Server(child.pid, int(line.strip().rpartition(":")[2]), relays=relays)
        finally:
            end(child)


def end(child: "subprocess.Popen[bytes]") -> None:
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


class Bench:
    """The processes of a run: an upstream, and servers that are loaded one at a time."""

    def __init__(self, folder: Path, *, rounds: int, seconds: float = 1.0, apart: bool = True):
        self.folder = folder
        self.cores = Cores(apart=apart)
        self.rounds = rounds
        self.seconds = seconds  # of a window
        self._upstream: Server | None = None

    @contextmanager
    def upstream(self) -> Iterator[Server]:
        """Run the upstream that all servers use."""
        with self._serving("tools.bench.upstream", measured=False, relays=True) as server:
            self._upstream = server
            yield server

    @contextmanager
    def relay(self, path: str = "/chat/completions") -> Iterator[Server]:
        """Run the byte relay; the upstream chooses its dialect by the path."""
        url = f"{self.address}{path}"
        with self._serving("tools.bench.relay", url, measured=True, relays=True) as server:
            yield server

    @contextmanager
    def bare(self) -> Iterator[Server]:
        """Run the relay without an HTTP framework."""
        with self._serving(
            "tools.bench.bare", str(self._port), measured=True, relays=True
        ) as server:
            yield server

    @contextmanager
    def gateway(self, *flags: str, python: str = sys.executable) -> Iterator[Server]:
        """Run the gateway with its default log, one line for each request."""
        command = ["serve", "--port", "0", "--upstream", self.address, *flags]
        with self._serving("dragoman.cli.main", *command, measured=True, python=python) as server:
            yield server

    @contextmanager
    def gateway_of(self, settings: Path) -> Iterator[Server]:
        """Run the gateway with a settings file."""
        command = ["serve", "--config", str(settings)]
        with self._serving("dragoman.cli.main", *command, measured=True) as server:
            yield server

    def load(
        self,
        server: Server,
        case: str,
        *,
        connections: int = 0,
        seconds: float = 0.0,
        client: str = "anthropic",
    ) -> Result:
        """Send requests to a server for one window."""
        window = seconds or self.seconds
        with subprocess.Popen(
            [
                *(sys.executable, "-m", "tools.bench.load", case, "--client", client),
                *("--port", str(server.port), "--process", str(server.process)),
                *("--connections", str(connections or workload(case).connections)),
                *("--seconds", str(window), "--headers", server.headers),
                *("--model", server.model),
                *(["--relayed"] if server.relays else []),
            ],
            stdout=subprocess.PIPE,
        ) as child:
            try:
                self.cores.pin(child.pid, measured=False)
                out, _ = child.communicate(timeout=_LOAD_SECONDS + 10 * window)
            except subprocess.TimeoutExpired:
                return Result(failure="no end in time")
            finally:
                child.kill()
        if child.returncode:
            return Result(failure=f"the load program failed with {child.returncode}")
        return msgspec.json.decode(out, type=Result)

    @property
    def address(self) -> str:
        """The upstream's base URL."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def _port(self) -> int:
        assert self._upstream is not None
        return self._upstream.port

    @contextmanager
    def _serving(self, module: str, *arguments: str, **options: Any) -> Iterator[Server]:
        log = self.folder / f"{module}.log"
        with serving(["-m", module, *arguments], log, self.cores, **options) as server:
            yield server


def allow_files(count: int) -> None:
    """Raise the limit of open files, so that child processes can hold all measured connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if most == resource.RLIM_INFINITY else min(count, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def cpu_seconds(process: int) -> float:
    """Return the CPU time that a process has used; 0 where the system does not report it."""
    if not HAS_PROC:
        return 0.0
    # The name, in brackets, may hold anything; user and system time are the 14th and 15th fields.
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children(process: int) -> list[int]:
    """Return the processes that a process has started; none where the system does not report them."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            if int(stat.read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(stat.parent.name))
    return found


def resident_bytes(process: int) -> int:
    """Return the memory of a process; 0 where the system does not report it."""
    if not HAS_PROC:
        return 0
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
