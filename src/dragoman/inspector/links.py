"""Which bytes of the upstream became which events, and which bytes for the client.

The recorded answer is translated again, one event of the upstream at a time, and what comes out belongs to it.  A
gateway that got several events in one read may have cut the text otherwise, so deltas are compared by their place in
the text of their block.  Where today's version does something else, there are no links.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

from msgspec import Struct

from dragoman.dialects import dialect
from dragoman.errors import DragomanError
from dragoman.exchange_setup import make_exchange
from dragoman.inspector.answer_rows import Row, stream_frames
from dragoman.recorder.lines import Translation
from dragoman.recorder.recording import AttemptRecord, Recording
from dragoman.recorder.replay import (
    EventCollector,
    exchange_options,
    recorded_end,
    recorded_translator,
)
from dragoman.toolcalls.findings import NativeFinding
from dragoman.turn.events import (
    ArgsDelta,
    Event,
    InputDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)

DELTAS = (TextDelta, ReasoningDelta, ArgsDelta, InputDelta, RefusalDelta)
# The place of an event: its kind, its block, and the characters of the block's text or its number among its like.
_EventPlace: TypeAlias = tuple[str, int, int, int]


class Link(Struct, gc=False):
    """Rows that belong together, by their numbers."""

    block: int | None
    up: list[int]
    ev: list[int]
    client: list[int]


class Linked(Struct, frozen=True):
    """All links of an answer, and the native calls that were found again."""

    links: list[Link] = []
    findings: Sequence[NativeFinding] = ()


class _Steps(Struct):
    """How far events and client bytes had come behind each step."""

    ends: list[int]
    client: list[int]
    events: list[Event]
    body: bytes
    findings: Sequence[NativeFinding]
    before: int = 0  # bytes of the client that other answers led to, which this one continues


def delta_text(event: Event) -> str | None:
    """Return the content of a delta; None: it is none."""
    match event:
        case TextDelta() | ReasoningDelta() | InputDelta() | RefusalDelta():
            return event.text
        case ArgsDelta():
            return event.json
    return None


def block_of(event: Event) -> int | None:
    """Return the block that an event belongs to."""
    return getattr(event, "index", None)


def link_rows(  # noqa: PLR0913 -- the three columns, and what they are made of
    recording: Recording,
    attempt: AttemptRecord,
    how: Translation,
    *,
    upstream: Sequence[Row],
    events: Sequence[Event],
    client: Sequence[Row],
    data: bytes,
    whole: bool = True,
) -> Linked:
    """Return how the rows of a stream belong together; see `columns.take_apart` for `whole`."""
    if not upstream:
        return Linked()
    frames = [data[row.start : row.end] for row in upstream]
    steps = _translate(recording, attempt, how, frames)
    rows = _frames_of(events, steps, whole=whole)
    if rows is None:
        return Linked([], steps.findings)
    shown = [number for number, row in enumerate(client) if row.event]  # without keep-alives
    joined = _join(rows, len(upstream))
    links = [part for link in joined for part in _split(link, events)]
    alone = how.source != how.target and not how.earlier
    sent = _written(recording, how, events) if alone else None
    if sent is not None and (sum(sent) == len(shown) or not whole):
        starts = [0]
        for count in sent:
            starts.append(starts[-1] + count)
        for link in links:
            for event in link.ev:
                link.client += shown[starts[event] : starts[event + 1]]
    else:
        _link_client(
            recording,
            attempt,
            how,
            links=links,
            shown=shown,
            steps=steps,
            whole=whole,
            ends=[row.end for row in upstream],
        )
    return Linked(links, steps.findings)


def _translate(
    recording: Recording, attempt: AttemptRecord, how: Translation, units: Sequence[bytes]
) -> _Steps:
    """Translate an answer step by step."""
    collector = EventCollector()
    translator, begun = recorded_translator(recording, attempt, how, collector)
    out = [begun]
    size = len(begun)
    steps = _Steps([], [], collector.events, b"", translator.findings, size)
    for number, unit in enumerate(units):
        written = translator.feed(unit)
        if number == len(units) - 1:  # what the end of the answer led to belongs to its last bytes
            written += recorded_end(translator, attempt)
        out.append(written)
        size += len(written)
        steps.ends.append(len(collector.events))
        steps.client.append(size)
    steps.body = b"".join(out)
    return steps


# --- events and upstream rows --------------------------------------------------------------------


def _places(events: Iterable[Event]) -> list[_EventPlace]:
    """Return where each event is in its answer, however its text was cut."""
    sizes: dict[tuple[str, int], int] = {}
    found: list[_EventPlace] = []
    for event in events:
        index = block_of(event)
        key = type(event).__name__, -1 if index is None else index
        text = delta_text(event)
        length = 1 if text is None else len(text)
        start = sizes.get(key, 0)
        sizes[key] = start + length
        found.append((*key, start, start + length))
    return found


def _frames_of(
    events: Sequence[Event], steps: _Steps, *, whole: bool
) -> list[tuple[int, int]] | None:
    """Return the first and the last step that led to each recorded event; None: today's events are others."""
    recorded, replayed = _places(events), _places(steps.events)
    old, new = _sizes(recorded), _sizes(replayed)
    if old != new and (whole or any(size > new.get(key, 0) for key, size in old.items())):
        return None
    by_key: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
    for number, (kind, index, start, _) in enumerate(replayed):
        starts, numbers = by_key.setdefault((kind, index), ([], []))
        starts.append(start)
        numbers.append(bisect_right(steps.ends, number))
    found: list[tuple[int, int]] = []
    for kind, index, start, end in recorded:
        starts, numbers = by_key[kind, index]
        first = bisect_right(starts, start) - 1
        last = bisect_left(starts, end) - 1
        found.append((numbers[first], numbers[max(first, last)]))
    return found


