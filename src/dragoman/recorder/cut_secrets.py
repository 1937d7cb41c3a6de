"""Secrets that a model wrote in pieces: no piece looks like one, and a reader joins them.

A recording is written while its exchange runs, so that such a secret is noticed when its last piece has been written.
Then the recording is written once more at its end, with the pieces overwritten.
"""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from dragoman.recorder.lines import Attempt, Cutter, Events, Line, Payload, Read, Written
from dragoman.redaction import Blotter

if TYPE_CHECKING:
    from dragoman.recorder.masked_stream import MaskedStream

_TAIL_BYTES: Final = 1024  # of the pieces before, in which a secret may begin
# Of events that are looked at together: one by one costs the writer twice as much.
_LOOK_BYTES: Final = 64 * 1024


class _Piece(Struct, frozen=True, gc=False):
    """What an event adds to the answer, to its reasoning, or to a call's arguments."""

    text: str = ""
    json: str = ""


_PIECES: Final = msgspec.json.Decoder(list[_Piece])


class PiecesWatch:
    """Notices secrets in the joined pieces of an answer."""

    def __init__(self, blotter: Blotter) -> None:
        self._blotter = blotter
        self._new: list[bytes] = []  # events, as JSON, that were not looked at
        self._size = 0  # of these
        self._tail = b""
        self.found: bool = False

    def take(self, events: bytes) -> None:
        """Take events as they are recorded, without the secrets that were found in them alone."""
        if not self.found:
            self._new.append(events)
            self._size += len(events)
            if self._size > _LOOK_BYTES:
                self.look()

    def take_text(self, text: bytes) -> bool:
        """Take the joined text of events; return whether nothing was found so far."""
        self.look(text)
        return not self.found

    def look(self, more: bytes = b"") -> None:
        """Look at all that was taken, and at more text behind it."""
        if self.found or not (self._new or more):
            return
        pieces = [one.text or one.json for events in self._new for one in _PIECES.decode(events)]
        text = self._tail + "".join(pieces).encode() + more
        self._new.clear()
        self._size = 0
        self._tail = text[-_TAIL_BYTES:]
        self.found = self._blotter.finds(text)


class _JoinedText:
    """One text that arrived in pieces, whose secrets are overwritten when all of it is there."""

    def __init__(self, blotter: Blotter) -> None:
        self._blotter = blotter
        self._pieces: list[str] = []

    def feed(self, piece: str) -> None:
        self._pieces.append(piece)

    def take(self, *, ended: bool = False) -> str:
        if not ended:
            return ""
        text, self._pieces = "".join(self._pieces), []
        return _blotted(text, self._blotter)


def _blotted(text: str, blotter: Blotter) -> str:
    """Return a text of the same length without secrets."""
    data = text.encode("utf-8", "surrogatepass")
    blotted = blotter.blot(data)
    if blotted == data:
        return text
    if text.isascii():
        return blotted.decode()
    out: list[str] = []
    at = 0
    for char in text:
        end = at + len(char.encode("utf-8", "surrogatepass"))
        out.append(char if data[at:end] == blotted[at:end] else "*")
        at = end
    return "".join(out)


class _Taken(Struct):
    """A line, and where its bytes come from."""

    line: Line
    source: "MaskedStream | None" = None
    size: int = 0


def blot_pieces(lines: Iterable[Line], blotter: Blotter) -> list[Line]:
    """Return the lines of a recording in which the pieces of secrets are overwritten."""
    # It knows the markers of all formats, which few recordings need.
    from dragoman.recorder.masked_stream import MaskedStream  # noqa: PLC0415

    def stream() -> MaskedStream:
        made = MaskedStream(None, lambda: _JoinedText(blotter))
        streams.append(made)
        return made

    streams: list[MaskedStream] = []
    taken: deque[_Taken] = deque()
    answer, events, written = stream(), stream(), stream()
    for line in lines:
        one = _Taken(line)
        match line:
            case Attempt():
                answer, events = stream(), stream()
            case Read():
                one.source, one.size = answer, len(line.data.data)
                answer.feed(line.data.data)
            case Events():
                one.source, one.size = events, sum(len(bytes(event)) for event in line.events)
                for event in line.events:
                    events.add(bytes(event))
            case Written():
                one.source, one.size = written, len(line.data.data)
                written.feed(line.data.data)
            case _:
                pass
        taken.append(one)
    for made in streams:
        made.close()
        made.mask()
    return [_with_bytes(one) for one in taken]


def _with_bytes(one: _Taken) -> Line:
    if one.source is None:
        return one.line
    data = one.source.take(one.size)
    match one.line:
        case Read() | Written():
            return replace(one.line, data=Payload.of(data))
        case Events():
            cutter = Cutter(data)
            made = [Raw(cutter.take(len(bytes(event)))) for event in one.line.events]
            return replace(one.line, events=made)
        case _:
            return one.line
