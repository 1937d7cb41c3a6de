"""Translates recorded bytes of an upstream again, with this version: what the client would get now.  Pure."""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, Literal, Self

from msgspec import Raw, Struct, structs

from dragoman.context import Exchange
from dragoman.dialects import dialect
from dragoman.envelopes import Sealer
from dragoman.exchange_setup import ExchangeOptions
from dragoman.recorder.lines import Translation, encode_events
from dragoman.recorder.recording import AttemptRecord, Recording
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.format_names import own_format
from dragoman.translate import Translator, translate_body
from dragoman.translate_requests import read_request
from dragoman.turn.events import Event, EventOrRun, Fault, expand_runs
from dragoman.turn.request import Request
from dragoman.wire.json_values import decode_any

_ENVELOPE: Final = re.compile(rb"dgm1\.[A-Za-z0-9_.\-]+|ZGdtMS[A-Za-z0-9+/=]+")
# Envelopes of a replay are signed with this key, which opens none of a gateway.
_SEALER: Final = Sealer(b"replay")


class Replayed(Struct, frozen=True):
    """What this version makes of a recorded answer."""

    events: list[Raw]
    body: bytes  # that the client would get
    failed: bool = False


class Difference(Struct, frozen=True):
    """One place at which two lists of events differ; None: one of them has ended."""

    index: int
    recorded: Raw | None
    replayed: Raw | None


class EventCollector:
    """A stage that keeps all events that the client's writer gets, text deltas one by one."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def watch(self, _exchange: Exchange) -> Self:
        """Return this stage, as a watcher of an exchange."""
        return self

    @property
    def pending(self) -> bool:
        return False

    def feed(self, events: Sequence[EventOrRun], /) -> list[EventOrRun]:
        self.events += expand_runs(events)
        return list(events)

    def replayed(self, body: bytes) -> Replayed:
        events = self.events
        failed = bool(events) and type(events[-1]) is Fault
        return Replayed(encode_events(events), body, failed)


def replay(
    recording: Recording,
    attempt: AttemptRecord,
    *,
    split: int = 0,
    formats: Sequence[Format] = (),
) -> Replayed:
    """Return what today's code makes of an attempt's answer; `split` cuts it every so many bytes instead.

    `formats` are formats of the user, beside the built-in and the installed ones.

    Raises:
        ConfigError: the answer was parsed with a format that is unknown here.
    """
    reply = attempt.reply
    if reply is None or reply.translation is None:
        return Replayed([], b"")
    how = reply.translation
    collector = EventCollector()
    pieces = attempt.pieces()
    if not how.stream:
        translated = translate_body(
            b"".join(pieces),
            source=how.source,
            target=how.target,
            model=how.model,
            native_format=own_format(how.model, how.native_format, formats),
            stop=how.stop,
            request_id=recording.opening.id,
            watchers=(collector.watch,),
            earlier=[b"".join(one.pieces()) for one in recording.continued(attempt)],
            pause=_pause(attempt, how),
            **exchange_options(recording, how),
        )
        return collector.replayed(translated.body)
    translator, begun = recorded_translator(recording, attempt, how, collector, formats=formats)
    out = [translator.feed(piece) for piece in _cut(pieces, split)]
    unseen = _is_unseen(translator, attempt)
    out.append(recorded_end(translator, attempt))
    replayed = collector.replayed(begun + b"".join(out))
    return structs.replace(replayed, failed=replayed.failed or unseen)


def _pause(attempt: AttemptRecord, how: Translation) -> Literal["forward", "return", "end"]:
    """Return what the gateway did if the upstream paused a complete answer."""
    if not how.continues:
        return "forward"
    return "end" if _is_capped(attempt) else "return"


def _is_capped(attempt: AttemptRecord) -> bool:
    """Return whether the gateway ended a paused answer."""
    return any(b'"continuation_capped"' in bytes(event) for event in attempt.events)


def _is_unseen(translator: Translator, attempt: AttemptRecord) -> bool:
    """Return whether an answer broke off before its content: the gateway then asked again, or answered itself."""
    return attempt.failed is not None and not translator.begun


def recorded_end(translator: Translator, attempt: AttemptRecord) -> bytes:
    """Return what followed the last bytes of an attempt's answer."""
    if _is_unseen(translator, attempt):
        return b""
    if _is_capped(attempt) and translator.begun and translator.repeatable:
        return (
            translator.give_up()
        )  # the answer was paused, or a request that continues it brought nothing in time
    if attempt.failed is not None:
        return translator.fail(attempt.failed.fault)
    if translator.paused is not None:
        return b""
    return translator.close() if attempt.ended else b""


