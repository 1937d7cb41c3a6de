"""Which event may follow which: the tables, and the machine that reads them.

Theory of operation
-------------------

Readers, stages and writers agree on one language: the events of `turn/events.py`.  This module defines its
grammar.  Every writer passes each event to `Legality.check` before it writes a byte, so that a bug in a
reader or a stage becomes an error event in the client's dialect and never a malformed stream.

Two coupled machines decide.  The first one follows the turn:

    idle ── Start ──► between blocks ◄── BlockEnd ── inside a block
                            │  └──────── BlockStart ──────►│
                            │                              │ deltas stay inside
                         Finish                          Fault
                            └────────────► ended ◄─────────┘

`TURN` is that diagram as a table: state → event type → next state.  An absent key is an illegal event, and the
error names the state and the event.  `Ping` and `Loss` are allowed before the end in every state and change
nothing; a `Loss` may even follow the end, because writers find some losses only when they close.  `Usage` needs a
`Start`, for no dialect can report counts of an answer that has not begun.  `Fault` is allowed everywhere before
the end: an upstream can fail before its first byte, between blocks, or in the middle of a tool call.

The second machine follows the open block.  Blocks never overlap: Messages and Responses number their blocks and
write them one after another, and a Chat upstream that interleaves calls by index is put in order by
`turn/assembler.py`.  `DELTAS` lists the deltas that fit each kind of block.  A `DeltaRun` fits where a `TextDelta`
fits, as it is a number of them.  Server and opaque blocks take no delta: they are whole in `BlockStart`.

Rules that a table of types cannot express are methods of `Legality`:

* Indexes.  Blocks are numbered 0, 1, 2, … without gaps.  A delta and a `BlockEnd` name the open block.
* Incomplete blocks.  Only a call may end with `complete=False`: its arguments were truncated or are invalid, and
  the client must not run it.  Text that was truncated is still text.
* The end.  `Finish` needs every block to have ended.  `Fault` may leave a block open; how a dialect closes it is
  the writer's business, and a truncated call is never closed as if it were whole.
* Vendor-run tools.  A result follows the call whose id it has, and each call has one result.  An answer that
  ends with `stop` has all results; a truncated, paused or interrupted one may lack some.  Blocks that only their vendor can read have no `server`,
  and none of this applies to them.
* Usage.  Counts are cumulative, so that there may be many `Usage` events, but only one of them is final.
* Finish reasons.  `tool_calls` needs a call, and `stop` or `stop_sequence` must not hide one: agents decide by
  this field whether to run tools (corpus case `chat/b9_stop_although_calls_were_made`).  Reasons that say the
  answer was truncated or filtered are legal with and without calls, because they must never be masked.

After a refusal the machine is broken and accepts nothing but a `Fault`, with which the translator ends the stream.

The common case is a delta for the open block.  It is decided by one look-up (`allowed`) and one comparison,
before any table is read; writers that send millions of deltas do the same two checks inline.

`tests/unit/turn/test_state.py` walks the whole grid of states, kinds of block and events.
"""

from enum import StrEnum
from typing import Final

