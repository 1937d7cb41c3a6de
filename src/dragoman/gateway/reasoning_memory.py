"""Remembers what clients do not send back unchanged: reasoning before calls, and arguments of calls.

Some upstreams demand their reasoning on every later request of a tool loop, and many clients drop it.
The reasoning before a call is remembered under the call's id as the client saw it, and put back when
the client sends that call.  Messages clients serialise the arguments of a call again, with other blanks,
escapes or key order, which spoils the upstream's prefix cache: if they still mean the same, they are
replaced by the text that the upstream wrote, or that was made of a call in its text.  Everything is remembered for
a limited time and within limits of size.  If the gateway shares state, other processes learn of it by notes: a
process asks for the calls of a request that it neither made nor asked for before.

    memory = ReasoningMemory(entries=…, seconds=…)
    await memory.fetch(request, owner, profile.origin)
    changed = memory.restore(request, owner, profile.origin)  # for `write_request(changed=…)`
    watchers = memory.watchers(request, owner, profile)       # for `Translator(watchers=…)`

Upstreams that number their calls use the same ids in every conversation.  So a memory also knows how
the conversation began and which arguments the call had.
"""

import hashlib
import itertools
import math
import operator
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.context import Exchange
from dragoman.gateway.state.notes import MAX_NAMES, Notes, note_name
from dragoman.gateway.state.redis_link import StateAwayError
from dragoman.ids import ClientIds
from dragoman.profiles.profile import Profile
from dragoman.translate import Watcher
from dragoman.turn.events import (
    CALL_KINDS,
    REASONING,
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Channel,
    DeltaRun,
    EventOrRun,
    Finish,
    Flavor,
    InputDelta,
    Opaque,
    OpaqueKind,
    Ping,
    ReasoningDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.request import (
    ASSISTANT,
    USER,
    OpaqueState,
    Part,
    ReasoningPart,
    ReasoningSegment,
    Request,
    TextPart,
    ToolCallPart,
    Turn,
)
from dragoman.wire.json_values import canonical_json

# --- one answer, watched ---


_MAX_ANSWER_CHARS: Final = (
    256 * 1024
)  # of reasoning and its state in one answer; longer ones are forgotten
MAX_ARGUMENTS: Final = 64 * 1024  # characters of a call's arguments that are kept
# State without which an upstream refuses or forgets its own reasoning, whatever else it takes back.
VITAL: Final = frozenset({OpaqueKind.SIGNATURE, OpaqueKind.REDACTED, OpaqueKind.ENCRYPTED})

# Reasoning before the text that led to a call, between that text and the call, and the call's own state.
Parts: TypeAlias = tuple[
    tuple[ReasoningPart, ...], tuple[ReasoningPart, ...], tuple[OpaqueState, ...]
]


# Nearly all events of most answers.
_UNWATCHED: Final = frozenset({TextDelta, Start, Usage, Finish, Ping})
_FUNCTION: Final = Flavor.FUNCTION  # to look up a member costs as much as to look for a call


class AnswerObserver:
    """Watches one answer and reports what came before each of its calls; changes nothing."""

    sees_text: Final = False  # the start of its block is enough

    def __init__(
        self,
        ids: ClientIds,
        on_call: Callable[[str, str], None],
        on_reasoning: Callable[[str, str, Parts], None] | None,
        *,
        replays: bool,
        arguments: bool = False,
    ) -> None:
        """Report calls as they begin, and with their end the reasoning before them.

        `ids` are those that the client gets; `replays`: the upstream takes back reasoning that it
        did not sign; `arguments` asks for calls without reasoning, too.
        """
        self._ids = ids
        self._on_call = on_call  # client's id, native id
        self._on_reasoning = (
            on_reasoning  # client's id, arguments, what came before; None: not needed
        )
        self._replays = replays
        self._all_calls = arguments
        self._room = _MAX_ANSWER_CHARS
        self._kind: BlockKind | None = None  # of the open block
        self._segments: list[tuple[tuple[Channel, int], list[str]]] = []  # of open reasoning
        self._states: list[OpaqueState] = []  # of the open block
        self._has_text = False  # text came since the last call
        self._before: list[ReasoningPart] = []
        self._after: list[ReasoningPart] = []
        self._thought = False  # there was something to remember in this answer
        self._call_id = ""
        self._arguments: list[str] = []
        self._arguments_room = 0

    @property
    def pending(self) -> bool:
        return False

    def feed(self, events: Sequence[EventOrRun], /) -> list[EventOrRun]:
        """Return the same events."""
        for one in events:
            event = one.whole if type(one) is DeltaRun else one
            if type(event) in _UNWATCHED:
                continue
            if type(event) is ArgsDelta:
                if self._arguments_room > 0:
                    self._add_arguments(event.json)
            elif type(event) is BlockStart:
                self._begin(event)
            elif type(event) is BlockEnd:
                self._end()
            elif type(event) is InputDelta:
                if self._arguments_room > 0:
                    self._add_arguments(event.text)
            elif type(event) is ReasoningDelta:
                self._think(event)
            elif type(event) is Opaque:
                self._note_state(event)
        return events if isinstance(events, list) else list(events)

    def _add_arguments(self, text: str) -> None:
        self._arguments.append(text[: self._arguments_room])
        self._arguments_room -= len(text)

    def _think(self, delta: ReasoningDelta) -> None:
        if not self._takes(len(delta.text)):
            return
        key = (delta.channel, delta.part)
        if not self._segments or self._segments[-1][0] != key:
            self._segments.append((key, []))
        self._segments[-1][1].append(delta.text)

    def _note_state(self, state: Opaque) -> None:
        # Unsigned text needs no state.
        if state.kind is not OpaqueKind.PLAIN and self._takes(len(state.data)):
            self._states.append(OpaqueState(state.kind, state.data, state.origin, state.item_id))

    def _takes(self, chars: int) -> bool:
        """Return whether there is room; once there is none, the answer is forgotten."""
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
            self._call_id = self._ids.of(start.index, start.call_id)
            self._on_call(self._call_id, start.call_id)
            self._arguments = []
            self._arguments_room = 0 if self._on_reasoning is None else MAX_ARGUMENTS
        elif start.kind is not REASONING:
            self._has_text = True

    def _end(self) -> None:
        if self._on_reasoning is None:
            return
        if self._kind is REASONING:
            self._end_reasoning()
        elif self._kind in CALL_KINDS:
            parts = (tuple(self._before), tuple(self._after), tuple(self._states))
            self._thought = self._thought or any(parts)
            # A call that was cut comes back too, with an error as its result.
            if self._thought or self._all_calls:
                self._on_reasoning(self._call_id, "".join(self._arguments), parts)
            self._has_text = False
            self._before = []
            self._after = []

    def _end_reasoning(self) -> None:
        segments = tuple(
            ReasoningSegment("".join(texts), channel) for (channel, _), texts in self._segments
        )
        part = ReasoningPart(segments, tuple(self._states))
        vital = any(state.kind in VITAL for state in part.opaque)
        if vital or (self._replays and (segments or part.opaque)):
            (self._after if self._has_text else self._before).append(part)


# --- the memory ---


# All that is remembered, in characters: a few hundred long sessions.
_MAX_CHARS: Final = 64 * 1024 * 1024
_ENTRY_CHARS: Final = 512  # what an entry takes beside its text
_MAX_IDS: Final = 10_000  # shortened ids
# Conversations that begin alike and have calls of the same id and different arguments.
_MAX_ALIKE: Final = 4
_SHORTENED: Final = "gh-"
_BEGINNING_CHARS: Final = 2000  # of each text of the first message that distinguish conversations
_ASK_AGAIN_SECONDS: Final = 60.0  # other processes about a call of which they knew nothing

ConversationKey: TypeAlias = tuple[str, str, int]  # owner, origin, and how the conversation began


class Recollection(Struct, frozen=True):
    """What came with one call."""

    before: tuple[ReasoningPart, ...]  # reasoning before the text that led to the call
    after: tuple[ReasoningPart, ...]  # reasoning between that text and the call
    signature: tuple[OpaqueState, ...]  # state of the call itself
    written: int  # hash of the arguments as they were written
    meant: int  # and of what they mean, for clients that write them differently
    arguments: str = ""  # as the upstream wrote them; empty if they are too long to keep

    @property
    def signed(self) -> bool:
        """There is reasoning that its upstream signed."""
        return any(part.opaque for part in (*self.before, *self.after))

    def only_signed(self) -> "Recollection":
        """Return the same without reasoning that its upstream did not sign."""
        before, after = map(_signed_parts, (self.before, self.after))
        return replace(self, before=before, after=after)

    @property
    def size(self) -> int:
        parts = (*self.before, *self.after)
        states = [state for part in parts for state in part.opaque] + [*self.signature]
        texts = sum(len(one.text) for part in parts for one in part.segments)
        kept = texts + len(self.arguments) + sum(len(state.data) for state in states)
        return _ENTRY_CHARS + kept


_NOTE: Final = msgspec.msgpack.Decoder(tuple[Recollection, ...])
_NOTHING: Final = Recollection((), (), (), 0, 0)


class _Slot(Struct):
    """What is known of calls with one id at one place."""

    expires: float
    known: tuple[Recollection, ...]  # the latest last
    shared: float = 0.0  # when other processes could last learn of it

    @property
    def size(self) -> int:
        return sum(one.size for one in self.known)


class Restored(Struct, frozen=True):
    """How much of a request was restored."""

    reasoning: int = 0  # reasoning parts that were put back
    arguments: int = 0  # calls whose arguments became what the upstream wrote


NOTHING_RESTORED: Final = Restored()


def count_restored(before: Request, after: Request) -> Restored:
    """Compare a request with what `ReasoningMemory.restore` made of it."""
    reasoning = arguments = 0
    for old, new in zip(before.turns, after.turns, strict=True):
        if old is not new:
            kept = {id(part) for part in old.parts}
            changed = [part for part in new.parts if id(part) not in kept]
            reasoning += sum(isinstance(part, ReasoningPart) for part in changed)
            arguments += sum(isinstance(part, ToolCallPart) for part in changed)
    return Restored(reasoning, arguments)


class ReasoningMemory:
    """Remember for at most `seconds` since the last use; what was not used longest goes first."""

    def __init__(
        self,
        *,
        entries: int,
        seconds: float,
        notes: Notes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_entries = entries  # 0: remember no reasoning
        self.is_shared: bool = notes is not None and entries > 0  # other processes may know more
        self._seconds = seconds
        self._clock = clock
        self._slots: OrderedDict[tuple[ConversationKey, str], _Slot] = OrderedDict()  # by last use
        self._chars = 0  # of all slots
        self._lock = threading.Lock()  # large requests and answers are worked on in threads
        # Native ids, by owner and shortened id.
        self._ids: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._notes = notes
        # Calls of which other processes know no more, until a time.
        self._asked: OrderedDict[tuple[ConversationKey, str], float] = OrderedDict()

    @property
    def held(self) -> int:
        """How many entries there are."""
        return len(self._slots)

    # --- collecting -----------------------------------------------------------------------------

    def watchers(
        self,
        request: Request,
        owner: str,
        profile: Profile,
        *,
        arguments: bool = False,
        on_reasoning: Callable[[], None] | None = None,
    ) -> tuple[Watcher, ...]:
        """Return what makes the stages that watch the answer to a request; none, if there can be no calls.

        `request` is what was asked of the upstream, with ids as the client knows them.  With `arguments`
        those of every call are remembered as the upstream wrote them.  `on_reasoning` is called for each call whose
        reasoning is remembered.
        """
        if not request.tools and not request.has_calls:
            return ()
        place = (owner, profile.origin, _beginning(request))

        def note_call(call_id: str, native: str) -> None:
            if call_id.startswith(_SHORTENED):
                self._note_id((owner, call_id), native)
                if self._notes is not None:
                    sent = native.encode("utf-8", "replace")
                    self._notes.put(_id_name(owner, call_id), sent, self._seconds)
            if self._notes is not None:
                self._note_asked([(place, call_id)], math.inf)

        def note(call_id: str, text: str, parts: Parts) -> None:
            before, after, signature = parts
            hashes = _digest(text), _digest(canonical_json(text))
            kept = text if arguments and len(text) < MAX_ARGUMENTS else ""
            self._remember((place, call_id), Recollection(before, after, signature, *hashes, kept))
            if on_reasoning is not None and any(parts):
                on_reasoning()

        def observer(exchange: Exchange) -> AnswerObserver:
            return AnswerObserver(
                exchange.call_ids,
                note_call,
                note if self._max_entries else None,
                replays=profile.replay_reasoning != "never",
                arguments=arguments,
            )

        return (observer,)

    def _note_id(self, key: tuple[str, str], native: str) -> None:
        with self._lock:
            self._ids[key] = native
            self._ids.move_to_end(key)
            while len(self._ids) > _MAX_IDS:
                self._ids.popitem(last=False)

    def _remember(self, key: tuple[ConversationKey, str], one: Recollection) -> None:
        with self._lock:
            self._put(key, one)

    def _put(self, key: tuple[ConversationKey, str], one: Recollection) -> None:
        known: tuple[Recollection, ...] = ()
        if (slot := self._slots.pop(key, None)) is not None:
            self._chars -= slot.size
            known = tuple(other for other in slot.known if other.meant != one.meant)
        slot = _Slot(self._clock() + self._seconds, (*known[1 - _MAX_ALIKE :], one))
        self._publish(key, slot)
        self._insert(key, slot)

    def _insert(self, key: tuple[ConversationKey, str], slot: _Slot) -> None:
        self._slots[key] = slot
        self._chars += slot.size
        while len(self._slots) > self._max_entries or self._chars > _MAX_CHARS:
            self._chars -= self._slots.popitem(last=False)[1].size
        self._drop_expired()

    def _drop_expired(self) -> None:
        now = self._clock()
        while self._slots and next(iter(self._slots.values())).expires <= now:
            self._chars -= self._slots.popitem(last=False)[1].size

    # --- other processes ------------------------------------------------------------------------

    async def fetch(self, request: Request, owner: str, origin: str) -> None:
        """Learn from other processes what this one does not know of a request's calls.

        It waits only for calls that this process sees for the first time and did not make itself.
        """
        if self._notes is None or not self.is_shared or not request.has_calls:
            return
        place = (owner, origin, _beginning(request))
        now = self._clock()
        keys = [
            key
            for turn in request.turns
            for part in turn.parts
            if isinstance(part, ToolCallPart)
            and (key := (place, part.id)) not in self._slots
            and self._asked.get(key, 0.0) <= now
        ][-MAX_NAMES // 2 :]
        if not keys:
            return
        ids = [one for _, one in keys if one.startswith(_SHORTENED)]
        names = [_note_name(*key) for key in keys] + [_id_name(owner, one) for one in ids]
        try:
            found = await self._notes.find(names, self._seconds)
        except StateAwayError:  # this process alone, then
            return
        with self._lock:
            for key, value in zip(keys, found, strict=False):
                self._adopt(key, value)
        for one, value in zip(ids, found[len(keys) :], strict=True):
            if value is not None:
                self._note_id((owner, one), value.decode(errors="replace"))
        self._note_asked(keys, now + _ASK_AGAIN_SECONDS)

    def _adopt(self, key: tuple[ConversationKey, str], value: bytes | None) -> None:
        if value is None or key in self._slots:
            return
        try:
            known = _NOTE.decode(value)
        except msgspec.DecodeError:  # of another version
            return
        now = self._clock()
        self._insert(key, _Slot(now + self._seconds, known[-_MAX_ALIKE:], now))

    def _note_asked(self, keys: Iterable[tuple[ConversationKey, str]], until: float) -> None:
        with self._lock:
            for key in keys:
                self._asked[key] = until
                self._asked.move_to_end(key)
            while len(self._asked) > _MAX_IDS:
                self._asked.popitem(last=False)

    def _publish(self, key: tuple[ConversationKey, str], slot: _Slot) -> None:
        """Send an entry to the other processes.

        They keep it for `seconds`; callers repeat this when half of that time has passed.
        """
        if self._notes is None:
            return
        slot.shared = self._clock()
        with suppress(UnicodeEncodeError):  # half a character, which only this process can hold
            note = msgspec.msgpack.encode(slot.known)
            self._notes.put(_note_name(*key), note, self._seconds)

    # --- restoring ------------------------------------------------------------------------------

    def known_ids(self, request: Request, owner: str) -> dict[str, str]:
        """Return the native ids behind the shortened ones of a request, as far as remembered."""
        if not self._ids:
            return {}
        shortened = (one for one in request.call_ids if one.startswith(_SHORTENED))
        found = ((one, self._ids.get((owner, one))) for one in shortened)
        return {one: native for one, native in found if native is not None}

    def restore(
        self,
        request: Request,
        owner: str,
        origin: str,
        *,
        arguments: bool = False,
        signed_only: bool = False,
    ) -> Request:
        """Return the request with the reasoning that its client left out, the same one if there is none.

        A turn gets the same reasoning, at the same place, on every request.  `signed_only` is for an
        upstream that takes no reasoning back but what it signed.  With `arguments`, those that the client
        rewrote become what the upstream wrote, so that its prefix cache still fits.
        """
        with self._lock:
            self._drop_expired()
        if not self._slots:
            return request
        place: ConversationKey | None = None
        turns: list[Turn] | None = None
        for at, turn in enumerate(request.turns):
            if turn.role is not ASSISTANT:
                continue
            calls = [part for part in turn.parts if type(part) is ToolCallPart]
            if not calls:
                continue
            if place is None:
                place = (owner, origin, _beginning(request))
            known = [self._find(one, place) for one in calls]
            if not any(known):
                continue
            parts = _as_written(turn.parts, known) if arguments else turn.parts
            parts = _restored(parts, known, signed_only=signed_only)
            if parts is not turn.parts:
                turns = turns if turns is not None else list(request.turns)
                turns[at] = replace(turn, parts=parts)
        return request if turns is None else replace(request, turns=tuple(turns))

    def _find(self, call: ToolCallPart, place: ConversationKey) -> Recollection | None:
        key = (place, call.id)
        slot = self._slots.get(key)
        if slot is None:
            return None
        arguments = call.arguments[:MAX_ARGUMENTS]
        written = _digest(arguments)
        # Test: test_arguments_that_a_messages_client_rewrote_return_as_the_upstream_wrote_them.
        meant: int | None = None  # decoding costs more than all the rest: once, if it must be
        for one in reversed(slot.known):
            if one.written != written and meant is None:
                meant = _digest(canonical_json(arguments))
            if one.written == written or one.meant == meant:
                with self._lock:
                    slot.expires = self._clock() + self._seconds
                    if key in self._slots:
                        self._slots.move_to_end(key)
                    if self._clock() > slot.shared + self._seconds / 2:
                        self._publish(key, slot)
                return one
        return None


def _as_written(parts: tuple[Part, ...], known: Sequence[Recollection | None]) -> tuple[Part, ...]:
    """Return the parts of a turn with its calls' arguments as the upstream wrote them, or the same."""
    calls = iter(known)
    out = [
        _call_as_written(part, next(calls)) if type(part) is ToolCallPart else part
        for part in parts
    ]
    return parts if all(map(operator.is_, out, parts)) else tuple(out)


def _call_as_written(call: ToolCallPart, known: Recollection | None) -> ToolCallPart:
    text = call.arguments
    if call.flavor is not _FUNCTION or known is None or len(text) >= MAX_ARGUMENTS:
        return call
    if not known.arguments or known.arguments == text:
        return call
    # `_find` compares hashes alone; both texts are bounded, and decoding is linear.
    same = canonical_json(known.arguments) == canonical_json(text)
    return replace(call, arguments=known.arguments) if same else call


def _restored(
    parts: tuple[Part, ...], known: Sequence[Recollection | None], *, signed_only: bool
) -> tuple[Part, ...]:
    """Return the parts of a turn with what is remembered of its calls, or the same."""
    # Calls that were made before any reasoning.
    known = [*itertools.dropwhile(operator.not_, known)]
    found = [one for one in known if one is not None]
    if not found or len(found) < len(known):
        return parts  # a part of the whole would be another thought
    thoughts = [part for part in parts if isinstance(part, ReasoningPart)]
    if any(part.opaque for part in thoughts):
        return parts  # the client sends it back
    # Text that came back is as good as ours, unless it must be signed or is the last piece alone.
    is_piece = bool(thoughts) and _is_piece(thoughts, found)
    if signed_only and not is_piece:
        found = [one.only_signed() for one in found]
    fills = not thoughts or is_piece or any(one.signed for one in found)
    return _filled(parts, found, fills=fills)


def _signed_parts(parts: Iterable[ReasoningPart]) -> tuple[ReasoningPart, ...]:
    return tuple(part for part in parts if any(state.kind in VITAL for state in part.opaque))


def _filled(
    parts: tuple[Part, ...], found: Sequence[Recollection], *, fills: bool
) -> tuple[Part, ...]:
    """Put what is remembered of the last calls of a turn among its parts; the same if that is nothing."""
    unknown = sum(map(_is_call, parts)) - len(found)
    remembered = iter((*((_NOTHING,) * unknown), *found))
    out: list[Part] = []
    begin = 0  # of what leads to the next call
    for part in parts:
        if fills and isinstance(part, ReasoningPart):
            continue
        if not isinstance(part, ToolCallPart):
            out.append(part)
            continue
        one = next(remembered)
        if fills:
            out[begin:begin] = one.before
            out += one.after
        signs = one.signature and not part.opaque
        out.append(replace(part, opaque=one.signature) if signs else part)
        begin = len(out)
    return parts if out == list(parts) else tuple(out)


def _is_piece(thoughts: Sequence[ReasoningPart], found: Sequence[Recollection]) -> bool:
    """Return whether a client sends the end of what is remembered: some keep the last event of a stream."""
    whole = _text(part for one in found for part in (*one.before, *one.after))
    sent = _text(thoughts)
    return len(sent) < len(whole) and whole.endswith(sent)


def _text(parts: Iterable[ReasoningPart]) -> str:
    return "".join(one.text for part in parts for one in part.segments)


def _is_call(part: Part) -> bool:
    return type(part) is ToolCallPart


def _beginning(request: Request) -> int:
    """Return what distinguishes conversations: a digest of the user's first message.

    Of each text its length and its end: what agents put before the user's words is often long and the same.
    """
    for turn in request.turns:
        if turn.role is USER:
            texts = [part.text for part in turn.parts if isinstance(part, TextPart)]
            return _digest("\0".join(f"{len(one)} {one[-_BEGINNING_CHARS:]}" for one in texts))
    return 0


def _digest(value: str | bytes) -> int:
    """Return 63 bits that are the same in every process."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest()) >> 1


def _note_name(place: ConversationKey, call_id: str) -> str:
    owner, origin, beginning = place
    return note_name("reasoning", owner, origin, str(beginning), call_id)


def _id_name(owner: str, call_id: str) -> str:
    return note_name("call-id", owner, call_id)
