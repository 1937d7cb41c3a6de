"""See one answer pass by and tell what stood before each of its calls.

A stage that changes nothing.  Holds no more of an answer than the bounds allow.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeAlias

from dragoman.ids import ClientIds
from dragoman.turn.events import (
    CALL_KINDS,
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Channel,
    Event,
    InputDelta,
    Opaque,
    OpaqueKind,
    ReasoningDelta,
    TextDelta,
)
from dragoman.turn.request import OpaqueState, ReasoningPart, ReasoningSegment

_MAX_CHARS: Final = (
    256 * 1024
)  # of reasoning and its state in one answer; longer ones are forgotten
MAX_ARGUMENTS: Final = 64 * 1024  # characters of a call that are told; the rest is left out
# State without which an upstream refuses or forgets its own reasoning, whatever else it takes back.
VITAL: Final = frozenset({OpaqueKind.SIGNATURE, OpaqueKind.REDACTED, OpaqueKind.ENCRYPTED})

# Reasoning before the text that led to a call, between that text and the call, and the call's own state.
Parts: TypeAlias = tuple[
    tuple[ReasoningPart, ...], tuple[ReasoningPart, ...], tuple[OpaqueState, ...]
]


class Witness:
    """Watch one answer."""

    def __init__(
        self,
        used_ids: Collection[str],
        on_call: Callable[[str, str], None],
        on_reasoning: Callable[[str, str, Parts], None] | None,
        *,
        replays: bool,
        arguments: bool = False,
    ) -> None:
        """Tell of calls as they begin, and as they end of what stood before them.

        `used_ids` are those of the request's history; `replays` says that the upstream takes back
        reasoning that it did not sign; `arguments` asks for calls without reasoning, too.
        """
        self._ids = ClientIds(used_ids)  # as every writer makes them, in the same order
        self._on_call = on_call  # client's id, native id
        self._on_reasoning = (
            on_reasoning  # client's id, arguments, what stood before; None: nobody asks
        )
        self._replays = replays
        self._all_calls = arguments
        self._room = _MAX_CHARS
        self._kind: BlockKind | None = None  # of the open block
        self._segments: list[tuple[tuple[Channel, int], list[str]]] = []  # of open reasoning
        self._states: list[OpaqueState] = []  # of the open block
        self._said = False  # something was said since the last call
        self._before: list[ReasoningPart] = []
        self._after: list[ReasoningPart] = []
        self._thought = False  # there was something to remember in this answer
        self._call_id = ""
        self._arguments: list[str] = []
        self._arguments_room = 0

    @property
    def pending(self) -> bool:
        return False

    def passes(self, event: Event, /) -> bool:
        """Say whether an event is of no interest."""
        return type(event) is TextDelta

    def feed(self, events: Sequence[Event], /) -> list[Event]:
        """Return the same events."""
        for event in events:
            cls = type(event)
            if cls is TextDelta:
                continue
            match event:
                case ArgsDelta(json=text) | InputDelta(text=text):
                    if self._arguments_room > 0:
                        self._arguments.append(text[: self._arguments_room])
                        self._arguments_room -= len(text)
                case ReasoningDelta():
                    self._think(event)
                case Opaque():
                    self._note_state(event)
                case BlockStart():
                    self._begin(event)
                case BlockEnd():
                    self._end()
                case _:
                    pass
        return events if isinstance(events, list) else list(events)

    def _think(self, delta: ReasoningDelta) -> None:
        if not self._takes(len(delta.text)):
            return
        key = (delta.channel, delta.part)
        if not self._segments or self._segments[-1][0] != key:
            self._segments.append((key, []))
        self._segments[-1][1].append(delta.text)

    def _note_state(self, state: Opaque) -> None:
        # Text that nobody signed needs no state.
        if state.kind is not OpaqueKind.PLAIN and self._takes(len(state.data)):
            self._states.append(OpaqueState(state.kind, state.data, state.origin, state.item_id))

    def _takes(self, chars: int) -> bool:
        """Say whether there is room; once there is none, the answer is forgotten."""
        if self._on_reasoning is None:
            return False
        self._room -= chars
        if self._room >= 0:
            return True
        self._on_reasoning = None
        for held in (self._segments, self._states, self._before, self._after, self._arguments):
            held.clear()
        return False

    def _begin(self, start: BlockStart) -> None:
        self._kind = start.kind
        self._segments = []
        self._states = []
        if start.kind in CALL_KINDS:
            self._call_id = self._ids.render(start.call_id)
            self._on_call(self._call_id, start.call_id)
            self._arguments = []
            self._arguments_room = 0 if self._on_reasoning is None else MAX_ARGUMENTS
        elif start.kind is not BlockKind.REASONING:
            self._said = True

    def _end(self) -> None:
        if self._on_reasoning is None:
            return
        if self._kind is BlockKind.REASONING:
            self._end_reasoning()
        elif self._kind in CALL_KINDS:
            parts = (tuple(self._before), tuple(self._after), tuple(self._states))
            self._thought = self._thought or any(parts)
            # A call that was cut comes back too, with an error as its result.
            if self._thought or self._all_calls:
                self._on_reasoning(self._call_id, "".join(self._arguments), parts)
            self._said = False
            self._before = []
            self._after = []

    def _end_reasoning(self) -> None:
        segments = tuple(
            ReasoningSegment("".join(texts), channel) for (channel, _), texts in self._segments
        )
        part = ReasoningPart(segments, tuple(self._states))
        vital = any(state.kind in VITAL for state in part.opaque)
        if vital or (self._replays and (segments or part.opaque)):
            (self._after if self._said else self._before).append(part)
