"""Compares the gateway with a byte relay on the same HTTP stack, to show the cost of the translation.

Four processes: an upstream that writes prebuilt bytes and a client that counts, on one core; and on the other
the gateway, as `dragoman serve` runs it, or the relay, never both at once.  They are measured alternately,
several times, and the best of each counts: other load on the machine can only slow them down.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from tools.bench.load import Result
from tools.bench.measure import Row
from tools.bench.processes import HAS_PROC, Cores, Server, resident_bytes, serving
from tools.bench.traffic import EVENTS, paced

_PACE: Final = 10_000  # events a second, of all streams together
_OPEN_STREAMS: Final = 1000
_FILES: Final = 4 * _OPEN_STREAMS  # two for each stream, in one process
# The budgets.
_WHOLE: Final = 0.8  # of the relay's answers
_DENSE: Final = 0.85  # of the relay's events
_PACED: Final = 0.9  # of the relay's events
_PACED_CPU: Final = 0.95  # of the relay's CPU time
_ADDED_P50, _ADDED_P99 = 0.5, 10.0  # milliseconds
_STREAM_KB: Final = 32
_VERSION_MS: Final = 100


class Bench:
    """All processes of a run, and how long each of its windows is."""

    def __init__(self, folder: Path, *, rounds: int) -> None:
        self._folder = folder
        self._cores = Cores()
        self._upstream: Server | None = None
        self.rounds = rounds
        self.seconds = 1.0

    @contextmanager
    def upstream(self) -> Iterator[Server]:
        """Run the upstream that the gateway and the relay use."""
        with self._serving("tools.bench.upstream", measured=False) as server:
            self._upstream = server
            yield server

    @contextmanager
    def relay(self) -> Iterator[Server]:
        with self._serving("tools.bench.relay", self._address, measured=True) as server:
            yield server

    @contextmanager
    def gateway(self) -> Iterator[Server]:
        """Run the gateway with its default log, one line for each request."""
        flags = ["serve", "--port", "0", "--upstream", f"{self._address}/v1"]
        with self._serving("dragoman.cli.main", *flags, measured=True) as server:
            yield server

    def load(self, server: Server, case: str, connections: int, seconds: float = 0) -> Result:
        """Send requests to a server for one window."""
        with subprocess.Popen(
            [
                *(sys.executable, "-m", "tools.bench.load", case),
                *("--port", str(server.port), "--process", str(server.process)),
                *("--connections", str(connections), "--seconds", str(seconds or self.seconds)),
            ],
            stdout=subprocess.PIPE,
        ) as child:
            try:
                self._cores.pin(child.pid, measured=False)
                out, _ = child.communicate(timeout=60 + self.seconds)
            finally:
                child.kill()
        if child.returncode:
            raise RuntimeError(f"{case} failed")
        return msgspec.json.decode(out, type=Result)

    @property
    def _address(self) -> str:
        assert self._upstream is not None
        return f"http://127.0.0.1:{self._upstream.port}"

    @contextmanager
    def _serving(self, module: str, *arguments: str, measured: bool) -> Iterator[Server]:
        log = self._folder / f"{module}.log"
        with serving(["-m", module, *arguments], log, self._cores, measured=measured) as server:
            yield server


def bench_gateway(rounds: int) -> Iterator[Row]:
    """Measure the gateway."""
    _allow_files()
    yield _version_row(rounds)
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        bench = Bench(Path(folder), rounds=max(2, rounds // 2))
        with bench.upstream() as upstream:
            with bench.relay() as relay, bench.gateway() as gateway:
                servers = (upstream, relay, gateway)
                yield from _whole_rows(bench, *servers)
                yield from _dense_rows(bench, *servers)
                for streams in (100, 400):
                    yield from _paced_rows(bench, *servers, streams)
            yield from _memory_rows(bench)


def _allow_files() -> None:
    """Raise the limit of open files, so that child processes can hold all measured connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if most == resource.RLIM_INFINITY else min(_FILES, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


# --- rows -----------------------------------------------------------------------------------------------


def _in_turns(
    bench: Bench, relay: Server, gateway: Server, case: str, connections: int
) -> tuple[list[Result], list[Result]]:
    """Return the results of the relay and of the gateway, round by round."""
    floors, works = [], []
    for _ in range(bench.rounds):
        floors.append(bench.load(relay, case, connections))
        works.append(bench.load(gateway, case, connections))
    return floors, works


def _rate(results: list[Result]) -> float:
    """Return the best rate of several windows."""
    return max(one.rate for one in results)


def _cpu(results: list[Result]) -> float:
    """Return the lowest CPU time for one request or event, in microseconds."""
    return min(one.cpu_each for one in results)


def _whole_rows(bench: Bench, upstream: Server, relay: Server, gateway: Server) -> Iterator[Row]:
    alone = bench.load(upstream, "json", 32, 1.0)
    floors, works = _in_turns(bench, relay, gateway, "json", 32)
    ratio = _rate(works) / _rate(floors)
    yield Row(
        "gateway, complete answers, of the relay's rate",
        ratio,
        f"≥ {_WHOLE:g}",
        ratio >= _WHOLE,
        f"{_rate(works):.0f}/s of {_rate(floors):.0f}/s; {_shown_cpu(works, floors)}"
        f" a request; peers alone {alone.rate:.0f}/s",
    )


def _dense_rows(bench: Bench, upstream: Server, relay: Server, gateway: Server) -> Iterator[Row]:
    alone = bench.load(upstream, "dense", 16, 1.0)
    floors, works = _in_turns(bench, relay, gateway, "dense", 16)
    ratio = _rate(works) / _rate(floors)
    yield Row(
        "gateway, dense streams, of the relay's events",
        ratio,
        f"≥ {_DENSE:g}",
        ratio >= _DENSE,
        f"{_rate(works) * EVENTS:.0f}/s of {_rate(floors) * EVENTS:.0f}/s; "
        f"{_shown_cpu(works, floors)} a stream of {EVENTS}; peers alone {alone.rate * EVENTS:.0f}/s",
    )


def _paced_rows(
    bench: Bench, upstream: Server, relay: Server, gateway: Server, streams: int
) -> Iterator[Row]:
    case = paced(streams, _PACE)
    direct = bench.load(upstream, case, streams, 1.0)
    floors, works = _in_turns(bench, relay, gateway, case, streams)
    ratio = _rate(works) / _rate(floors)
    yield Row(
        f"gateway, {streams} paced streams, of the relay's events",
        ratio,
        f"≥ {_PACED:g}",
        ratio >= _PACED,
        f"{_rate(works):.0f}/s of {_rate(floors):.0f}/s",
    )
    if HAS_PROC:
        spent = _cpu(works) / _cpu(floors)
        yield Row(
            f"gateway, {streams} paced streams, CPU over the relay's",
            spent,
            f"≤ {_PACED_CPU:g}",
            spent <= _PACED_CPU,
            f"{_shown_cpu(works, floors)} an event",
        )
    for name, budget in (("p50", _ADDED_P50), ("p99", _ADDED_P99)):
        floor, work = (min(getattr(one, name) for one in each) for each in (floors, works))
        nothing = getattr(direct, name)
        yield Row(
            f"gateway, {streams} paced streams, added {name} in ms",
            work - nothing,
            f"≤ {budget:g}",
            work - nothing <= budget,
            f"relay {floor - nothing:.2f} ms; without either {nothing:.2f} ms",
        )


def _memory_rows(bench: Bench) -> Iterator[Row]:
    """Measure the memory of fresh processes: after load, a process has free memory to reuse."""
    if not HAS_PROC:
        return
    case = paced(_OPEN_STREAMS, _OPEN_STREAMS)
    held: dict[str, float] = {}
    for name, kind in (("relay", bench.relay), ("gateway", bench.gateway)):
        with kind() as server:
            for warming in ("json", "dense"):
                bench.load(server, warming, 1, 0.2)
            idle = resident_bytes(server.process)
            result = bench.load(server, case, _OPEN_STREAMS)
            held[name] = (result.resident - idle) / _OPEN_STREAMS / 1024
    yield Row(
        "gateway, memory of an open stream in KB",
        held["gateway"],
        f"≤ {_STREAM_KB}",
        held["gateway"] <= _STREAM_KB,
        f"at {_OPEN_STREAMS} streams; relay {held['relay']:.1f} KB",
    )


def _version_row(times: int) -> Row:
    spent, bare = [], []
    for arguments, into in (["-c", ""], bare), (["-m", "dragoman.cli.main", "--version"], spent):
        for _ in range(times):
            began = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            into.append((time.perf_counter() - began) * 1000)
    least = min(spent)
    return Row(
        "dragoman --version in ms",
        least,
        f"≤ {_VERSION_MS}",
        least <= _VERSION_MS,
        f"an empty Python program {min(bare):.0f} ms",
    )


def _shown_cpu(works: list[Result], floors: list[Result]) -> str:
    return f"CPU {_cpu(works):.0f} µs, relay {_cpu(floors):.0f} µs,"
