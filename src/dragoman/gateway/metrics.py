"""What the gateway counts, and `/metrics`, the page on which Prometheus reads it.

Counting costs a few additions to dictionaries; names, labels and text are made when the page is read.  Labels have few
values: names from the settings and from tables in the code, never a model's or a client's text.

With several workers, each one writes its figures to a file in a folder that they share, once a second.  The worker that
is asked for the page adds the files of the others to its own figures.  The figures of a worker that ended stay, so that
no counter goes back.
"""

import asyncio
import os
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec import Struct

from dragoman._version import __version__
from dragoman.gateway.logging import RequestRecord
from dragoman.gateway.prices import in_dollars, nanodollars
from dragoman.turn.events import CUT_REASONS
from dragoman.turn.server_tools import ServerKind

if TYPE_CHECKING:
    from prometheus_client import Metric

PATH: Final = "/metrics"
# Of `prometheus_client`, which is imported with the first page.
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Series: TypeAlias = tuple[str, ...]  # a metric and the values of its labels

COUNTERS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "requests": ("Requests that were answered.", ("dialect", "route", "upstream", "status")),
    "request_errors": ("Requests that failed, by kind of failure.", ("upstream", "kind")),
    "truncations": ("Responses that are not complete, by cause.", ("upstream", "cause")),
    "input_tokens": ("Input tokens, cached ones included.", ("upstream", "key")),
    "cached_input_tokens": ("Input tokens read from a prompt cache.", ("upstream", "key")),
    "output_tokens": ("Output tokens, reasoning included.", ("upstream", "key")),
    "reasoning_tokens": ("Output tokens of reasoning.", ("upstream", "key")),
    "cost_dollars": ("Cost in US dollars, reported or computed.", ("upstream", "key")),
    "unpriced_requests": (
        "Requests of keys with a budget whose cost is not known.",
        ("upstream", "key"),
    ),
    "calls": ("Tool calls in responses.", ("upstream",)),
    "server_calls": ("Uses of tools that the vendor runs.", ("upstream", "tool")),
    "native_calls": ("Tool calls that were found in text.", ("family", "channel")),
    "native_problems": ("Problems with tool calls in text.", ("family", "code")),
    "losses": ("Requests in which something was dropped or repaired.", ("code",)),
    "retries": ("Repeated attempts at the same upstream.", ("upstream",)),
    "continuations": ("Requests that continue an answer which its upstream paused.", ("upstream",)),
    "fallbacks": (
        "Requests that went on to this upstream after another failed.",
        ("route", "upstream"),
    ),
    "upstream_errors": ("Attempts that failed.", ("upstream", "kind")),
    "cooldowns": ("Times that an upstream began to rest.", ("upstream",)),
    "queue_refusals": (
        "Requests that got no place, by cause: full, timeout or draining.",
        ("queue", "name", "cause"),
    ),
}
HISTOGRAMS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "request_seconds": ("Time from a request to the end of its response.", ("upstream",)),
    "first_event_seconds": ("Time from a request to the first content.", ("upstream",)),
    "event_gap_seconds": ("Time between two reads of a stream.", ("upstream",)),
    "queue_seconds": ("Time that a request waited for a place.", ("queue", "name")),
}
GAUGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "open_requests": ("Requests in progress.", ()),
    "open_streams": ("Requests that an upstream is being asked for.", ()),
    "request_body_bytes": ("Bytes of request bodies in memory.", ()),
    "upstream_resting": ("1 while an upstream gets no requests.", ("upstream",)),
    "queued_requests": ("Requests that wait for a place.", ("queue", "name")),
    "upstream_requests": (
        "Requests that an upstream has, if its places are counted.",
        ("upstream",),
    ),
    "state_connected": ("1 while the server of shared state responds.", ()),
    "workers": ("Processes that serve.", ()),
    "budget_dollars": ("What a key may spend in the period.", ("key", "period")),
    "budget_spent_dollars": ("What a key has spent in the period.", ("key", "period")),
}
# Gauges that are the same for all workers: the largest is shown, not the sum.
_COMMON: Final = frozenset({"budget_dollars", "budget_spent_dollars", "upstream_resting"})
# Counters in nano-dollars, so that their sums are exact.
_NANO: Final = frozenset({"cost_dollars"})
BOUNDS: Final[dict[str, tuple[float, ...]]] = {
    "request_seconds": (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600),
    "first_event_seconds": (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    "event_gap_seconds": (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    "queue_seconds": (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
}
_MOST_SERIES: Final = 5_000  # of one process; beyond it the values of labels become `other`
_OTHER: Final = "other"
_CUT_REASONS: Final = frozenset(reason.value for reason in CUT_REASONS)
_WRITE_SECONDS: Final = 1.0
_GONE_SECONDS: Final = 10.0  # a worker that has not written for so long has ended
_SUFFIX: Final = ".figures"


class Timing(Struct):
    """How often values fell into each bucket of a histogram, and their sum."""

    buckets: list[int]
    total: float = 0.0


class Figures(Struct):
    """What one process has counted."""

    counts: dict[Series, float]
    timings: dict[Series, Timing]
    gauges: dict[Series, float]


class Metrics:
    """The counters of this process.

    `gauges` returns what is true at the moment.
    """

    def __init__(self, gauges: Callable[[], dict[Series, float]]) -> None:
        self._counts: defaultdict[Series, float] = defaultdict(float)
        self._timings: dict[Series, Timing] = {}
        self._gaps: dict[str, Callable[[float], None]] = {}  # by upstream
        self._gauges = [gauges]
        self._folder: Path | None = None
        self._writing: asyncio.TimerHandle | None = None

    def show(self, gauges: Callable[[], dict[Series, float]]) -> None:
        """Show more of what is true at the moment."""
        self._gauges.append(gauges)

    # --- counting ----------------------------------------------------------------------------------

    def count(self, *series: str, by: float = 1) -> None:
        """Add to a counter: its name and the values of its labels."""
        counts = self._counts
        if series not in counts and len(counts) >= _MOST_SERIES:
            series = (series[0], *(_OTHER for _ in series[1:]))
        counts[series] += by

    def observe(self, seconds: float, *series: str) -> None:
        """Add a value to a histogram: its name and the values of its labels."""
        bounds = BOUNDS[series[0]]
        timing = self._timing(series)
        timing.buckets[bisect_left(bounds, seconds)] += 1
        timing.total += seconds

    def _timing(self, series: Series) -> Timing:
        timing = self._timings.get(series)
        if timing is None:
            if len(self._timings) >= _MOST_SERIES:
                series = (series[0], *(_OTHER for _ in series[1:]))
            timing = self._timings.setdefault(series, _empty(series[0]))
        return timing

    def gaps(self, upstream: str) -> Callable[[float], None]:
        """Return a function that takes the time between two reads of one upstream's stream."""
        known = self._gaps.get(upstream)
        if known is not None:
            return known  # a function for each open stream would take 400 bytes
        timing, bounds = self._timing(("event_gap_seconds", upstream)), BOUNDS["event_gap_seconds"]
        buckets = timing.buckets

        def gap(seconds: float) -> None:
            buckets[bisect_left(bounds, seconds)] += 1
            timing.total += seconds

        self._gaps[upstream] = gap
        return gap

    def request(self, record: RequestRecord) -> None:
        """Count a request from its line in the log."""
        count, upstream, key = self.count, record.upstream, record.key
        count("requests", record.dialect, record.route, upstream, str(record.status))
        self.observe(record.duration_ms / 1000, "request_seconds", upstream)
        if record.error:
            count("request_errors", upstream, record.error)
        if not upstream:
            return
        cause = _truncation(record)
        if cause:
            count("truncations", upstream, cause)
        if record.first_event_ms is not None:
            self.observe(record.first_event_ms / 1000, "first_event_seconds", upstream)
        if not record.tokens_estimated:
            count("input_tokens", upstream, key, by=record.tokens_in)
            count("cached_input_tokens", upstream, key, by=record.tokens_cached)
            count("output_tokens", upstream, key, by=record.tokens_out)
            count("reasoning_tokens", upstream, key, by=record.tokens_reasoning)
        if record.cost:
            count("cost_dollars", upstream, key, by=nanodollars(record.cost))
        if record.continued:
            count("continuations", upstream, by=record.continued)
        if record.calls:
            count("calls", upstream, by=record.calls)
        if record.searches:
            count("server_calls", upstream, ServerKind.WEB_SEARCH.value, by=record.searches)
        if record.fetches:
            count("server_calls", upstream, ServerKind.WEB_FETCH.value, by=record.fetches)
        if record.code_runs:
            count("server_calls", upstream, ServerKind.CODE.value, by=record.code_runs)
        if record.mcp_calls:
            count("server_calls", upstream, ServerKind.MCP.value, by=record.mcp_calls)
        if record.images:
            count("server_calls", upstream, ServerKind.IMAGE.value, by=record.images)
        for code in record.warnings:
            count("losses", code)
        for found in record.native_found:
            count("native_calls", found.family, found.channel, by=found.calls)
            for problem in found.problems:
                count("native_problems", found.family, problem.code, by=problem.count)

    # --- reading -----------------------------------------------------------------------------------

    def page(self) -> bytes:
        """Return the page for Prometheus, of all workers."""
        return render([self._figures(), *self._others()])

    def _figures(self) -> Figures:
        gauges: dict[Series, float] = {("workers",): 1}
        for one in self._gauges:
            gauges |= one()
        return Figures(self._counts, self._timings, gauges)

    # --- several workers ---------------------------------------------------------------------------

    def share(self, folder: Path) -> None:
        """Write the figures of this process into a folder from now on, and read those of others there."""
        self._folder = folder
        self._write()

    def stop(self) -> None:
        """Write the figures for the last time."""
        if self._writing is not None:
            self._writing.cancel()
            self._write(again=False)

    def _write(self, *, again: bool = True) -> None:
        assert self._folder is not None  # noqa: S101 -- set by `share`
        figures = self._figures()
        if not again:
            figures.gauges = {}
        path = self._folder / f"{os.getpid()}{_SUFFIX}"
        part = path.with_suffix(".part")
        # A full disk must not end requests: the page then lacks this worker's newest figures.
        with suppress(OSError):
            made = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(made, "wb") as file:
                file.write(msgspec.msgpack.encode(figures))
            part.replace(path)
        if again:
            loop = asyncio.get_running_loop()
            self._writing = loop.call_later(_WRITE_SECONDS, self._write)

    def _others(self) -> Iterator[Figures]:
        if self._folder is None:
            return
        own = f"{os.getpid()}{_SUFFIX}"
        for path in self._folder.glob(f"*{_SUFFIX}"):
            if path.name == own:
                continue
            try:
                figures = msgspec.msgpack.decode(path.read_bytes(), type=Figures)
                written = path.stat().st_mtime
            except (OSError, msgspec.DecodeError):
                continue
            if time.time() - written > _GONE_SECONDS:
                figures.gauges = {}
            yield figures


def _empty(name: str) -> Timing:
    return Timing([0] * (len(BOUNDS[name]) + 1))


def _truncation(record: RequestRecord) -> str:
    """Return why a response is not complete; empty: it is, or it never began."""
    if record.ended in _CUT_REASONS:
        return record.ended
    if record.first_event_ms is None:
        return ""
    if record.ended == "client_left":
        return record.ended
    return record.error_code or record.error


def render(processes: Iterable[Figures]) -> bytes:
    """Return the page for Prometheus with the sums of several processes."""
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 -- 40 ms
    from prometheus_client.registry import Collector  # noqa: PLC0415

    summed = _sum(processes)

    class Page(Collector):
        def collect(self) -> "Iterator[Metric]":
            return _families(summed)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Page())
    return generate_latest(registry)


def _sum(processes: Iterable[Figures]) -> Figures:
    total = Figures(defaultdict(float), {}, defaultdict(float))
    for one in processes:
        for series, value in one.counts.items():
            total.counts[series] += value
        for series, value in one.gauges.items():
            before = total.gauges[series]
            total.gauges[series] = max(before, value) if series[0] in _COMMON else before + value
        for series, timing in one.timings.items():
            into = total.timings.setdefault(series, _empty(series[0]))
            into.buckets = [a + b for a, b in zip(into.buckets, timing.buckets, strict=True)]
            into.total += timing.total
    return total


def _families(figures: Figures) -> "Iterator[Metric]":
    from prometheus_client import core  # noqa: PLC0415

    info = core.InfoMetricFamily("dragoman_build", "The version that serves.")
    info.add_metric((), {"version": __version__})
    yield info
    for name, (about, labels) in COUNTERS.items():
        counter = core.CounterMetricFamily(f"dragoman_{name}", about, labels=labels)
        for values, value in _of(name, figures.counts):
            counter.add_metric(values, in_dollars(int(value)) if name in _NANO else value)
        yield counter
    for name, (about, labels) in GAUGES.items():
        gauge = core.GaugeMetricFamily(f"dragoman_{name}", about, labels=labels)
        for values, value in _of(name, figures.gauges):
            gauge.add_metric(values, value)
        yield gauge
    for name, (about, labels) in HISTOGRAMS.items():
        histogram = core.HistogramMetricFamily(f"dragoman_{name}", about, labels=labels)
        for series, timing in sorted(figures.timings.items()):
            if series[0] == name:
                histogram.add_metric(series[1:], _cumulative(name, timing), timing.total)
        yield histogram


def _of(name: str, values: Mapping[Series, float]) -> Iterator[tuple[Sequence[str], float]]:
    for series, value in sorted(values.items()):
        if series[0] == name:
            yield series[1:], value


def _cumulative(name: str, timing: Timing) -> list[tuple[str, float]]:
    total, buckets = 0, []
    for bound, number in zip((*BOUNDS[name], float("inf")), timing.buckets, strict=True):
        total += number
        buckets.append(("+Inf" if bound == float("inf") else str(float(bound)), float(total)))
    return buckets
