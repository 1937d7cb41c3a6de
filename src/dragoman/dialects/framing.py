"""Reads an upstream's bytes: the part that is the same in every dialect.

`StreamReader` splits bytes into frames and hands each frame to the dialect's `FrameReader`, which knows what
it means.  It also recognizes bodies that are not event streams, applies limits, reports malformed frames,
and reads repeated text frames quickly (`text_runs.py`).
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec import structs

from dragoman.context import Exchange
from dragoman.dialects.decoding import check_complete, check_json, valid_utf8
from dragoman.dialects.encoding import encode
from dragoman.dialects.failures import excerpt, html_fault
from dragoman.dialects.text_runs import (
    MAX_RUN_BYTES,
    RepeatedReads,
    TextTemplate,
    template_of,
)
from dragoman.errors import MalformedError, MisuseError, NotJsonError, PeerError, TooLargeError
from dragoman.turn.answer import delta_text
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import (
    TRUNCATED,
    ArgsDelta,
    DeltaRun,
    EventOrRun,
    Fault,
    FaultKind,
    ReasoningDelta,
    TextDelta,
    expand_runs,
    inner_texts,
)
from dragoman.wire.sse import Frame, SSEReader

_BLANKS = b" \t\r\n\xef\xbb\xbf"  # a byte-order mark among them
_BEGINNING_BYTES = 8000  # of an answer that may turn out to be no stream
_STREAM_WORDS = ("data", "event", ":", "id", "retry")  # what a line of an event stream begins with
_MAX_TEMPLATE_BYTES = 64 * 1024  # decoding a larger frame twice takes longer than it can save
_MAX_TEMPLATES = 8  # that are learned one after the other without being used


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
        """Read a frame into the assembler.

        Raises:
            MalformedError: it is not of the dialect.
        """
        ...

    def text_of(self, data: bytes, /) -> str:
        """Return the text, reasoning or arguments of a frame that only adds them to the open block; empty for all others.

        Called only while `takes_text`.
        """
        ...

    @property
    def varied(self) -> bool:
        """Frames that add text differ elsewhere too: each has a number, or counts, that `text_of` may keep."""
        ...

    @property
    def takes_text(self) -> bool:
        """Text, reasoning or arguments can just be added to the open block: nothing is pending."""
        ...

    def add_text(self, chars: int, /) -> None:
        """Count text of the open block that was read elsewhere."""
        ...

    def add_more(self, text: str, /) -> None:
        """Add reasoning or arguments of the open block that were read elsewhere."""
        ...

    def end(self) -> None:
        """End the turn, or report that it was truncated: the stream is over."""
        ...

    def read_body(self, body: bytes, /) -> None:
        """Read a complete answer, or an error body, into the assembler.

        Raises:
            MalformedError: it is not of the dialect.
        """
        ...


# Where a step ended, in the bytes and in the events; and the two last fields of its `Unit`.
ReadStep: TypeAlias = tuple[int, int, TextTemplate | None, bool]


class Unit(msgspec.Struct, frozen=True):
    """Bytes and the events they led to: a relay forwards the bytes, or writes the events."""

    raw: bytes  # whole frames
    events: list[EventOrRun]
    # Where each step of the reader ended, in `raw` and in `events`; empty for a single step.
    steps: Sequence[ReadStep] = ()
    template: TextTemplate | None = None  # of the frames, if each of them is one delta
    waited: bool = False  # some of the frames had to wait for the next one

    @property
    def first(self) -> bytes:
        """The bytes of the first step."""
        return self.raw[: self.steps[0][0]] if self.steps else self.raw

    @property
    def last(self) -> bytes:
        """The bytes of the last step."""
        return self.raw if len(self.steps) < 2 else self.raw[self.steps[-2][0] :]

    def parts(self) -> list["Unit"]:
        """Return the unit of each step: a frame, or frames that only add to one block."""
        if not self.steps:
            return [self]
        found: list[Unit] = []
        at = first = 0
        for end, last, template, waited in self.steps:
            found.append(Unit(self.raw[at:end], self.events[first:last], (), template, waited))
            at, first = end, last
        return found

    def frames(self) -> list["Unit"]:
        """Return the unit of each frame, if each of them is one delta; else the unit itself."""
        deltas = [] if self.template is None else expand_runs(self.events)
        raws = [] if self.template is None else self.template.split(self.raw)
        if not raws or len(raws) != len(deltas):  # a long delta became several
            return [self]
        return [Unit(raw, [delta]) for raw, delta in zip(raws, deltas, strict=True)]


def joined(parts: Sequence[Unit]) -> Unit:
    """Join units that follow one another; each becomes a step, so that `parts` returns them again."""
    events: list[EventOrRun] = []
    steps: list[ReadStep] = []
    size = 0
    for part in parts:
        size += len(part.raw)
        events += part.events
        steps.append((size, len(events), part.template, part.waited))
    return Unit(b"".join(part.raw for part in parts), events, steps)


class StreamReader:
    """Read one answer: bytes, cut anywhere, to events.

    Raises `PeerError` past a limit, or in strict mode for a malformed event; after that it is dead.
    """

    def __init__(
        self,
        frames: FrameReader,
        exchange: Exchange,
        *,
        keep_raw: bool = False,
        look: Callable[[bytes], None] | None = None,
    ) -> None:
        """Read with the dialect's `frames`; `look` also sees every event that is not text alone."""
        self._frames = frames
        self._look = look
        self._keep_raw = keep_raw
        self._assembler = frames.assembler
        self._sse = SSEReader(limits=exchange.limits, keep_raw=keep_raw)
        self._exchange = exchange
        limits = exchange.limits
        # A shorter event passes neither limit, whatever is in it.
        self._light_bytes = min(limits.max_json_items, limits.max_json_escapes)
        self._strict = exchange.strict
        self._begun = False  # the answer is a stream, and has led to events
        self._empty = True  # no frame with data came
        self._sniffing = True  # nothing but white space came
        self._beginning = b""  # of an answer that has led to nothing yet
        self._body: list[bytes] | None = None  # the answer, if it is one JSON body
        self._body_size = 0
        # With `keep_raw`: bytes that are in no unit yet, and the steps that have ended in the last of them.
        self._raw: list[bytes] = []
        self._steps: list[ReadStep] = []
        self._waits = False  # some bytes wait for what follows them
        self._dead = False
        self._template: TextTemplate | None = None  # of frames that add to `_text_block`
        self._text_block = -1
        self._others = False  # what they add is reasoning or arguments, not text
        # Set if the last read was exactly one such frame: the next reads probably repeat it.
        self._repeats: RepeatedReads | None = None
        # Frames of a run are not compared with the limits: these are larger than any of them.
        runs = min(limits.max_sse_event_bytes, self._light_bytes) >= MAX_RUN_BYTES
        self._templates_left = _MAX_TEMPLATES if runs else 0
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

    def feed(self, data: bytes, /) -> list[EventOrRun]:
        """Return the events that `data` leads to."""
        if self._repeats is not None:
            text = self._repeats.text_of(data)
            if text:
                if not self._others:
                    return [TextDelta(self._text_block, text)]
                self._add_more(text)
                return self._assembler.take()
            self._end_repeats()
        self._read(data)
        return self._assembler.take()

    def feed_units(self, data: bytes, /) -> list[Unit]:
        """Return the same events with the bytes that led to them.  Needs `keep_raw`.

        All of a read is one unit, but for frames behind the end of the answer.  After an error, `take_units` returns
        what was read before it.
        """
        if self._repeats is not None:
            text = self._repeats.text_of(data)
            if text:
                if not self._others:
                    return [Unit(data, [TextDelta(self._text_block, text)])]
                self._add_more(text)
                if not (self._raw or self._assembler.holding):
                    return [Unit(data, self._assembler.take())]
                self._raw.append(data)
                self._end_step(len(data))
                return self.take_units()
            self._end_repeats()
        self._read(data)
        return self.take_units()

    def take_units(self) -> list[Unit]:
        """Return what was read and is in no unit yet, up to the first byte that waits for more."""
        steps, self._steps = self._steps, []
        if not steps:
            return []
        raw = self._raw[-1]
        if len(self._raw) > 1:
            earlier = sum(map(len, self._raw[:-1]))
            raw = b"".join(self._raw)
            steps = [(earlier + step[0], *step[1:]) for step in steps]
        end, count, template, waited = steps[-1]
        self._raw = [raw[end:]] if end < len(raw) else []
        assembler = self._assembler
        events = assembler.take()
        if count < len(events):
            assembler.out = events[count:]
            del events[count:]
        if len(steps) == 1:
            return [Unit(raw[:end], events, (), template, waited)]
        if not assembler.ended:
            return [Unit(raw[:end], events, steps)]
        last = next(at for at, step in enumerate(steps, 1) if step[1] == count)
        ends = [step[0] for step in steps[last - 1 :]]
        return [
            Unit(raw[: ends[0]], events, steps[:last]),
            *[Unit(raw[one:other], []) for one, other in pairwise(ends)],
        ]

    def close(self) -> list[EventOrRun]:
        """End the input: return what was held back, and how the turn ended."""
        self._close()
        return self._assembler.take()

    def close_units(self) -> list[Unit]:
        """End the input; return the bytes that are left."""
        self._close()
        raws, self._raw = self._raw, []
        return [Unit(b"".join(raws), self._assembler.take())]

    def fail(self, fault: Fault) -> list[EventOrRun]:
        """End the turn with a failure found elsewhere; return what there was, and the failure."""
        self._end_repeats()
        self._assembler.fault(fault)
        return self._assembler.take()

    def _add_more(self, text: str) -> None:
        """Add to the reasoning or the arguments that are open."""
        try:
            self._frames.add_more(text)
        except PeerError:
            self._dead = True
            raise

    def _end_step(self, end: int, template: TextTemplate | None = None) -> None:
        """Note that the bytes up to `end` have led to all their events, unless some wait for what follows."""
        assembler = self._assembler
        waited = self._waits
        self._waits = not assembler.ended and (self._frames.pending or assembler.holding)
        if not self._waits:
            self._steps.append((end, len(assembler.out), template, waited))

    def _close(self) -> None:
        self._end_repeats()
        if self._body is not None:
            body = b"".join(self._body)
            self._raw.append(body)
            # Case: chat/json_body_instead_of_a_stream.
            self._assembler.loss("stream_not_sse")
            check_complete(body, self._exchange.limits)
            if self._look is not None:
                self._look(body)
            if not read_answer(self._frames, body):
                self.broken = "json"
            return
        frames = self._sse.close()
        if self._sse.torn:
            self.broken = "sse"
        for frame in frames:
            self._raw.append(frame.raw)
            self._read_frame(frame)
        if self.ended:
            return
        text = excerpt(self._beginning)
        if self._assembler.started or not text or text.startswith(_STREAM_WORDS):
            # Case: chat/s22_nothing.
            if self._empty:
                self._assembler.fault(empty_answer())
            else:
                self._frames.end()
        else:
            # Test: test_s13_a_page_instead_of_a_stream_is_named_in_the_failure.
            message = f"the upstream's response is not an event stream: {text}"
            fault = Fault(FaultKind.UPSTREAM_BAD, message, code="upstream_malformed")
            self.broken = "sse"
            self._assembler.fault(html_fault(0, self._beginning) or fault)

    def _read(self, data: bytes) -> None:
        """Read the frames that `data` completes.

        A step is a run of frames that only add to the open block, or one other frame with all before it that have
        no data.
        """
        if self._dead:
            raise MisuseError("feed after an error")
        if not self._begun:
            data = self._look_at(data)
        keep_raw = self._keep_raw
        try:
            block = self._sse.take(data)
            if keep_raw and block:
                self._raw.append(block)
            at, size = 0, len(block)
            while at < size:
                at = self._read_run(block, at) or at
                blank = False  # the last frame has no data
                for frame, end in self._sse.frames(block, at):
                    blank = not frame.data
                    if not blank:
                        self._read_frame(frame)
                        # Behind the last of several, there is nothing to be found with a template.
                        if self._templates_left and (end < size or not at):
                            self._learn(frame.data, block[at:end])
                        if keep_raw:
                            self._end_step(end)
                    at = end
                    if self._template is not None and block.startswith(self._template.before, at):
                        break
                if blank and keep_raw:
                    self._end_step(at)
            if not self._begun and self._assembler.started:
                self._begun = True
                self._beginning = b""
            if size == len(data):
                self._expect_repeats(block)
        except PeerError:
            self._dead = True
            raise

    def _read_run(self, block: bytes, at: int) -> int:
        """Read all frames from `at` on that only add to the open block; return where they end, 0 if there are none."""
        template = self._template
        if template is None or not block.startswith(template.before, at) or not self._is_open():
            return 0
        bodies, text, end = template.texts(block, at, self._sse.frames_left)
        if self._others and text.endswith(","):
            # A comma waits for what follows it, so its frame is read alone.
            end -= len(template.split(block[at:end])[-1])
            text = text[: -len(inner_texts([bodies.pop()])[0])]
        if not bodies:
            return 0
        self._templates_left = _MAX_TEMPLATES
        self._sse.skip(len(bodies))
        out = self._assembler.out
        count, several = len(out), len(bodies) > 1
        if self._others:
            self._frames.add_more(text)
        else:
            self._frames.add_text(len(text))
            out.append(TextDelta(self._text_block, text))
        if several and len(out) == count + 1:
            out[-1] = _run_of(out[-1], bodies, text)
        if self._keep_raw:
            self._end_step(end, template if several else None)
        return end

    def _is_open(self) -> bool:
        """Return whether the block for which the template was made is open, and nothing is pending."""
        assembler = self._assembler
        at_block = self._text_block == assembler.index and not assembler.ended
        return at_block and self._frames.takes_text

    def _read_frame(self, frame: Frame) -> None:
        if self._assembler.ended or not frame.data:
            return
        if self._empty:
            # Test: test_s22_a_stream_without_data_is_empty.
            if frame.data.startswith(b"[DONE]"):
                self._assembler.fault(empty_answer())
                return
            self._empty = False
        if self._look is not None:
            self._look(frame.data)
        try:
            if self._strict:
                _check_text(frame.data)
            if len(frame.data) > self._light_bytes:
                check_json(frame.data, self._exchange.limits)
            # Test: test_bytes_that_are_not_utf8_cost_no_answer.
            if not frame.data.isascii():
                frame = structs.replace(frame, data=valid_utf8(frame.data))
            self._frames.read(frame)
        except MalformedError as error:
            if self._strict:
                if isinstance(error, NotJsonError):
                    self.broken = self.broken or "json"
                raise
            # A chunk that is not JSON is reported and skipped.  Cases: chat/k1_3_chunk_that_is_no_json, anthropic/g_7_chunk_malformed.
            if frame.whole:
                self._assembler.loss("chunk_malformed", error.path, error.reason)

    def _end_repeats(self) -> None:
        """Count what was read as repetitions."""
        repeats, self._repeats = self._repeats, None
        if repeats is not None and repeats.count:
            self._sse.skip(repeats.count, repeats.size)
            if not self._others:
                self._frames.add_text(repeats.chars)
            self._templates_left = _MAX_TEMPLATES

    def _expect_repeats(self, block: bytes) -> None:
        """Prepare for reads that repeat this one, if it was one frame that added text."""
        template = self._template
        if template is not None and block.endswith(template.after) and self._is_open():
            left, most = self._sse.room()
            end = template.frame_end
            if left and block.find(end) == len(block) - len(end):
                self._repeats = RepeatedReads(template, left, most)

    def _learn(self, data: bytes, raw: bytes) -> None:
        """Make a template of a frame that only adds to the open block."""
        text_of = self._frames.text_of
        if len(data) > _MAX_TEMPLATE_BYTES or not self._frames.takes_text or not text_of(data):
            return
        self._templates_left -= 1
        left = self._templates_left > 0  # without one, the last would be tried on every read
        varied = self._frames.varied
        self._template = template_of(raw, data, text_of, varied=varied) if left else None
        self._text_block = self._assembler.index
        self._others = not self._assembler.in_text

    def _look_at(self, data: bytes) -> bytes:
        """Find out whether the response is an event stream, a JSON body or neither, whatever was requested."""
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
        self._beginning += data[: _BEGINNING_BYTES - len(self._beginning)]
        return data

    def _keep(self, body: list[bytes], data: bytes) -> None:
        self._body_size += len(data)
        if self._body_size > self._exchange.limits.max_response_bytes:
            raise TooLargeError("max_response_bytes", self._exchange.limits.max_response_bytes)
        body.append(data)


