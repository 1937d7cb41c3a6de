"""The view of one exchange: its timeline, three linked columns, calls, warnings, attempts, and the request.

Everything is bounded, so that no recording can fill the memory of a gateway or of a browser.
"""

import shlex
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from dragoman.dialects import dialect, dialect_names
from dragoman.inspector import answer_rows as rows_of
from dragoman.inspector.answer_rows import Arrivals, Row
from dragoman.inspector.calls import find_calls, find_vendor_calls
from dragoman.inspector.columns import Block, add_times, assign_native, find_blocks, take_apart
from dragoman.inspector.links import Link
from dragoman.inspector.meaning import MeaningRow, marker_links, meaning_rows
from dragoman.inspector.recordings import Loaded, answering, client_request
from dragoman.inspector.request_diff import TEXT_BYTES, compare, pretty
from dragoman.inspector.summary import LogRecord, Summary
from dragoman.inspector.timeline import attempt_rows, timeline
from dragoman.inspector.warnings import find_warnings
from dragoman.recorder.recording import AttemptRecord, Recording

PAGE_ROWS: Final = 1000  # of a column that are sent at once
_CURL_BYTES: Final = 32 * 1024


class View(Struct):
    """Everything that the page shows of an exchange."""

    shown: dict[
        str, Any
    ]  # as the page gets it: of each column the first rows, and of the others an outline
    rows: dict[
        str, list[Row] | list[MeaningRow]
    ] = {}  # all rows of `upstream`, `meaning` and `client`


def view(summary: Summary, loaded: Loaded | None, *, address: str) -> View:
    """Return everything that the page shows of an exchange; without a recording, its row alone.

    Of the first part of a large recording, calls and requests are left out: they are not known yet.
    """
    shown = _about(summary, loaded)
    if loaded is None:
        return View(shown | _nothing())
    recording = loaded.recording
    attempt = answering(recording)
    request = (
        None
        if loaded.more or recording.received is None
        else client_request(recording.received.body.data, recording.opening.dialect)
    )
    record = _record(recording)
    columns = take_apart(recording, attempt, whole=loaded.whole)
    calls = (
        []
        if loaded.more
        else find_calls(
            columns.events,
            request=request,
            client_ids=columns.client_ids,
            findings=columns.linked.findings,
            positions=columns.positions,
        )
    )
    assign_native(columns)
    blocks = find_blocks(columns, calls)
    for call in calls:
        add_times(call, blocks, columns)
    meaning, moved, marked = meaning_rows(columns)
    shown |= {
        "attempts": list(attempt_rows(recording, record, attempt)),
        "timeline": timeline(
            recording,
            summary,
            blocks=blocks,
            columns=columns,
            upstream=rows_of.upstream_arrivals(attempt) if attempt else Arrivals([]),
            client=rows_of.client_arrivals(recording),
        ),
        "upstream": _column(
            columns.upstream,
            "" if attempt is None else _upstream_dialect(attempt, summary),
            0 if attempt is None else sum(read.size for read in attempt.reads),
        ),
        "meaning": _outlined(meaning),
        "client": _column(
            columns.client,
            recording.opening.dialect,
            sum(len(one.data.data) for one in recording.written),
        ),
        "links": [
            *_runs(columns.linked.links, moved),
            *_runs(list(marker_links(columns, marked)), range(len(meaning))),
        ],
        "blocks": [_moved(one, moved) for one in blocks],
        "calls": calls,
        "vendor_calls": [] if loaded.more else find_vendor_calls(columns.events),
        "warnings": find_warnings(
            summary.row, record, calls, max_output=None if request is None else request.max_output
        ),
        "request": _NO_REQUEST if loaded.more else _requests(recording),
        "curl": "" if loaded.more else _curl(recording, address),
    }
    return View(shown, {"upstream": columns.upstream, "meaning": meaning, "client": columns.client})


