"""Reasoning of the history: which of it an upstream gets back, and in which field."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.chat.history import CHAT_ORIGIN
from dragoman.dialects.decoding import decode
from dragoman.profiles.profile import Profile
from dragoman.turn.events import OpaqueKind
from dragoman.turn.loss import Loss
from dragoman.turn.request import (
    USER,
    OpaqueState,
    ReasoningPart,
    ToolResultPart,
    Turn,
)

_LIST: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])


class Replayed(Struct, frozen=True, gc=False):
    """The reasoning fields of one message."""

    content: str = ""  # `reasoning_content`
    text: str = ""  # `reasoning`
    details: list[Raw] | None = None  # `reasoning_details`


NONE: Final = Replayed()


class Replay:
    """Decide for every assistant turn of one history."""

    def __init__(
        self, turns: Sequence[Turn], profile: Profile, losses: list[Loss], *, thinks: bool
    ) -> None:
        self._turns = turns
        self._profile = profile
        self._losses = losses
        self._thinks = thinks  # the upstream is not asked to leave reasoning out
        self._carried = ""  # the last reasoning of the tool chain
        self._dropped = False  # said already
        # A turn without reasoning may get some all the same.
        self.fills = profile.carry_reasoning or bool(profile.reasoning_filler)
        self._current = -1  # the last turn that began anew
        if profile.replay_reasoning == "current_turn":
            anew = (at for at, turn in enumerate(turns) if _is_question(turn))
            self._current = max(anew, default=-1)

    def of(self, at: int, parts: Sequence[ReasoningPart], *, calls: bool) -> Replayed:
        """Return the reasoning that goes with turn `at`; turns are asked for in order.

        `parts` are the turn's own reasoning; `calls` says whether it calls tools.
        """
        if not parts and not self.fills:
            return NONE
        turn = self._turns[at]
        if at and _is_question(self._turns[at - 1]):
            self._carried = ""
        if not self._wanted(at, calls=calls):
            if parts and not self._dropped:
                self._dropped = True
                self._losses.append(Loss("reasoning_dropped", turn.path))
            return NONE
        text = "\n\n".join(part.text for part in parts if part.text)
        if self._profile.reasoning_field == "reasoning_details":
            return self._details(parts, turn)
        self._note_state(parts, turn)
        text = self._filled(text, turn) if calls else text
        if self._profile.reasoning_field == "reasoning":
            return Replayed(text=text)
        return Replayed(content=text)

    def _wanted(self, at: int, *, calls: bool) -> bool:
        match self._profile.replay_reasoning:
            case "never":
                return False
            case "tool_turns":
                return calls
            case "current_turn":
                return at > self._current
            case "always":
                return True

    def _filled(self, text: str, turn: Turn) -> str:
        """Return reasoning for a turn with calls, which some upstreams demand."""
        if text:
            self._carried = text
            return text
        if self._profile.carry_reasoning and self._carried:
            return self._carried
        if self._profile.reasoning_filler and self._thinks:
            self._losses.append(Loss("reasoning_filled", turn.path))
            return self._profile.reasoning_filler
        return ""

    def _details(self, parts: Sequence[ReasoningPart], turn: Turn) -> Replayed:
        """Give details back to who sent them; text alone goes into the plain field."""
        details: list[Raw] = []
        texts: list[str] = []
        for part in parts:
            own = next((state for state in part.opaque if self._is_own(state)), None)
            if own is not None:
                entries = decode(_LIST, own.data.encode())
                details += entries
            elif any(_is_signed(state) for state in part.opaque):
                self._losses.append(Loss("opaque_dropped", turn.path))
            elif part.text:
                texts.append(part.text)
        return Replayed(text="\n\n".join(texts), details=details or None)

    def _is_own(self, state: OpaqueState) -> bool:
        return state.kind is OpaqueKind.DETAILS and state.origin in (
            self._profile.origin,
            CHAT_ORIGIN,
        )

    def _note_state(self, parts: Sequence[ReasoningPart], turn: Turn) -> None:
        """Say that signatures go nowhere; the text they sign goes into a field that has none."""
        if any(
            _is_signed(state) and state.origin not in (self._profile.origin, CHAT_ORIGIN)
            for part in parts
            for state in part.opaque
        ):
            self._losses.append(Loss("opaque_dropped", turn.path))


def _is_question(turn: Turn) -> bool:
    """Say whether a turn begins anew: results of tools, which stand first, go on with a chain."""
    first = turn.parts[0] if turn.parts else None
    return turn.role is USER and not isinstance(first, ToolResultPart)


def _is_signed(state: OpaqueState) -> bool:
    return state.kind is not OpaqueKind.PLAIN
