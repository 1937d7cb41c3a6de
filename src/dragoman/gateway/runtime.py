"""Objects that live as long as the gateway and survive a reload of the settings."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from dragoman.gateway.admission import UpstreamPlaces
from dragoman.gateway.capacity import InflightBytes
from dragoman.gateway.health import Health, in_order
from dragoman.gateway.heavy import HeavyWork
from dragoman.gateway.logging import Logger
from dragoman.gateway.metrics import Metrics, Series
from dragoman.gateway.models import Catalogue
from dragoman.gateway.reasoning_hosts import ReasoningHosts
from dragoman.gateway.reasoning_memory import ReasoningMemory
from dragoman.gateway.recording import Recorder
from dragoman.gateway.responses.database import StoreError
from dragoman.gateway.responses.store import ResponsesStore
from dragoman.gateway.routing import Hop
from dragoman.gateway.state.notes import share_learned
from dragoman.gateway.state.state import State
from dragoman.gateway.token_counting import Calibration
from dragoman.gateway.traces import Traces
from dragoman.gateway.vendor_ids import GivenIds
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.transport import Connector
from dragoman.turn.events import Fault

TICK_SECONDS: Final = 0.2  # between two looks at all open streams
_EARLY_SECONDS: Final = 1.0  # a rest that ends so much before its time was ended by a gateway
_NOTE_SECONDS: Final = 1.0  # an answer does not wait longer for the store
_REPORTED: Final = "another process reports it"  # why an upstream rests, or is well again


class TimedStream(Protocol):
    def tick(self, now: float) -> None:
        """Do what is due; `now` is the event loop's time."""
        ...

    def abort(self, fault: Fault, *, final: bool = False) -> None: ...


class DeadlineClock:
    """One slow clock for the deadlines and keep-alive bytes of all open streams.

    A timer for each read would cost more than the read.  Every open stream is looked at a few times a second
    instead, and only a late one costs anything.
    """

    def __init__(self) -> None:
        self.streams: set[TimedStream] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, stream: TimedStream) -> None:
        self.streams.add(stream)
        if self._timer is None:
            self._start()

    def remove(self, stream: TimedStream) -> None:
        self.streams.discard(stream)

    def _start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for stream in tuple(self.streams):
            stream.tick(now)
        if self.streams:
            self._start()


