"""Which requests may begin now, and which wait: those of one key, or those to one upstream, share an `Entrance`.

`state/` counts the requests under way, perhaps for several processes.  Beyond the limit, requests wait in a queue of
this process.  Only the first of the queue tries to enter: when a request of this process ends, and every tenth of a
second where other processes share the limit.  The first is the one with the highest priority, and among equals the one
that came first.  Every eighth time it is the one that has waited longest, so that no priority starves.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from dragoman.gateway.state.key_limits import KeyLimits, Meter, Refusal, SharedMeter
from dragoman.gateway.state.redis_link import StateAwayError

T = TypeVar("T")
Unserved: TypeAlias = Literal["full", "timeout", "draining"]  # why a request got no place

_FAIR: Final = 8  # one of so many places goes to the request that has waited longest
_NEWEST: Final = 0.1  # the part of a newly measured time in the mean
_MIN_RETRY_SECONDS: Final = 1.0
_MAX_RETRY_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1  # between two looks for a place that another process has given back


class Counters(Protocol):
    """What counts requests under a digest of 16 bytes; see `State`."""

    def meter(self, digest: bytes) -> Meter: ...
    def shared_meter(self, digest: bytes) -> SharedMeter | None: ...


class QueueLimits(Protocol):
    """The settings of a key or an upstream about its queue."""

    @property
    def max_queue(self) -> int: ...
    @property
    def queue_timeout(self) -> float: ...


class Waiter:
    """One request in a queue."""

    __slots__ = ("ended", "number", "priority", "woken")

    def __init__(self, number: int, priority: int) -> None:
        self.number: int = number  # in order of arrival
        self.priority: int = priority
        self.woken: asyncio.Event = asyncio.Event()
        self.ended: bool = False

    def end(self) -> None:
        """End the wait, because the gateway shuts down."""
        self.ended = True
        self.woken.set()


class RequestQueue:
    """The requests that wait at one entrance."""

    __slots__ = ("_entered", "_lines", "_numbers")

    def __init__(self) -> None:
        self._lines: dict[int, OrderedDict[Waiter, None]] = {}  # by priority, each by arrival
        self._numbers = count()
        self._entered = 0  # from the queue

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def wake(self) -> None:
        """Let the first request try to enter: a place may be free."""
        if self._lines:
            self._first().woken.set()

    def join(self, priority: int) -> Waiter:
        """Put a request into the queue; `wait` removes it."""
        waiter = Waiter(next(self._numbers), priority)
        self._lines.setdefault(priority, OrderedDict())[waiter] = None
        return waiter

    async def wait(
        self,
        waiter: Waiter,
        attempt: Callable[[], Awaitable[T | None]],
        *,
        seconds: float,
        polls: bool,
    ) -> T | Unserved:
        """Return what `attempt` returns once it is not None, or why that did not happen in time.

        `polls`: other processes share the places.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                while not waiter.ended:
                    waiter.woken.clear()
                    if self._first() is waiter:
                        found = await attempt()
                        if found is not None:
                            self._entered += 1
                            return found
                        if polls:
                            loop.call_later(_POLL_SECONDS, waiter.woken.set)
                    await waiter.woken.wait()
        except TimeoutError:
            return "timeout"
        else:
            return "draining"
        finally:
            self._remove(waiter)

    def _remove(self, waiter: Waiter) -> None:
        line = self._lines[waiter.priority]
        del line[waiter]
        if not line:
            del self._lines[waiter.priority]
        self.wake()

    def _first(self) -> Waiter:
        if self._entered % _FAIR == _FAIR - 1:
            firsts = (next(iter(line)) for line in self._lines.values())
            return min(firsts, key=lambda one: one.number)
        return next(iter(self._lines[max(self._lines)]))


class Admission:
    """One request under way.  It must `leave` in the end; leaving twice is harmless.

    `on_leave` is called with the number of tokens by which the estimate was too low.
    """

    __slots__ = ("_entrance", "_estimate", "_left", "_meter", "_on_leave")

    def __init__(
        self, entrance: "Entrance", estimate: int, on_leave: Callable[[int], None] | None = None
    ) -> None:
        self._entrance = entrance
        self._meter = entrance.meter
        self._estimate = estimate
        self._on_leave = on_leave
        self._left = False

    def leave(self, tokens_used: int | None = None) -> None:
        """End the request; `tokens_used` replaces the estimate, None keeps it."""
        if self._left:
            return
        self._left = True
        more = 0 if tokens_used is None else tokens_used - self._estimate
        self._meter.leave(more)
        if self._on_leave is not None:
            self._on_leave(more)
        self._entrance.queue.wake()


