"""The view of one conversation: its turns, what was added, calls beside their results, cache breaks, side requests.

The recordings of all its turns are read for it, up to a limit.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from dragoman.inspector.calls import Call, find_calls
from dragoman.inspector.columns import events_of
from dragoman.inspector.conversations import Conversation, result_text
from dragoman.inspector.prompt_cache import (
    CACHE_BROKE,
    Billed,
    CacheBreak,
    Leaf,
    first_difference,
    judge,
    leaves,
    lost_tokens,
    price_of_losing,
)
from dragoman.inspector.recordings import GoneError, answering, client_request, load
from dragoman.inspector.summary import Problem, Row, Summary
from dragoman.inspector.warnings import doc
from dragoman.recorder.lines import Events, Read
from dragoman.recorder.positions import NativePositions
from dragoman.recorder.recording import Recording, RecordingError
from dragoman.turn.events import Event, ReasoningDelta, TextDelta
from dragoman.turn.request import ASSISTANT, Request, TextPart, ToolCallPart, ToolResultPart
from dragoman.wire.json_values import canonical_json

MOST_TURNS: Final = 300  # of a conversation that are shown: the last
_MOST_TURN_BYTES: Final = 64 * 1024 * 1024  # of recordings that are read for one view
_TEXT_CHARS: Final = 4096
_DOC: Final = "inspector.md#conversations"
_REASONING: Final = b'"reasoning"'  # in the first bytes of such an event
_ORDINALS: Final = {2: "2nd", 3: "3rd"}


def conversation_view(
    folder: Path, conversation: Conversation, sides: Sequence[Conversation], now: float
) -> dict[str, Any]:
    """Return everything that the page shows of a conversation."""
    return _View(folder, conversation, sides).shown(now)


class _ReadTurn(Struct):
    """One turn, as far as its recording goes."""

    summary: Summary
    request: Request | None
    body: bytes
    events: list[Event]
    calls: list[Call]
    reasoning_ms: float | None


class _View:
    """A conversation as the page shows it."""

    def __init__(
        self, folder: Path, conversation: Conversation, sides: Sequence[Conversation]
    ) -> None:
        self._conversation = conversation
        self._sides = sides
        self._first = max(0, len(conversation.exchanges) - MOST_TURNS)
        self._read: list[_ReadTurn] = []
        left = _MOST_TURN_BYTES
        for one in conversation.exchanges[self._first :]:
            turn_read, size = _read_turn(folder, one, left)
            left -= size
            self._read.append(turn_read)

    def shown(self, now: float) -> dict[str, Any]:
        rows = [one.row for one in self._conversation.exchanges]
        turns = self._turns()
        return {
            "row": self._conversation.row(now),
            "model": rows[-1].model,
            "calls": sum(row.calls for row in rows),
            "repaired": sum(call["repaired"] for turn in turns for call in turn["calls"]),
            "repeated": sum(bool(call["repeated"]) for turn in turns for call in turn["calls"]),
            "tokens_in": sum(row.tokens_in or 0 for row in rows),
            "tokens_cached": sum(row.tokens_cached for row in rows),
            "tokens_out": sum(row.tokens_out for row in rows),
            "cost": _cost(rows),
            "side_requests": len(self._sides),
            "more": self._first,
            "turns": turns,
        }

    def _turns(self) -> list[dict[str, Any]]:
        lost = list(lost_tokens([one.row for one in self._conversation.exchanges]))[self._first :]
        seen: dict[tuple[str, str], list[tuple[int, str]]] = {}
        before: _ReadTurn | None = None
        old: list[Leaf] = []
        shown: list[dict[str, Any]] = []
        for number, one in enumerate(self._read):
            after = _next(one, self._read[number + 1 :])
            turn = self._first + number + 1
            new = leaves(one.body)
            row = one.summary.row
            broke, gone, note = None, 0, ""
            if before is not None:
                difference = first_difference(old, new) if old and new else None
                broke, gone, note = judge(before.summary.row, row, difference, lost[number])
            if broke is not None:
                cost = self._cost_of(gone, row)
                broke = msgspec.structs.replace(broke, cost=cost, doc=doc(_DOC))
            shown.append(
                {
                    "turn": turn,
                    "exchange": row.id,
                    "time": row.time,
                    "added": _added(before, one),
                    "reasoning_ms": one.reasoning_ms,
                    **_texts(one.events),
                    "tokens_in": row.tokens_in,
                    "tokens_cached": row.tokens_cached,
                    "tokens_out": row.tokens_out,
                    "duration_ms": row.duration_ms,
                    "problems": _problems(row, broke),
                    "note": note,
                    "calls": [_call(call, turn, one, after, seen) for call in one.calls],
                    "lost": gone,
                    "cache_break": broke,
                    "side": [
                        _side(side) for side in self._sides if self._turn_of(side.begin) == number
                    ],
                }
            )
            if one.request is not None and row.tokens_in is not None and row.level != "failed":
                before, old = one, new
        return shown

    def _cost_of(self, lost: int, row: Row) -> float | None:
        """Return what lost tokens cost, by what the turns with the same model and upstream cost."""
        billed = [
            Billed(one.tokens_in - one.tokens_cached, one.tokens_cached, one.tokens_out, one.cost)
            for one in (summary.row for summary in self._conversation.exchanges)
            if (one.upstream, one.model) == (row.upstream, row.model)
            and one.tokens_in is not None
            and one.cost is not None
            and not one.estimated
        ]
        price = price_of_losing(billed)
        return None if price is None else round(lost * price, 6)

    def _turn_of(self, time: float) -> int:
        """Return the last shown turn that began before a time."""
        begun = [number for number, one in enumerate(self._read) if one.summary.row.time <= time]
        return begun[-1] if begun else 0


def _next(one: _ReadTurn, later: Sequence[_ReadTurn]) -> _ReadTurn | None:
    """Return the turn that continues another: the same request may have been sent again before."""
    if one.request is None:
        return None
    known = len(one.request.turns)
    return next(
        (
            found
            for found in later
            if found.request is not None and len(found.request.turns) > known
        ),
        None,
    )


def _read_turn(folder: Path, one: Summary, left: int) -> tuple[_ReadTurn, int]:
    """Read one turn, if there are bytes left for it."""
    empty = _ReadTurn(one, None, b"", [], [], None)
    path = folder / one.file
    try:
        size = path.stat().st_size
        if size > left:
            return empty, 0
        recording = load(path).recording
    except (OSError, GoneError, RecordingError):
        return empty, 0
    body = b"" if recording.received is None else recording.received.body.data
    request = client_request(body, one.row.dialect)
    attempt = answering(recording)
    events = [] if attempt is None else events_of(attempt)
    calls = find_calls(
        events, request=request, client_ids=(), findings=(), positions=NativePositions()
    )
    if any(problem.kind == "repaired" for problem in one.row.problems):
        native = one.row.family
        for call in calls:
            call.repaired = call.repaired or bool(native)
    return _ReadTurn(one, request, body, events, calls, _reasoning_ms(recording)), size


def _reasoning_ms(recording: Recording) -> float | None:
    """Return how long the model reasoned: between the reads of the first and the last reasoning."""
    attempt = answering(recording)
    if attempt is None:
        return None
    times: list[float] = []
    at = 0.0
    for line in recording.lines:
        if isinstance(line, Events):
            if any(_REASONING in bytes(event)[:40] for event in line.events):
                times.append(at)
        else:
            at = line.at if isinstance(line, Read) else at
    return round(times[-1] - times[0], 1) if times else None


def _texts(events: Sequence[Event]) -> dict[str, Any]:
    reasoning = "".join(one.text for one in events if isinstance(one, ReasoningDelta))
    text = "".join(one.text for one in events if isinstance(one, TextDelta))
    return {
        "reasoning": reasoning[:_TEXT_CHARS],
        "text": text[:_TEXT_CHARS],
        "cut": max(len(reasoning), len(text)) > _TEXT_CHARS,
    }


def _added(before: _ReadTurn | None, one: _ReadTurn) -> dict[str, int]:
    """Count what the client added since the turn before, without the model's own answer."""
    turns = [] if one.request is None else list(one.request.turns)
    known = 0 if before is None or before.request is None else len(before.request.turns)
    new = [turn for turn in turns[known:] if turn.role != ASSISTANT]
    results = sum(isinstance(part, ToolResultPart) for turn in new for part in turn.parts)
    messages = sum(
        any(isinstance(part, TextPart) for part in turn.parts)
        and not any(isinstance(part, ToolResultPart) for part in turn.parts)
        for turn in new
    )
    tokens = one.summary.row.tokens_in or 0
    if before is not None:
        tokens -= (before.summary.row.tokens_in or 0) + before.summary.row.tokens_out
    return {"results": results, "messages": messages, "tokens": max(0, tokens)}


