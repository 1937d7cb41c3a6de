"""Streams from a dialect into the same dialect: bytes are forwarded unchanged unless something was repaired.

A read is forwarded as it is if no stage changes its events and nothing in it was repaired.  Otherwise `find_change`
finds the frames that change, and `Relay.choose` takes the writer's bytes for those.  The writer gets every event of
an answer that goes on, so that it can take over at any frame.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from dragoman.dialects.framing import Unit, joined
from dragoman.ids import ClientIds
from dragoman.turn.answer import delta_text, merged
from dragoman.turn.events import (
    CALL_KINDS,
    BlockStart,
    EventOrRun,
    Fault,
    Finish,
    Flavor,
    expand_runs,
)
from dragoman.turn.losses import Loss

# Losses that mean: the peer's bytes do not say the same as the events.
REPAIRED: Final = frozenset(
    {
        "args_as_object",
        "args_as_text",
        "args_missing",
        "args_repaired",
        "args_repeated",
        "args_trailing",
        "block_empty",
        "block_index_fixed",
        "block_unclosed",
        "event_incomplete",
        "event_unnamed",
        "finish_reason_fixed",
        "input_uncertain",
        "stream_not_sse",
        "surrogate_replaced",
        "tool_name_fixed",
    }
)
# Faults that the peer did not report itself.
_OURS: Final = frozenset(
    {
        "upstream_truncated",
        "upstream_empty",
        "upstream_error",  # by the finish reason alone, which agents do not know
        "upstream_html",
        "upstream_malformed",
        "invalid_arguments",
        "call_without_name",
    }
)


def _is_call(event: EventOrRun) -> bool:
    return type(event) is BlockStart and event.kind in CALL_KINDS


def _compact(frame: bytes) -> bytes:
    return frame.replace(b" ", b"").strip()


class Relay:
    """Choose, for each unit of a stream, between its own bytes and the writer's."""

    def __init__(
        self, *, resumes: bool, ids: ClientIds | None = None, functions_only: bool = False
    ) -> None:
        self._resumes = resumes  # independent frames: they may be forwarded after a repaired one
        self._ids = ids or ClientIds()  # that the client gets for the answer's calls
        # The upstream got every tool as a function: calls of other kinds are written again.
        self._functions_only = functions_only
        self._rewritten = False  # something was rewritten
        # Nothing waits and nothing was rewritten: a delta that no stage changed is forwarded.
        self.calm: bool = True
        self.passed: bool = False  # the last choice was the peer's own bytes
        self._done = False  # the last word after a failure was forwarded
        self._failed_here = False  # the failure to be reported is not the peer's
        self._in_call = False  # the open block is a call
        self._raw: list[bytes] = []  # bytes that wait for a decision
        self._written: list[bytes] = []
        self._before: list[EventOrRun] = []
        self._after: list[EventOrRun] = []

    @property
    def follows(self) -> bool:
        """All that was sent is the peer's own."""
        return not self._rewritten

    @property
    def waits(self) -> bool:
        """Something waits for a decision."""
        return bool(self._raw)

    def forwards(self, events: Sequence[EventOrRun]) -> bool:
        """Return whether frames are forwarded whose events no stage has changed; deltas may be left out of `events`."""
        in_call = self._in_call
        if not self._raw and self.is_unchanged(events, events):
            return True
        self._in_call = in_call  # frame by frame some may be forwarded
        return False

    def choose(
        self,
        raw: bytes,
        before: Sequence[EventOrRun],
        after: Sequence[EventOrRun],
        written: bytes,
        *,
        pending: bool,
    ) -> bytes:
        """Return what to send for frames whose events were `before` and became `after`."""
        self._raw.append(raw)
        self._before += before
        self._after += after
        self._written.append(written)
        self.passed = self.calm = False
        # A call that was held until it was whole need not wait for the next one.
        released = any(_is_call(event) and event not in before for event in after)
        if pending and not released and (not after or _may_agree(self._before, self._after)):
            return b""
        self.passed = self.is_unchanged(self._before, self._after)
        self._rewritten = self._rewritten or not self.passed
        parts = self._raw if self.passed else self._written
        out = b"".join(filter(None, parts))  # a lone piece is not copied
        for kept in (self._raw, self._before, self._after, self._written):
            kept.clear()
        self.calm = not self._rewritten
        return out

    def note_own_failure(self) -> None:
        """Expect a failure found here next, which the peer's bytes do not report."""
        self._failed_here = True

    def after_failure(self, raw: bytes, last_word: bytes) -> bytes:
        """Return what to send of bytes after a failure: the last word, once, if all sent bytes are the peer's."""
        if self._rewritten or self._done or _compact(raw) != _compact(last_word):
            return b""
        self._done = True
        return raw

    def is_unchanged(self, before: Sequence[EventOrRun], after: Sequence[EventOrRun]) -> bool:
        """Return whether the peer's bytes, which led to the events `before`, say what the events `after` say."""
        touches_call, changed = self._in_call, self._failed_here
        for event in before:
            if type(event) is Loss:
                changed = changed or event.code in REPAIRED
            elif type(event) is Fault:
                changed = changed or event.code in _OURS
        for event in after:
            if type(event) is BlockStart:
                self._in_call = event.kind in CALL_KINDS
                touches_call = touches_call or self._in_call
                changed = changed or (self._in_call and self._is_rewritten(event))
            elif type(event) is Finish:
                touches_call = True
        if changed or (self._rewritten and (touches_call or not self._resumes)):
            return False
        return before == after or merged(before) == merged(after)

    def _is_rewritten(self, call: BlockStart) -> bool:
        """Return whether the client must get another id than the peer's, or another kind of call."""
        if self._ids.of(call.index, call.call_id) != call.call_id:
            return True
        kept = call.flavor is Flavor.FUNCTION and not call.namespace
        return self._functions_only and not kept


def _may_agree(before: Sequence[EventOrRun], after: Sequence[EventOrRun]) -> bool:
    """Return whether `after` is the beginning of `before`, so that what a stage holds back may be the rest."""
    one, other = merged(before), merged(after)
    last = len(other) - 1
    if len(one) <= last or one[:last] != other[:last]:
        return False
    whole, begun = one[last], other[last]
    if whole == begun:
        return True
    deltas = len(merged((begun, whole))) == 1  # of one block
    return deltas and delta_text(whole).startswith(delta_text(begun))


# --- where a read changes ---------------------------------------------------------------------------


class Change(NamedTuple):
    """The frames of a read of which the events were changed, and those around them."""

    head: list[Unit]  # frames before the change
    frames: Unit  # with their events before the change
    events: list[EventOrRun]  # and after it
    tail: list[Unit]


def find_change(parts: list[Unit], after: list[EventOrRun], *, waits: bool) -> Change:
    """Return which frames changed, given the events of all of them `after` the stages.

    `waits`: what comes out first is what was held back of frames before these.
    """
    first = at = 0
    if not waits:
        for part in parts:
            size = len(part.events)
            if part.events != after[at : at + size]:
                break
            first, at = first + 1, at + size
    last, end = len(parts), len(after)
    while last > first:
        start = end - len(parts[last - 1].events)
        if start < at or parts[last - 1].events != after[start:end]:
            break
        last, end = last - 1, start
    head, middle, tail = parts[:first], parts[first:last], parts[last:]
    changed = after[at:end]
    frames = [frame for part in middle for frame in part.frames()]
    if len(frames) > len(middle):
        inner = find_change(frames, [*expand_runs(changed)], waits=waits)
        return Change(head + inner.head, inner.frames, inner.events, inner.tail + tail)
    return Change(head, joined(middle), changed, tail)
