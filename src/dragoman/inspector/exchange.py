"""The view of one exchange: its timeline, three linked columns, calls, warnings, attempts, and the request.

Everything is bounded, so that no recording can fill the memory of a gateway or of a browser.
"""

import shlex
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from dragoman.context import Exchange
from dragoman.dialects import dialect, dialect_names
from dragoman.errors import DragomanError
from dragoman.inspector import answer_rows as rows_of
from dragoman.inspector.answer_rows import Arrivals, Row
from dragoman.inspector.calls import Call, find_calls, markers_of
from dragoman.inspector.links import Link, Linked, block_of, delta_text, link_rows
from dragoman.inspector.recordings import Loaded, answering
from dragoman.inspector.request_diff import TEXT_BYTES, compare, pretty
from dragoman.inspector.summary import LogRecord, Summary
from dragoman.inspector.warnings import find_warnings
from dragoman.recorder.lines import Translation
from dragoman.recorder.positions import NativePositions, native_positions
from dragoman.recorder.recording import AttemptRecord, Recording
from dragoman.recorder.replay import exchange_options
from dragoman.toolcalls.findings import NativeFinding
from dragoman.translate import make_exchange
from dragoman.translate_requests import read_request
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
from dragoman.turn.request import Request

MOST_ROWS: Final = 10_000  # of a column
_MOST_TICKS: Final = 4000
_CURL_BYTES: Final = 32 * 1024
_EVENT: Final = msgspec.json.Decoder(Event)


class MeaningRow(Struct):
    """One event, or a native marker between events."""

    kind: str
    text: str
    level: str = ""
    cut: bool = False


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


class _Columns(Struct):
    """The answer, taken apart."""

    upstream: list[Row] = []
    events: list[Event] = []
    client: list[Row] = []
    linked: Linked = Linked()
    positions: NativePositions = NativePositions()
    client_ids: list[str] = []


def view(summary: Summary, loaded: Loaded | None, *, address: str) -> dict[str, Any]:
    """Return everything that the page shows of an exchange; without a recording, its row alone."""
    shown: dict[str, Any] = {
        "row": summary.row,
        "masked": False,
        "torn_at": None,
        "cut_at": None,
        "version": 0,
        "program": "",
        "conversation": None,
    }
    if loaded is None:
        return shown | _nothing()
    recording = loaded.recording
    opening = recording.opening
    shown |= {
        "torn_at": recording.torn_at,
        "cut_at": loaded.cut_at,
        "version": opening.version,
        "program": opening.program,
        "masked": opening.masked,
    }
    attempt = answering(recording)
    request = _request(recording)
    record = _record(recording)
    columns = _columns(recording, attempt)
    calls = find_calls(
        columns.events,
        request=request,
        client_ids=columns.client_ids,
        findings=columns.linked.findings,
        positions=columns.positions,
    )
    _assign_native(columns)
    blocks = _blocks(columns, calls)
    for call in calls:
        _add_times(call, blocks, columns)
    meaning, moved, marked = _meaning(columns)
    upstream_times = rows_of.upstream_arrivals(attempt) if attempt else Arrivals([])
    client_times = rows_of.client_arrivals(recording)
    return shown | {
        "attempts": list(_attempts(recording, record, attempt)),
        "timeline": _timeline(
            recording,
            summary,
            blocks=blocks,
            columns=columns,
            upstream=upstream_times,
            client=client_times,
        ),
        "upstream": _column(
            columns.upstream,
            "" if attempt is None else _upstream_dialect(attempt, summary),
            0 if attempt is None else sum(read.size for read in attempt.reads),
        ),
        "meaning": {"rows": meaning[:MOST_ROWS], "more": max(0, len(meaning) - MOST_ROWS)},
        "client": _column(
            columns.client,
            opening.dialect,
            sum(len(one.data.data) for one in recording.written),
        ),
        "links": [
            *_shown_links(columns.linked.links, moved),
            *_shown_links(list(_marker_links(columns, marked)), range(len(meaning))),
        ],
        "blocks": [_moved(one, moved) for one in blocks],
        "calls": calls,
        "warnings": find_warnings(
            summary.row, record, calls, max_output=None if request is None else request.max_output
        ),
        "request": _requests(recording),
        "curl": _curl(recording, address),
    }


