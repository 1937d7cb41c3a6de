"""The core and the gateway with every Python from 3.11 on that this machine has."""

import os
import platform
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec
from tools.bench.gateway import PACES
from tools.bench.measure import Row
from tools.bench.processes import Bench, Server
from tools.bench.results import PythonFigures
from tools.bench.traffic import paced
from tools.pythons import LOCK, VERSIONS, Python, find
from tools.strangers import ROOT
from tools.venvs import environment

CORE: Final = ("text chunk, chat to anthropic", "request of 20 tools, anthropic to chat")
CASES: Final = ("whole", "dense", "agent")
_CORE_SECONDS: Final = 180
_PACE: Final = PACES[1]


def prepare_pythons() -> dict[str, str]:
    """Return the interpreter for each Python, in its own environment, or nothing if there is none."""
    programs = {}
    for version in VERSIONS:
        python = find(version)
        programs[_named(python, version)] = _installed(python) if python else ""
    return programs


def _named(python: Python | None, version: str) -> str:
    return python.version if python else version


def _installed(python: Python) -> str:
    if python.version == platform.python_version():
        return sys.executable
    folder = environment("pythons", LOCK, python.program)
    return str(folder / "bin" / "python") if folder else ""


def measure_pythons(rounds: int) -> list[PythonFigures]:
    """Measure the core in each Python, one after the other, and the gateways of all in turns."""
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    programs = prepare_pythons()
    results = {version: PythonFigures(version) for version in programs}
    for version, program in programs.items():
        if not program:
            results[version].failure = "this machine does not have it"
            continue
        print(f"Python {version}, core", flush=True)
        try:
            results[version].costs = _core(program)
        except (subprocess.SubprocessError, msgspec.DecodeError) as error:
            print(f"        {error}", flush=True)  # the gateway is measured all the same
    print("gateways of each Python", flush=True)
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder, ExitStack() as stack:
        bench = Bench(Path(folder), rounds=rounds)
        stack.enter_context(bench.upstream())
        servers = {
            version: stack.enter_context(bench.gateway(python=program))
            for version, program in programs.items()
            if program
        }
        for _ in range(rounds):
            for version, server in servers.items():
                _round(bench, server, results[version])
    return list(results.values())


def _round(bench: Bench, server: Server, figures: PythonFigures) -> None:
    for case in CASES:
        result = bench.load(server, case)
        if result.failure:
            figures.failure = result.failure
            return
        figures.rates.setdefault(case, []).append(result.rate)
    result = bench.load(server, paced(*_PACE), connections=_PACE[0])
    figures.cpu.append(result.cpu_each)


def _core(program: str) -> dict[str, float]:
    """Return the microseconds of the core's rows."""
    command = [program, "-m", "tools.bench", "--quick", "--json"]
    ran = subprocess.run(
        [*command, "--only", "chunk", "--only", "request"],
        cwd=ROOT,
        capture_output=True,
        timeout=_CORE_SECONDS,
        check=False,
    )
    rows = [msgspec.json.decode(line, type=Row) for line in ran.stdout.splitlines()]
    return {row.name: row.micros for row in rows if row.name in CORE}


def median_rate(figures: PythonFigures, case: str) -> float:
    return statistics.median(figures.rates[case])
