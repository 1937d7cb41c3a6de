"""Measure Dragoman beside other gateways and floors, and write docs/benchmarks.md.

    python -m tools.bench.compare [--quick | --install | --render]

All servers run at once, each on the measured core, and are loaded one at a time, in turns.  They use the same
upstream and answer the same requests.  The whole run takes less than 15 minutes: once a workload has used its
time, slow servers get no further rounds.  `--quick` measures one round; `--install` only installs the peers and the environments of the Pythons, `--render`
only writes the page again from docs/benchmarks.json, the stored results.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tools.bench import page
from tools.bench.client import bench_client
from tools.bench.gateway import PACES, bench_workers, stream_memory
from tools.bench.measure import Result, Row
from tools.bench.nginx import nginx
from tools.bench.peers import MISSING, PEERS, install, running, version_of
from tools.bench.processes import HAS_PROC, Bench, Server, allow_files
from tools.bench.pythons import measure_pythons, prepare_pythons
from tools.bench.results import Cell, Comparison, Figure, Measured, save
from tools.bench.traffic import WORKLOADS, paced

from dragoman import __version__

_ROUNDS: Final = 3
_WORKLOAD_SECONDS: Final = 45.0  # after which slow servers get no further rounds
_SLOW: Final = 4.0  # seconds for a window
_HELD: Final = 200  # streams
_SLOW_PACE: Final = (5, 500)  # streams and events a second, which every gateway reaches
_ROOM: Final = 1.1  # a server's dense events, over those of a pace that it is loaded with
_FILES: Final = 4000
_BUSY: Final = 0.1  # share of the CPU time that other programs use
_LOOK: Final = 3.0  # seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    for name in ("--quick", "--install", "--render"):
        what.add_argument(name, action="store_true")
    options = parser.parse_args()
    if options.install:
        for peer in PEERS:
            print(f"{peer.name}: {install(peer)}", flush=True)
        prepare_pythons()
        return 0
    if options.render:
        page.write()
        return 0
    for result in compared(rounds=1 if options.quick else _ROUNDS):
        save(result)  # each part as soon as it is measured
        page.write()
    return 0


def compared(rounds: int) -> Iterator[Comparison]:
    """Measure everything, and yield the results so far after each part."""
    allow_files(_FILES)
    begun = time.monotonic()
    used = _used_share()
    result = Comparison(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        machine=_machine(),
        busy=f"{used:.0%}" if used > _BUSY else "",
        missing=dict(MISSING),
    )
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder, ExitStack() as stack:
        run = _Run(Bench(Path(folder), rounds=rounds), result, stack, begun)
        run.start()
        run.memory()
        for case in WORKLOADS:
            run.workload(case)
        for pace in (_SLOW_PACE, *PACES):
            run.pace(*pace)
    parts: dict[str, Callable[[], list[Any]]] = {
        "workers": lambda: [_figure(row) for row in bench_workers(rounds)],
        "readers": lambda: [_figure(row) for row in bench_client(rounds)],
        "pythons": lambda: measure_pythons(min(2, rounds)),
    }
    for name, part in parts.items():
        result.minutes = round((time.monotonic() - begun) / 60, 1)
        yield result
        setattr(result, name, part())
    result.minutes = round((time.monotonic() - begun) / 60, 1)
    yield result


class _Run:
    """All servers, and the results so far."""

    def __init__(self, bench: Bench, result: Comparison, stack: ExitStack, begun: float) -> None:
        self._bench = bench
        self._result = result
        self._stack = stack
        self._begun = begun
        self._servers: dict[str, Server] = {}
        self._upstream: Server

    def start(self) -> None:
        """Start every server, one after the other, and note how long each takes."""
        bench = self._bench
        self._upstream = self._stack.enter_context(bench.upstream())
        self._enter("Dragoman", "dragoman", __version__, bench.gateway)
        self._enter("aiohttp relay", "floor", "", bench.relay, "forwards bytes, on our HTTP stack")
        self._enter("bare relay", "floor", "", bench.bare, "forwards bytes, asyncio and httptools")
        self._enter("nginx", "floor", "", lambda: nginx(bench), "forwards bytes")
        for peer in PEERS:
            folder = install(peer)
            if isinstance(folder, str):
                self._result.missing[peer.name] = folder
                continue
            work = bench.folder / peer.name

            @contextmanager
            def start(peer=peer, folder=folder, work=work) -> Iterator[Server]:
                with running(peer, folder, work, bench.address, bench.cores) as server:
                    yield server

            where = f"{peer.registry}: {peer.package}" + (f"; {peer.note}" if peer.note else "")
            self._enter(peer.name, "peer", version_of(peer, folder), start, where)

    def _enter(
        self, name: str, kind: str, version: str, start: Callable[[], object], note: str = ""
    ) -> None:
        self._progress(f"starting {name}")
        began = time.monotonic()
        try:
            server = self._stack.enter_context(start())  # type: ignore[arg-type]
        except (RuntimeError, OSError) as error:
            self._result.missing[name] = str(error)
            return
        self._servers[name] = server
        self._result.servers[name] = Measured(
            kind=kind, version=version, note=note, start_ms=(time.monotonic() - began) * 1000
        )

    def memory(self) -> None:
        """Measure streams that are open, in fresh processes."""
        if not HAS_PROC:
            return
        for name, server in self._servers.items():
            self._progress(f"memory, {name}")
            measured = self._result.servers[name]
            try:
                measured.stream_kb, measured.idle_mb = stream_memory(
                    self._bench, server, "held", _HELD
                )
            except RuntimeError as error:
                measured.memory_failure = _reason(str(error))

    def workload(self, case: str) -> None:
        self._in_turns(case, dict(self._servers))

    def pace(self, streams: int, events: int) -> None:
        """Load the servers that reach such a rate with dense streams."""
        case = paced(streams, events)
        cells = self._result.cells.setdefault(case, {})
        able = {}
        for name, server in self._servers.items():
            dense = self._result.cells["dense"][name]
            reached = dense.rate * WORKLOADS["dense"].events if dense.rates else 0.0
            if not reached:
                cells[name] = Cell(failure=f"dense streams fail: {dense.failure}")
            elif reached < events * _ROOM:
                cells[name] = Cell(failure=f"it reaches {reached:,.0f} dense events/s at most")
            else:
                able[name] = server
        self._in_turns(case, able, streams=streams)

    def _in_turns(self, case: str, servers: dict[str, Server], streams: int = 0) -> None:
        cells = self._result.cells.setdefault(case, {})
        began = time.monotonic()
        slow: set[str] = set()
        for at in range(self._bench.rounds):
            self._progress(f"{case}, round {at + 1}")
            direct = (
                self._bench.load(self._upstream, case, connections=streams) if streams else None
            )
            for name, server in servers.items():
                cell = cells.setdefault(name, Cell())
                now = time.monotonic()
                if cell.failure or (name in slow and now - began > _WORKLOAD_SECONDS):
                    continue
                result = self._bench.load(server, case, connections=streams)
                if result.failure or not result.done:
                    cell.failure = _reason(result.failure or "no response in the window")
                    if cell.rates:
                        cell.failure = f"round {at + 1} failed: {cell.failure}"
                else:
                    _add(cell, result, direct)
                if time.monotonic() - now > _SLOW:
                    slow.add(name)

    def _progress(self, what: str) -> None:
        print(f"{time.monotonic() - self._begun:4.0f} s  {what}", flush=True)


def _add(cell: Cell, result: Result, direct: Result | None) -> None:
    cell.rates.append(result.rate)
    cell.cpu.append(result.cpu_each)
    if direct is not None:
        cell.p50.append(max(0.0, result.p50 - direct.p50))
        cell.p99.append(max(0.0, result.p99 - direct.p99))
        cell.most.append(max(0.0, result.most - direct.most))


def _reason(text: str) -> str:
    """Return the first part of a message, on one line."""
    short = " ".join(text.split())
    return short if len(short) < 120 else f"{short[:117]}..."


def _figure(row: Row) -> Figure:
    print(f"        {row.name}", flush=True)
    return Figure(row.name, row.value, row.spread, row.detail)


def _used_share() -> float:
    """Return the share of the CPU time that other programs use; 0 where the system does not report it."""
    if not HAS_PROC:
        return 0.0
    before = _cpu_times()
    time.sleep(_LOOK)
    spent = [now - then for now, then in zip(_cpu_times(), before, strict=True)]
    return 1 - (spent[3] + spent[4]) / max(1, sum(spent))  # idle, and waiting for a disk


def _cpu_times() -> list[int]:
    line = Path("/proc/stat").read_text().partition("\n")[0]
    return [int(one) for one in line.split()[1:9]]


def _machine() -> str:
    """Return the processor, the cores, the memory and the interpreter."""
    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((line.partition(": ")[2] for line in lines if "model name" in line), model)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores ({model}), {memory:.0f} GB, {platform.system()} "
        f"{platform.release().partition('-')[0]}, CPython {platform.python_version()}"
    )


if __name__ == "__main__":
    sys.exit(main())
