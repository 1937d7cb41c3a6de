"""Measures a function and its floor alternately, several times."""

import gc
import statistics
import time
from collections.abc import Callable

import msgspec


class Row(msgspec.Struct):
    """One budget and its measured value."""

    name: str
    ratio: float
    budget: str
    holds: bool
    detail: str


def ratio_of(
    work: Callable[[], None], floor: Callable[[], None], rounds: int
) -> tuple[float, float, float]:
    """Return the median ratio of two alternating timings, and the median seconds of each."""
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
    return statistics.median(ratios), statistics.median(works), statistics.median(floors)
