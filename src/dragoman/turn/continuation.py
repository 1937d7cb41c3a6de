"""Joins the answers to several requests into one, for upstreams that pause.

Anthropic pauses long turns, and Moonshot runs its search only when the call of it comes back.  The shell sends the
next request (`Dialect.continue_request`); the client sees one answer: one start, blocks that are numbered on, the
sum of all counts, for each request is billed, and one end.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from dragoman.turn.answer import Answer, Folder
from dragoman.turn.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    Fault,
    Finish,
    FinishReason,
    Ping,
    Start,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.server_tools import ServerCall, ServerKind, ServerResult

_COUNTS: Final = tuple(
    name for name in Usage.__struct_fields__ if name not in ("estimated", "final", "cost")
)


class Continuation:
    """A stage that holds back the end of a paused answer and appends the next one.

    Attributes:
        paused: The paused answer, until `resume` or `give_up`; None while an answer runs.
    """

    pending = False

    def __init__(self) -> None:
        self.paused: Answer | None = None
        self._part = Folder()  # the answer to the present request
        self._started = False
        self._blocks = 0  # for the client, over all answers
        self._skipping = False  # the open block repeats a call that the client has
        self._waiting: dict[str, ServerKind] = {}  # calls of vendor-run tools without a result
        self._known: set[str] = set()  # ids of all such calls
        self._renamed: dict[str, str] = {}  # ids of the present answer that an earlier one had
        self._usage: Usage | None = None  # of the present request
        self._before: Usage | None = None  # of those before it

    def feed(self, events: Sequence[Event], /) -> list[Event]:
        """Return the events for the client."""
        out: list[Event] = []
        for event in events:
            self._part.feed((event,))
            self._take(event, out)
        return out

    def resume(self) -> None:
        """Expect the answer to the next request."""
        self.paused = None
        self._part = Folder()
        self._renamed.clear()
        self._before, self._usage = self._total(), None

    def give_up(self) -> list[Event]:
        """Return the end of an answer that paused more often than the shell allows."""
        self.paused = None
        return [Loss("continuation_capped"), *self._end(Finish(FinishReason.STOP))]

    def _take(self, event: Event, out: list[Event]) -> None:
        match event:
            case Start():
                if not self._started:
                    self._started = True
                    out.append(event)
            case Usage():
                self._usage = event
            case Finish(reason=FinishReason.PAUSE):
                self.paused = self._part.answer()
            case Finish():
                out += self._end(event)
            case Fault() | Ping() | Loss():
                out.append(event)
            case BlockStart():
                self._begin(event, out)
            case BlockEnd() if self._skipping:
                self._skipping = False
            case _:
                self._number(event, self._blocks - 1, out)

    def _begin(self, start: BlockStart, out: list[Event]) -> None:
        server = start.server
        if isinstance(server, ServerCall):
            # A result that follows a pause comes without its call, and the reader has added one.
            made_up = bytes(start.raw) == b"null"
            self._skipping = made_up and start.call_id in self._waiting
            if self._skipping:
                return
            if start.call_id in self._known:  # Moonshot counts from 0 in each answer
                fresh = f"{start.call_id}:{self._blocks}"
                self._renamed[start.call_id] = fresh
                start = structs.replace(start, call_id=fresh)
            self._known.add(start.call_id)
            self._waiting[start.call_id] = server.does
        elif isinstance(server, ServerResult):
            call_id = self._renamed.get(start.call_id, start.call_id)
            start = structs.replace(start, call_id=call_id)
            self._waiting.pop(call_id, None)
        self._number(start, self._blocks, out)
        self._blocks += 1

    @staticmethod
    def _number(event: Event, index: int, out: list[Event]) -> None:
        same = event.index == index  # type: ignore[union-attr]  # part of a block
        out.append(event if same else structs.replace(event, index=index))

    def _end(self, finish: Finish) -> list[Event]:
        out: list[Event] = []
        searched = 0
        for call_id, does in self._waiting.items():
            searched += does is ServerKind.WEB_SEARCH
            start = BlockStart(
                self._blocks, BlockKind.SERVER_RESULT, call_id, server=ServerResult(does)
            )
            out += [start, BlockEnd(self._blocks)]
            self._blocks += 1
        self._waiting.clear()
        total = self._total()
        if total is not None:
            searches = total.searches or searched
            out.append(structs.replace(total, searches=searches, final=True))
        return [*out, finish]

    def _total(self) -> Usage | None:
        """Return the counts of all requests so far."""
        before, now = self._before, self._usage
        if before is None or now is None:
            return now or before
        counts = {name: getattr(before, name) + getattr(now, name) for name in _COUNTS}
        cost = None
        if before.cost is not None or now.cost is not None:
            cost = (before.cost or 0) + (now.cost or 0)
        return Usage(**counts, estimated=before.estimated or now.estimated, cost=cost)
