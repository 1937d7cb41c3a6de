"""Exchanges as the runs of agents: those that share a history are the turns of one conversation.

Of each recording only the client's request is read for the grouping, once, and only of the newest exchanges.  Whole
recordings are read for the conversation that is looked at.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from dragoman.dialects import dialect_names
from dragoman.errors import DragomanError
from dragoman.inspector.calls import Call, canonical, find_calls
from dragoman.inspector.columns import events_of
from dragoman.inspector.index import Index
from dragoman.inspector.prompt_cache import (
    Billed,
    CacheBreak,
    Leaf,
    fingerprint,
    first_difference,
    leaves,
    price_of_losing,
)
from dragoman.inspector.recordings import GoneError, answering, load
from dragoman.inspector.summary import Problem, Row, Summary
from dragoman.inspector.warnings import doc
from dragoman.recorder.lines import Events, Read, Received
from dragoman.recorder.positions import NativePositions
from dragoman.recorder.recording import Recording, RecordingError
from dragoman.translate_requests import read_request
from dragoman.turn.events import Event, ReasoningDelta, TextDelta
from dragoman.turn.request import (
    ASSISTANT,
    Part,
    ReasoningPart,
    Request,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
)

MOST_EXCHANGES: Final = 3000  # that are grouped: the newest
MOST_TURNS: Final = 300  # of a conversation that are shown: the last
_MOST_TURN_BYTES: Final = 64 * 1024 * 1024  # of recordings that are read for one view
_MAX_REQUEST: Final = 16 * 1024 * 1024  # of a request that is grouped
_TEXT_CHARS: Final = 4096
_TITLE_CHARS: Final = 80
_IDLE_SECONDS: Final = 300.0  # after which upstreams usually drop a cache
_DOC: Final = "inspector.md#conversations"
_RUNNING_SECONDS: Final = 120.0
_LEAST_LOST: Final = 256  # tokens that are worth a word
_REASONING: Final = b'"reasoning"'  # in the first bytes of such an event
_ORDINALS: Final = {2: "2nd", 3: "3rd"}


class ConversationRow(Struct, frozen=True, kw_only=True):
    """A conversation in the list."""

    id: str
    title: str
    client: str
    turns: int
    time: float
    state: Literal["running", "done"]
    flag: str = ""
    level: str = "ok"


class Place(Struct, frozen=True):
    """Where an exchange is: the conversation, and its turn from 1."""

    id: str
    turn: int
    turns: int


class _Asked(Struct):
    """What is known of a request, for the grouping."""

    chain: list[bytes]  # a hash of the history up to each turn
    print: str  # of the agent: tools and instructions
    title: str
    has_tools: bool


class Conversation(Struct):
    """Exchanges that share a history, the oldest first."""

    id: str
    owner: str
    client: str
    title: str
    print: str
    has_tools: bool
    root: bytes
    exchanges: list[Summary] = []

    @property
    def begin(self) -> float:
        return self.exchanges[0].row.time

    @property
    def last(self) -> Row:
        return self.exchanges[-1].row

    @property
    def end(self) -> float:
        return self.last.time + self.last.duration_ms / 1000


class Conversations:
    """All conversations of a folder; called in a thread."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._asked: dict[str, _Asked | None] = {}  # by file
        self._known: tuple[str, ...] = ()
        self._found: dict[str, Conversation] = {}
        self._places: dict[str, Place] = {}
        self._sides: dict[str, str] = {}  # sub-agents and side requests, with whose they are

    def all(self) -> dict[str, Conversation]:
        """Return the conversations, by id."""
        with self._lock:
            self._refresh()
            return self._found

    def place(self, exchange: str) -> Place | None:
        """Return where an exchange is."""
        with self._lock:
            self._refresh()
            return self._places.get(exchange)

    def known(self, exchange: str) -> Place | None:
        """Return where an exchange is, as far as it is known: nothing is read for it."""
        return self._places.get(exchange)

    def _refresh(self) -> None:
        folder = self._index.folder
        if folder is None:
            return
        newest = [
            one
            for one in self._index.summaries()
            if one.file and not one.unreadable and one.row.state == "done"
        ][-MOST_EXCHANGES:]
        known = tuple(one.file for one in newest)
        if known == self._known:
            return
        self._asked = {one.file: self._read(folder, one) for one in newest}
        self._found = _group((one, asked) for one in newest if (asked := self._asked[one.file]))
        self._places = {
            one.row.id: Place(found.id, number, len(found.exchanges))
            for found in self._found.values()
            for number, one in enumerate(found.exchanges, start=1)
        }
        self._sides = _sides(self._found.values())
        self._known = known

    def _read(self, folder: Path, one: Summary) -> _Asked | None:
        if one.file in self._asked:
            return self._asked[one.file]
        body = _received(folder / one.file)
        return None if body is None else _asked(body, one.row.dialect)

    def files(self, conversation: str, *, may_see: Callable[[Summary], bool]) -> list[str]:
        """Return the recordings of a conversation that a viewer may see, with those beside it."""
        every = self.all()
        ids = [conversation, *(side for side, main in self._sides.items() if main == conversation)]
        return [
            exchange.file
            for one in ids
            if one in every
            for exchange in every[one].exchanges
            if may_see(exchange)
        ]

    # --- the list --------------------------------------------------------------------------------

    def rows(
        self, *, text: str, may_see: Callable[[Summary], bool], now: float
    ) -> list[ConversationRow]:
        """Return the conversations that a viewer may see, the newest first; side requests are left out."""
        found = self.all()
        sides = self._sides
        word = text.lower()
        rows = [
            _row(one, now)
            for one in found.values()
            if one.id not in sides and may_see(one.exchanges[0]) and word in one.title.lower()
        ]
        return sorted(rows, key=lambda row: (row.time, row.id), reverse=True)

    def view(
        self, conversation: str, *, may_see: Callable[[Summary], bool], now: float
    ) -> dict[str, Any] | None:
        """Return everything that the page shows of a conversation."""
        every = self.all()
        found = every.get(conversation)
        folder = self._index.folder
        if found is None or folder is None or not may_see(found.exchanges[0]):
            return None
        sides = [every[side] for side, main in self._sides.items() if main == found.id]
        return _View(folder, found, sides).shown(now)


