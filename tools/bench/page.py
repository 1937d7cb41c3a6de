"""Writes docs/benchmarks.md and its pictures from the stored results of a comparison."""

import statistics
from collections.abc import Callable, Iterator
from typing import Final

from tools.bench.plots import THEMES, Bar, Panel, picture
from tools.bench.pythons import CASES, CORE, median_rate
from tools.bench.results import Cell, Comparison, Figure, Measured, PythonFigures, load
from tools.bench.traffic import WORKLOADS
from tools.strangers import ROOT

PAGE: Final = ROOT / "docs" / "benchmarks.md"
IMAGES: Final = ROOT / "docs" / "images"
RELAY: Final = "aiohttp relay"
# The columns: a heading, and the unit of a response.
_COLUMNS: Final = {
    "whole": "complete answers/s",
    "dense": "dense events/s",
    "agent": "short streams/s",
    "long": "1 MB requests/s",
    "kimi": "Kimi calls/s",
    "qwen": "Qwen calls of 64 KB/s",
}
_PLOTTED: Final = {
    "whole": ("Complete answers per second", "18.6 KB request with 12 tools, 2 KB response"),
    "dense": ("Streamed events per second", "204 events in a response, written at once"),
    "agent": ("Short streams per second", "30 events with a tool call, as coding agents get them"),
}


def write() -> None:
    result = load()
    PAGE.write_text(render(result), encoding="utf-8")
    for name, text in pictures(result).items():
        (IMAGES / name).write_text(text, encoding="utf-8")


# --- pictures -------------------------------------------------------------------------------------------


def pictures(result: Comparison) -> dict[str, str]:
    """Return the pictures by their file names."""
    panels = {
        "benchmarks-throughput": (
            "Throughput of gateways on one core",
            [_rate_panel(result, case) for case in _PLOTTED],
        ),
        "benchmarks-cost": ("Cost of gateways", list(_cost_panels(result))),
    }
    return {
        f"{name}{suffix}.svg": picture(title, shown, theme)
        for name, (title, shown) in panels.items()
        for suffix, theme in THEMES.items()
    }


def _rate_panel(result: Comparison, case: str) -> Panel:
    events = WORKLOADS[case].events if case == "dense" else 1
    bars = [
        _bar(result, name, [rate * events for rate in cell.rates], _number)
        for name, cell in _in_order(result, case, lambda cell: -cell.rate)
    ]
    title, note = _PLOTTED[case]
    return Panel(title, f"{note}; more is better", bars)


def _cost_panels(result: Comparison) -> Iterator[Panel]:
    slowest = _paces(result)[0]
    bars = [
        _bar(result, name, cell.cpu, lambda value: f"{value:,.0f} µs")
        for name, cell in _in_order(result, slowest, lambda cell: statistics.median(cell.cpu))
    ]
    note = f"{_pace_name(slowest)}; less is better"
    yield Panel("CPU time of an event that arrives alone", note, bars)
    held = {
        name: one.stream_kb
        for name, one in result.servers.items()
        if not one.memory_failure and one.stream_kb > 0
    }
    bars = [
        _bar(result, name, [held[name]], lambda value: f"{value:,.0f} KB")
        for name in sorted(held, key=lambda name: held[name])
    ]
    yield Panel("Memory of an open stream", "200 streams; less is better", bars)


def _in_order(
    result: Comparison, case: str, key: Callable[[Cell], float]
) -> list[tuple[str, Cell]]:
    cells = {name: cell for name, cell in result.cells[case].items() if cell.rates}
    return sorted(cells.items(), key=lambda item: key(item[1]))


def _bar(result: Comparison, name: str, values: list[float], label: Callable[[float], str]) -> Bar:
    value = statistics.median(values)
    kind = result.servers[name].kind
    return Bar(name, kind, value, min(values), max(values), label(value))


# --- the page -------------------------------------------------------------------------------------------


def render(result: Comparison) -> str:
    parts = [
        *_beginning(result),
        *_servers(result),
        *_throughput(result),
        *_paced(result),
        *_memory(result),
        *_more(result),
        *_pythons(result.pythons),
    ]
    return "\n".join(parts) + "\n"