def _nothing() -> dict[str, Any]:
    empty = {"dialect": "", "size": 0, "rows": [], "more": 0}
    return {
        "attempts": [],
        "timeline": {"end_ms": 0, "first_ms": None, "stalls": [], "lanes": []},
        "upstream": empty,
        "meaning": {"rows": [], "more": 0},
        "client": empty,
        "links": [],
        "blocks": [],
        "calls": [],
        "warnings": [],
        "request": {"received": {"size": 0, "text": ""}, "sent": [], "diff": []},
        "curl": "",
    }


def _request(recording: Recording) -> Request | None:
    """Return the client's request, if it can be read."""
    if recording.received is None or recording.opening.dialect not in dialect_names():
        return None
    try:
        body = recording.received.body.data
        return read_request(body, source=recording.opening.dialect).request
    except (DragomanError, RecursionError):
        return None


def _record(recording: Recording) -> LogRecord:
    if recording.outcome is None:
        return LogRecord()
    try:
        return msgspec.json.decode(recording.outcome.record, type=LogRecord)
    except msgspec.DecodeError:
        return LogRecord()


def events_of(attempt: AttemptRecord) -> list[Event]:
    """Return the recorded events of an answer, up to the first that cannot be read."""
    found: list[Event] = []
    for one in attempt.events:
        try:
            found.append(_EVENT.decode(one))
        except msgspec.DecodeError:
            break
    return found


# --- columns -------------------------------------------------------------------------------------


def _columns(recording: Recording, attempt: AttemptRecord | None) -> _Columns:
    """Take an answer apart; what cannot be read is shown as far as it can."""
    sent = b"".join(one.data.data for one in recording.written)
    how = None if attempt is None or attempt.reply is None else attempt.reply.translation
    try:
        if attempt is not None and how is not None:
            return _translated(recording, attempt, how, sent)
    except (DragomanError, RecursionError):
        pass  # a recording of something that today's version does not know
    data = b"" if attempt is None else b"".join(attempt.pieces())
    times = Arrivals([]) if attempt is None else rows_of.upstream_arrivals(attempt)
    return _Columns(
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
    recording: Recording, attempt: AttemptRecord, how: Translation, sent: bytes
) -> _Columns:
    options = exchange_options(recording, how)
    source, target = dialect(how.source), dialect(how.target)
    data = b"".join(attempt.pieces())
    columns = _Columns(events=events_of(attempt))
    columns.upstream, _ = _side(
        data,
        make_exchange(source=source, **options),
        how.source,
        rows_of.upstream_arrivals(attempt),
        named=False,
    )
    columns.client, meant = _side(
        sent,
        make_exchange(source=target, **options),
        how.target,
        rows_of.client_arrivals(recording),
        named=True,
    )
    columns.client_ids = [
        one.call_id for one in meant if isinstance(one, BlockStart) and one.kind in CALL_KINDS
    ]
    if how.stream and rows_of.is_stream(data):
        columns.linked = link_rows(
            recording,
            attempt,
            how,
            upstream=columns.upstream,
            events=columns.events,
            client=columns.client,
            data=data,
        )
        if (
            columns.linked.findings
        ):  # else there is nothing to find, and looking takes as long as all the rest
            columns.positions = native_positions(recording, attempt)
    else:
        columns.positions = native_positions(recording, attempt)
        columns.linked = _body_links(columns)
    _mark(columns, data)
    return columns


def _side(
    data: bytes, exchange: Exchange, name: str, times: Arrivals, *, named: bool
) -> tuple[list[Row], list[Event]]:
    """Return the rows of one side, and what they mean."""
    spoken = dialect(name)
    if rows_of.is_stream(data):
        rows = rows_of.stream_rows(data, spoken, exchange, times, named=named)
        return rows, [event for row in rows for event in row.events]
    return rows_of.body_rows(data, times), rows_of.body_events(data, spoken, exchange)


def _body_links(columns: _Columns) -> Linked:
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


def _mark(columns: _Columns, data: bytes) -> None:
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


def _assign_native(columns: _Columns) -> None:
    """Give rows with nothing but markers to the block of their call."""
    native = [one for one in columns.linked.findings if one.problem is None]
    ends = [row.end for row in columns.upstream]
    of_row = {row: link for link in columns.linked.links for row in link.up}
    for number, finding in enumerate(native):
        parts = [
            part
            for marker in markers_of(number, len(native), columns.positions.markers)
            for part in marker.ranges
        ]
        parts += [
            part for call in columns.positions.calls if call.call == number for part in call.ranges
        ]
        for part in parts:
            for row in range(bisect_right(ends, part.start), len(ends)):
                if columns.upstream[row].start >= part.end:
                    break
                link = of_row.get(row)
                if link is not None and not link.ev:
                    link.block = finding.block


