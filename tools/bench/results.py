"""The results of a comparison, stored in docs/benchmarks.json."""

import statistics
from pathlib import Path
from typing import Final

import msgspec
from tools.strangers import ROOT

STORED: Final = ROOT / "docs" / "benchmarks.json"


class Cell(msgspec.Struct):
    """One server under one workload, round by round, until it failed."""

    rates: list[float] = []  # responses a second, or events of paced streams
    cpu: list[float] = []  # microseconds of each
    p50: list[float] = []  # milliseconds that it adds to an event
    p99: list[float] = []
    most: list[float] = []
    failure: str = ""  # why it could not do it, or not again

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


class Measured(msgspec.Struct):
    """A server."""

    kind: str  # dragoman, peer or floor
    version: str = ""
    note: str = ""
    start_ms: float = 0.0
    idle_mb: float = 0.0
    stream_kb: float = 0.0
    memory_failure: str = ""


class Figure(msgspec.Struct):
    """A figure of `make bench`."""

    name: str
    value: float
    spread: str
    detail: str


class PythonFigures(msgspec.Struct):
    """One Python: what parts of the core cost, and the gateway's rates."""

    version: str
    costs: dict[str, float] = {}  # microseconds
    rates: dict[str, list[float]] = {}  # responses a second, round by round
    cpu: list[float] = []  # microseconds of a paced event
    failure: str = ""


class Comparison(msgspec.Struct):
    """A whole run."""

    date: str
    machine: str
    busy: str  # the share of the CPU time that other programs used, if they did
    missing: dict[str, str]  # servers that were not measured, and why
    minutes: float = 0.0
    servers: dict[str, Measured] = {}
    cells: dict[str, dict[str, Cell]] = {}  # by workload, and by server
    workers: list[Figure] = []
    readers: list[Figure] = []
    pythons: list[PythonFigures] = []


def load(path: Path = STORED) -> Comparison:
    return msgspec.json.decode(path.read_bytes(), type=Comparison)


def save(result: Comparison, path: Path = STORED) -> None:
    text = msgspec.json.encode(_rounded(msgspec.to_builtins(result)))
    path.write_bytes(msgspec.json.format(text, indent=1) + b"\n")


def _rounded(value: object) -> object:
    """Return JSON with numbers of four digits at least."""
    if isinstance(value, float):
        return round(value, 3) if abs(value) < 100 else round(value, 1)
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return value
