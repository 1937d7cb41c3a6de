"""What a client demands of a Responses stream; its items are judged in `responses_items.py`.

Theory of operation.  Two coupled machines: `LIFECYCLE` for the response, `ITEM` for the output item that
is open (one at a time: an agent gives a delta to the item that was added last).  A symbol of the tables
is an event's type without `response.`, followed by the type of its item or part where that decides.
An absent key is the violation.  Beside the tables: numbering, identity of items, and that each `done` event
repeats the content of the deltas, because some clients read only the one and some only the other.
"""

from enum import StrEnum
from typing import Final

from dragoman.checker.findings import (
    FRAMING_RULES,
    Ending,
    Findings,
    Json,
    check_fields,
    kind_of_event,
    list_at,
    number_at,
    object_at,
    refuse_done,
    shown,
    text_at,
)
from dragoman.checker.responses_fields import EVENTS, HOSTED, LOOSE, USAGE
from dragoman.checker.responses_items import ItemGrammar
from dragoman.limits import Limits

RULES: Final[dict[str, str]] = {
    **FRAMING_RULES,
    "event-name-matches-type": "each event has a name, and it is the `type` in its data",
    "event-known": "the type of each event is one that Responses has",
    "done-marker": "there is no `[DONE]` in this dialect",
    "event-order": "`created` and `in_progress` come first, items one after another with their parts"
    " inside, then one terminal event",
    "sequence-number": "events are numbered 0, 1, 2, …",
    "required-field": "each event has the fields that its readers use, of their types",
    "response-id": "all lifecycle events have the same response id",
    "response-starts-empty": "`response.created` has no output yet: clients append to it",
    "status-fits": "the response's status fits its event",
    "usage-counts": "the usage, if there is one, has input, output and total tokens and both details",
    "one-item-open": "an item is done before the next is added: deltas go to the last one added",
    "output-index-contiguous": "items have the indexes 0, 1, 2, … in the order they are added",
    "part-index-contiguous": "parts of an item have the indexes 0, 1, 2, … in the order they are added",
    "item-open": "an event names the item, and the part, that is open",
    "item-starts-empty": "items and parts are added in their empty form: clients append to them",
    "item-id-once": "no two items have the same id",
    "item-done-matches-added": "an item is done with the type, ids and name it was added with",
    "done-equals-deltas": "`done` events and the done item repeat their deltas exactly",
    "item-done-before-completed": "no item is open when the response completes: agents read done items;"
    " a custom call may be open when it ends as incomplete",
    "output-equals-items": "the response completes with the items that were done, all and in order",
    "partial-json-prefix": "the arguments of a call are a prefix of a JSON object after every delta",
    "arguments-whole": "the arguments of a done call are a whole object; an incomplete"
    " response may end with a call whose status is `incomplete`",
    "call-id-characters": "a call's id has 1 to 64 characters, none of them blank",
    "call-id-once": "no two calls have the same call id",
}


class State(StrEnum):
    IDLE = "nothing has started"
    CREATED = "`response.in_progress` is expected"
    QUEUED = "the response is queued"
    RUNNING = "the response is open"
    ENDED = "the response has ended"
    FAILED = "a failure was sent"


_FAILURES: Final = {"failed": State.FAILED, "error": State.FAILED}
# `item` represents every symbol of the other table.
LIFECYCLE: Final[dict[State, dict[str, State]]] = {
    State.IDLE: {"created": State.CREATED, "error": State.FAILED},
    State.CREATED: {"queued": State.QUEUED, "in_progress": State.RUNNING, **_FAILURES},
    State.QUEUED: {"in_progress": State.RUNNING, **_FAILURES},
    State.RUNNING: {
        "item": State.RUNNING,
        "completed": State.ENDED,
        "incomplete": State.ENDED,
        **_FAILURES,
    },
    State.ENDED: {},
    State.FAILED: {},
}
# The state in which the checker continues after a misplaced event; other events change nothing.
RESUME: Final[dict[str, State]] = {
    "in_progress": State.RUNNING,
    "item": State.RUNNING,
    "completed": State.ENDED,
    "incomplete": State.ENDED,
    "failed": State.FAILED,
}
LIFECYCLE_SYMBOLS: Final[frozenset[str]] = frozenset[str]().union(*LIFECYCLE.values()) - {"item"}