# --- grouping ------------------------------------------------------------------------------------


def _received(path: Path) -> bytes | None:
    """Return the request of a recording; None: it has none, or too large a one."""
    try:
        with path.open("rb") as file:
            file.readline()
            line = file.readline(_MAX_REQUEST)
        return msgspec.json.decode(line, type=Received).body.data
    except (OSError, msgspec.DecodeError):
        return None


def _asked(body: bytes, dialect: str) -> _Asked | None:
    request = _request(body, dialect)
    if request is None or not request.turns:
        return None
    chain: list[bytes] = []
    before = b""
    for turn in request.turns:
        before = _hash(before, turn)
        chain.append(before)
    return _Asked(chain, fingerprint(body), _title(request), bool(request.tools))


def _request(body: bytes, dialect: str) -> Request | None:
    if dialect not in dialect_names():
        return None
    try:
        return read_request(body, source=dialect).request
    except (DragomanError, RecursionError):
        return None


def _hash(before: bytes, turn: Turn) -> bytes:
    """Return the hash of a history with one more turn; what clients leave out later does not count."""
    found = hashlib.blake2b(before, digest_size=16)
    found.update(str(turn.role).encode())
    for part in turn.parts:
        text = _essence(part)
        if text:
            found.update(b"\0" + text.encode("utf-8", "replace"))
    return found.digest()


