"""The stages between reader and writer that know no format of tool calls.

    StopSequences   matches stop sequences that the upstream cannot match
    WholeCalls      holds each tool call until it is complete
    UsableCalls     holds all calls until the answer has ended, and fails it if one of them cannot be used
    CallLimits      counts calls and their arguments, wherever they were found
    ServerTools     drops vendor-run tools that the upstream returns as calls for the client

A stage takes events and returns events.  An event that a stage does not change leaves as the same object,
so that a same-dialect relay can forward the upstream's bytes.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import structs

from dragoman.errors import PeerError, TooLargeError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.turn.estimate import output_tokens
from dragoman.turn.events import (
    CALL_KINDS,
    INVALID_ARGUMENTS,
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    DeltaRun,
    EventOrRun,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    InputDelta,
    Opaque,
    Ping,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import Loss


class Stage(Protocol):
    """A step between reader and writer.

    A stage that only watches may have an attribute `sees_text`, which is false: text that comes alone is then not
    shown to it.
    """

    @property
    def pending(self) -> bool:
        """Something is held back."""
        ...

    def feed(self, events: Sequence[EventOrRun], /) -> list[EventOrRun]: ...


class StopSequences:
    """Cut the answer at the first stop sequence in its text."""

    def __init__(self, sequences: Sequence[str], *, input_estimate: int = 0) -> None:
        self._sequences = tuple(sequence for sequence in sequences if sequence)
        self._reach = max(map(len, self._sequences), default=1) - 1
        self._held = ""  # text that may begin a sequence
        self._index = -1  # the open text block
        self._input_estimate = input_estimate
        self._chars = 0  # of text that left
        self.done: bool = False  # a sequence was found

    @property
    def pending(self) -> bool:
        """Text is held back."""
        return bool(self._held)

    def feed(self, events: Sequence[EventOrRun], /) -> list[EventOrRun]:
        """Return the events up to the first stop sequence."""
        out: list[EventOrRun] = []
        for event in events:
            if self.done:
                break
            match event:
                case TextDelta():
                    self._text(event, out)
                case DeltaRun(whole=TextDelta()):
                    for delta in event.deltas():
                        if isinstance(delta, TextDelta) and not self.done:
                            self._text(delta, out)
                case BlockStart(index=index, kind=BlockKind.TEXT):
                    self._index = index
                    out.append(event)
                case BlockEnd() | Fault() | Finish():
                    self._release(out)
                    out.append(event)
                case _:
                    out.append(event)
        return out

    def _text(self, event: TextDelta, out: list[EventOrRun]) -> None:
        index, text = event.index, event.text
        joined = self._held + text
        found = min(
            ((at, one) for one in self._sequences if (at := joined.find(one)) >= 0),
            default=None,
        )
        if found is not None:
            self._cut(index, joined[: found[0]], found[1], out)
            return
        keep = self._tail(joined)
        ready = joined[: len(joined) - keep]
        self._held = joined[len(joined) - keep :]
        self._chars += len(ready)
        if ready == text:
            out.append(event)
        elif ready:
            out.append(TextDelta(index, ready))

    def _tail(self, text: str) -> int:
        """Return the length of the longest tail that begins a sequence."""
        for length in range(min(self._reach, len(text)), 0, -1):
            tail = text[-length:]
            if any(one.startswith(tail) for one in self._sequences):
                return length
        return 0

    def _cut(self, index: int, text: str, sequence: str, out: list[EventOrRun]) -> None:
        if text:
            out.append(TextDelta(index, text))
        out.append(BlockEnd(index))
        # The upstream is ended before it reports its counts.
        output = output_tokens(self._chars + len(text))
        out.append(Usage(self._input_estimate, output, estimated=True, final=True))
        out.append(Finish(FinishReason.STOP_SEQUENCE, sequence))
        self._held = ""
        self.done = True

    def _release(self, out: list[EventOrRun]) -> None:
        if self._held:
            out.append(TextDelta(self._index, self._held))
            self._held = ""


class WholeCalls:
    """Hold each call until it has ended.  Readers bound what a call may hold."""

    def __init__(self) -> None:
        self._held: list[EventOrRun] = []  # of the call that is open, but for its fragments
        self._fragments: list[str] = []

    @property
    def pending(self) -> bool:
        """A call waits for its end."""
        return bool(self._held)

    def feed(self, events: Sequence[EventOrRun], /) -> list[EventOrRun]:
        """Return the events that are ready."""
        out: list[EventOrRun] = []
        for event in events:
            match event:
                case BlockStart(kind=kind) if kind in CALL_KINDS:
                    self._held = [event]
                case ArgsDelta(json=text) | InputDelta(text=text):
                    self._fragments.append(text)
                case DeltaRun(whole=ArgsDelta(json=text)):
                    self._fragments.append(text)
                case Opaque() if self._held:
                    self._held.append(event)
                case BlockEnd() if self._held:
                    out += self._release(event)
                case Fault() if self._held:
                    self._held = []
                    self._fragments = []
                    out += [Loss("held_content_lost"), event]
                case _:
                    out.append(event)
        return out

    def _release(self, end: BlockEnd) -> list[EventOrRun]:
        start, *state = self._held
        text = "".join(self._fragments)
        self._held = []
        self._fragments = []
        if not text:
            return [start, *state, end]
        custom = isinstance(start, BlockStart) and start.kind is BlockKind.CUSTOM_CALL
        delta = InputDelta(end.index, text) if custom else ArgsDelta(end.index, text)
        return [start, *state, delta, end]


class UsableCalls:
    """Fail an answer that its upstream calls finished although the arguments of a call are cut or not an object.

    For clients whose dialect has no form for such a call: they would get it as text before a normal finish reason,
    and take the answer for complete.  After a failure, agents ask again.

    From the first call on, the answer waits for its end.  Gemini CLI runs the calls that arrived before an answer
    failed, and asks again: they would run twice (docs/agent-tests.md, an error event in the arguments of a call).
    And the upstream can be asked again as long as nothing was sent.  Readers bound the size of an answer; the
    number of calls is checked here, because many small calls take more memory than their bytes.

    `WholeCalls` comes before it, so that a long call is one delta.

    An answer that was cut by a limit or a filter is released unchanged: its finish reason reports the cut.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._calls = 0
        self._held: list[EventOrRun] = []  # everything since the first call
        self._name = ""  # of the last call
        self._unusable = ""  # the name of the first call that cannot be used

    @property
    def pending(self) -> bool:
        """A call waits for the end of the answer."""
        return bool(self._held)

    def feed(self, events: Sequence[EventOrRun], /) -> list[EventOrRun]:
        """Return what comes before the first call at once, and everything else with the end of the answer."""
        if not self._held and not any(map(_begins_call, events)):
            return list(events)
        out: list[EventOrRun] = []
        for event in events:
            match event:
                case Ping():
                    out.append(event)
                case Finish() if self._held:
                    out += self._end(event)
                case Fault() if self._held:
                    out += [*self._drop(), event]
                case BlockStart(kind=kind) if kind in CALL_KINDS:
                    self._calls += 1
                    try:
                        check_call_count(self._calls, self._limits)
                    except TooLargeError as error:
                        return [*out, *self._drop(), fault_of(error)]
                    self._hold(event)
                case _ if self._held:
                    self._hold(event)
                case _:
                    out.append(event)
        return out

    def _hold(self, event: EventOrRun) -> None:
        self._held.append(event)
        if isinstance(event, BlockStart):
            self._name = event.name
        elif isinstance(event, BlockEnd) and not event.complete:
            self._unusable = self._unusable or self._name

    def _end(self, finish: Finish) -> list[EventOrRun]:
        if not self._unusable or finish.reason not in _FINISHED:
            held, self._held = self._held, []
            return [*held, finish]
        message = (
            f"the arguments of tool call `{self._unusable}` are incomplete or not a JSON object"
        )
        fault = Fault(FaultKind.UPSTREAM_BAD, message, code=INVALID_ARGUMENTS)
        return [*self._drop(), fault]

    def _drop(self) -> list[EventOrRun]:
        """Drop what was held; return what was found and counted in it."""
        held, self._held = self._held, []
        lost = Loss("held_content_lost")
        return [*(one for one in held if isinstance(one, Loss | Usage) and one != lost), lost]


