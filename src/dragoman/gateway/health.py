"""Cool-down: other upstreams are asked first after an upstream failed several times, or sent `retry-after`.

    well ──failures in a row, or `retry-after`──► resting ──time──► one probe ──success──► well
                                                     ▲                  │
                                                     └─────failure──────┘

An upstream that rests is tried last rather than never.  Time comes in as monotonic seconds.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias, TypeVar

T = TypeVar("T")
State: TypeAlias = Literal["well", "failing", "resting"]
Change: TypeAlias = Literal["well", "failing", "resting", ""]  # the new state; empty: the old one

# However long an upstream asks for: a mistaken `retry-after` must not put it away for a day.
LONGEST_REST: Final = 300.0


class Health:
    """The health of one upstream.

    Every request that goes to it ends in one of `failed`, `succeeded` and `abandoned`.
    `failures` or `cooldown` of 0 means that it never rests.
    """

    __slots__ = ("_cooldown", "_failures", "_in_a_row", "_probe_until", "_rest_until")

    def __init__(self, failures: int, cooldown: float) -> None:
        self._failures = failures
        self._cooldown = cooldown
        self._in_a_row = 0
        self._rest_until: float | None = None  # None: it is well
        self._probe_until = -math.inf  # a probe that never ends must not hold its place for ever

    def started(self, now: float) -> None:
        """Note that a request goes to it; the first one after a rest is the probe that others wait for."""
        if self._rest_until is not None and self.resting(now) == 0:
            self._probe_until = now + self._cooldown

    def failed(self, now: float, retry_after: float | None = None) -> Change:
        """Note that a request failed, and the seconds in the upstream's `retry-after`."""
        self._in_a_row += 1
        first: Change = "failing" if self._in_a_row == 1 else ""
        if self._failures <= 0 or self._cooldown <= 0:
            return first
        rest = 0.0
        if retry_after is not None and retry_after > 0:
            rest = min(retry_after, LONGEST_REST)
        asleep = self._is_asleep(now)
        # Requests that were under way when the rest began, and fail in it, do not prolong it.
        if self._in_a_row >= self._failures and not asleep:
            rest = max(rest, self._cooldown)
        if rest:
            until = now + rest
            self._rest_until = until if self._rest_until is None else max(until, self._rest_until)
            self._probe_until = -math.inf
            return "" if asleep else "resting"
        return first

    def succeeded(self) -> Change:
        """Note that it answered, and forget what came before."""
        if not self._in_a_row:
            return ""
        self._in_a_row = 0
        self._rest_until = None
        self._probe_until = -math.inf
        return "well"

    def learn_rest(self, until: float, now: float) -> Change:
        """Note that another gateway lets it rest."""
        if self._failures <= 0 or self._cooldown <= 0:
            return ""
        asleep = self._is_asleep(now)
        self._in_a_row = max(
            self._in_a_row, self._failures
        )  # a probe that fails begins another rest
        self._rest_until = until if self._rest_until is None else max(until, self._rest_until)
        return "" if asleep else "resting"

    def abandoned(self) -> None:
        """Note that a request ended before anything could be learned from it: its client left."""
        self._probe_until = -math.inf

    def state(self, now: float) -> State:
        """Return its state, in one word."""
        if self.resting(now):
            return "resting"
        return "failing" if self._in_a_row else "well"

    def resting(self, now: float) -> float:
        """Return for how many seconds it should be left alone; 0: it may be asked."""
        if self._rest_until is None:
            return 0.0
        return max(0.0, self._rest_until - now, self._probe_until - now)

    def _is_asleep(self, now: float) -> bool:
        return self._rest_until is not None and self._rest_until > now


def in_order(hops: Sequence[T], health_of: Callable[[T], Health], now: float) -> tuple[T, ...]:
    """Return the hops in the order to try them; those whose upstream rests are tried last."""
    well = [hop for hop in hops if not health_of(hop).resting(now)]
    rest = [hop for hop in hops if health_of(hop).resting(now)]
    return (*well, *rest)
