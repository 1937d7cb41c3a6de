"""When things happened: the lanes of the timeline, and the attempts."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from dragoman.inspector.answer_rows import Arrivals
from dragoman.inspector.columns import Block, Columns
from dragoman.inspector.summary import LogRecord, Summary
from dragoman.recorder.recording import AttemptRecord, Recording
from dragoman.turn.events import BlockEnd

_MOST_TICKS: Final = 4000


def timeline(  # noqa: PLR0913 -- everything that has a time
    recording: Recording,
    summary: Summary,
    *,
    blocks: Sequence[Block],
    columns: Columns,
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


def _span(block: Block, columns: Columns) -> dict[str, Any]:
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


def attempt_rows(
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