def _begins_call(event: EventOrRun) -> bool:
    return type(event) is BlockStart and event.kind in CALL_KINDS


# Finish reasons of an answer that is complete.
_FINISHED: Final = frozenset(
    {FinishReason.STOP, FinishReason.STOP_SEQUENCE, FinishReason.TOOL_CALLS}
)


def check_call_count(count: int, limits: Limits) -> None:
    """Refuse more calls in one response than the limit.

    Raises:
        TooLargeError: `count` passes it.
    """
    if count > limits.max_calls:
        raise TooLargeError("max_calls", limits.max_calls)


def fault_of(error: PeerError) -> Fault:
    """Return the fault for an upstream that broke its dialect or a limit."""
    code = error.limit if isinstance(error, TooLargeError) else "upstream_malformed"
    return Fault(FaultKind.UPSTREAM_BAD, f"upstream answer refused: {error}", code=code)


class CallLimits:
    """Count calls and their arguments."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._calls = 0
        self._size = 0  # of the last call's arguments
        self._turn_size = 0  # of all calls

    def count(self, event: EventOrRun, /) -> None:
        """Take one event.

        Raises:
            TooLargeError: it passes a limit.
        """
        match event:
            case ArgsDelta(json=text) | InputDelta(text=text):
                self._add(len(text))
            case BlockStart(kind=kind) if kind in CALL_KINDS:
                self._size = 0
                self._calls += 1
                check_call_count(self._calls, self._limits)
            case Loss(limit=limit) if limit:
                # A call in text that passes a limit is cut, and reported, where it is read.
                raise TooLargeError(limit, getattr(self._limits, limit))
            case _:
                pass

    def _add(self, size: int) -> None:
        limits = self._limits
        self._size += size
        if self._size > limits.max_tool_args_bytes:
            raise TooLargeError("max_tool_args_bytes", limits.max_tool_args_bytes)
        self._turn_size += size
        if self._turn_size > limits.max_turn_args_bytes:
            raise TooLargeError("max_turn_args_bytes", limits.max_turn_args_bytes)


class ServerTools:
    """Drop calls of vendor-run tools that an upstream returns for the client to run, and notice tools that did not run.

    A server that does not know the tool treats it as a function and calls it; the client never declared such a
    function, and Claude Code shows the call as an empty success.

    Args:
        names: Names of the vendor-run tools.
        needed: The request makes no sense without one of them.
    """

    pending = False

    def __init__(self, names: frozenset[str], *, needed: bool) -> None:
        self._names = names
        self._unused = needed  # no tool has run
        self._dropping = False  # the open block is such a call
        self._dropped = 0
        self._blocks = 0  # that are left
        self._calls = 0  # for the client that are left

    def feed(self, events: Sequence[EventOrRun], /) -> list[EventOrRun]:
        """Return the events without such calls."""
        out: list[EventOrRun] = []
        for event in events:
            match event:
                case BlockStart(kind=kind):
                    self._dropping = kind in CALL_KINDS and event.name in self._names
                    if self._dropping:
                        self._dropped += 1
                        out.append(Loss("server_tool_unrun", f"block {event.index}", event.name))
                        continue
                    self._blocks += 1
                    self._calls += kind in CALL_KINDS
                    self._unused = self._unused and kind is not BlockKind.SERVER_CALL
                case Finish():
                    out += self._end(event)
                    continue
                case Start() | Usage() | Fault() | Ping() | Loss():
                    out.append(event)
                    continue
                case _ if self._dropping:
                    self._dropping = type(event) is not BlockEnd
                    continue
                case _:
                    pass
            shifted = event.index - self._dropped
            out.append(structs.replace(event, index=shifted) if self._dropped else event)
        return out

    def _end(self, finish: Finish) -> list[EventOrRun]:
        if self._dropped and not self._blocks:
            reason = (
                "the upstream did not run the tool that it was asked to run, and sent nothing else"
            )
            return [Fault(FaultKind.UPSTREAM_BAD, reason, code="server_tool_unrun")]
        losses: list[EventOrRun] = []
        if self._unused and finish.reason in _ANSWERED:
            losses.append(Loss("server_tool_unused", detail=", ".join(sorted(self._names))))
        if self._dropped and not self._calls and finish.reason is FinishReason.TOOL_CALLS:
            return [*losses, structs.replace(finish, reason=FinishReason.STOP)]
        return [*losses, finish]


# Endings of an answer that is whole and does not wait for anything.
_ANSWERED: Final = frozenset({FinishReason.STOP, FinishReason.STOP_SEQUENCE})