def _blocks(columns: _Columns, calls: Sequence[Call]) -> list[Block]:
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


def _add_times(call: Call, blocks: Sequence[Block], columns: _Columns) -> None:
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


def _column(rows: Sequence[Row], name: str, size: int) -> dict[str, Any]:
    shown = [
        {
            "from": row.start,
            "to": row.end,
            "at": row.at,
            "kind": row.kind,
            "text": row.text,
            "cut": row.cut,
            "marks": row.marks,
            "path": row.path,
        }
        for row in rows[:MOST_ROWS]
    ]
    return {"dialect": name, "size": size, "rows": shown, "more": max(0, len(rows) - MOST_ROWS)}


def _upstream_dialect(attempt: AttemptRecord, summary: Summary) -> str:
    if attempt.reply is not None and attempt.reply.translation is not None:
        return attempt.reply.translation.source
    return summary.row.upstream_dialect


# --- meaning -------------------------------------------------------------------------------------


def _meaning(columns: _Columns) -> tuple[list[MeaningRow], list[int], list[int]]:
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


def _marker_links(columns: _Columns, marked: Sequence[int]) -> Iterator[Link]:
    """Yield a link for each marker: its bytes, and its row in the middle column."""
    ends = [row.end for row in columns.upstream]
    native = [one for one in columns.linked.findings if one.problem is None]
    blocks = {
        id(marker): finding.block
        for number, finding in enumerate(native)
        for marker in markers_of(number, len(native), columns.positions.markers)
    }
    for number, marker in zip(marked, columns.positions.markers, strict=False):
        first, last = bisect_right(ends, marker.start), bisect_left(ends, marker.end)
        yield Link(blocks.get(id(marker)), list(range(first, last + 1)), [number], [])


def meaning_row(event: Event) -> MeaningRow:
    """Return how an event is shown in the middle column."""
    match event:
        case Start():
            return MeaningRow("start", event.model)
        case BlockStart() if event.kind in CALL_KINDS:
            return MeaningRow("call start", f"{event.name} {event.call_id}".strip())
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


def _shown_links(links: Sequence[Link], moved: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {
            "block": link.block,
            "up": [one for one in link.up if one < MOST_ROWS],
            "ev": [moved[one] for one in link.ev if moved[one] < MOST_ROWS],
            "client": [one for one in link.client if one < MOST_ROWS],
        }
        for link in links[:MOST_ROWS]
        if link.block is not None or link.ev or link.client
    ]


def _moved(block: Block, moved: Sequence[int]) -> Block:
    if block.ev is None:
        return block
    return structs.replace(block, ev=(moved[block.ev[0]], moved[block.ev[1]]))


# --- timeline and attempts -----------------------------------------------------------------------


def _timeline(  # noqa: PLR0913 -- everything that has a time
    recording: Recording,
    summary: Summary,
    *,
    blocks: Sequence[Block],
    columns: _Columns,
    upstream: Arrivals,
    client: Arrivals,
) -> dict[str, Any]:
    row = summary.row
    end = max(
        row.duration_ms,
        upstream.last,
        client.last,
        0.0 if recording.outcome is None else recording.outcome.at,
    )
    lanes: list[dict[str, Any]] = [
        _lane("attempts", "Attempts", list(_attempt_spans(recording, end))),
        _lane("upstream", "Upstream bytes", [], _ticks(upstream.ticks)),
    ]
    for kind, label in (("reasoning", "Reasoning"), ("text", "Text")):
        spans = [_span(one, columns) for one in blocks if one.kind == kind and one.up]
        if spans:
            lanes.append(_lane(kind, label, spans))
    lanes += [
        _lane("call", one.label, [_span(one, columns)])
        for one in blocks
        if one.kind == "call" and one.up
    ][:50]
    lanes.append(_lane("client", "Client bytes", [], _ticks(client.ticks)))
    return {"end_ms": end, "first_ms": row.first_ms, "stalls": row.stalls, "lanes": lanes}


def _lane(
    kind: str, label: str, spans: list[dict[str, Any]], ticks: Sequence[tuple[float, int]] = ()
) -> dict[str, Any]:
    return {"kind": kind, "label": label, "spans": spans, "ticks": list(ticks)}


