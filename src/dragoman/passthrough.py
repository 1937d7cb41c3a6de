"""Streams from a dialect into the same dialect: bytes are forwarded unchanged unless something was repaired.

The writer gets every event all the same, so that it can take over at any frame; its output is dropped
while the original bytes can be forwarded.
"""

from collections.abc import Sequence
from typing import Final

from dragoman.ids import ClientIds
from dragoman.turn.answer import merged
from dragoman.turn.events import CALL_KINDS, BlockStart, Event, Fault, Finish, Flavor
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


def _is_call(event: Event) -> bool:
    return isinstance(event, BlockStart) and event.kind in CALL_KINDS


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
        self.passed: bool = False  # the last choice was the peer's own bytes
        self._done = False  # the last word after a failure was forwarded
        self._spoiled = False  # the failure to be reported is not the peer's
        self._in_call = False  # the open block is a call
        self._raw: list[bytes] = []  # bytes that wait for a decision
        self._written: list[bytes] = []
        self._before: list[Event] = []
        self._after: list[Event] = []

    @property
    def calm(self) -> bool:
        """Nothing waits: a delta of text that no stage changed is forwarded unchanged."""
        return not self._raw and not self._in_call and (self._resumes or not self._rewritten)

    @property
    def steady(self) -> bool:
        """Nothing waits: a piece of a call that no stage changed is forwarded unchanged."""
        return not self._raw and not self._rewritten

    @property
    def follows(self) -> bool:
        """All that was sent is the peer's own."""
        return not self._rewritten

    @property
    def waits(self) -> bool:
        """Something waits for a decision."""
        return bool(self._raw)

    def choose(
        self,
        raw: bytes,
        before: Sequence[Event],
        after: Sequence[Event],
        written: bytes,
        *,
        pending: bool,
    ) -> bytes:
        """Return what to send for a unit whose events were `before` and became `after`."""
        self._raw.append(raw)
        self._before += before
        self._after += after
        self._written.append(written)
        self.passed = False
        # A call that the peer did not make itself changes the stream whatever comes next: it need not wait.
        if pending and not any(_is_call(event) and event not in before for event in after):
            return b""
        self.passed = self._is_unchanged()
        parts = self._raw if self.passed else self._written
        out = b"".join(filter(None, parts))  # a lone piece is not copied
        for kept in (self._raw, self._before, self._after, self._written):
            kept.clear()
        return out

    def spoil(self) -> None:
        """Expect a failure found here next, which the peer's bytes do not report."""
        self._spoiled = True

    def after_failure(self, raw: bytes, last_word: bytes) -> bytes:
        """Return what to send of bytes after a failure: the last word, once, if all sent bytes are the peer's."""
        if self._rewritten or self._done or _compact(raw) != _compact(last_word):
            return b""
        self._done = True
        return raw

    def is_unchanged(self, before: Sequence[Event], after: Sequence[Event]) -> bool:
        """Return whether a complete body can be forwarded unchanged."""
        self._before += before
        self._after += after
        return not self._changed()

    def _is_unchanged(self) -> bool:
        """Return whether the peer's bytes mean the same as the events."""
        touches_call = self._in_call
        for event in self._after:
            if isinstance(event, BlockStart):
                self._in_call = event.kind in CALL_KINDS
            touches_call = touches_call or self._in_call or isinstance(event, Finish)
        if self._rewritten and not (self._resumes and not touches_call):
            return False
        if self._changed():
            self._rewritten = True
            return False
        return True

    def _changed(self) -> bool:
        if self._spoiled:
            return True
        for event in self._before:
            if isinstance(event, Loss) and event.code in REPAIRED:
                return True
            if isinstance(event, Fault) and event.code in _OURS:
                return True
        for event in self._after:
            if isinstance(event, BlockStart) and event.kind in CALL_KINDS:
                kept = event.flavor is Flavor.FUNCTION and not event.namespace
                if self._renamed(event) or (self._functions_only and not kept):
                    return True
        if len(self._before) == len(self._after) and all(
            one is other for one, other in zip(self._before, self._after, strict=True)
        ):
            return False
        return merged(self._before) != merged(self._after)

    def _renamed(self, event: BlockStart) -> bool:
        """Return whether the client must get another id than the peer's."""
        return self._ids.of(event.index, event.call_id) != event.call_id
