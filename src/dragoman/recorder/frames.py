"""What the gateway sends to the process that writes recordings: batches of frames, each with the bytes that belong to it.

A batch is two lengths, MessagePack with all frames and the sizes of their bytes, and these bytes as the gateway read or
wrote them: it copies them nowhere but into the pipe.  A frame names its exchange by a number.  The writer removes
secrets, so that this costs the gateway no time.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from dragoman.dialects.encoding import encode
from dragoman.redaction import Secrets
from dragoman.turn.events import DeltaRun, EventOrRun, Fault, TextDelta

_LENGTHS: Final = struct.Struct(">QI")  # of the batch behind it, and of the MessagePack in it


class Policy(Struct, frozen=True, kw_only=True, array_like=True, tag=0):
    """Where and how to write: the first frame, and again when the settings change."""

    folder: str
    program: str  # name and version, as recordings have them
    secrets: Secrets  # that must not be written
    patterns: tuple[str, ...]  # expressions of more secrets
    max_file_bytes: int
    max_bytes: int  # of all files together
    max_files: int
    max_age_seconds: float
    masks: bool  # the content of exchanges is not written


class Begin(Struct, frozen=True, kw_only=True, array_like=True, tag=1):
    """A request has been read, and its exchange is recorded.  Its bytes are the request's body."""

    exchange: int
    id: str
    time: float
    dialect: str
    method: str
    path: str
    headers: dict[str, str]
    at: float
    owner: str = ""
    keys: tuple[str, ...] = ()  # that the URL had: `path` has none


class Ask(Struct, frozen=True, kw_only=True, array_like=True, tag=2):
    """An upstream is asked.  Its bytes are the body."""

    exchange: int
    at: float
    upstream: str
    model: str
    url: str
    headers: dict[str, str]


class Answered(Struct, frozen=True, kw_only=True, array_like=True, tag=3):
    """An upstream began to answer.  Its bytes are how the answer is translated, as JSON; none if it is an error."""

    exchange: int
    at: float
    status: int
    headers: dict[str, str]


class Came(Struct, frozen=True, array_like=True, gc=False, tag=4):
    """Bytes of the upstream; none at the end of its answer."""

    exchange: int
    at: float


class Meant(Struct, frozen=True, array_like=True, gc=False, tag=5):
    """Events.  Its bytes are JSON: one array, as a recording has it."""

    exchange: int
    run: int = 0  # where the longest run of text begins in it; 0: there is none
    run_end: int = 0


class Ended(Struct, frozen=True, array_like=True, tag=6):
    """The gateway ended the upstream's answer."""

    exchange: int
    at: float
    fault: Fault


class Sent(Struct, frozen=True, array_like=True, gc=False, tag=7):
    """Bytes for the client."""

    exchange: int
    at: float


class Close(Struct, frozen=True, kw_only=True, array_like=True, tag=8):
    """The exchange has ended.  Its bytes are its line in the log, as JSON."""

    exchange: int
    at: float
    status: int
    dropped: int = 0  # bytes that the gateway did not send


Frame: TypeAlias = Policy | Begin | Ask | Answered | Came | Meant | Ended | Sent | Close

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(tuple[list[Frame], list[int]])


def encode_batch(batch: Sequence[Frame], payloads: Sequence[bytes]) -> list[bytes]:
    """Return what to write for frames with their bytes, to be written in this order."""
    sizes = list(map(len, payloads))
    try:
        head = _ENCODER.encode((batch, sizes))
    except UnicodeEncodeError:  # a header or a path that is not UTF-8
        head = _ENCODER.encode((_clean(msgspec.to_builtins(batch)), sizes))
    lengths = _LENGTHS.pack(len(head) + sum(sizes), len(head))
    return [lengths + head, *filter(None, payloads)]


def _clean(value: object) -> object:
    """Return a value whose texts have a question mark for each half of a character."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            return [_clean(one) for one in value]
        case dict():
            return {_clean(name): _clean(one) for name, one in value.items()}
        case _:
            return value


def encode_meaning(exchange: int, events: Sequence[EventOrRun]) -> tuple[Meant, bytes]:
    """Return the frame of events and its bytes, a run as its deltas."""
    if DeltaRun not in map(type, events):
        return Meant(exchange), encode(events)
    parts: list[bytes] = []
    start = end = longest = 0
    size = 1  # the bracket
    for one in events:
        if type(one) is DeltaRun and type(one.whole) is TextDelta:
            part = _encode_run(one)
            if len(one.bodies) > longest:
                longest, start, end = len(one.bodies), size, size + len(part)
        elif type(one) is DeltaRun:
            part = encode(one.deltas())[1:-1]
        else:
            part = encode(one)
        parts.append(part)
        size += len(part) + 1
    return Meant(exchange, start, end), b"[%b]" % b",".join(parts)


def _encode_run(run: DeltaRun) -> bytes:
    begin = b'{"event":"text","index":%d,"text":"' % run.index
    return b'%b%b"}' % (begin, (b'"},' + begin).join(run.bodies))


class FrameBuffer:
    """Bytes of the pipe, from which whole batches are taken."""

    def __init__(self) -> None:
        self._held: list[bytes] = []  # the beginning of a batch
        self._held_bytes = 0
        self._needed = 0  # bytes with which this batch is complete

    def feed(self, data: bytes) -> Iterator[list[tuple[Frame, bytes]]]:
        """Take bytes and yield the batches that are complete."""
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes < self._needed:
            return
        data = b"".join(self._held)
        self._needed = _LENGTHS.size
        at = 0
        while at + self._needed <= len(data):
            size, head = _LENGTHS.unpack_from(data, at)
            if at + _LENGTHS.size + size > len(data):
                self._needed = _LENGTHS.size + size
                break
            yield _cut(data, at + _LENGTHS.size, head)
            at += _LENGTHS.size + size
        self._held = [data[at:]] if at < len(data) else []  # a lone piece is not copied
        self._held_bytes = len(data) - at


def _cut(data: bytes, at: int, head: int) -> list[tuple[Frame, bytes]]:
    """Return the frames of the batch whose MessagePack begins at `at`, with their bytes."""
    frames, sizes = _DECODER.decode(data[at : at + head])
    ends = list(accumulate(sizes, initial=at + head))
    return [
        (frame, data[start:end]) for frame, (start, end) in zip(frames, pairwise(ends), strict=True)
    ]