def _essence(part: Part) -> str:
    match part:
        case TextPart():
            return part.text.strip()
        case ToolCallPart():
            return f"{part.id}\n{part.name}\n{canonical(part.arguments)}"
        case ToolResultPart():
            return f"{part.call_id}\n{_result_text(part)}"
        case ReasoningPart():
            return ""
    return type(part).__name__


def _title(request: Request) -> str:
    """Return the beginning of the user's first text, without the notes that agents add."""
    texts = [
        part.text.strip()
        for turn in request.turns
        if turn.role != ASSISTANT
        for part in turn.parts
        if isinstance(part, TextPart) and part.text.strip()
    ]
    own = next((text for text in texts if not text.startswith("<")), texts[0] if texts else "")
    line = own.partition("\n")[0]
    return line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1] + "…"


def _group(exchanges: Iterator[tuple[Summary, _Asked]]) -> dict[str, Conversation]:
    """Put exchanges that share a history together; they come in the order of time."""
    found: dict[str, Conversation] = {}
    ends: dict[tuple[str, bytes], Conversation] = {}  # histories as each exchange left them
    roots: dict[tuple[str, bytes, str], Conversation] = {}
    for one, asked in exchanges:
        owner = f"{one.owner}\n{one.row.client}"
        conversation = next(
            (ends[owner, link] for link in reversed(asked.chain[:-1]) if (owner, link) in ends),
            None,
        )
        if conversation is None and len(asked.chain) > 1:  # an edited or compacted history
            conversation = roots.get((owner, asked.chain[0], asked.print))
        if conversation is None:
            again = ends.get((owner, asked.chain[-1]))
            if again is not None and again.last.level == "failed":
                conversation = again  # sent again after a failure
        if conversation is None:
            conversation = Conversation(
                id=f"cv_{hashlib.blake2b(one.row.id.encode(), digest_size=8).hexdigest()}",
                owner=one.owner,
                client=one.row.client,
                title=asked.title,
                print=asked.print,
                has_tools=asked.has_tools,
                root=asked.chain[0],
            )
            found[conversation.id] = conversation
            roots[owner, asked.chain[0], asked.print] = conversation
        conversation.exchanges.append(one)
        ends[owner, asked.chain[-1]] = conversation
    return found


def _sides(conversations: Iterable[Conversation]) -> dict[str, str]:
    """Return which conversations are the work of another one, by its id: sub-agents and side requests.

    They have other tools or instructions, are shorter, and begin while the other one runs.
    """
    by_client: dict[tuple[str, str], list[Conversation]] = {}
    for one in sorted(conversations, key=lambda one: one.begin):
        by_client.setdefault((one.owner, one.client), []).append(one)
    found: dict[str, str] = {}
    for every in by_client.values():
        longer: list[Conversation] = []  # that may have sides, and still run
        for one in every:
            longer = [other for other in longer if other.end >= one.begin]
            for other in longer:
                if len(one.exchanges) < len(other.exchanges) and one.print != other.print:
                    found[one.id] = other.id
            if len(one.exchanges) > 1 and one.id not in found:
                longer.append(one)
    return found


def _row(one: Conversation, now: float) -> ConversationRow:
    flag, level = _flag([summary.row for summary in one.exchanges])
    running = one.last.state == "streaming" or (
        now - one.end < _RUNNING_SECONDS and one.last.calls > 0 and one.last.level != "failed"
    )
    return ConversationRow(
        id=one.id,
        title=one.title,
        client=one.client,
        turns=len(one.exchanges),
        time=one.last.time,
        state="running" if running else "done",
        flag=flag,
        level=level,
    )


def _flag(rows: Sequence[Row]) -> tuple[str, str]:
    """Return the worst of a conversation in two words, and its level."""
    if rows[-1].level == "failed":
        cut = any(one.kind == "cut_off" for one in rows[-1].problems)
        return ("cut off" if cut else "failed"), "failed"
    if any(lost for lost in _lost(rows)):
        return "cache broke", "warn"
    repeated = sum(any(one.kind == "repeated" for one in row.problems) for row in rows)
    return (f"{repeated} repeated", "warn") if repeated else ("", "ok")


