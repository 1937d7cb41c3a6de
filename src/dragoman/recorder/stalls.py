"""Stalls of a stream: times in which nothing came although it had begun."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median_low
from typing import Final, TypeAlias

Gap: TypeAlias = tuple[float, float]  # milliseconds since the request arrived

_LEAST_MS: Final = 1000.0
_TIMES_MEDIAN: Final = 5  # a slow but steady stream does not stall


def stalls(times: Sequence[float]) -> tuple[Gap, ...]:
    """Return the gaps between reads that are much longer than the others; `times` are in order."""
    gaps = list(pairwise(times))
    long = [(start, end) for start, end in gaps if end - start >= _LEAST_MS]
    if not long:
        return ()
    least = _TIMES_MEDIAN * median_low([end - start for start, end in gaps])
    return tuple(gap for gap in long if gap[1] - gap[0] >= least)
