"""Joins the answers to several requests into one, for upstreams that pause.

Anthropic pauses long turns, Moonshot runs its search only when the call of it comes back, and Google ends an answer
with a token that continues it.  The shell sends the
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
    EventOrRun,
    Fault,
    Finish,
    FinishReason,
    Ping,
    Start,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.server_tools import TOO_OFTEN, ServerCall, ServerKind, ServerResult

_COUNTS: Final = tuple(
    name for name in Usage.__struct_fields__ if name not in ("estimated", "final", "cost")
)


class Continuation:
    """A stage that holds back the end of a paused answer and appends the next one.

        RUNNING ──── pause ────► PAUSED ──── resume ────► RESUMED ──── content ────► RUNNING
                                   ▲                         │
                                   └──────── a failure ──────┘  `failure` has it: the shell may send the request again

    Attributes:
        paused: The paused answer, until `resume` or `give_up`; None while an answer runs.
        failure: Why the answer to the last request failed before the client got anything of it.
        waits: The client has got nothing since the pause.
    """

    pending = False

    def __init__(self, *, keeps_answer: bool = True) -> None:
        """`keeps_answer`: the next request needs the content of the paused answer, not its finish alone."""
        self.paused: Answer | None = None
        self.failure: Fault | None = None
        self.waits: bool = False
        self._keeps_answer = keeps_answer
        self._part = Folder()  # the answer to the present request, if it is kept
        self._started = False
        self._blocks = 0  # for the client, over all answers
        self._skipping = False  # the open block repeats a call that the client has
        self._waiting: dict[str, ServerKind] = {}  # calls of vendor-run tools without a result
        self._truncated = False  # the paused answer lacks its end
        self._sent: frozenset[str] = frozenset()  # those that went back to the upstream
        self._known: set[str] = set()  # ids of all such calls
        self._searches = 0  # of them
        self._renamed: dict[str, str] = {}  # ids of the present answer that an earlier one had
        self._usage: Usage | None = None  # of the present request
        self._before: Usage | None = None  # of those before it

    def feed(self, events: Sequence[EventOrRun], /) -> list[EventOrRun]:
        """Return the events for the client."""
        out: list[EventOrRun] = []
        for event in events:
            if self._keeps_answer:
                self._part.feed((event,))
            self._take(event, out)
        return out

    @property
    def halted(self) -> bool:
        """The present response is of no further use: it paused, or failed before the client got anything of it."""
        return self.paused is not None or self.failure is not None

    def resume(self) -> None:
        """Expect the answer to the next request, or to the same one again if its first answer failed."""
        if self.paused is not None:
            self._before = self._total()
            self._sent = frozenset(self._waiting)
        self.paused = self.failure = self._usage = None
        self._part = Folder()
        self._skipping = False
        self._renamed.clear()

    def give_up(self) -> list[EventOrRun]:
        """Return the end of an answer that paused more often than the shell allows, or did not go on in time."""
        if self.paused is None:
            self._sent = frozenset()  # what the last request sent back brought nothing
        self.paused, self.waits = None, False
        reason = FinishReason.LENGTH if self._truncated else FinishReason.STOP
        return [Loss("continuation_capped"), *self._end(Finish(reason), capped=True)]

    def fail(self, fault: Fault) -> list[EventOrRun]:
        """Return the end of an answer that cannot be continued."""
        self.paused, self.waits = None, False
        return [fault]

    def spent(self, present: Usage) -> Usage:
        """Return the counts of all requests; `present` are those of the one that has not ended."""
        if self._usage is not None and self._usage.final:
            present = self._usage
        searched = sum(does is ServerKind.WEB_SEARCH for does in self._waiting.values())
        total = present if self._before is None else _sum(self._before, present)
        # A result that comes after its call's answer is counted with both.
        return structs.replace(total, searches=min(total.searches, self._searches) or searched)

    def _take(self, event: EventOrRun, out: list[EventOrRun]) -> None:
        match event:
            case Start():
                if not self._started:
                    self._started = True
                    out.append(event)
            case Usage():
                self._usage = event
            case Finish(reason=FinishReason.PAUSE):
                self._truncated = bool(event.token)
                self.paused = (
                    self._part.answer() if self._keeps_answer else Answer(Start(), finish=event)
                )
                self.waits = True
            case Finish():
                self.waits = False
                out += self._end(event)
            case Fault() if self.waits:
                self.failure = event
            case Fault() | Ping() | Loss():
                out.append(event)
            case BlockStart():
                self._begin(event, out)
            case BlockEnd() if self._skipping:
                self._skipping = False
            case _:
                self._number(event, self._blocks - 1, out)

    def _begin(self, start: BlockStart, out: list[EventOrRun]) -> None:
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
            self._searches += server.does is ServerKind.WEB_SEARCH
            self._waiting[start.call_id] = server.does
        elif isinstance(server, ServerResult):
            call_id = self._renamed.get(start.call_id, start.call_id)
            start = structs.replace(start, call_id=call_id)
            self._waiting.pop(call_id, None)
        self._number(start, self._blocks, out)
        self._blocks += 1
        self.waits = False

    @staticmethod
    def _number(event: EventOrRun, index: int, out: list[EventOrRun]) -> None:
        same = event.index == index  # type: ignore[union-attr]  # part of a block
        out.append(event if same else structs.replace(event, index=index))

    def _end(self, finish: Finish, *, capped: bool = False) -> list[EventOrRun]:
        out: list[EventOrRun] = []
        total = self._total()
        if total is not None:
            total = structs.replace(self.spent(self._usage or _NOTHING), final=True)
        for call_id, does in self._waiting.items():
            error = TOO_OFTEN if capped and call_id not in self._sent else ""
            result = ServerResult(does, error=error)
            start = BlockStart(self._blocks, BlockKind.SERVER_RESULT, call_id, server=result)
            out += [start, BlockEnd(self._blocks)]
            self._blocks += 1
        self._waiting.clear()
        return [*out, finish] if total is None else [*out, total, finish]

    def _total(self) -> Usage | None:
        """Return the counts of all requests so far."""
        before, now = self._before, self._usage
        return now or before if before is None or now is None else _sum(before, now)


_NOTHING: Final = Usage()


def _sum(before: Usage, now: Usage) -> Usage:
    counts = {name: getattr(before, name) + getattr(now, name) for name in _COUNTS}
    cost = None
    if before.cost is not None or now.cost is not None:
        cost = (before.cost or 0) + (now.cost or 0)
    return Usage(**counts, estimated=before.estimated or now.estimated, cost=cost)
