"""Corpus cases: streams as files.

tests/corpus/<dialect>/<case>/
    case.md          what this shows and where it was seen; the first line is "# CODES: title"
    stream.sse       the bytes exactly as received from an upstream of that dialect
    setup.json       optional: {"profile": NAME, "client": DIALECT, "request": {…}, "strict": bool}
                     where `request` is the client's request body in the dialect `client`
    events.json      the canonical events, deltas merged
    as/<dialect>.sse the expected rendering for a client of another dialect, if pinned
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import settings

from dragoman.context import Exchange
from dragoman.dialects import dialect
from dragoman.dialects.framing import StreamReader
from dragoman.envelopes import Sealer
from dragoman.limits import DEFAULT_LIMITS
from dragoman.profiles import profile
from dragoman.turn.events import Event, TextDelta
from dragoman.turn.stages import UsableCalls
from dragoman.turn.tools import ToolTable

ROOT = Path(__file__).parent.parent / "corpus"
SEALER = Sealer(b"the corpus key")
MOST_PLACES = 120  # at which a stream is cut in an ordinary run, beside those of `_BORDERS`
# Line ends, escapes and characters of several bytes, where a cut is most likely to matter.
_BORDERS = re.compile(rb"[\r\n\\\x80-\xff]")
_EVENT = msgspec.json.Decoder(Event)
_FIELDS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


def _event(fields: dict[str, msgspec.Raw]) -> Event:
    """Decode one event; msgspec cannot decode into `Raw | None` by itself."""
    logprobs = fields.pop("logprobs", msgspec.Raw(b"null"))
    event = _EVENT.decode(msgspec.json.encode(fields))
    if isinstance(event, TextDelta) and bytes(logprobs) != b"null":
        return TextDelta(event.index, event.text, logprobs)
    return event


class Setup(msgspec.Struct, forbid_unknown_fields=True):
    profile: str = "generic"
    client: str = "chat"
    request: msgspec.Raw = msgspec.Raw(b"null")
    strict: bool = False


class Case:
    """One folder of the corpus."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dialect = folder.parent.name
        self.name = folder.name
        self.stream = (folder / "stream.sse").read_bytes()
        setup = folder / "setup.json"
        self.setup = (
            msgspec.json.decode(setup.read_bytes(), type=Setup) if setup.exists() else Setup()
        )

    def __str__(self) -> str:
        return f"{self.dialect}/{self.name}"

    @property
    def title(self) -> str:
        return (self.folder / "case.md").read_text(encoding="utf-8").splitlines()[0]

    @property
    def events(self) -> list[Event]:
        fields = _FIELDS.decode((self.folder / "events.json").read_bytes())
        return [_event(one) for one in fields]

    def exchange(self, target: str = "") -> Exchange:
        """Return the exchange; `target` is the dialect in which its answer is written."""
        request = None
        if bytes(self.setup.request) != b"null":
            decode = dialect(self.setup.client).decode_request
            request = decode(bytes(self.setup.request), sealer=SEALER, limits=DEFAULT_LIMITS)
        return Exchange(
            profile=profile(self.setup.profile),
            request=request,
            tools=ToolTable(request.tools if request else ()),
            seed="corpus",
            created=1700000000,
            sealer=SEALER,
            input_estimate=20,
            strict=self.setup.strict,
            verbatim_ids=bool(target) and dialect(target).verbatim_ids,
            half_calls=not target or dialect(target).half_calls,
        )

    def reader(self) -> StreamReader:
        exchange = self.exchange()
        return StreamReader(dialect(self.dialect).frame_reader(exchange), exchange)


def corpus(name: str) -> list[Case]:
    """Return all cases of one dialect."""
    return [Case(folder) for folder in sorted((ROOT / name).iterdir()) if folder.is_dir()]


def for_client(events: list[Event], target: str) -> list[Event]:
    """Return the events that the writer of a client's dialect gets."""
    return events if dialect(target).half_calls else UsableCalls().feed(events)


def drive(reader: Any, pieces: Iterable[bytes]) -> list[Event]:
    """Feed a machine and close it; return all it gave."""
    events: list[Event] = []
    for piece in pieces:
        events.extend(reader.feed(piece))
    events.extend(reader.close())
    return events


def splits(data: bytes, *, most: int = MOST_PLACES) -> Iterator[tuple[bytes, ...]]:
    """Yield the ways to cut a stream: whole, byte by byte, and at each of its `places`.

    There in two, or with a short piece between them.
    """
    yield (data,)
    yield tuple(data[at : at + 1] for at in range(len(data)))
    for at in places(data, most):
        to = at + at % 3 * 5
        yield tuple(filter(None, (data[:at], data[at:to], data[to:])))


def places(data: bytes, most: int = MOST_PLACES) -> list[int]:
    """Return where to cut: everywhere; of a long stream at its borders and some `most` other places.

    `make fuzz-properties` cuts everywhere.
    """
    step = 1 if settings.get_current_profile_name() == "fuzz" else len(data) // (most + 1) + 1
    found = set(range(1, len(data), step))
    if step > 1:
        found |= {at for one in _BORDERS.finditer(data) for at in one.span()}
    return sorted(found - {0, len(data)})
