"""The middle column: one row for each event, and one for each native marker between events."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from msgspec import Struct

from dragoman.inspector import answer_rows as rows_of
from dragoman.inspector.calls import marker_owners
from dragoman.inspector.columns import Columns
from dragoman.inspector.links import Link, delta_text
from dragoman.turn.events import (
    CALL_KINDS,
    BlockEnd,
    BlockStart,
    Event,
    Fault,
    Finish,
    Opaque,
    Start,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.server_tools import summary_of


class MeaningRow(Struct, gc=False, omit_defaults=True):
    """One event, or a native marker between events."""

    kind: str
    text: str
    level: str = ""
    cut: bool = False


def meaning_rows(columns: Columns) -> tuple[list[MeaningRow], list[int], list[int]]:
    """Return the middle column, with a row for each marker; and the new numbers of the events and of the markers."""
    ends = [row.end for row in columns.upstream]
    of_event = {event: link.up[-1] for link in columns.linked.links if link.up for event in link.ev}
    markers = columns.positions.markers if columns.linked.links else ()
    rows: list[MeaningRow] = []
    moved: list[int] = []
    marked: list[int] = []
    calls: set[int] = set()  # their blocks

    def add_marker() -> None:
        text = markers[len(marked)].text
        marked.append(len(rows))
        rows.append(MeaningRow("marker", text[: rows_of.TEXT_CHARS]))

    for number, event in enumerate(columns.events):
        row = of_event.get(number)
        opens = isinstance(event, BlockStart | BlockEnd)
        while row is not None and len(marked) < len(markers):
            last = bisect_left(ends, markers[len(marked)].end)
            if last < row or (last == row and opens):
                add_marker()
            else:
                break
        if isinstance(event, BlockStart) and event.kind in CALL_KINDS:
            calls.add(event.index)
        moved.append(len(rows))
        rows.append(meaning_row(event))
        if isinstance(event, BlockEnd) and event.index in calls:
            rows[-1].kind = "call end"
    while len(marked) < len(markers):
        add_marker()
    return rows, moved, marked


def marker_links(columns: Columns, marked: Sequence[int]) -> Iterator[Link]:
    """Yield a link for each marker: its bytes, and its row in the middle column."""
    ends = [row.end for row in columns.upstream]
    native = [one for one in columns.linked.findings if one.problem is None]
    markers = columns.positions.markers
    owners = marker_owners(len(native), markers)
    for number, marker, owner in zip(marked, markers, owners, strict=False):
        block = native[owner].block if 0 <= owner < len(native) else None
        first, last = bisect_right(ends, marker.start), bisect_left(ends, marker.end)
        yield Link(block, list(range(first, last + 1)), [number], [])


def meaning_row(event: Event) -> MeaningRow:
    """Return how an event is shown in the middle column."""
    match event:
        case Start():
            return MeaningRow("start", event.model)
        case BlockStart() if event.kind in CALL_KINDS:
            return MeaningRow("call start", f"{event.name} {event.call_id}".strip())
        case BlockStart() if event.server is not None:
            return _cut("block start", f"{event.kind} {summary_of(event.server)}", "")
        case BlockStart():
            return MeaningRow("block start", str(event.kind))
        case BlockEnd() if not event.complete:
            return MeaningRow("call end", "truncated, not run", "error")
        case BlockEnd():
            return MeaningRow("block end", "complete")
        case Usage():
            return MeaningRow("usage", rows_of.usage_text(event))
        case Finish():
            return MeaningRow("finish", str(event.reason))
        case Fault():
            return _cut("fault", f"{event.kind}: {event.message}", "error")
        case Loss():
            return _cut("loss", ": ".join(filter(None, (event.code, event.detail))), "warn")
        case Opaque():
            return MeaningRow("opaque", str(event.kind))
    text = delta_text(event)
    if text is not None:
        names = {
            "TextDelta": "text",
            "ReasoningDelta": "reasoning",
            "ArgsDelta": "arguments",
            "InputDelta": "input",
            "RefusalDelta": "refusal",
        }
        return _cut(names[type(event).__name__], text, "")
    return MeaningRow(type(event).__name__.lower(), "")


def _cut(kind: str, text: str, level: str) -> MeaningRow:
    most = rows_of.TEXT_CHARS
    return MeaningRow(kind, text[:most], level, len(text) > most)