def _problems(row: Row, broke: CacheBreak | None) -> list[Problem]:
    found = [one for one in row.problems if one.kind != CACHE_BROKE.kind]
    return found if broke is None else [*found, CACHE_BROKE]


def _call(
    call: Call,
    turn: int,
    one: _ReadTurn,
    after: _ReadTurn | None,
    seen: dict[tuple[str, str], list[tuple[int, str]]],
) -> dict[str, Any]:
    """Return a call beside its result, which the next request has."""
    result = _result(call, one, after)
    key = call.name, canonical_json(call.arguments)
    earlier = seen.setdefault(key, [])
    text = "" if result is None else result["text"]
    repeated = ""
    if earlier and earlier[-1][1] == text:
        count = len(earlier) + 1
        repeated = f"{_ORDINALS.get(count, f'{count}th')} time"
        if count == 2:
            repeated = f"same result as turn {earlier[-1][0]}"
    earlier.append((turn, text))
    return {
        "name": call.name,
        "arguments": call.arguments[:_TEXT_CHARS],
        "cut": len(call.arguments) > _TEXT_CHARS,
        "state": call.state,
        "repaired": call.repaired,
        "repeated": repeated,
        "result": result,
    }


def _result(call: Call, one: _ReadTurn, after: _ReadTurn | None) -> dict[str, Any] | None:
    """Return the result of a call: by its place among the calls of the answer that the next request has."""
    if after is None or after.request is None or one.request is None:
        return None
    new = after.request.turns[len(one.request.turns) :]
    made = [part for turn in new for part in turn.parts if isinstance(part, ToolCallPart)]
    results = {
        part.call_id: part
        for turn in new
        for part in turn.parts
        if isinstance(part, ToolResultPart)
    }
    number = one.calls.index(call)
    if number >= len(made) or made[number].id not in results:
        return None
    found = results[made[number].id]
    text = result_text(found)
    row = one.summary.row
    gap = (after.summary.row.time - row.time) * 1000 - row.duration_ms
    return {
        "text": text[:_TEXT_CHARS],
        "is_error": found.is_error,
        "ms": round(gap, 1) if len(results) == 1 and gap >= 0 else None,
        "cut": len(text) > _TEXT_CHARS,
    }


def _side(side: Conversation) -> dict[str, Any]:
    rows = [one.row for one in side.exchanges]
    agent = side.has_tools
    return {
        "kind": "sub-agent" if agent else "side request",
        "title": side.title,
        "model": rows[-1].model,
        "turns": len(rows),
        "calls": sum(row.calls for row in rows),
        "tokens_in": sum(row.tokens_in or 0 for row in rows),
        "tokens_out": sum(row.tokens_out for row in rows),
        "duration_ms": (side.end - side.begin) * 1000,
        "conversation": side.id if agent else "",
        "exchange": "" if agent else rows[0].id,
    }


def _cost(rows: Sequence[Row]) -> float | None:
    known = [row.cost for row in rows if row.cost is not None]
    return round(sum(known), 6) if known else None