def _lost(rows: Sequence[Row]) -> Iterator[int]:
    """Yield for each turn how many tokens of the turn before were read again, by the upstream's counts."""
    reports = any(row.tokens_cached for row in rows)
    before: Row | None = None
    for row in rows:
        lost = 0
        if before is not None and reports and before.tokens_in and row.tokens_in is not None:
            expected = min(before.tokens_in, row.tokens_in)
            lost = expected - row.tokens_cached
            if lost < max(_LEAST_LOST, expected // 2) or row.level == "failed":
                lost = 0
        yield lost
        if row.level != "failed":
            before = row


# --- one conversation ----------------------------------------------------------------------------


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
            "row": _row(self._conversation, now),
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
        lost = list(_lost([one.row for one in self._conversation.exchanges]))[self._first :]
        seen: dict[tuple[str, str], list[tuple[int, str]]] = {}
        before: _ReadTurn | None = None
        old: list[Leaf] = []
        shown: list[dict[str, Any]] = []
        for number, one in enumerate(self._read):
            after = _next(one, self._read[number + 1 :])
            turn = self._first + number + 1
            new = leaves(one.body)
            broke = first_difference(old, new) if before is not None and old and new else None
            broke, gone, note = _judge(before, one, broke, lost[number])
            if broke is not None:
                cost = self._cost_of(gone, one.summary.row)
                broke = msgspec.structs.replace(broke, cost=cost, doc=doc(_DOC))
            row = one.summary.row
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
    request = _request(body, one.row.dialect)
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


def _judge(
    before: _ReadTurn | None, one: _ReadTurn, broke: CacheBreak | None, lost: int
) -> tuple[CacheBreak | None, int, str]:
    """Return the cache break of a turn, the tokens that were read again, and why if the request is the same."""
    if before is None:
        return None, 0, ""
    old, row = before.summary.row, one.summary.row
    if broke is not None:
        reports = bool(old.tokens_cached or row.tokens_cached)
        tokens = lost if reports else int((old.tokens_in or 0) * (1 - broke.kept))
        if tokens < _LEAST_LOST:
            return None, 0, ""
        return msgspec.structs.replace(broke, tokens=tokens), tokens, ""
    if not lost:
        return None, 0, ""
    if old.upstream != row.upstream:
        note = (
            f"Cache not used: {row.upstream} answered instead of {old.upstream}, and each upstream"
            " has its own cache. The request itself did not change."
        )
    elif row.time - old.time > _IDLE_SECONDS:
        note = (
            "Cache not used: more than 5 minutes passed; the upstream probably dropped it."
            " The request itself did not change."
        )
    else:
        note = "Cache not used, although the request did not change."
    return None, lost, note


def _problems(row: Row, broke: CacheBreak | None) -> list[Problem]:
    found = list(row.problems)
    if broke is not None:
        found.append(Problem("cache", "cache broke", "warn"))
    return found


def _call(
    call: Call,
    turn: int,
    one: _ReadTurn,
    after: _ReadTurn | None,
    seen: dict[tuple[str, str], list[tuple[int, str]]],
) -> dict[str, Any]:
    """Return a call beside its result, which the next request has."""
    result = _result(call, one, after)
    key = call.name, canonical(call.arguments)
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
    text = _result_text(found)
    row = one.summary.row
    gap = (after.summary.row.time - row.time) * 1000 - row.duration_ms
    return {
        "text": text[:_TEXT_CHARS],
        "is_error": found.is_error,
        "ms": round(gap, 1) if len(results) == 1 and gap >= 0 else None,
        "cut": len(text) > _TEXT_CHARS,
    }


def _result_text(result: ToolResultPart) -> str:
    return "\n".join(
        part.text if isinstance(part, TextPart) else f"[{type(part).__name__}]"
        for part in result.parts
    )


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