def _run_of(delta: EventOrRun, bodies: list[bytes], text: str) -> EventOrRun:
    """Return a delta as the run of its pieces; one that was repaired stays as it is."""
    whole = delta_text(delta)
    if not isinstance(delta, TextDelta | ReasoningDelta | ArgsDelta):
        return delta
    if whole.endswith(text):
        if len(whole) > len(text):  # a comma waited
            bodies[0] = encode(whole[: -len(text)])[1:-1] + bodies[0]
        return DeltaRun(delta.index, bodies, delta)
    if not text.startswith(whole):
        return delta
    # What is not JSON waits for the end.
    ends = accumulate(map(len, inner_texts(bodies)), initial=0)
    pieces = [whole[start:end] for start, end in pairwise(ends) if start < len(whole)]
    if len(pieces) < 2:
        return delta
    return DeltaRun(delta.index, [encode(one)[1:-1] for one in pieces], delta)


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
    """Raise for bytes that are not UTF-8, which a lenient reader repairs."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise NotJsonError(f"not valid UTF-8: {error.reason} at byte {error.start}") from None


def read_answer(frames: FrameReader, body: bytes) -> bool:
    """Read a complete answer into the assembler; one that cannot be read becomes a fault.

    Returns whether it was JSON at all.
    """
    if not body or body.isspace():
        frames.assembler.fault(empty_answer())
        return True
    try:
        frames.read_body(valid_utf8(body))
    except MalformedError as error:
        message = f"upstream answer cannot be read: {error}: {excerpt(body)}"
        fault = Fault(FaultKind.UPSTREAM_BAD, message, code="upstream_malformed")
        frames.assembler.fault(html_fault(0, body) or fault)
        return not isinstance(error, NotJsonError)
    return True


def empty_answer() -> Fault:
    """Return the fault of a response without any content: no bytes, comments alone, or `[DONE]` alone."""
    message = "the upstream's response is empty"
    return Fault(FaultKind.UPSTREAM_BAD, message, code="upstream_empty")


def nameless_call() -> Fault:
    """Return the fault of a call that never gets a name: the client could not run it."""
    message = "the upstream sent a tool call without a name"
    return Fault(FaultKind.UPSTREAM_BAD, message, code="call_without_name")


def truncated(inside: str = "") -> Fault:
    """Return the fault of a stream that ended before it was finished."""
    tail = f" inside {inside}" if inside else ""
    return Fault(
        FaultKind.UPSTREAM_BAD,
        f"upstream stream terminated unexpectedly{tail}",
        code=TRUNCATED,
    )
