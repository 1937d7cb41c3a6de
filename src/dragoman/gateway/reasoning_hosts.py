"""Remembers which unknown upstreams require or refuse reasoning in the history.

Some hosts demand that an assistant turn with tool calls brings its reasoning back, others refuse the
field, and the field has several names.  An upstream whose profile leaves this open (`replay_reasoning =
"auto"`) is asked by what its model's family wants; its answers show the field's name, and its refusals
(a 400 that names the field) show whether it demands or refuses it.  Processes that share state learn it from each other.
"""

import re
from collections import OrderedDict
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct, structs

from dragoman.dialects import dialect
from dragoman.gateway.routing import Hop
from dragoman.gateway.state.notes import MAX_NAMES, note_name
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Fault, FaultKind

_MAX_HOSTS: Final = 1_000  # pairs of upstream and model; the one unused for longest is forgotten
_MAX_MODEL_CHARS: Final = 256  # of a name that is worth remembering
_MAX_MESSAGE_CHARS: Final = 4_000  # of an error message that are looked at

_REFUSES: Final = re.compile(
    r"not (?:be )?(?:permitted|allowed|supported|accepted|present|included)|unsupported|unknown|"
    r"unrecogni[sz]ed|unexpected|extra|forbidden|refuse|remove",
    re.IGNORECASE,
)
_DEMANDS: Final = re.compile(r"missing|require|must|need|without|expected|absent", re.IGNORECASE)


class _Shown(Struct):
    """What one upstream has shown for one model."""

    field: str = ""  # Chat: where its answers carry reasoning
    demands: bool = False
    refuses: bool = False


_NOTE: Final = msgspec.msgpack.Decoder(_Shown)


class ReasoningHosts:
    """Remember what each upstream has shown, and return its profile with it."""

    def __init__(self) -> None:
        self._shown: OrderedDict[tuple[str, str], _Shown] = OrderedDict()  # by last use
        # What other processes may know or want to know.
        self._used: dict[tuple[str, str], Hop] = {}
        self._asked: dict[str, tuple[str, str]] = {}  # by the names of notes
        self._learned: dict[str, _Shown] = {}

    @property
    def held(self) -> int:
        """How many pairs of upstream and model are remembered."""
        return len(self._shown)

    def forget(self) -> None:
        """Forget everything: the settings may name other upstreams now."""
        self._shown.clear()

    def profile_for(self, hop: Hop) -> Profile:
        """Return the upstream's profile with what it has shown, and nothing left open."""
        profile = hop.model_profile
        if hop.profile.replay_reasoning != "auto":
            return profile
        if len(self._used) < MAX_NAMES and len(hop.model) <= _MAX_MODEL_CHARS:
            self._used[hop.upstream_name, hop.model] = hop
        shown = self._shown.get((hop.upstream_name, hop.model))
        if shown is None:
            return profile
        self._shown.move_to_end((hop.upstream_name, hop.model))
        if shown.refuses:
            return structs.replace(profile, replay_reasoning="never", refuses_reasoning=True)
        if shown.field:
            profile = structs.replace(profile, reasoning_field=shown.field)
        if not shown.demands:
            return profile
        replay = profile.replay_reasoning
        return structs.replace(
            profile,
            replay_reasoning="tool_turns" if replay == "never" else replay,
            reasoning_filler=" ",  # an empty string counts as none
            carry_reasoning=True,
        )

    def note_field(self, hop: Hop, field: str) -> None:
        """Remember the field in which an answer carried reasoning; empty: it carried none."""
        if field and hop.profile.replay_reasoning == "auto":
            shown = self._open(hop)
            if shown is not None and shown.field != field:
                shown.field = field
                self._learn(hop, shown)

    def learn(self, hop: Hop, fault: Fault, sent: bytes) -> bool:
        """Learn from a refusal of the request `sent`; return whether another attempt may succeed."""
        if hop.profile.replay_reasoning != "auto" or fault.kind is not FaultKind.BAD_REQUEST:
            return False
        signs = dialect(hop.upstream.dialect).reasoning_signs
        if signs is None:
            return False
        message = f"{fault.message[:_MAX_MESSAGE_CHARS]} .{fault.param[:_MAX_MESSAGE_CHARS]}"
        named = signs.named.search(message)
        shown = None if named is None else self._open(hop)
        if named is None or shown is None:
            return False
        was_sent = signs.sent.search(sent) is not None
        # Test: test_a_host_that_demands_reasoning_is_remembered.
        if _DEMANDS.search(message) and not _REFUSES.search(message):
            field = named[0] if signs.names_field else ""
            known = shown.demands and shown.field == field
            shown.demands, shown.refuses, shown.field = True, False, field
            self._learn(hop, shown)
            return not known
        # Test: test_a_host_that_refuses_reasoning_is_asked_once_more_without_it_and_remembered.
        known = shown.refuses or not was_sent
        if was_sent:
            shown.demands, shown.refuses = False, True
            self._learn(hop, shown)
        return not known

    def _open(self, hop: Hop) -> _Shown | None:
        """Return what is remembered of an upstream, to be changed; None: its name is too long."""
        if len(hop.model) > _MAX_MODEL_CHARS:
            return None
        key = (hop.upstream_name, hop.model)
        shown = self._shown.setdefault(key, _Shown())
        self._shown.move_to_end(key)
        while len(self._shown) > _MAX_HOSTS:
            self._shown.popitem(last=False)
        return shown

    # --- other processes ------------------------------------------------------------------------

    def news(self) -> dict[str, bytes]:
        """Return what was learned since the last call, by the names of notes."""
        learned, self._learned = self._learned, {}
        return {name: msgspec.msgpack.encode(shown) for name, shown in learned.items()}

    def wanted(self) -> list[str]:
        """Return the names of what was used since the last call."""
        used, self._used = self._used, {}
        self._asked = {_note_name(hop): key for key, hop in used.items()}
        return list(self._asked)

    def adopt(self, name: str, value: bytes) -> None:
        """Take over what another process has learned."""
        key = self._asked.get(name)
        if key is None:
            return
        with suppress(msgspec.DecodeError):  # of another version
            self._shown[key] = _NOTE.decode(value)

    def _learn(self, hop: Hop, shown: _Shown) -> None:
        if len(self._learned) < MAX_NAMES:
            self._learned[_note_name(hop)] = shown


def _note_name(hop: Hop) -> str:
    """Return the name of a note about one model of an upstream; with another address it is another upstream."""
    return note_name("host", hop.upstream_name, hop.upstream.base_url, hop.model)