def _about(summary: Summary, loaded: Loaded | None) -> dict[str, Any]:
    """Return the row of an exchange, and what is known of its file."""
    shown: dict[str, Any] = {
        "row": summary.row,
        "masked": False,
        "torn_at": None,
        "cut_at": None,
        "more": False,
        "size": 0,
        "version": 0,
        "program": "",
    }
    if loaded is None:
        return shown
    opening = loaded.recording.opening
    return shown | {
        "torn_at": loaded.recording.torn_at,
        "cut_at": loaded.cut_at,
        "more": loaded.more,
        "size": loaded.size,
        "version": opening.version,
        "program": opening.program,
        "masked": opening.masked,
    }


_NO_REQUEST: Final = {"received": {"size": 0, "text": ""}, "sent": [], "diff": []}


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
        "vendor_calls": [],
        "warnings": [],
        "request": _NO_REQUEST,
        "curl": "",
    }


def _record(recording: Recording) -> LogRecord:
    if recording.outcome is None:
        return LogRecord()
    try:
        return msgspec.json.decode(recording.outcome.record, type=LogRecord)
    except msgspec.DecodeError:
        return LogRecord()


# --- rows in parts -------------------------------------------------------------------------------


def _column(rows: Sequence[Row], name: str, size: int) -> dict[str, Any]:
    """Return the first rows of a side, and of the others where and when they are."""
    more = rows[PAGE_ROWS:]
    shown = {"dialect": name, "size": size, **_outlined(rows)}
    if more:
        before = rows[PAGE_ROWS - 1]
        times = [round(row.at * 100) for row in (before, *more)]
        ends = [before.end, *(row.end for row in more)]
        shown["outline"] |= {
            "sizes": [row.end - row.start for row in more],
            "gaps": [
                (number, row.start - ends[number])
                for number, row in enumerate(more)
                if row.start != ends[number]
            ],
            "times": [after - at for at, after in pairwise(times)],  # in 10 microseconds
        }
    return shown


def _outlined(rows: Sequence[Row] | Sequence[MeaningRow]) -> dict[str, Any]:
    """Return the first rows of a column, and the kinds of the others."""
    more = rows[PAGE_ROWS:]
    shown: dict[str, Any] = {"rows": rows[:PAGE_ROWS], "more": len(more)}
    if more:
        kinds = [(kind, sum(1 for _ in same)) for kind, same in groupby(row.kind for row in more)]
        levels = [
            (number, row.level)
            for number, row in enumerate(more)
            if isinstance(row, MeaningRow) and row.level
        ]
        shown["outline"] = {"kinds": kinds, "levels": levels}
    return shown


def _runs(links: Iterable[Link], moved: Sequence[int]) -> list[dict[str, Any]]:
    """Return links as the page gets them; equal ones in a row are one, with how often it is repeated.

    A repeated link has as many rows in each column, and they follow those of the link before.
    """
    found: list[dict[str, Any]] = []
    for link in links:
        if link.block is None and not link.ev and not link.client:
            continue
        events = [moved[one] for one in link.ev]
        last = found[-1] if found else None
        if (
            last is not None
            and last["block"] == link.block
            and all(
                _follows(last[name], last["times"], rows)
                for name, rows in (("up", link.up), ("ev", events), ("client", link.client))
            )
        ):
            last["times"] += 1
        else:
            found.append(
                {
                    "block": link.block,
                    "up": link.up,
                    "ev": events,
                    "client": link.client,
                    "times": 1,
                }
            )
    return found


def _follows(first: Sequence[int], times: int, rows: Sequence[int]) -> bool:
    shift = times * len(first)
    return len(first) == len(rows) and all(
        one + shift == other for one, other in zip(first, rows, strict=True)
    )


def _moved(block: Block, moved: Sequence[int]) -> Block:
    if block.ev is None:
        return block
    return structs.replace(block, ev=(moved[block.ev[0]], moved[block.ev[1]]))


def _upstream_dialect(attempt: AttemptRecord, summary: Summary) -> str:
    if attempt.reply is not None and attempt.reply.translation is not None:
        return attempt.reply.translation.source
    return summary.row.upstream_dialect


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