def recorded_translator(
    recording: Recording,
    attempt: AttemptRecord,
    how: Translation,
    collector: EventCollector,
    *,
    formats: Sequence[Format] = (),
) -> tuple[Translator, bytes]:
    """Return a translator that does with a stream what the gateway's did, and the client's bytes before the stream.

    An answer that continues others goes to the translator of those; the collector has its own events alone.
    """
    translator = _translator(recording, how, collector, formats)
    out: list[bytes] = []
    for part in recording.continued(attempt):
        out += map(translator.feed, part.pieces())
        if translator.paused is None and part.ended:
            out.append(translator.close())
        if translator.paused is None:  # today's code reads no pause there
            collector.events.clear()
            return _translator(recording, how, collector, formats), b""
        translator.resume()
    collector.events.clear()
    return translator, b"".join(out)


def _translator(
    recording: Recording, how: Translation, collector: EventCollector, formats: Sequence[Format]
) -> Translator:
    return Translator(
        source=how.source,
        target=how.target,
        model=how.model,
        native_format=own_format(how.model, how.native_format, formats),
        stop=how.stop,
        watchers=(collector.watch,),
        continues=how.continues,
        **exchange_options(recording, how),
    )


def differences(recorded: Sequence[Raw], replayed: Sequence[Raw]) -> list[Difference]:
    """Return every index at which two lists of events differ."""
    return [
        Difference(index, old, new)
        for index, (old, new) in enumerate(zip_longest(recorded, replayed))
        if old is None or new is None or (bytes(old) != bytes(new) and _facts(old) != _facts(new))
    ]


def recorded_differences(
    recording: Recording, attempt: AttemptRecord, replayed: Replayed
) -> list[Difference]:
    """Return the events that differ from recorded ones; of a recording that ends early, as far as it goes."""
    found = differences(attempt.events, replayed.events)
    if recording.torn_at is not None or recording.outcome is None:
        found = [one for one in found if one.recorded is not None]  # the rest was not recorded
    return found


def _facts(event: Raw) -> dict[str, object]:
    """Return the fields of an event that are not empty: a later version may have more fields."""
    return {name: value for name, value in decode_any(event).items() if value}


def different_bytes(recording: Recording, replayed: Replayed) -> int | None:
    """Return the first byte of the client's at which a replay differs; None: nowhere, or it cannot be compared.

    Keep-alive bytes depend on time, and signatures of reasoning state on a gateway's key: both are left out.  An
    answer that failed cannot be compared: the gateway puts the upstream's name into the failure.
    """
    if recording.outcome is None or recording.outcome.dropped or replayed.failed:
        return None
    alive = dialect(recording.opening.dialect).keep_alive
    recorded = b"".join(one.data.data for one in recording.written if one.data.data != alive)
    old, new = (_ENVELOPE.sub(b"", data) for data in (recorded, replayed.body))
    if old == new:
        return None
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))


def _request_of(recording: Recording) -> Request | None:
    if recording.received is None:
        return None
    body = recording.received.body.data
    return read_request(body, source=recording.opening.dialect).request


def exchange_options(recording: Recording, how: Translation) -> ExchangeOptions:
    """Return all that was known of an exchange when its answer was translated."""
    return ExchangeOptions(
        profile=how.profile,
        request=_request_of(recording),
        previous_id=how.previous_id,
        seed=how.seed,
        created=how.created,
        sealer=_SEALER,
        input_estimate=how.input_estimate,
        strict=how.strict,
        rendering=how.rendering,
        limits=how.limits,
    )


def _cut(pieces: list[bytes], split: int) -> Iterator[bytes]:
    if not split:
        yield from pieces
        return
    whole = b"".join(pieces)
    for start in range(0, len(whole), split):
        yield whole[start : start + split]
