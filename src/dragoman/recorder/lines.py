"""The lines of a recording: a `.dragoman` file is JSON lines, one for each thing that happened.

The first line is `recording`; the last, if the exchange came to its end, is `outcome`.  Each line has `line`, its
kind, and most have `at`, milliseconds since the request arrived.  Bytes are text where they are UTF-8, else base64.
A reader ignores fields that it does not know; a change that it could not ignore raises `VERSION`.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.context import Rendering
from dragoman.dialects.encoding import encode
from dragoman.limits import Limits
from dragoman.profiles.profile import Profile
from dragoman.recorder.stalls import Gap
from dragoman.turn.events import EventOrRun, Fault, expand_runs

VERSION: Final = 1
SUFFIX: Final = ".dragoman"


class Payload(Struct, frozen=True, omit_defaults=True):
    """Bytes: `text` if they are UTF-8, else `base64`."""

    text: str = ""
    base64: bytes = b""

    @classmethod
    def of(cls, data: bytes) -> "Payload":
        try:
            return cls(text=data.decode())
        except UnicodeDecodeError:
            return cls(base64=data)

    @property
    def data(self) -> bytes:
        return self.base64 or self.text.encode()


class Opening(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="recording", tag_field="line"
):
    """What a recording is, and the head of the client's request."""

    version: int
    program: str  # name and version of the program that wrote it
    id: str  # of the request, as in the log and the response's headers
    time: float  # Unix seconds at which the request arrived
    dialect: str  # of the client
    method: str
    path: str
    headers: dict[str, str]  # without secrets
    owner: str = ""  # whose key asked, if the key has a name
    masked: bool = False  # the content was replaced: see `mask.py`


class Received(Struct, frozen=True, kw_only=True, tag="received", tag_field="line"):
    """The client's request, as it was received."""

    at: float
    body: Payload


class Translation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that decides how an upstream's bytes are translated, beside the bytes."""

    source: str  # the upstream's dialect
    target: str  # the client's
    model: str  # as the upstream calls it
    native_format: str  # name of the family, or `none`
    stop: tuple[str, ...] = ()  # sequences that are matched on the answer
    stream: bool = False
    profile: Profile
    seed: str = ""
    created: int = 0
    previous_id: str = ""
    input_estimate: int | None = None
    strict: bool = False
    rendering: Rendering = Rendering()
    limits: Limits = Limits()
    continues: bool = False  # the gateway continues the answer if the upstream pauses it
    earlier: int = 0  # paused answers that this one continues


class Attempt(Struct, frozen=True, kw_only=True, tag="attempt", tag_field="line"):
    """An upstream was asked: the request, as it was sent."""

    at: float
    upstream: str
    model: str
    url: str
    headers: dict[str, str]  # without secrets
    body: Payload


class Reply(Struct, frozen=True, kw_only=True, tag="reply", tag_field="line"):
    """The upstream began to answer."""

    at: float
    status: int
    headers: dict[str, str]
    translation: Translation | None = None  # None: an error response


class Read(Struct, frozen=True, kw_only=True, tag="read", tag_field="line"):
    """Bytes that came from the upstream at once.

    A line of the stream that is not complete waits for its rest, so that a secret in it is found: `data` are the lines
    that are complete now, `size` is how many bytes came.
    """

    at: float
    size: int
    data: Payload = Payload()
    ended: bool = False  # nothing more will come


class Events(Struct, frozen=True, kw_only=True, tag="events", tag_field="line"):
    """What the bytes read so far mean, after calls in the text were found: what the client's writer was given."""

    events: list[Raw]  # each the JSON of an event of `dragoman.turn.events`


class Failed(Struct, frozen=True, kw_only=True, tag="failed", tag_field="line"):
    """The gateway ended the upstream's answer: a timeout, a lost connection."""

    at: float
    fault: Fault


class Written(Struct, frozen=True, kw_only=True, tag="written", tag_field="line"):
    """Bytes that were sent to the client at once."""

    at: float
    data: Payload


class ExchangeOutcome(Struct, frozen=True, kw_only=True, tag="outcome", tag_field="line"):
    """How the exchange ended: the fields of its line in the log."""

    at: float
    status: int  # that the client got
    record: Raw
    dropped: int = 0  # bytes of lines that are missing, because the file reached its limit
    stalls: tuple[
        Gap, ...
    ] = ()  # when the upstream sent nothing during the answer that the client got, in milliseconds


Line: TypeAlias = (
    Opening | Received | Attempt | Reply | Read | Events | Failed | Written | ExchangeOutcome
)

_DECODER: Final[msgspec.json.Decoder[Line]] = msgspec.json.Decoder(Line)


def encode_line(line: Line) -> bytes:
    """Return a line with its line feed."""
    return encode(line) + b"\n"


def decode_line(data: bytes) -> Line:
    """Return a line.

    Raises:
        msgspec.ValidationError, msgspec.DecodeError: it is none.
    """
    return _DECODER.decode(data)


def encode_events(events: Iterable[EventOrRun]) -> list[Raw]:
    """Return events as a recording has them: text deltas one by one."""
    return [Raw(encode(event)) for event in expand_runs(events)]


class Cutter:
    """Bytes of several lines or events, which are cut into pieces again."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        self._at += size
        return self._data[self._at - size : self._at]
