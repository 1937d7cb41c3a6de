"""Stop sequences that the upstream cannot match itself, matched on its answer.

A stage between reader and writer.  It holds back only the longest tail of the text that could still
begin a stop sequence.  After a match the turn is over: `done` tells the shell to end the upstream.
"""

from collections.abc import Sequence
from typing import Final

from dragoman.turn.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    Fault,
    Finish,
    FinishReason,
    TextDelta,
    Usage,
)

_CHARS_PER_TOKEN: Final = 4


class StopSequences:
    """Cut the answer at the first stop sequence in its text."""

    def __init__(self, sequences: Sequence[str], *, input_estimate: int = 0) -> None:
        self._sequences = tuple(sequence for sequence in sequences if sequence)
        self._reach = max(map(len, self._sequences), default=1) - 1
        self._held = ""  # text that may begin a sequence
        self._index = -1  # the open text block
        self._input_estimate = input_estimate
        self._chars = 0  # of text that left
        self.done = False  # a sequence was found

    @property
    def pending(self) -> bool:
        """Text is held back."""
        return bool(self._held)

    def passes(self, event: Event, /) -> bool:
        """Say whether this event would leave as it is: every text must be looked at."""
        return False

    def feed(self, events: Sequence[Event], /) -> list[Event]:
        """Return the events up to the first stop sequence."""
        out: list[Event] = []
        for event in events:
            if self.done:
                break
            match event:
                case TextDelta(index=index, text=text):
                    self._text(index, text, event, out)
                case BlockStart(index=index, kind=BlockKind.TEXT):
                    self._index = index
                    out.append(event)
                case BlockEnd() | Fault() | Finish():
                    self._release(out)
                    out.append(event)
                case _:
                    out.append(event)
        return out

    def _text(self, index: int, text: str, event: TextDelta, out: list[Event]) -> None:
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

    def _cut(self, index: int, text: str, sequence: str, out: list[Event]) -> None:
        if text:
            out.append(TextDelta(index, text))
        out.append(BlockEnd(index))
        # The upstream is ended before it reports its counts.
        output = -(-(self._chars + len(text)) // _CHARS_PER_TOKEN)
        out.append(Usage(self._input_estimate, output, estimated=True, final=True))
        out.append(Finish(FinishReason.STOP_SEQUENCE, sequence))
        self._held = ""
        self.done = True

    def _release(self, out: list[Event]) -> None:
        if self._held:
            out.append(TextDelta(self._index, self._held))
            self._held = ""
