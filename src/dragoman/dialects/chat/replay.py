"""Reasoning of the history: which of it an upstream gets back, and in which field."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.chat.history import CHAT_ORIGIN
from dragoman.dialects.decoding import decode
from dragoman.dialects.encoding import encode
from dragoman.dialects.replay_policy import ReplayPolicy, is_question
from dragoman.profiles.profile import Profile
from dragoman.turn.events import OpaqueKind
from dragoman.turn.loss import Loss
from dragoman.turn.request import OpaqueState, ReasoningPart, Turn

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
        self._policy = ReplayPolicy(turns, profile)

    def of(self, at: int, parts: Sequence[ReasoningPart], *, calls: bool) -> Replayed:
        """Return the reasoning that goes with turn `at`; turns are asked for in order.

        `parts` are the turn's own reasoning; `calls` says whether it calls tools.
        """
        if not parts and not self.fills:
            return NONE
        turn = self._turns[at]
        if at and is_question(self._turns[at - 1]):
            self._carried = ""
        if not self._policy.wants(at, calls=calls):
            if parts and not self._dropped:
                self._dropped = True
                self._losses.append(Loss("reasoning_dropped", turn.path))
            return NONE
        text = "\n\n".join(part.text for part in parts if part.text)
        if self._profile.reasoning_field == "reasoning_details":
            return self._details(parts, turn, calls=calls)
        self._note_state(parts, turn)
        text = self._filled(text, turn) if calls else text
        if self._profile.reasoning_field == "reasoning":
            return Replayed(text=text)
        return Replayed(content=text)

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

    def _details(self, parts: Sequence[ReasoningPart], turn: Turn, *, calls: bool) -> Replayed:
        """Give details back to who sent them; text alone goes into the plain field.

        An upstream that demands the list itself gets text as an entry of it.
        """
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
        text = "\n\n".join(texts)
        if self._profile.reasoning_filler and calls and not details:
            text = self._filled(text, turn)
            if text:
                return Replayed(details=[Raw(encode({"type": "reasoning.text", "text": text}))])
        return Replayed(text=text, details=details or None)

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


def _is_signed(state: OpaqueState) -> bool:
    return state.kind is not OpaqueKind.PLAIN