from dragoman.errors import IllegalOrderError
from dragoman.turn.events import (
    CALL_KINDS,
    TOOL_CALLS,
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    DeltaRun,
    EventOrRun,
    Fault,
    Finish,
    FinishReason,
    InputDelta,
    Opaque,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.server_tools import ServerCall, ServerResult


class TurnState(StrEnum):
    IDLE = "idle"  # nothing yet
    OPEN = "between blocks"
    BLOCK = "inside a block"
    ENDED = "ended"


# The turn: which events are allowed in which state, and where they lead.
TURN: Final[dict[TurnState, dict[type, TurnState]]] = {
    TurnState.IDLE: {
        Start: TurnState.OPEN,
        Fault: TurnState.ENDED,
        Ping: TurnState.IDLE,
        Loss: TurnState.IDLE,
    },
    TurnState.OPEN: {
        BlockStart: TurnState.BLOCK,
        Usage: TurnState.OPEN,
        Finish: TurnState.ENDED,
        Fault: TurnState.ENDED,
        Ping: TurnState.OPEN,
        Loss: TurnState.OPEN,
    },
    TurnState.BLOCK: {
        TextDelta: TurnState.BLOCK,
        DeltaRun: TurnState.BLOCK,
        ReasoningDelta: TurnState.BLOCK,
        ArgsDelta: TurnState.BLOCK,
        InputDelta: TurnState.BLOCK,
        RefusalDelta: TurnState.BLOCK,
        Citation: TurnState.BLOCK,
        Opaque: TurnState.BLOCK,
        BlockEnd: TurnState.OPEN,
        Usage: TurnState.BLOCK,
        Fault: TurnState.ENDED,
        Ping: TurnState.BLOCK,
        Loss: TurnState.BLOCK,
    },
    TurnState.ENDED: {Loss: TurnState.ENDED},
}

# The block: which deltas fit which kind.
DELTAS: Final[dict[BlockKind, frozenset[type]]] = {
    BlockKind.TEXT: frozenset({TextDelta, DeltaRun, Citation}),
    BlockKind.REASONING: frozenset({ReasoningDelta, DeltaRun, Opaque}),
    BlockKind.TOOL_CALL: frozenset({ArgsDelta, DeltaRun, Opaque}),
    BlockKind.CUSTOM_CALL: frozenset({InputDelta, Opaque}),
    BlockKind.REFUSAL: frozenset({RefusalDelta}),
    BlockKind.SERVER_CALL: frozenset(),
    BlockKind.SERVER_RESULT: frozenset(),
    BlockKind.OPAQUE: frozenset(),
}

_IDLE: Final = TurnState.IDLE
_NONE: Final[frozenset[str]] = (
    frozenset()
)  # one for all: another takes 216 bytes of every open stream
_ALL_DELTAS: Final = frozenset().union(*DELTAS.values())
_PLAIN_STOPS: Final = frozenset({FinishReason.STOP, FinishReason.STOP_SEQUENCE})


class Legality:
    """Follow a stream of events and refuse the first illegal one.

    `check` is called by every writer before it writes.  After a refusal only a `Fault` is accepted, so
    that even a bug of ours ends the stream in the client's dialect.
    """

    def __init__(self) -> None:
        self.state: TurnState = _IDLE
        self.index: int = -1  # of the block that is open, or of the last one
        self.kind: BlockKind | None = None  # of the block that is open
        self.calls: int = 0  # calls so far, incomplete ones too
        self.allowed: frozenset[type] = frozenset()  # deltas that fit the open block
        self._unanswered = _NONE  # calls of vendor-run tools that have no result yet
        self._final_usage = False
        self._broken = False

    def check(self, event: EventOrRun, /) -> None:
        """Take one event.

        Raises:
            IllegalOrderError: the event is not allowed here.
        """
        cls = type(event)
        # The path of nearly every event: a delta for the block that is open.
        if cls in self.allowed and event.index == self.index:  # type: ignore[union-attr]
            return
        following = TURN[self.state].get(cls)
        if following is None or (self._broken and cls is not Fault):
            self._refuse(cls.__name__)
        if cls in _ALL_DELTAS:
            self._refuse_delta(event)
        if cls is BlockStart:
            self._open(event)  # type: ignore[arg-type]
        elif cls is BlockEnd:
            self._end(event)  # type: ignore[arg-type]
        elif cls is Usage:
            if event.final and self._final_usage:  # type: ignore[union-attr]
                self._refuse("Usage", "the final token counts were already reported")
            self._final_usage = self._final_usage or event.final  # type: ignore[union-attr]
        elif cls is Finish:
            self._finish(event)  # type: ignore[arg-type]
        self.state = following  # type: ignore[assignment]

    def _open(self, event: BlockStart) -> None:
        if event.index != self.index + 1:
            self._refuse("BlockStart", f"index {event.index} where {self.index + 1} is next")
        if event.server is not None:
            self._server(event)
        self.index = event.index
        self.kind = event.kind
        self.allowed = DELTAS[event.kind]

    def _server(self, event: BlockStart) -> None:
        known = event.call_id in self._unanswered
        match event.kind, event.server:
            case BlockKind.SERVER_CALL, ServerCall() if not known:
                self._unanswered |= {event.call_id}
            case BlockKind.SERVER_RESULT, ServerResult() if known:
                self._unanswered -= {event.call_id}
            case BlockKind.SERVER_RESULT, ServerResult():
                self._refuse("BlockStart", f"no call `{event.call_id}` waits for this result")
            case _:
                self._refuse("BlockStart", f"the content does not fit a {event.kind} block")

    def _end(self, event: BlockEnd) -> None:
        if event.index != self.index:
            self._refuse("BlockEnd", f"block {event.index} is not open")
        if self.kind in CALL_KINDS:
            self.calls += 1
        elif not event.complete:
            self._refuse("BlockEnd", "only a call can be cut")
        self.kind = None
        self.allowed = frozenset()

    def _finish(self, event: Finish) -> None:
        if event.reason is TOOL_CALLS and not self.calls:
            self._refuse("Finish", "reason tool_calls without a call")
        if event.reason in _PLAIN_STOPS and self.calls:
            self._refuse("Finish", f"reason {event.reason} although calls were made")
        if self._unanswered and event.reason in _PLAIN_STOPS:
            self._refuse("Finish", "a vendor-run tool has no result")

    def _refuse_delta(self, event: EventOrRun) -> None:
        index = event.index  # type: ignore[union-attr]
        name = type(event).__name__
        if index != self.index:
            self._refuse(name, f"block {index} is not open")
        self._refuse(name, f"does not fit a {self.kind} block")

    def _refuse(self, event: str, reason: str = "") -> None:
        self._broken = True
        self.allowed = frozenset()
        raise IllegalOrderError(state=str(self.state), event=event, reason=reason)