def _sizes(places: Iterable[_EventPlace]) -> dict[tuple[str, int], int]:
    return {(kind, index): end for kind, index, _, end in places}


def _join(rows: Sequence[tuple[int, int]], count: int) -> Iterator[Link]:
    """Yield links: events that came from the same rows, and rows that led to nothing alone."""
    link: Link | None = None
    behind = 0  # the first row that is in no link
    for event, (first, last) in enumerate(rows):
        if link is not None and first <= link.up[-1]:
            link.ev.append(event)
            link.up += range(link.up[-1] + 1, last + 1)
        else:
            if link is not None:
                yield link
            yield from (Link(None, [row], [], []) for row in range(behind, first))
            link = Link(None, list(range(max(first, behind), last + 1)), [event], [])
        behind = max(behind, last + 1)
    if link is not None:
        yield link
    yield from (Link(None, [row], [], []) for row in range(behind, count))


def _split(link: Link, events: Sequence[Event]) -> Iterator[Link]:
    """Yield a link for each block that its events belong to; all have its rows."""
    part: Link | None = None
    for number in link.ev:
        block = block_of(events[number])
        if part is not None and (block is None or part.block is None or block == part.block):
            part.ev.append(number)
            part.block = block if part.block is None else part.block
            continue
        if part is not None:
            yield part
        part = Link(block, list(link.up), [number], [])
    yield link if part is None else part


# --- client rows ---------------------------------------------------------------------------------


def _written(recording: Recording, how: Translation, events: Sequence[Event]) -> list[int] | None:
    """Return how many events of the client's stream each event becomes; None: it cannot be known."""
    source, target = dialect(how.source), dialect(how.target)
    exchange = make_exchange(source=source, target=target, **exchange_options(recording, how))
    writer = target.writer(exchange)
    try:
        return [
            sum(bool(frame.data) for _, frame in stream_frames(writer.send(event)))
            for event in events
        ]
    except DragomanError:
        return None


def _link_client(  # noqa: PLR0913 -- of an answer whose bytes were forwarded
    recording: Recording,
    attempt: AttemptRecord,
    how: Translation,
    *,
    links: Sequence[Link],
    shown: Sequence[int],
    steps: _Steps,
    whole: bool,
    ends: Sequence[int],
) -> None:
    """Give each link the client's rows that came out at its steps: single events, else whole reads."""
    groups = [[number] for number in range(len(ends))]
    starts = _data_starts(steps.body)
    if len(starts) != len(shown):
        pieces = attempt.pieces()
        steps = _translate(recording, attempt, how, pieces)
        groups = _reads(ends, pieces)
        starts = _data_starts(steps.body)
        if whole and len(starts) != len(shown):
            return
    of_row = {row: link for link in links for row in link.up}
    row = bisect_right(starts, steps.before - 1) if steps.before else 0
    for group, size in zip(groups, steps.client, strict=True):
        last = bisect_right(starts, size - 1) if size else 0
        if last > row and group:
            of_row[group[0]].client += shown[row:last]
        row = max(row, last)


def _data_starts(body: bytes) -> list[int]:
    return [start for start, frame in stream_frames(body) if frame.data]


def _reads(ends: Sequence[int], pieces: Sequence[bytes]) -> list[list[int]]:
    """Return the rows whose last byte each read has."""
    sizes: list[int] = []
    for piece in pieces:
        sizes.append((sizes[-1] if sizes else 0) + len(piece))
    groups: list[list[int]] = [[] for _ in pieces]
    for read, rows in groupby(range(len(ends)), key=lambda row: bisect_left(sizes, ends[row])):
        groups[min(read, len(groups) - 1)] += rows
    return groups