def _beginning(result: Comparison) -> Iterator[str]:
    yield "# Benchmarks"
    yield ""
    yield "<!-- Written by `make bench-peers`; the text is in tools/bench/page.py. -->"
    yield ""
    yield (
        "`make bench-peers` measures Dragoman beside other gateways that take Anthropic Messages and use a Chat "
        "upstream, and writes this page."
    )
    yield "[performance.md](performance.md) has the budgets, which `make bench` measures without other gateways."
    yield ""
    yield f"* Date: {result.date}; the run took {result.minutes:g} minutes."
    yield f"* Machine: {result.machine}."
    if result.busy:
        yield (
            f"* **The machine was busy**: other programs used {result.busy} of its CPU time before the run. These "
            "figures are rough, and times of events in particular are far too high."
        )
    yield (
        "* Every server runs as one process on one core; the upstream and the clients share another. Servers are "
        "loaded one at a time, in turns."
    )
    yield (
        "* A figure is the median of up to three rounds, with the lowest and the highest. `x` is the ratio to "
        "the byte relay in the same run: figures depend on the machine, ratios hardly."
    )
    yield "* A cell without a figure has a number; the reason is below the table."
    yield ""


def _servers(result: Comparison) -> Iterator[str]:
    yield "## What was measured"
    yield ""
    yield "| | Version | |"
    yield "|---|---|---|"
    for name, one in result.servers.items():
        yield f"| {name} | {one.version} | {one.note or 'as `dragoman serve` runs it'} |"
    yield ""
    if result.missing:
        yield "Not measured:"
        yield ""
        for name, reason in result.missing.items():
            yield f"* {name}: {_plain(reason)}"
        yield ""


def _throughput(result: Comparison) -> Iterator[str]:
    yield "## Throughput"
    yield ""
    yield from _image("benchmarks-throughput", "Bars of the first three columns of the table below")
    notes = _Notes()
    yield "| | " + " | ".join(_COLUMNS.values()) + " |"
    yield "|---|" + "--:|" * len(_COLUMNS)
    for name in result.servers:
        cells = (_rate_text(result, case, name, notes) for case in _COLUMNS)
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""
    yield from notes.lines()
    yield (
        "Complete answers: 32 connections, a request of 18.6 KB with 12 tools, a response of 2 KB. "
        "Dense events: 16 connections, 204 events of 265 bytes. "
        "Short streams: 30 events with a tool call. "
        "1 MB requests: a conversation of 400 turns, with a response of 2 KB. "
        "Kimi: a tool call that the model writes as text into its reasoning, 60 events. "
        "Qwen: a call of Qwen3-Coder's format with a parameter of 64 KB, 4,106 events."
    )
    yield ""


def _rate_text(result: Comparison, case: str, name: str, notes: "_Notes") -> str:
    cell = result.cells[case].get(name, Cell(failure="not measured"))
    if not cell.rates:
        return notes.add(cell.failure)
    events = WORKLOADS[case].events if case == "dense" else 1
    rates = [rate * events for rate in cell.rates]
    text = f"{_number(statistics.median(rates))} ({_number(min(rates))} to {_number(max(rates))})"
    floor = result.cells[case].get(RELAY)
    if name != RELAY and floor and floor.rates:
        text += f" {_ratio(cell.rate / floor.rate)}"
    return f"{text} {notes.add(cell.failure)}" if cell.failure else text


def _paced(result: Comparison) -> Iterator[str]:
    yield "## Paced streams"
    yield ""
    yield (
        "Every stream gets one event in 10 ms. Added time is from the upstream's write to the client's read, minus "
        "the same without a gateway."
    )
    yield ""
    yield from _image(
        "benchmarks-cost", "Bars of the CPU time of an event and of the memory of a stream"
    )
    notes = _Notes()
    yield "| | | events/s | CPU of an event, µs | added p50, ms | p99, ms | maximum, ms |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for case in _paces(result):
        for name in result.servers:
            cell = result.cells[case].get(name, Cell(failure="not measured"))
            failed = f" {notes.add(cell.failure)}" if cell.failure else ""
            if not cell.rates:
                yield f"| {_pace_name(case)} | {name} |{failed} | | | | |"
                continue
            values = (cell.p50, cell.p99, cell.most)
            times = " | ".join(f"{statistics.median(one):.2f}" for one in values)
            cpu = statistics.median(cell.cpu)
            yield f"| {_pace_name(case)} | {name} | {_number(cell.rate)}{failed} | {cpu:.0f} | {times} |"
    yield ""
    yield from notes.lines()
    yield (
        "At 200 and 400 streams the upstream and the clients, which share one core, may not reach the rate "
        "themselves; then events queue up everywhere, and the times say little."
    )
    yield ""