class Runtime:
    """Connections, clocks and memories.  Made inside the event loop."""

    def __init__(
        self,
        *,
        logger: Logger,
        store: ResponsesStore | None,
        memory: ReasoningMemory,
        state: State,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.connector: Connector = Connector(limits)
        self.catalogue: Catalogue = Catalogue(self.connector)
        self.deadlines: DeadlineClock = DeadlineClock()
        self.calibration: Calibration = Calibration()
        self.heavy: HeavyWork = HeavyWork()
        self.logger = logger
        self.store = store
        self.memory = memory
        self.state = state
        self.inflight: InflightBytes = InflightBytes()
        self.open_requests: int = 0
        self.reasoning_hosts: ReasoningHosts = ReasoningHosts()
        self.given: GivenIds = GivenIds()
        self.recorder: Recorder = Recorder(logger)
        self.metrics: Metrics = Metrics(self._gauges)
        self.queued: Counter[tuple[str, str]] = Counter()  # requests in queues, by kind and name
        self._places: dict[str, UpstreamPlaces] = {}
        self.traces: Traces | None = None
        self._health: dict[str, Health] = {}
        self._rests: Mapping[str, float] = {}  # when rests that any gateway knows end
        state.watch_rests(self._learn_rests)
        self._learning: asyncio.Task[None] | None = None
        if state.notes is not None:
            learners = (self.calibration, self.reasoning_hosts)
            self._learning = asyncio.create_task(share_learned(state.notes, learners))

    def health(self, hop: Hop) -> Health:
        """Return the health of an upstream."""
        found = self._health.get(hop.upstream_name)
        if found is None:
            found = Health(hop.upstream.failures, hop.upstream.cooldown)
            self._health[hop.upstream_name] = found
            if (until := self._rests.get(hop.upstream_name)) is not None:
                found.learn_rest(until, asyncio.get_running_loop().time())
        return found

    def places(self, upstream: str) -> UpstreamPlaces:
        """Return the requests that an upstream has, and those that wait for a place there."""
        found = self._places.get(upstream)
        if found is None:
            found = self._places[upstream] = UpstreamPlaces(upstream, self.state)
        return found

    def running(self, upstream: str) -> int:
        """Return how many requests an upstream has of this process, if they are counted."""
        places = self._places.get(upstream)
        return 0 if places is None else places.running

    def _learn_rests(self, rests: Mapping[str, float]) -> None:
        """Take in which upstreams rest according to other gateways, and which of them answer again."""
        now = asyncio.get_running_loop().time()
        known, self._rests = self._rests, {name: now + left for name, left in rests.items()}
        for name, until in self._rests.items():
            if name in self._health and self._health[name].learn_rest(until, now):
                self.logger.notice(
                    "upstream resting",
                    level="warning",
                    upstream=name,
                    seconds=round(until - now, 1),
                    reason=_REPORTED,
                )
        for name, until in known.items():
            # A rest that is over by time ends as always: with one probe.
            ended = name not in rests and until - now > _EARLY_SECONDS
            if ended and name in self._health and self._health[name].succeeded():
                self.logger.notice("upstream well", upstream=name, reason=_REPORTED)

    def states(self, upstreams: Iterable[str]) -> dict[str, dict[str, str | float]]:
        """Return the state of each upstream in this process, and for how many seconds one gets no requests."""
        now = asyncio.get_running_loop().time()
        states: dict[str, dict[str, str | float]] = {}
        for name in upstreams:
            health = self._health.get(name)
            if health is None:  # not asked yet by this gateway
                seconds = max(0.0, self._rests.get(name, now) - now)
                states[name] = {"state": "resting" if seconds else "well"}
            else:
                seconds = health.resting(now)
                states[name] = {"state": health.state(now)}
            if seconds:
                states[name]["seconds"] = round(seconds, 1)
            if name in self._places:
                states[name]["requests"] = self._places[name].running
                states[name]["queued"] = self.queued["upstream", name]
        return states

    def _gauges(self) -> dict[Series, float]:
        """Return what the metrics show of this moment."""
        now = asyncio.get_running_loop().time()
        # An upstream that this process has not asked yet may rest because of what others saw.
        rests = {name: float(until > now) for name, until in self._rests.items()}
        rests |= {name: float(health.resting(now) > 0) for name, health in self._health.items()}
        figures: dict[Series, float] = {
            ("upstream_resting", name): rest for name, rest in rests.items()
        }
        for place, number in self.queued.items():
            figures["queued_requests", *place] = number
        for name, places in self._places.items():
            figures["upstream_requests", name] = places.running
        status = self.state.status
        if status:
            figures["state_connected",] = float(status == "connected")
        return {
            ("open_streams",): len(self.deadlines.streams),
            ("open_requests",): self.open_requests,
            ("request_body_bytes",): self.inflight.total,
            **figures,
        }

    def forget(self) -> None:
        """Give every upstream another chance: its settings may be new."""
        self._health.clear()
        self.reasoning_hosts.forget()
        self.catalogue.forget()

    def in_order(self, hops: Sequence[Hop]) -> tuple[Hop, ...]:
        """Return the hops in the order to try them."""
        if len(hops) == 1:
            return tuple(hops)
        return in_order(hops, self.health, asyncio.get_running_loop().time())

    async def was_given(self, owner: str, one: str) -> bool:
        """Return whether an owner was given an id of state that an upstream keeps."""
        if self.given.has(owner, one):
            return True
        return self.store is not None and one in await self.store.find_given(owner, (one,))

    async def note_given(self, owner: str, ids: Collection[str]) -> None:
        """Remember ids that an owner was given, beyond this process if there is a store."""
        self.given.add(owner, ids)
        if self.store is None or not ids:
            return
        try:
            async with asyncio.timeout(_NOTE_SECONDS):
                await self.store.note_given(owner, ids)
        except (StoreError, TimeoutError) as error:  # an answer is not lost for it
            self.logger.notice(
                "ids not kept", level="warning", why=str(error) or "it took too long"
            )

    async def close(self) -> None:
        if self._learning is not None:
            self._learning.cancel()
        self.metrics.stop()
        self.heavy.close()
        await self.recorder.stop()
        if self.traces is not None:
            await self.traces.close()
        await self.connector.close()
        if self.store is not None:
            await self.store.close()