def _span(block: Block, columns: _Columns) -> dict[str, Any]:
    first, last = block.up or (0, 0)
    ended = None if block.ev is None else columns.events[block.ev[1]]
    whole = not isinstance(ended, BlockEnd) or ended.complete
    return {
        "from": columns.upstream[first].at,
        "to": columns.upstream[last].at,
        "level": "ok" if whole else "error",
        "label": "" if block.kind != "call" else "complete" if whole else "truncated",
    }


def _ticks(ticks: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """Return times and sizes, those that are close together as one."""
    if len(ticks) <= _MOST_TICKS:
        return list(ticks)
    first, last = ticks[0][0], ticks[-1][0]
    step = max((last - first) / _MOST_TICKS, 1e-6)
    bins: dict[int, int] = {}
    for at, size in ticks:
        number = int((at - first) / step)
        bins[number] = bins.get(number, 0) + size
    return [(round(first + number * step, 3), size) for number, size in bins.items()]


def _attempt_spans(recording: Recording, end: float) -> Iterator[dict[str, Any]]:
    for number, one in enumerate(recording.attempts):
        start, last = one.sent.at, _attempt_end(recording, number, end)
        if one.reply is None or one.reply.translation is None:
            label = "no reply" if one.reply is None else str(one.reply.status)
            yield {"from": start, "to": last, "level": "failed", "label": label}
        else:
            yield {"from": start, "to": one.reply.at, "level": "waiting", "label": ""}
            yield {"from": one.reply.at, "to": last, "level": "ok", "label": ""}


def _attempt_end(recording: Recording, number: int, end: float) -> float:
    one = recording.attempts[number]
    if one.reads:
        return one.reads[-1].at
    if one.failed is not None:
        return one.failed.at
    if number + 1 < len(recording.attempts):
        return recording.attempts[number + 1].sent.at
    return end if one.reply is None else one.reply.at


def _attempts(
    recording: Recording, record: LogRecord, answered: AttemptRecord | None
) -> Iterator[dict[str, Any]]:
    failures = list(record.failures)
    end = 0.0 if recording.outcome is None else recording.outcome.at
    for number, one in enumerate(recording.attempts):
        how = None if one.reply is None else one.reply.translation
        gave = one is answered and how is not None
        reason = ""
        if not gave and failures:
            reason = failures.pop(0).partition(": ")[2]
        if one.failed is not None:
            reason = one.failed.fault.message
        yield {
            "upstream": one.sent.upstream,
            "model": one.sent.model,
            "status": None if one.reply is None else one.reply.status,
            "at": one.sent.at,
            "end": _attempt_end(recording, number, end),
            "reason": reason[:1000],
            "profile": "" if how is None else how.profile.name,
            "answered": gave,
        }


# --- the request ---------------------------------------------------------------------------------


def _requests(recording: Recording) -> dict[str, Any]:
    received = b"" if recording.received is None else recording.received.body.data
    left = pretty(received)
    sent = []
    for number, one in enumerate(recording.attempts[:20]):
        body = one.sent.body.data
        text = pretty(body)[:TEXT_BYTES]
        sent.append(
            {"attempt": number, "upstream": one.sent.upstream, "size": len(body), "text": text}
        )
    last = recording.answered or (recording.attempts[-1] if recording.attempts else None)
    diff = [] if last is None else compare(left, pretty(last.sent.body.data))
    return {
        "received": {"size": len(received), "text": left[:TEXT_BYTES]},
        "sent": sent,
        "diff": diff,
    }


def _curl(recording: Recording, address: str) -> str:
    """Return a command that sends the request again; the key is a placeholder."""
    opening = recording.opening
    body = b"" if recording.received is None else recording.received.body.data
    words = [f"curl -sN {shlex.quote(f'http://{address}{opening.path}')}"]
    words.append("-H 'content-type: application/json'")
    if opening.dialect in dialect_names():
        spoken = dialect(opening.dialect)
        words += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in spoken.request_headers]
        for name in spoken.auth_header("$API_KEY"):
            value = spoken.auth_header("$API_KEY")[name]
            words.append(f'-H "{name}: {value}"')
    text = body.decode("utf-8", "replace")
    words.append("-d @request.json" if len(body) > _CURL_BYTES else f"-d {shlex.quote(text)}")
    return " \\\n  ".join(words)
