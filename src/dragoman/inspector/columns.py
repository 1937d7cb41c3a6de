"""The answer of an exchange, taken apart: rows of the upstream's and of the client's bytes, events, and its blocks."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.context import Exchange
from dragoman.dialects import dialect
from dragoman.errors import DragomanError
from dragoman.exchange_setup import make_exchange
from dragoman.inspector import answer_rows as rows_of
from dragoman.inspector.answer_rows import Arrivals, Row
from dragoman.inspector.calls import Call, marker_owners
from dragoman.inspector.links import Link, Linked, block_of, delta_text, link_rows
from dragoman.recorder.lines import Translation
from dragoman.recorder.positions import ByteRange, NativePositions, native_positions
from dragoman.recorder.recording import AttemptRecord, Recording
from dragoman.recorder.replay import exchange_options
from dragoman.toolcalls.findings import NativeFinding
from dragoman.turn.events import CALL_KINDS, BlockStart, Event

_EVENT: Final = msgspec.json.Decoder(Event)


class Block(Struct, kw_only=True):
    """A block of the answer, and its place in the columns: numbers of first and last rows, and bytes."""

    kind: str
    label: str
    call: int | None = None
    up: tuple[int, int] | None = None
    ev: tuple[int, int] | None = None
    client: tuple[int, int] | None = None
    up_bytes: tuple[int, int] | None = None
    client_bytes: tuple[int, int] | None = None


class Columns(Struct):
    """The answer, taken apart."""

    upstream: list[Row] = []
    events: list[Event] = []
    client: list[Row] = []
    linked: Linked = Linked()
    positions: NativePositions = NativePositions()
    client_ids: list[str] = []


def events_of(attempt: AttemptRecord) -> list[Event]:
    """Return the recorded events of an answer, up to the first that cannot be read."""
    found: list[Event] = []
    for one in attempt.events:
        try:
            found.append(_EVENT.decode(one))
        except msgspec.DecodeError:
            break
    return found


def take_apart(
    recording: Recording, attempt: AttemptRecord | None, *, whole: bool = True
) -> Columns:
    """Take an answer apart; what cannot be read is shown as far as it can.

    `whole`: nothing more will come, else the recorded events may be behind the recorded bytes.
    """
    sent = b"".join(one.data.data for one in recording.written)
    how = None if attempt is None or attempt.reply is None else attempt.reply.translation
    try:
        if attempt is not None and how is not None:
            return _translated(recording, attempt, how, sent, whole=whole)
    except (DragomanError, RecursionError):
        pass  # a recording of something that today's version does not know
    data = b"" if attempt is None else b"".join(attempt.pieces())
    times = Arrivals([]) if attempt is None else rows_of.upstream_arrivals(attempt)
    return Columns(
        _plain(data, times),
        [] if attempt is None else events_of(attempt),
        _plain(sent, rows_of.client_arrivals(recording)),
    )


def _plain(data: bytes, times: Arrivals) -> list[Row]:
    """Return bytes as rows without a reader: of an error, or of a dialect that is not known."""
    if rows_of.is_stream(data):
        return rows_of.bare_rows(data, times)
    return rows_of.body_rows(data, times)


def _translated(
    recording: Recording, attempt: AttemptRecord, how: Translation, sent: bytes, *, whole: bool
) -> Columns:
    options = exchange_options(recording, how)
    source, target = dialect(how.source), dialect(how.target)
    data = b"".join(attempt.pieces())
    columns = Columns(events=events_of(attempt))
    columns.upstream, _ = _side(
        data,
        make_exchange(source=source, **options),
        how.source,
        rows_of.upstream_arrivals(attempt),
        named=False,
    )
    columns.client, columns.client_ids = _side(
        sent,
        make_exchange(source=target, **options),
        how.target,
        rows_of.client_arrivals(recording),
        named=True,
    )
    if how.stream and rows_of.is_stream(data):
        columns.linked = link_rows(
            recording,
            attempt,
            how,
            upstream=columns.upstream,
            events=columns.events,
            client=columns.client,
            data=data,
            whole=whole,
        )
        # Else there is nothing to find, and looking takes as long as all the rest.
        if columns.linked.findings:
            columns.positions = native_positions(recording, attempt)
    else:
        columns.positions = native_positions(recording, attempt)
        columns.linked = _body_links(columns)
    _mark(columns, data)
    return columns


def _side(
    data: bytes, exchange: Exchange, name: str, times: Arrivals, *, named: bool
) -> tuple[list[Row], list[str]]:
    """Return the rows of one side, and the ids of its calls."""
    spoken = dialect(name)
    if rows_of.is_stream(data):
        return rows_of.stream_rows(data, spoken, exchange, times, named=named)
    return rows_of.body_rows(data, times), rows_of.body_call_ids(data, spoken, exchange)


def _body_links(columns: Columns) -> Linked:
    """Link the values of complete bodies to the blocks that have them."""
    links: list[Link] = []
    native = list(columns.positions.calls)
    blocks: dict[int, tuple[BlockStart, list[int], list[str]]] = {}
    for number, event in enumerate(columns.events):
        index = block_of(event)
        if isinstance(event, BlockStart):
            blocks[event.index] = (event, [number], [])
        elif index is not None and index in blocks:
            blocks[index][1].append(number)
            blocks[index][2].append(delta_text(event) or "")
    calls = 0
    findings: list[NativeFinding] = []
    for index, (start, numbers, texts) in blocks.items():
        wanted = {"".join(texts)}
        ids = {start.call_id} if start.call_id else set()
        up = _values(columns.upstream, wanted, ids)
        if start.kind in CALL_KINDS:
            if calls < len(columns.client_ids):
                ids = ids | {columns.client_ids[calls]}
            calls += 1
            position = next((one for one in native if one.name == start.name), None)
            if not up and position is not None:
                native.remove(position)
                findings.append(NativeFinding(position.family, position.channel, index, start.name))
                first, last = position.ranges[0].start, position.ranges[-1].end
                up = [
                    number
                    for number, row in enumerate(columns.upstream)
                    if row.start < last and first < row.end
                ]
        links.append(Link(index, up, numbers, _values(columns.client, wanted, ids)))
    return Linked([one for one in links if one.up or one.client], findings)


def _values(rows: Sequence[Row], texts: set[str], ids: set[str]) -> list[int]:
    """Return the values of a body that hold a text, or belong to the object with an id."""
    found = [
        number
        for number, row in enumerate(rows)
        if row.text
        and not ids
        and (row.text in texts or any(row.cut and one.startswith(row.text) for one in texts))
    ]
    parents = {row.path.rpartition(".")[0] for row in rows if row.text in ids}
    found += [
        number
        for number, row in enumerate(rows)
        if any(parent and row.path.startswith(f"{parent}.") for parent in parents)
    ]
    return sorted(set(found))


def _mark(columns: Columns, data: bytes) -> None:
    """Mark native markers in the text of upstream rows."""
    starts = [row.start for row in columns.upstream]
    searched: dict[int, int] = {}
    for marker in columns.positions.markers:
        for part in marker.ranges:
            number = bisect_right(starts, part.start) - 1
            if number < 0:
                continue
            row = columns.upstream[number]
            text = _string(data[part.start : part.end])
            at = row.text.find(text, searched.get(number, 0)) if text else -1
            if at >= 0:
                row.marks = [*row.marks, (at, at + len(text))]
                searched[number] = at + len(text)


def _string(data: bytes) -> str:
    try:
        return msgspec.json.decode(b'"%b"' % data, type=str)
    except msgspec.DecodeError:
        return ""


def assign_native(columns: Columns) -> None:
    """Give rows with nothing but markers to the block of their call."""
    native = [one for one in columns.linked.findings if one.problem is None]
    if not native:
        return
    markers = columns.positions.markers
    parts: list[tuple[int, ByteRange]] = [
        (owner, part)
        for owner, marker in zip(marker_owners(len(native), markers), markers, strict=True)
        for part in marker.ranges
    ]
    parts += [(call.call, part) for call in columns.positions.calls for part in call.ranges]
    ends = [row.end for row in columns.upstream]
    of_row = {row: link for link in columns.linked.links for row in link.up}
    for owner, part in sorted(parts, key=itemgetter(0)):
        for row in range(bisect_right(ends, part.start), len(ends)):
            if columns.upstream[row].start >= part.end:
                break
            link = of_row.get(row)
            if link is not None and not link.ev and owner < len(native):
                link.block = native[owner].block


def find_blocks(columns: Columns, calls: Sequence[Call]) -> list[Block]:
    """Return the blocks of the answer with their rows in all columns."""
    numbers = {call.block: number for number, call in enumerate(calls)}
    found: dict[int, Block] = {}
    for number, event in enumerate(columns.events):
        if isinstance(event, BlockStart):
            kind = "call" if event.kind in CALL_KINDS else str(event.kind)
            label = event.name or str(event.kind)
            call = numbers.get(event.index)
            found[event.index] = Block(kind=kind, label=label, call=call, ev=(number, number))
        index = block_of(event)
        block = None if index is None else found.get(index)
        if block is not None and block.ev is not None:
            block.ev = (block.ev[0], number)
    for link in columns.linked.links:
        block = None if link.block is None else found.get(link.block)
        if block is not None:
            block.up = _wider(block.up, link.up)
            block.client = _wider(block.client, link.client)
    for block in found.values():
        block.up_bytes = _bytes(columns.upstream, block.up)
        block.client_bytes = _bytes(columns.client, block.client)
        if block.call is not None and calls[block.call].markers and block.up_bytes:
            markers = calls[block.call].markers
            block.up_bytes = min(one.start for one in markers), max(one.end for one in markers)
    return list(found.values())


def _wider(span: tuple[int, int] | None, rows: Sequence[int]) -> tuple[int, int] | None:
    if not rows:
        return span
    if span is None:
        return min(rows), max(rows)
    return min(span[0], *rows), max(span[1], *rows)


def _bytes(rows: Sequence[Row], span: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if span is None else (rows[span[0]].start, rows[span[1]].end)


def add_times(call: Call, blocks: Sequence[Block], columns: Columns) -> None:
    block = next(
        (
            one
            for one in blocks
            if one.call is not None
            and one.label == call.name
            and one.ev is not None
            and block_of(columns.events[one.ev[0]]) == call.block
        ),
        None,
    )
    if block is not None and block.up is not None:
        call.from_ms = columns.upstream[block.up[0]].at
        call.to_ms = columns.upstream[block.up[1]].at