class Entrance:
    """Where requests begin that share limits.  Time comes in as monotonic seconds."""

    __slots__ = ("meter", "queue", "shared_meter")

    def __init__(self, counters: Counters | None = None, digest: bytes = b"") -> None:
        """`counters` count under the digest for several processes; without them, this process does."""
        self.meter: Meter = Meter() if counters is None else counters.meter(digest)
        self.shared_meter: SharedMeter | None = (
            None if counters is None else counters.shared_meter(digest)
        )
        self.queue: RequestQueue = RequestQueue()

    @property
    def shared(self) -> bool:
        """Other processes count here too."""
        return self.shared_meter is not None or type(self.meter) is not Meter

    def enter(self, limits: KeyLimits | None, now: float, estimate: int) -> Admission | Refusal:
        """Begin a request of about `estimate` tokens; a refused one costs nothing."""
        refusal = self.meter.enter(limits, now, estimate)
        return Admission(self, estimate) if refusal is None else refusal

    async def enter_shared(
        self, limits: KeyLimits | None, now: float, estimate: int
    ) -> Admission | Refusal:
        """Do the same at the server that counts for several machines; while it is away, count here.

        When it is back, both count until it knows what every machine has admitted.
        """
        shared = self.shared_meter
        if shared is None or limits is None:
            return self.enter(limits, now, estimate)
        counted = shared.catching_up  # here
        if counted and (refusal := self._enter_alone(shared, limits, now, estimate)):
            return refusal
        try:
            ticket = await shared.enter(limits, estimate)
        except StateAwayError:
            refusal = None if counted else self._enter_alone(shared, limits, now, estimate)
            ticket = refusal or shared.owe(estimate)
        except asyncio.CancelledError:  # the client left
            if counted:
                self.meter.leave(-estimate)
            raise
        else:
            if isinstance(ticket, Refusal) and counted:
                self.meter.leave(-estimate)
            elif not isinstance(ticket, Refusal) and not counted:
                self.meter.enter(None, now, estimate)
        if isinstance(ticket, Refusal):
            return ticket
        return Admission(self, estimate, partial(shared.leave, ticket))

    def _enter_alone(
        self, shared: SharedMeter, limits: KeyLimits, now: float, estimate: int
    ) -> Refusal | None:
        """Begin a request within this machine's share of what was left by the last report."""
        if shared.levels is not None:
            self.meter.learn(shared.levels)
        return self.meter.enter(limits, now, estimate)

    def adopt(self, old: "Entrance") -> None:
        """Go on with the queue of another entrance, and with its counts if only this process has them."""
        self.queue = old.queue
        # What several processes count is not in the old entrance.
        if type(self.meter) is Meter:
            self.meter = old.meter


# --- places at an upstream ------------------------------------------------------------------------


class PlaceLimits(Struct, frozen=True):
    """The limit of an upstream, in the form of a key's limits."""

    concurrent: int
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    budget_day: float = 0.0
    budget_month: float = 0.0


class UpstreamPlaces:
    """The requests that one upstream has of this process, and the queue of those that wait."""

    __slots__ = ("_mean_seconds", "entrance", "running")

    def __init__(self, upstream: str, counters: Counters) -> None:
        digest = hashlib.blake2b(upstream.encode(), digest_size=16, person=b"dragoman places")
        self.entrance: Entrance = Entrance(counters, digest.digest())
        self.running: int = 0
        self._mean_seconds = 0.0  # for which a place is held

    async def enter(self, max_concurrent: int) -> "UpstreamPlace | None":
        """Take a place; None: there is none."""
        admission: Admission | None = None
        if max_concurrent:
            now = asyncio.get_running_loop().time()
            entered = await self.entrance.enter_shared(PlaceLimits(max_concurrent), now, 0)
            if not isinstance(entered, Admission):
                return None
            admission = entered
        self.running += 1
        return UpstreamPlace(self, admission)

    def leave(self, seconds: float) -> None:
        """Note that a place was given back after so many seconds."""
        self.running -= 1
        mean = self._mean_seconds
        self._mean_seconds = mean + _NEWEST * (seconds - mean) if mean else seconds

    def retry_after(self, max_concurrent: int) -> float:
        """Return after how many seconds those that wait now have probably been served."""
        ahead = len(self.entrance.queue) + 1
        seconds = self._mean_seconds * ahead / max_concurrent
        return min(max(seconds, _MIN_RETRY_SECONDS), _MAX_RETRY_SECONDS)


class UpstreamPlace:
    """One request at an upstream.  It must `leave` in the end."""

    __slots__ = ("_admission", "_began", "_places")

    def __init__(self, places: UpstreamPlaces, admission: Admission | None) -> None:
        self._places = places
        self._admission = admission
        self._began = asyncio.get_running_loop().time()

    def leave(self) -> None:
        self._places.leave(asyncio.get_running_loop().time() - self._began)
        if self._admission is not None:
            self._admission.leave()
