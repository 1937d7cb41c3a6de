"""What the gateway sends to the process that writes recordings: batches of frames, each a length and MessagePack.

A frame names its exchange by a number.  The gateway sends bytes as they are; the writer removes secrets, so that
this costs the gateway no time.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from dragoman.recorder.lines import Translation
from dragoman.redaction import Secrets
from dragoman.turn.events import Event, Fault, TextRun

_LENGTH_BYTES: Final = 4


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
    """A request has been read, and its exchange is recorded."""

    exchange: int
    id: str
    time: float
    dialect: str
    method: str
    path: str
    headers: dict[str, str]
    at: float
    body: bytes
    owner: str = ""


class Ask(Struct, frozen=True, kw_only=True, array_like=True, tag=2):
    """An upstream is asked."""

    exchange: int
    at: float
    upstream: str
    model: str
    url: str
    headers: dict[str, str]
    body: bytes


class Answered(Struct, frozen=True, kw_only=True, array_like=True, tag=3):
    exchange: int
    at: float
    status: int
    headers: dict[str, str]
    translation: Translation | None


class Came(Struct, frozen=True, array_like=True, gc=False, tag=4):
    """Bytes of the upstream, and what they mean."""

    exchange: int
    at: float
    data: bytes


class Meant(Struct, frozen=True, array_like=True, gc=False, tag=5):
    """Events, as JSON: one array, as a recording has it."""

    exchange: int
    events: bytes


class Ended(Struct, frozen=True, array_like=True, tag=6):
    """The gateway ended the upstream's answer."""

    exchange: int
    at: float
    fault: Fault


class Sent(Struct, frozen=True, array_like=True, gc=False, tag=7):
    """Bytes for the client."""

    exchange: int
    at: float
    data: bytes


class Close(Struct, frozen=True, kw_only=True, array_like=True, tag=8):
    """The exchange has ended."""

    exchange: int
    at: float
    status: int
    record: bytes  # JSON
    dropped: int = 0  # bytes that the gateway did not send


Frame: TypeAlias = Policy | Begin | Ask | Answered | Came | Meant | Ended | Sent | Close

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[Frame])
_EVENTS: Final = msgspec.json.Encoder()


def encode_batch(batch: Sequence[Frame]) -> bytearray:
    """Return frames behind the length of all."""
    data = bytearray(_LENGTH_BYTES)
    _ENCODER.encode_into(batch, data, _LENGTH_BYTES)
    data[:_LENGTH_BYTES] = (len(data) - _LENGTH_BYTES).to_bytes(_LENGTH_BYTES, "big")
    return data


def encode_meaning(events: Sequence[Event]) -> bytes:
    """Return events as the JSON array of a `Meant`, a run of text as its deltas."""
    if not any(type(one) is TextRun for one in events):
        return _EVENTS.encode(events)
    return b"[%b]" % b",".join(
        _encode_run(one) if type(one) is TextRun else _EVENTS.encode(one) for one in events
    )


def _encode_run(run: TextRun) -> bytes:
    begin = b'{"event":"text","index":%d,"text":"' % run.index
    return b'%b%b"}' % (begin, (b'"},' + begin).join(run.bodies))


class FrameBuffer:
    """Bytes of the pipe, from which whole batches are taken."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[list[Frame]]:
        """Take bytes and yield the batches that are complete."""
        held = self._held
        held += data
        start = 0
        while len(held) - start >= _LENGTH_BYTES:
            body = start + _LENGTH_BYTES
            end = body + int.from_bytes(held[start:body], "big")
            if end > len(held):
                break
            with memoryview(held) as view, view[body:end] as batch:
                frames = _DECODER.decode(batch)
            yield frames
            start = end
        del held[:start]