def _memory(result: Comparison) -> Iterator[str]:
    yield "## Memory and start"
    yield ""
    notes = _Notes()
    yield "| | serves after, ms | memory before streams, MB | of an open stream, KB (200 streams) |"
    yield "|---|--:|--:|--:|"
    for name, one in result.servers.items():
        yield f"| {name} | {one.start_ms:,.0f} | {_memory_text(one, notes)} |"
    yield ""
    yield from notes.lines()


def _memory_text(one: Measured, notes: "_Notes") -> str:
    if one.memory_failure:
        return f"{notes.add(one.memory_failure)} | "
    return f"{one.idle_mb:,.0f} | {one.stream_kb:,.0f}"


def _more(result: Comparison) -> Iterator[str]:
    yield "## Two processes"
    yield ""
    yield "All processes share all cores with the upstream and the clients."
    yield ""
    yield from _figures(result.workers)
    yield "## The client beside the vendors' SDKs"
    yield ""
    yield (
        "CPU time of a streamed event, many in a read or one in a read. The SDKs return raw events, while our "
        "client also assembles the response."
    )
    yield ""
    yield from _figures(result.readers)


def _figures(figures: list[Figure]) -> Iterator[str]:
    yield "| | median | lowest and highest | |"
    yield "|---|--:|--:|---|"
    for one in figures:
        yield f"| {one.name} | {one.value:.2f} | {one.spread} | {one.detail} |"
    yield ""


def _pythons(figures: list[PythonFigures]) -> Iterator[str]:
    yield "## Versions of Python"
    yield ""
    yield "The gateways of all versions are loaded in turns; `x` is the ratio to the first one."
    yield ""
    yield (
        "| Python | text chunk, µs | request with 20 tools, µs | complete answers/s | dense events/s "
        "| short streams/s | CPU of a paced event, µs |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|"
    first = next((one for one in figures if one.rates), None)
    for one in figures:
        if one.failure or first is None:
            yield f"| {one.version} | {_plain(one.failure)} | | | | | |"
            continue
        cells = [f"{one.costs[name]:.3g}" if name in one.costs else "no result" for name in CORE]
        for case in CASES:
            rate = median_rate(one, case)
            events = WORKLOADS[case].events if case == "dense" else 1
            ratio = f" {_ratio(rate / median_rate(first, case))}" if one is not first else ""
            cells.append(f"{_number(rate * events)}{ratio}")
        cells.append(f"{statistics.median(one.cpu):.0f}")
        yield f"| {one.version} | " + " | ".join(cells) + " |"


class _Notes:
    """Numbered reasons below a table; equal reasons share a number."""

    def __init__(self) -> None:
        self._reasons: list[str] = []

    def add(self, reason: str) -> str:
        if reason not in self._reasons:
            self._reasons.append(reason)
        return f"({self._reasons.index(reason) + 1})"

    def lines(self) -> Iterator[str]:
        for at, reason in enumerate(self._reasons):
            yield f"* ({at + 1}) {_plain(reason)}"
        if self._reasons:
            yield ""


def _image(name: str, described: str) -> Iterator[str]:
    yield "<picture>"
    yield f'  <source media="(prefers-color-scheme: dark)" srcset="images/{name}-dark.svg">'
    yield f'  <img src="images/{name}.svg" width="880" alt="{described}.">'
    yield "</picture>"
    yield ""


def _paces(result: Comparison) -> list[str]:
    return [case for case in result.cells if case.startswith("paced")]


def _pace_name(case: str) -> str:
    _, streams, events = case.split("-")
    return f"{streams} streams, {int(events):,} events/s"


def _ratio(value: float) -> str:
    return f"{value:.2f}x" if value >= 0.095 else f"{value:.2g}x"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _plain(text: str) -> str:
    """Return a message without characters that Markdown or a table would interpret."""
    return "".join(one for one in text if one not in "|<>[]`*_")
