"""The part that the readers of all dialects share: bytes to frames, faults of framing, the end.

A dialect brings a `FrameReader`, which knows what a frame means.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

import msgspec

from dragoman.context import Exchange
from dragoman.dialects.decoding import check_complete, check_json
from dragoman.dialects.failures import excerpt
from dragoman.dialects.text_runs import Echo, Shape, TextRun, shape_of
from dragoman.errors import MalformedError, MisuseError, NotJsonError, PeerError, TooLargeError
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import TRUNCATED, Event, Fault, FaultKind
from dragoman.wire.sse import Frame, SSEReader

_BLANKS = b" \t\r\n\xef\xbb\xbf"  # a byte-order mark among them
_BEGINNING_BYTES = 2000  # of an answer that may turn out to be no stream
_STREAM_WORDS = ("data", "event", ":", "id", "retry")  # what a line of an event stream begins with
_MAX_SHAPE_BYTES = (
    64 * 1024
)  # of a frame; decoding a larger one again takes longer than it can save
_MAX_SHAPES = 8  # that are learned one after the other without being seen again


class FrameReader(Protocol):
    """What a dialect knows of its stream."""

    assembler: Assembler

    @property
    def reasoning_field(self) -> str:
        """Which field carried reasoning, in a dialect where servers use several; else empty."""
        ...

    @property
    def pending(self) -> bool:
        """Something was read that has led to no event yet (a name in pieces, a finish reason)."""
        ...

    def read(self, frame: Frame, /) -> None:
        """Tell the assembler what a frame says.

        Raises:
            MalformedError: it is not of the dialect.
        """
        ...

    def text_of(self, data: bytes, /) -> str:
        """Return the text of a frame that adds text to the open block, and says nothing else.

        Nothing for all others.  Asked only while `takes_text`.
        """
        ...

    @property
    def takes_text(self) -> bool:
        """Text can just be added to the open block: nothing is pending."""
        ...

    def add_text(self, chars: int, /) -> None:
        """Know of text for the open block that was read elsewhere."""
        ...

    def end(self) -> None:
        """End the turn, or say that it was cut: the stream is over."""
        ...

    def read_body(self, body: bytes, /) -> None:
        """Tell the assembler what a complete answer says, error bodies included.

        Raises:
            MalformedError: it is not of the dialect.
        """
        ...


class Unit(msgspec.Struct, frozen=True):
    """Some frames and the events they led to: what a relay passes on as it came, or writes anew."""

    raw: bytes
    events: list[Event]


class RunUnit(msgspec.Struct, frozen=True):
    """Frames that led to one delta of text each."""

    raws: list[bytes]
    run: TextRun


class StreamReader:
    """Read one answer: bytes, cut anywhere, to events.

    Raises `PeerError` past a limit, or in strict mode for a malformed event; after that it is dead.
    """

    def __init__(self, frames: FrameReader, exchange: Exchange, *, keep_raw: bool = False) -> None:
        self._frames = frames
        self._assembler = frames.assembler
        self._sse = SSEReader(limits=exchange.limits, keep_raw=keep_raw)
        self._exchange = exchange
        limits = exchange.limits
        # A shorter event passes neither limit, whatever is in it.
        self._light_bytes = min(limits.max_json_items, limits.max_json_escapes)
        self._strict = exchange.strict
        self._begun = False  # the answer is a stream, and has led to events
        self._sniffing = True  # nothing but white space came
        self._beginning = b""  # of an answer that has led to nothing yet
        self._body: list[bytes] | None = None  # the answer, if it is one JSON body
        self._body_size = 0
        self._raw: list[bytes] = []  # frames that led to no event yet
        self._dead = False
        self._shape: Shape | None = None  # of frames that add text
        self.block = -1  # to this block
        # What the next read may repeat: of the last one, if it was one such frame and no more.
        self.echo: Echo | None = None
        self._shapes_left = _MAX_SHAPES
        self._pieces: list[list[Event] | TextRun] = []  # not given out yet
        # The layer below the dialect at which the input went wrong, if one did.
        self.broken: Literal["", "sse", "json"] = ""

    @property
    def ended(self) -> bool:
        """The terminal event is out; what still comes is ignored."""
        return self._assembler.ended

    @property
    def held(self) -> int:
        """How many bytes wait for the end of their event, or of the body."""
        return self._sse.held + self._body_size

    def feed(self, data: bytes, /) -> list[Event]:
        """Return the events that `data` leads to."""
        return _flat(self.feed_pieces(data))

    def feed_pieces(self, data: bytes, /) -> list[list[Event] | TextRun]:
        """Return the same, but text that came together stays together."""
        run = None if self.echo is None else self._repeated(self.echo, data)
        if run is not None:
            return [run]
        if not self._begun:
            data = self._look_at(data)
        if self._dead:
            raise MisuseError("feed after an error")
        try:
            frames = self._sse.feed(data)
            self._read(frames)
        except PeerError:
            self._dead = True
            raise
        if len(frames) == 1 and self._shapes_left:
            self._learn_read(data, frames[0].data)
        return self._take()

    def _take(self) -> list[list[Event] | TextRun]:
        """Return what was not given out yet."""
        pieces = self._pieces
        self._pieces = []
        if self._assembler.out:
            pieces.append(self._assembler.take())
        return pieces

    def feed_units(self, data: bytes, /) -> Iterator[Unit | RunUnit]:
        """Give the same events, with the bytes that led to them.  Needs `keep_raw`."""
        run = None if self.echo is None else self._repeated(self.echo, data)
        if run is not None:
            yield RunUnit([data], run)
            return
        if not self._begun:
            data = self._look_at(data)
        frames, assembler = self._frames, self._assembler
        try:
            received = self._sse.feed(data)
            at = 0
            while at < len(received):
                run = self._run(received, at)
                if run is not None:
                    end = at + len(run.bodies)
                    yield RunUnit([frame.raw for frame in received[at:end]], run)
                    at = end
                    continue
                raw = received[at].raw
                at += 1
                if not received[at - 1].data:
                    # Frames without data lead to nothing: however many there are, they pass as one.
                    end = at
                    while end < len(received) and not received[end].data:
                        end += 1
                    if end > at:
                        raw = b"".join([raw, *(frame.raw for frame in received[at:end])])
                        at = end
                if not assembler.ended and (frames.pending or assembler.holding):
                    self._raw.append(raw)
                elif self._raw:
                    self._raw.append(raw)
                    yield self._unit()
                else:
                    yield Unit(raw, assembler.take())
        except PeerError:
            self._dead = True
            raise
        if len(received) == 1 and self._shapes_left:
            self._learn_read(data, received[0].data)

    def close(self) -> list[Event]:
        """End of input: return what was held back, and how the turn ended."""
        self._close()
        return _flat(self._take())

    def close_units(self) -> list[Unit]:
        """End of input, with the bytes that are left."""
        self._close()
        return [self._unit()]

    def fail(self, fault: Fault) -> list[Event]:
        """End the turn with a failure found elsewhere; return what there was, and the failure."""
        self._end_echo()
        self._assembler.fault(fault)
        return _flat(self._take())

    def _unit(self) -> Unit:
        raw = self._raw
        self._raw = []
        return Unit(raw[0] if len(raw) == 1 else b"".join(raw), self._assembler.take())

    def _close(self) -> None:
        self._end_echo()
        if self._body is not None:
            body = b"".join(self._body)
            self._raw.append(body)
            self._assembler.loss("stream_not_sse")
            check_complete(body, self._exchange.limits)
            if not read_answer(self._frames, body):
                self.broken = "json"
            return
        frames = self._sse.close()
        if self._sse.torn:
            self.broken = "sse"
        self._raw += [frame.raw for frame in frames]
        self._read(frames)
        if self.ended:
            return
        text = excerpt(self._beginning)
        if self._assembler.started or not text or text.startswith(_STREAM_WORDS):
            self._frames.end()
        else:
            message = f"upstream answered with something that is no event stream: {text}"
            fault = Fault(FaultKind.UPSTREAM_BAD, message, code="upstream_malformed")
            self.broken = "sse"
            self._assembler.fault(fault)

    def _read(self, frames: Sequence[Frame]) -> None:
        at = 0
        while at < len(frames):
            run = self._run(frames, at)
            if run is None:
                at += 1
                continue
            at += len(run.bodies)
            if self._assembler.out:
                self._pieces.append(self._assembler.take())
            self._pieces.append(run)

    def _run(self, frames: Sequence[Frame], at: int) -> TextRun | None:
        """Read the frames from `at` on that only add text, or one of any sort."""
        alone = at + 1 == len(frames)  # and read as quickly by itself
        if (
            self._shape is not None
            and not alone
            and self.block == self._assembler.index
            and self._frames.takes_text
        ):
            bodies, text = self._shape.texts(frames, at)
            if bodies:
                self._shapes_left = _MAX_SHAPES
                self._frames.add_text(len(text))
                return TextRun(self.block, bodies, text)
        self._read_frame(frames[at])
        if self._shapes_left and not alone and self._frames.takes_text:
            self._learn(frames[at].data)
        return None

    def _read_frame(self, frame: Frame) -> None:
        if self._assembler.ended or not frame.data:
            return
        try:
            if self._strict:
                _check_text(frame.data)
            if len(frame.data) > self._light_bytes:
                check_json(frame.data, self._exchange.limits)
            self._frames.read(frame)
        except MalformedError as error:
            if self._strict:
                if isinstance(error, NotJsonError):
                    self.broken = self.broken or "json"
                raise
            if frame.whole:
                self._assembler.loss("chunk_malformed", error.path, error.reason)

    def _repeated(self, echo: Echo, data: bytes) -> TextRun | None:
        """Read what repeats the read before it with other words."""
        again = echo.take(data)
        if again is None:
            self._end_echo()
            return None
        return TextRun(self.block, [again[0]], again[1])

    def _end_echo(self) -> None:
        """Count what was only repeated."""
        echo, self.echo = self.echo, None
        if echo is not None and echo.count:
            self._sse.skip(echo.count, echo.size)
            self._frames.add_text(echo.chars)
            self._shapes_left = _MAX_SHAPES

    def _learn_read(self, data: bytes, frame: bytes) -> None:
        """See whether the next read may repeat this one, which was one frame."""
        shape = self._learn(frame) if self._frames.takes_text else None
        whole = None if shape is None else shape.framed(data, frame)
        self.echo = None if whole is None else Echo(whole, *self._sse.room())

    def _learn(self, data: bytes) -> Shape | None:
        """See what the next frames may have in common with this one."""
        if len(data) > _MAX_SHAPE_BYTES or not self._frames.text_of(data):
            return None
        self._shapes_left -= 1
        left = self._shapes_left > 0  # the last one would be tried for ever
        self._shape = shape_of(data, self._frames.text_of) if left else None
        self.block = self._assembler.index
        return self._shape

    def _look_at(self, data: bytes) -> bytes:
        """Tell an event stream from a JSON body, whatever was asked for, and from neither."""
        if self._body is not None:
            self._keep(self._body, data)
            return b""
        if self._sniffing:
            stripped = data.lstrip(_BLANKS)
            self._sniffing = not stripped
            if stripped[:1] in (b"{", b"["):
                self._body = []
                self._keep(self._body, stripped)
                return b""
        self._begun = self._assembler.started
        if self._begun:
            self._beginning = b""
        else:
            self._beginning += data[: _BEGINNING_BYTES - len(self._beginning)]
        return data

    def _keep(self, body: list[bytes], data: bytes) -> None:
        self._body_size += len(data)
        if self._body_size > self._exchange.limits.max_response_bytes:
            raise TooLargeError("max_response_bytes", self._exchange.limits.max_response_bytes)
        body.append(data)


def _flat(pieces: list[list[Event] | TextRun]) -> list[Event]:
    events: list[Event] = []
    for piece in pieces:
        events += piece if isinstance(piece, list) else piece.deltas()
    return events


def assembler_for(exchange: Exchange, *, seal_plain: bool = False) -> Assembler:
    """Return the assembler of an exchange's answer; `seal_plain` marks its unsigned reasoning."""
    return Assembler(
        tools=exchange.tools,
        seed=exchange.seed,
        origin=exchange.profile.origin,
        input_estimate=exchange.input_estimate,
        seal_plain=seal_plain,
        limits=exchange.limits,
    )


def _check_text(data: bytes) -> None:
    """Refuse bytes that are no text, which a lenient reader mends."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise NotJsonError(f"not valid UTF-8: {error.reason} at byte {error.start}") from None


def read_answer(frames: FrameReader, body: bytes) -> bool:
    """Tell the assembler what a complete answer says; what cannot be read becomes a fault.

    Returns whether it was JSON at all.
    """
    try:
        frames.read_body(body)
    except MalformedError as error:
        message = f"upstream answer cannot be read: {error}: {excerpt(body)}"
        frames.assembler.fault(Fault(FaultKind.UPSTREAM_BAD, message, code="upstream_malformed"))
        return not isinstance(error, NotJsonError)
    return True


def truncated(inside: str = "") -> Fault:
    """Return the fault of a stream that ended before it was finished."""
    tail = f" inside {inside}" if inside else ""
    return Fault(
        FaultKind.UPSTREAM_BAD,
        f"upstream stream terminated unexpectedly{tail}",
        code=TRUNCATED,
    )
