"""Exchanges as the runs of agents: those that share a history are the turns of one conversation.

Of each recording only the client's request is read for the grouping, once, and only of the newest exchanges.  The
requests of two turns are compared where the prompt cache may have broken between them.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from dragoman.inspector.index import Index
from dragoman.inspector.prompt_cache import (
    CACHE_BROKE,
    fingerprint,
    first_difference,
    judge,
    leaves,
    lost_tokens,
)
from dragoman.inspector.recordings import client_request
from dragoman.inspector.summary import Row, Summary
from dragoman.recorder.lines import Received
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
from dragoman.wire.json_values import canonical_json

MOST_EXCHANGES: Final = 3000  # that are grouped: the newest
_MAX_REQUEST: Final = 16 * 1024 * 1024  # of a request that is grouped
_MOST_COMPARED: Final = 8 * 1024 * 1024  # bytes of requests that are compared at once
_TITLE_CHARS: Final = 80
_RUNNING_SECONDS: Final = 120.0


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


class TurnPlace(Struct, frozen=True):
    """Where an exchange is: the conversation, and its turn from 1."""

    id: str
    turn: int
    turns: int


class _Asked(Struct):
    """What is known of a request, for the grouping."""

    chain: list[bytes]  # a hash of the history up to each turn
    print: str  # of the agent: tools and instructions
    agent: bytes  # a hash of all tools and instructions
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
    broken: set[str] = set()  # exchanges whose request broke the prompt cache

    @property
    def begin(self) -> float:
        return self.exchanges[0].row.time

    @property
    def last(self) -> Row:
        return self.exchanges[-1].row

    @property
    def end(self) -> float:
        return self.last.time + self.last.duration_ms / 1000

    def row(self, now: float) -> ConversationRow:
        """Return the conversation as the list shows it."""
        flag, level = self._flag()
        running = self.last.state == "streaming" or (
            now - self.end < _RUNNING_SECONDS
            and self.last.calls > 0
            and self.last.level != "failed"
        )
        return ConversationRow(
            id=self.id,
            title=self.title,
            client=self.client,
            turns=len(self.exchanges),
            time=self.last.time,
            state="running" if running else "done",
            flag=flag,
            level=level,
        )

    def _flag(self) -> tuple[str, str]:
        """Return a label for the most serious problem of a conversation, and its level; empty: there is none."""
        if self.last.level == "failed":
            cut = any(one.kind == "cut_off" for one in self.last.problems)
            return ("cut off" if cut else "failed"), "failed"
        if self.broken:
            return CACHE_BROKE.label, CACHE_BROKE.level
        repeated = sum(
            any(problem.kind == "repeated" for problem in one.row.problems)
            for one in self.exchanges
        )
        return (f"{repeated} repeated", "warn") if repeated else ("", "ok")


class Conversations:
    """All conversations of a folder; called in a thread."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._asked: dict[str, _Asked | None] = {}  # by file
        self._known: tuple[str, ...] = ()
        self._found: dict[str, Conversation] = {}
        self._places: dict[str, TurnPlace] = {}
        self._sides: dict[str, str] = {}  # sub-agents and side requests, with whose they are
        self._compared: dict[tuple[str, str], bool] = {}  # two files: the second broke the cache

    def all(self) -> dict[str, Conversation]:
        """Return the conversations, by id."""
        with self._lock:
            self._refresh()
            return self._found

    def place(self, exchange: str) -> TurnPlace | None:
        """Return where an exchange is."""
        with self._lock:
            self._refresh()
            return self._places.get(exchange)

    def known(self, exchange: str) -> TurnPlace | None:
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
            one.row.id: TurnPlace(found.id, number, len(found.exchanges))
            for found in self._found.values()
            for number, one in enumerate(found.exchanges, start=1)
        }
        self._sides = _sides(self._found.values())
        self._known = known if self._find_breaks(folder) else ()

    def _read(self, folder: Path, one: Summary) -> _Asked | None:
        if one.file in self._asked:
            return self._asked[one.file]
        body = _received(folder / one.file)
        return None if body is None else _asked(body, one.row.dialect)

    # --- prompt caches ---------------------------------------------------------------------------

    def _find_breaks(self, folder: Path) -> bool:
        """Find the exchanges whose request broke the prompt cache; return whether all are known now.

        Only so many bytes of requests are compared at once; the next call goes on.
        """
        left = _MOST_COMPARED
        compared: dict[tuple[str, str], bool] = {}
        for found in reversed(self._found.values()):
            for before, one, lost in _suspects(found.exchanges, self._asked):
                pair = before.file, one.file
                broke = self._compared.get(pair)
                if broke is None and left > 0:
                    bodies = [_received(folder / file) or b"" for file in pair]
                    left -= sum(map(len, bodies))
                    difference = first_difference(*map(leaves, bodies)) if all(bodies) else None
                    broke = judge(before.row, one.row, difference, lost)[0] is not None
                if broke is not None:
                    compared[pair] = broke
                if broke:
                    found.broken.add(one.row.id)
        self._compared = compared
        self._index.note(
            {exchange: CACHE_BROKE for one in self._found.values() for exchange in one.broken}
        )
        return left > 0

    # --- what is shown ---------------------------------------------------------------------------

    def files(self, conversation: str, *, may_see: Callable[[Summary], bool]) -> list[str]:
        """Return the recordings of a conversation that a viewer may see, with those beside it."""
        every = self.all()
        return [
            exchange.file
            for one in (conversation, *self._beside(conversation))
            if one in every
            for exchange in every[one].exchanges
            if may_see(exchange)
        ]

    def rows(
        self, *, text: str, may_see: Callable[[Summary], bool], now: float
    ) -> list[ConversationRow]:
        """Return the conversations that a viewer may see, the newest first; side requests are left out."""
        found = self.all()
        sides = self._sides
        word = text.lower()
        rows = [
            one.row(now)
            for one in found.values()
            if one.id not in sides and may_see(one.exchanges[0]) and word in one.title.lower()
        ]
        return sorted(rows, key=lambda row: (row.time, row.id), reverse=True)

    def find(
        self, conversation: str, *, may_see: Callable[[Summary], bool]
    ) -> tuple[Conversation, list[Conversation]] | None:
        """Return a conversation that a viewer may see, and those beside it."""
        every = self.all()
        found = every.get(conversation)
        if found is None or not may_see(found.exchanges[0]):
            return None
        return found, [every[side] for side in self._beside(conversation)]

    def _beside(self, conversation: str) -> list[str]:
        return [side for side, main in self._sides.items() if main == conversation]


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
    request = client_request(body, dialect)
    if request is None or not request.turns:
        return None
    chain: list[bytes] = []
    before = b""
    for turn in request.turns:
        before = _hash(before, turn)
        chain.append(before)
    agent = hashlib.blake2b(repr((request.system, request.tools)).encode("utf-8", "replace"))
    return _Asked(chain, fingerprint(body), agent.digest(), _title(request), bool(request.tools))


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
            return f"{part.id}\n{part.name}\n{canonical_json(part.arguments)}"
        case ToolResultPart():
            return f"{part.call_id}\n{result_text(part)}"
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


def _suspects(
    exchanges: Iterable[Summary], asked: dict[str, _Asked | None]
) -> Iterator[tuple[Summary, Summary, int]]:
    """Yield turns between which the prompt cache may have broken, and the tokens that were read again.

    The upstream's counts show it; where it reports none, a request that does not continue the one before.
    """
    every = list(exchanges)
    before: Summary | None = None
    for one, lost in zip(every, lost_tokens([one.row for one in every]), strict=True):
        if before is not None:
            old, new = asked[before.file], asked[one.file]
            reported = before.row.tokens_cached or one.row.tokens_cached
            if lost or (not reported and old and new and not _continues(old, new)):
                yield before, one, lost
        if one.row.tokens_in is not None and one.row.level != "failed":
            before = one


def _continues(old: _Asked, new: _Asked) -> bool:
    """Return whether a request begins with all of another, reasoning aside."""
    last = len(old.chain) - 1
    return old.agent == new.agent and last < len(new.chain) and old.chain[last] == new.chain[last]


def result_text(result: ToolResultPart) -> str:
    """Return the result of a call as text."""
    return "\n".join(
        part.text if isinstance(part, TextPart) else f"[{type(part).__name__}]"
        for part in result.parts
    )
