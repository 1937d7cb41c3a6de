"""Judges one input of a target: what the target itself asserts, the time per byte, and how time and memory grow.

Seconds depend on the machine and on what else runs there.  So they are processor time, compared with that of the same
process: an input, or a piece of it, is repeated until it has 1 KB, and until it has 8 times as many bytes.  Work that
is linear takes 8 times as long then, quadratic work 64 times.  The same holds for the most memory that Python
allocates, which does not depend on the machine.
"""

import time
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

from tools.fuzz.targets import Choice, Target

# Processor time.  The tracer makes everything some ten times slower.
_SECONDS: Final = 0.5
_SECONDS_PER_BYTE: Final = 300e-6
_ATTEMPTS: Final = 3  # the best of them counts
_EVERY: Final = 256  # inputs of which one is repeated; the content decides which
_SHORT: Final = 1024  # bytes
_TIMES: Final = 8
_TOLERANCE: Final = 3.0  # how many times more a byte of the longer input may take


def judge(target: Target, given: bytes) -> None:
    """Run a target on an input."""
    choice = Choice.of(given)
    seconds = _seconds(target, choice)
    allowed = _SECONDS + _SECONDS_PER_BYTE * len(given)
    slow = seconds > allowed
    if slow:
        seconds = min(_seconds(target, choice) for _ in range(_ATTEMPTS))
        assert seconds < allowed, f"{len(given)} bytes took {seconds:.2f} s of {allowed:.2f} s"
    if slow or zlib.crc32(given) % _EVERY == 0:
        judge_growth(target, choice)


class Cost(NamedTuple):
    """What a run of a target takes."""

    unit: str
    least: float  # what takes less than this is not judged
    of: Callable[[Target, Choice], float]


def _seconds(target: Target, choice: Choice) -> float:
    begun = time.process_time()
    target.run(choice)
    return time.process_time() - begun


def _memory(target: Target, choice: Choice) -> float:
    tracemalloc.start()
    try:
        target.run(choice)
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


COSTS: Final = (
    Cost("processor seconds", 0.01, _seconds),
    Cost("bytes of memory", 1_000_000, _memory),
)


def judge_growth(target: Target, choice: Choice, costs: tuple[Cost, ...] = COSTS) -> None:
    """Assert that time and memory for the repeated input grow no faster than its size."""
    if not choice.data:
        return
    for repeated in (_whole, _piece):
        for cost in costs:
            _judge(cost, lambda size, repeated=repeated: choice._replace(data=repeated(choice.data, size)), target)  # fmt: skip


def _judge(cost: Cost, longer: Callable[[int], Choice], target: Target) -> None:
    def per_byte(size: int) -> float:
        given = longer(size)
        return cost.of(target, given) / len(given.data)

    size = _SHORT * _TIMES
    for _ in range(_ATTEMPTS):
        short, long = per_byte(_SHORT), per_byte(size)
        if long * size < cost.least or long <= _TOLERANCE * short:
            return
        # A short input may end before the expensive part: then the next step is linear.
        if per_byte(size * _TIMES) <= _TOLERANCE * long:
            return
    raise AssertionError(
        f"{size} bytes take {long:.3g} {cost.unit} each,"
        f" and {size * _TIMES} bytes more than {_TOLERANCE:g} times as much each"
    )


def _whole(data: bytes, size: int) -> bytes:
    """Return an input that is repeated."""
    return data * max(1, size // len(data))


def _piece(data: bytes, size: int) -> bytes:
    """Return an input of which a piece in the middle is repeated; the content decides which."""
    chance = zlib.crc32(data)
    start = chance % len(data)
    end = start + 1 + chance // len(data) % min(64, len(data) - start)
    count = max(1, (size - len(data)) // (end - start))
    return data[:start] + data[start:end] * count + data[end:]
