"""Rows of a benchmark, and a function measured against its floor in turns, several times."""

import gc
import statistics
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec


class Row(msgspec.Struct, kw_only=True):
    """One measured figure: its median over several rounds, their spread, and its budget."""

    name: str
    values: list[float]  # one for each round
    better: Literal["higher", "lower"]
    limit: float | None = None  # the budget
    detail: str = ""
    # `make bench-check` compares it: a ratio of two figures of the same round, which hardly depends on the machine
    guarded: bool = False
    micros: float = 0.0  # what one chunk or request costs, where that is what is measured

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> str:
        return f"{min(self.values):.2f} to {max(self.values):.2f}"

    @property
    def holds(self) -> bool:
        if self.limit is None:
            return True
        return self.value >= self.limit if self.better == "higher" else self.value <= self.limit

    @property
    def budget(self) -> str:
        if self.limit is None:
            return ""
        return f"{'≥' if self.better == 'higher' else '≤'} {self.limit:g}"


class Timing(NamedTuple):
    """The ratios of alternating timings, and the median seconds of each side."""

    ratios: list[float]
    work: float
    floor: float


def ratio_of(work: Callable[[], None], floor: Callable[[], None], rounds: int) -> Timing:
    """Time a function and its floor in turns."""
    ratios, works, floors = [], [], []
    work()
    floor()
    for _ in range(rounds):
        gc.collect()
        begin = time.process_time()
        floor()
        middle = time.process_time()
        work()
        end = time.process_time()
        floors.append(middle - begin)
        works.append(end - middle)
        ratios.append((end - middle) / (middle - begin))
    return Timing(ratios, statistics.median(works), statistics.median(floors))


class Result(msgspec.Struct):
    """What the load program measured in one window."""

    done: int = 0  # responses, or events of paced streams
    seconds: float = 0.0
    cpu: float = 0.0  # seconds of the server process
    resident: int = 0  # its memory, in bytes
    p50: float = 0.0  # latency of an event, in milliseconds
    p99: float = 0.0
    most: float = 0.0
    failure: str = ""  # why the server could not do it; the figures are then meaningless

    @property
    def rate(self) -> float:
        return self.done / self.seconds

    @property
    def cpu_each(self) -> float:
        """Microseconds for one response or event."""
        return self.cpu / self.done * 1e6 if self.done else 0.0