class ResponsesGrammar:
    """Judge one Responses stream."""

    def __init__(self, findings: Findings, limits: Limits, /) -> None:
        self._findings = findings
        self._items = ItemGrammar(findings, limits)
        self._state = State.IDLE
        self._sequence = 0  # the expected number
        self._response_id = ""

    @property
    def blocks(self) -> int:
        return self._items.blocks

    @property
    def calls(self) -> int:
        return self._items.calls

    def read(self, name: str, event: Json, /) -> None:
        """Judge one event."""
        kind = kind_of_event(name, event, self._findings)
        if self._state in (State.ENDED, State.FAILED):
            reason = f"{shown(kind)} comes although {self._state}"
            self._findings.add("nothing-after-end", reason)
            return
        self._check_sequence(event)
        symbol = self._symbol(kind)
        if not symbol:
            self._findings.add("event-known", f"there is no event {shown(kind)}", "$.type")
            return
        check_fields(EVENTS.get(symbol, ()), event, self._findings)
        lifecycle = symbol in LIFECYCLE_SYMBOLS
        self._step(symbol if lifecycle else "item", kind)
        if lifecycle:
            self._read_lifecycle(symbol, event)
        elif symbol != "loose":
            self._items.read(symbol, kind, event)

    def read_done(self) -> None:
        """Judge the marker of another dialect."""
        refuse_done(self._findings)

    def end(self) -> Ending:
        """Judge the end of the input."""
        self._items.judge_cut_calls(completed=False)
        match self._state:
            case State.ENDED:
                return Ending.FINISH
            case State.FAILED:
                return Ending.FAILURE
            case _:
                inside = f" and {self._items.inside}" if self._items.open else ""
                self._findings.add("truncated", f"the stream stops while {self._state}{inside}")
                return Ending.TRUNCATED

    def _check_sequence(self, event: Json) -> None:
        number = number_at(event, "sequence_number")
        if number != self._sequence:
            reason = (
                f"number {shown(event.get('sequence_number'))} where {self._sequence} is expected"
            )
            self._findings.add("sequence-number", reason, "$.sequence_number")
        self._sequence = (self._sequence if number is None else number) + 1

    def _symbol(self, kind: str) -> str:
        """Return the key of `EVENTS` for an event, empty if it is not known."""
        if kind == "error":
            return kind
        short = kind.removeprefix("response.")
        if short == kind or short in ("error", "hosted"):
            return ""
        if short in EVENTS:
            return short
        if short.startswith(LOOSE):
            return "loose"
        return "hosted" if short.startswith(tuple(HOSTED)) else ""

    def _step(self, symbol: str, kind: str) -> None:
        following = LIFECYCLE[self._state].get(symbol)
        if following is None:
            reason = f"{shown(kind)} is not allowed while {self._state}"
            self._findings.add("event-order", reason)
            following = RESUME.get(symbol, self._state)
        self._state = following

    def _read_lifecycle(self, symbol: str, event: Json) -> None:
        response_id = text_at(event, "response.id")
        if response_id and self._response_id and response_id != self._response_id:
            reason = f"the id was {shown(self._response_id)} and is {shown(response_id)} now"
            self._findings.add("response-id", reason, "$.response.id")
        self._response_id = self._response_id or response_id
        usage = object_at(event, "response").get("usage")
        if usage is not None:
            fields = object_at(event, "response.usage")
            check_fields(USAGE, fields, self._findings, root="$.response.usage")
        if symbol in ("completed", "incomplete"):
            if symbol == "incomplete":
                self._items.cut_open_input(list_at(event, "response.output"))
            if self._items.open:
                reason = f"the response ends while {self._items.inside}"
                self._findings.add("item-done-before-completed", reason)
            self._items.judge_cut_calls(completed=symbol == "completed")
            self._items.check_output(list_at(event, "response.output"))


GRAMMAR: Final = ResponsesGrammar
