"""Tool calls that wait until they are whole, for clients that cannot take them in pieces.

A stage between reader and writer.  A call's events are held from its start to its end and then leave at
once, the arguments as one fragment.  A call that was cut leaves as one that was cut; one whose answer
failed does not leave at all.
"""

from collections.abc import Sequence

from dragoman.turn.events import (
    CALL_KINDS,
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    Fault,
    InputDelta,
    Opaque,
)
from dragoman.turn.losses import Loss


class WholeCalls:
    """Hold each call until it has ended.  Readers bound what a call may hold."""

    def __init__(self) -> None:
        self._held: list[Event] = []  # of the call that is open, but for its fragments
        self._fragments: list[str] = []

    @property
    def pending(self) -> bool:
        """A call waits for its end."""
        return bool(self._held)

    def passes(self, event: Event, /) -> bool:
        """Say whether this event, fed now, would leave as it is and change nothing."""
        return not isinstance(event, BlockStart | Fault) and not self._held

    def feed(self, events: Sequence[Event], /) -> list[Event]:
        """Return the events that are ready."""
        out: list[Event] = []
        for event in events:
            match event:
                case BlockStart(kind=kind) if kind in CALL_KINDS:
                    self._held = [event]
                case ArgsDelta(json=text) | InputDelta(text=text):
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

    def _release(self, end: BlockEnd) -> list[Event]:
        start, *state = self._held
        text = "".join(self._fragments)
        self._held = []
        self._fragments = []
        if not text:
            return [start, *state, end]
        custom = isinstance(start, BlockStart) and start.kind is BlockKind.CUSTOM_CALL
        delta = InputDelta(end.index, text) if custom else ArgsDelta(end.index, text)
        return [start, *state, delta, end]
