"""Compares the gateway with a byte relay on the same HTTP stack, to show the cost of the translation.

Four processes: an upstream that writes prebuilt bytes and a client that counts, on one core; and on the other
the gateway, as `dragoman serve` runs it, or the relay, never both at once.  They are loaded in turns, one window
each, and the ratio of each turn counts: its median is the result.
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tools.bench.measure import Result, Row
from tools.bench.nginx import nginx
from tools.bench.processes import (
    HAS_PROC,
    Bench,
    Server,
    allow_files,
    children,
    resident_bytes,
)
from tools.bench.traffic import WORKLOADS, paced

from dragoman.dialects import DIALECT_NAMES, dialect

# Streams, and the events a second of all together: one in 10 ms for each, and the pace of a budget.
PACES: Final = ((50, 5_000), (100, 10_000), (200, 20_000), (400, 40_000))
_BUDGETED: Final = ((100, 10_000), (400, 10_000))
_OPEN: Final = 1000  # streams
_FEW: Final = 200
_FILES: Final = 4 * _OPEN  # two for each stream, in one process
# The budgets.
_LIMITS: Final = {"whole": 0.8, "dense": 0.85}  # of the relay's rate
_PACED: Final = 0.9  # of the relay's events
_PACED_CPU: Final = 0.95  # of the relay's CPU time
_NGINX_CPU: Final = 2.0  # of nginx's
_ADDED: Final = {"p50": 0.5, "p99": 10.0, "most": None}  # milliseconds
_ADDED_P99: Final = 2.0  # times the relay's, at 100 streams
_LEAST_ADDED: Final = 0.1  # milliseconds; less cannot be distinguished from nothing
_STREAM_KB: Final = 32
_VERSION_MS: Final = 100
_RECORDED: Final = {"always": 0.9, "problems": 0.95}  # of the events without recordings
_UNHURRIED: Final = 1  # connection, so that the writing process need not wait for a core
_NAMES: Final = {
    "whole": "complete answers",
    "dense": "dense streams",
    "agent": "short streams with a call",
    "kimi": "Kimi calls in reasoning",
    "qwen": "Qwen3-Coder calls of 64 KB",
    "long": "requests of 1 MB, 400 turns",
}


def bench_gateway(rounds: int) -> Iterator[Row]:
    """Measure the gateway in its normal configuration, beside the relay."""
    allow_files(_FILES)
    yield from _start_rows(rounds)
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        bench = Bench(Path(folder), rounds=max(3, rounds // 2))
        with bench.upstream() as upstream:
            with bench.relay() as relay, bench.gateway() as gateway:
                for case in WORKLOADS:
                    yield _rate_row(bench, case, upstream, relay, gateway)
                for pace in sorted({*PACES, *_BUDGETED}):
                    yield from _paced_rows(bench, pace, upstream, relay, gateway)
                if HAS_PROC and shutil.which("nginx"):
                    yield _nginx_row(bench, gateway)
            if HAS_PROC:
                yield from _memory_rows(bench)


def bench_dialects(rounds: int) -> Iterator[Row]:
    """Measure every pair of dialects, complete and dense, beside a relay of the same upstream's bytes."""
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        bench = Bench(Path(folder), rounds=max(2, rounds // 3), seconds=0.5)
        with bench.upstream():
            for upstream in DIALECT_NAMES:
                path, _ = dialect(upstream).wire_request(b'{"model":"m","stream":true}')
                with (
                    bench.relay(path) as relay,
                    bench.gateway("--upstream-dialect", upstream) as gateway,
                ):
                    for case in ("whole", "dense"):
                        yield from _dialect_rows(bench, case, upstream, relay, gateway)


def bench_recorder(rounds: int) -> Iterator[Row]:
    """Measure what recordings cost a gateway with dense streams.

    The process that writes them is a child of the gateway, and would inherit its core.  It may use both, as it may
    where nothing is pinned; one row shows what it costs where it cannot.
    """
    # The process that writes may still be writing when the gateway has ended.
    temporary = tempfile.TemporaryDirectory(prefix="dragoman-bench-", ignore_cleanup_errors=True)
    with temporary as text, ExitStack() as stack:
        folder = Path(text)
        # The budgets are closer to 1 than two rounds are to each other: the median needs many of them.
        bench = Bench(folder, rounds=2 * rounds)
        stack.enter_context(bench.upstream())
        plain = stack.enter_context(bench.gateway())
        for when, limit in _RECORDED.items():
            settings = folder / f"{when}.toml"
            settings.write_text(_recording(folder / when, when, bench.address), encoding="utf-8")
            with bench.gateway_of(settings) as server:
                if when == "always" and bench.cores.apart:
                    name = "recordings, all processes of the gateway on one core"
                    yield _recorder_row(bench, plain, server, name)
                for process in children(server.process):
                    bench.cores.share(process)
                name = f'recordings, "{when}"'
                yield _recorder_row(
                    bench, plain, server, f"{name}, of the events without", limit=limit
                )
                if HAS_PROC:
                    yield _recorder_cpu_row(bench, plain, server, name, limit=1 / limit)
                yield from _paced_recorder_rows(bench, plain, server, name, limit=limit)


def bench_workers(rounds: int) -> Iterator[Row]:
    """Measure two processes beside one; they share all cores with the upstream and the clients."""
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        bench = Bench(Path(folder), rounds=max(2, rounds // 2), apart=False)
        with (
            bench.upstream(),
            bench.gateway() as one,
            bench.gateway("--workers", "2") as two,
        ):
            for case in ("dense", "whole"):
                floors, works = in_turns(bench, (one, two), case)
                yield Row(
                    name=f"2 workers over 1, {_NAMES[case]}",
                    values=ratios(works, floors),
                    better="higher",
                    detail=_shown_rates(works, floors, WORKLOADS[case].events),
                )


# --- windows in turns -----------------------------------------------------------------------------------


def in_turns(
    bench: Bench,
    servers: Sequence[Server],
    case: str,
    *,
    clients: Sequence[str] = (),
    connections: int = 0,
) -> list[list[Result]]:
    """Return the results of each server, round by round; `clients` are the dialects of their requests."""
    results: list[list[Result]] = [[] for _ in servers]
    for _ in range(bench.rounds):
        for at, server in enumerate(servers):
            client = clients[at] if clients else "anthropic"
            streams = connections or _streams(case)
            result = bench.load(server, case, connections=streams, client=client)
            if result.failure or not result.done:
                raise RuntimeError(f"{case}: {result.failure or 'no responses'}")
            results[at].append(result)
    return results


def _streams(case: str) -> int:
    """Return the number of streams of a paced case; 0 for others."""
    return int(case.split("-")[1]) if case.startswith("paced") else 0


def ratios(works: list[Result], floors: list[Result]) -> list[float]:
    """Return the ratios of the rates, round by round."""
    return [work.rate / floor.rate for work, floor in zip(works, floors, strict=True)]


def cpu_ratios(works: list[Result], floors: list[Result]) -> list[float]:
    """Return the ratios of the CPU times, round by round."""
    return [work.cpu_each / floor.cpu_each for work, floor in zip(works, floors, strict=True)]


def rate_of(results: list[Result], events: int = 1) -> float:
    return statistics.median(one.rate for one in results) * events


def cpu_of(results: list[Result]) -> float:
    """Return the CPU time for one response or event, in microseconds."""
    return statistics.median(one.cpu_each for one in results)


def _shown_rates(works: list[Result], floors: list[Result], events: int) -> str:
    return f"{rate_of(works, events):.0f}/s of {rate_of(floors, events):.0f}/s"


# --- rows -----------------------------------------------------------------------------------------------


def _rate_row(bench: Bench, case: str, upstream: Server, relay: Server, gateway: Server) -> Row:
    alone = bench.load(upstream, case)
    floors, works = in_turns(bench, (relay, gateway), case)
    events = WORKLOADS[case].events
    return Row(
        name=f"{_NAMES[case]}, of the relay's rate",
        values=ratios(works, floors),
        better="higher",
        limit=_LIMITS.get(case),
        detail=f"{_shown_rates(works, floors, events)}; CPU of each {cpu_of(works):.0f} µs, relay "
        f"{cpu_of(floors):.0f} µs; without either {alone.rate * events:.0f}/s",
        guarded=True,
    )


def _nginx_row(bench: Bench, gateway: Server) -> Row:
    streams, events = _BUDGETED[0]
    with nginx(bench) as server:
        floors, works = in_turns(bench, (server, gateway), paced(streams, events))
    return Row(
        name=f"{streams} streams, {events:,} events/s, CPU of an event over nginx's",
        values=cpu_ratios(works, floors),
        better="lower",
        limit=_NGINX_CPU,
        detail=f"{cpu_of(works):.0f} µs, nginx {cpu_of(floors):.0f} µs",
    )


def _paced_rows(
    bench: Bench, pace: tuple[int, int], upstream: Server, relay: Server, gateway: Server
) -> Iterator[Row]:
    budgeted = pace in _BUDGETED
    name = f"{pace[0]} streams, {pace[1]:,} events/s"
    directs, floors, works = in_turns(bench, (upstream, relay, gateway), paced(*pace))
    yield Row(
        name=f"{name}, of the relay's events",
        values=ratios(works, floors),
        better="higher",
        limit=_PACED if budgeted else None,
        detail=f"{_shown_rates(works, floors, 1)}; without either {rate_of(directs):.0f}/s",
        guarded=budgeted,
    )
    if HAS_PROC:
        yield Row(
            name=f"{name}, CPU of an event over the relay's",
            values=cpu_ratios(works, floors),
            better="lower",
            limit=_PACED_CPU if budgeted else None,
            detail=f"{cpu_of(works):.0f} µs, relay {cpu_of(floors):.0f} µs",
            guarded=True,
        )
    for part, limit in _ADDED.items():
        work, floor = (added(each, directs, part) for each in (works, floors))
        yield Row(
            name=f"{name}, added {'maximum' if part == 'most' else part} in ms",
            values=work,
            better="lower",
            limit=limit if budgeted else None,
            detail=f"relay {statistics.median(floor):.2f} ms",
        )
        if part == "p99" and pace == _BUDGETED[0]:
            yield Row(
                name=f"{name}, added p99 over the relay's",
                values=[
                    one / max(least, _LEAST_ADDED) for one, least in zip(work, floor, strict=True)
                ],
                better="lower",
                limit=_ADDED_P99,
                detail=f"the relay's counts as at least {_LEAST_ADDED} ms",
            )


def added(results: list[Result], directs: list[Result], part: str) -> list[float]:
    """Return the milliseconds of latency that a server adds, round by round."""
    pairs = zip(results, directs, strict=True)
    return [max(0.0, getattr(one, part) - getattr(direct, part)) for one, direct in pairs]


def _memory_rows(bench: Bench) -> Iterator[Row]:
    """Measure the memory of fresh processes: after load, a process has free memory to reuse."""
    kinds = {"relay": bench.relay, "gateway": bench.gateway}
    for name, case, streams in (
        (f"{_OPEN} idle streams", "held", _OPEN),
        (f"{_OPEN} streams, 5 events a second each", paced(_OPEN, 5 * _OPEN), _OPEN),
        (f"{_FEW} idle streams", "held", _FEW),
    ):
        held, idle = {}, {}
        for kind, start in kinds.items():
            with start() as server:
                held[kind], idle[kind] = stream_memory(bench, server, case, streams)
        yield Row(
            name=f"KB of a stream, {name}",
            values=[held["gateway"]],
            better="lower",
            limit=_STREAM_KB,
            detail=f"relay {held['relay']:.1f} KB; before them {idle['gateway']:.0f} MB, "
            f"relay {idle['relay']:.0f} MB",
        )


def stream_memory(bench: Bench, server: Server, case: str, streams: int) -> tuple[float, float]:
    """Return the KB of each stream, and the MB of the process before them."""
    for warming in ("whole", "dense"):
        bench.load(server, warming, connections=1, seconds=0.2)
    idle = resident_bytes(server.process)
    result = bench.load(server, case, connections=streams)
    if result.failure:
        raise RuntimeError(result.failure)
    return (result.resident - idle) / streams / 1024, idle / 2**20


def _start_rows(times: int) -> Iterator[Row]:
    bare = [_seconds_of(["-c", ""]) * 1000 for _ in range(times)]
    spent = [_seconds_of(["-m", "dragoman.cli.main", "--version"]) * 1000 for _ in range(times)]
    detail = f"an empty Python program {statistics.median(bare):.0f} ms"
    yield Row(
        name="dragoman --version in ms",
        values=spent,
        better="lower",
        limit=_VERSION_MS,
        detail=detail,
    )
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        bench = Bench(Path(folder), rounds=1)
        with bench.upstream():
            serving = [_milliseconds_to_serve(bench) for _ in range(min(5, times))]
    yield Row(
        name="the gateway serves, in ms after its start",
        values=serving,
        better="lower",
        detail=detail,
    )


def _milliseconds_to_serve(bench: Bench) -> float:
    began = time.perf_counter()
    with bench.gateway():
        return (time.perf_counter() - began) * 1000


def _seconds_of(arguments: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _dialect_rows(
    bench: Bench, case: str, upstream: str, relay: Server, gateway: Server
) -> Iterator[Row]:
    servers = (relay, *[gateway] * len(DIALECT_NAMES))
    floors, *each = in_turns(bench, servers, case, clients=(upstream, *DIALECT_NAMES))
    for client, works in zip(DIALECT_NAMES, each, strict=True):
        yield Row(
            name=f"{_NAMES[case]}, {upstream} upstream to {client} client, of the relay's rate",
            values=ratios(works, floors),
            better="higher",
            detail=_shown_rates(works, floors, 1),
            guarded=True,
        )


def _recorder_row(
    bench: Bench, plain: Server, server: Server, name: str, *, limit: float | None = None
) -> Row:
    floors, works = in_turns(bench, (plain, server), "dense")
    return Row(
        name=name,
        values=ratios(works, floors),
        better="higher",
        limit=limit,
        detail=f"{_shown_rates(works, floors, WORKLOADS['dense'].events)}; CPU of each "
        f"{cpu_of(works):.0f} µs, without {cpu_of(floors):.0f} µs",
        guarded=limit is not None,
    )


def _recorder_cpu_row(
    bench: Bench, plain: Server, server: Server, name: str, *, limit: float
) -> Row:
    """Compare what a stream costs the gateway itself while the writing process need not wait for a core."""
    floors, works = in_turns(bench, (plain, server), "dense", connections=_UNHURRIED)
    return Row(
        name=f"{name}, the gateway's CPU time of a stream over that without",
        values=cpu_ratios(works, floors),
        better="lower",
        limit=limit,
        detail=f"{cpu_of(works):.0f} µs, without {cpu_of(floors):.0f} µs; {_UNHURRIED} connection",
        guarded=True,
    )


def _paced_recorder_rows(
    bench: Bench, plain: Server, server: Server, name: str, *, limit: float
) -> Iterator[Row]:
    """Compare what clients see of streams that arrive at the pace of models."""
    pace = _BUDGETED[0]
    floors, works = in_turns(bench, (plain, server), paced(*pace))
    yield Row(
        name=f"{name}, {pace[0]} streams, {pace[1]:,} events/s, of the events without",
        values=ratios(works, floors),
        better="higher",
        limit=limit,
        detail=f"{_shown_rates(works, floors, 1)}; CPU of an event {cpu_of(works):.0f} µs, without "
        f"{cpu_of(floors):.0f} µs",
    )
    yield Row(
        name=f"{name}, {pace[0]} streams, {pace[1]:,} events/s, more p99 in ms",
        values=added(works, floors, "p99"),
        better="lower",
        detail=f"{statistics.median(one.p99 for one in works):.2f} ms, without "
        f"{statistics.median(one.p99 for one in floors):.2f} ms",
    )


def _recording(folder: Path, when: str, upstream: str) -> str:
    """Return settings of a gateway that records."""
    return (
        f'[server]\nport = 0\n\n[record]\ndir = "{folder}"\nwhen = "{when}"\n\n'
        f'[upstreams.bench]\nbase_url = "{upstream}"\ndialect = "chat"\n\n'
        '[[routes]]\nmatch = { model = "*" }\nto = ["bench/*"]\n'
    )
