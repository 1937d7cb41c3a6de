"""Translates answers, streamed or complete, from an upstream's dialect into a client's.

    translator = Translator(source="chat", target="anthropic")
    out = translator.feed(data)      # any chunking
    out = translator.close()         # end of input

Pure: ids, time and keys come in as arguments.  Every failure of a peer, and even one of this package, leaves
as an ending of the client's dialect, never as a broken stream.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypeAlias, Unpack

from msgspec import Struct, structs

from dragoman.context import Exchange
from dragoman.dialects import dialect
from dragoman.dialects.dialect import Dialect
from dragoman.dialects.framing import StreamReader, Unit
from dragoman.dialects.server_tools import uses_host_fields
from dragoman.errors import IllegalOrderError, MisuseError, PeerError, TooLargeError
from dragoman.exchange_setup import (
    ExchangeOptions,
    answer_stages,
    findings_of,
    make_exchange,
    read_whole,
)
from dragoman.passthrough import Relay, find_change
from dragoman.profiles import for_model
from dragoman.profiles.profile import Profile
from dragoman.toolcalls.detection import bare_name
from dragoman.toolcalls.findings import NativeFinding
from dragoman.toolcalls.format import Format
from dragoman.turn.answer import Answer, fold
from dragoman.turn.continuation import Continuation
from dragoman.turn.events import (
    CALL_KINDS,
    ArgsDelta,
    BlockStart,
    DeltaRun,
    EventOrRun,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    Ping,
    ReasoningDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.stages import (
    Stage,
    check_call_count,
    fault_of,
)

Watcher: TypeAlias = Callable[[Exchange], Stage]

_NOTED: Final = frozenset({BlockStart, Finish, Fault, Usage, Loss})
_PLAIN_TEXT: Final = frozenset({TextDelta, DeltaRun})
_DELTAS: Final = _PLAIN_TEXT | {ReasoningDelta, ArgsDelta}
# Events that may come before the first content of an answer, or alone in a failed one.
PRELUDE: Final = frozenset({Start, Ping, Loss, Usage, Fault})
_WORDLESS: Final = PRELUDE | {Finish}


class TranslatedBody(Struct, frozen=True):
    """An upstream's complete answer in a client's dialect.

    Attributes:
        body: The body for the client.
        answer: The same answer, as a value.
        status: The HTTP status for the client: 200, or that of the error that the upstream sent.
        losses: What was not carried over unchanged.
        reasoning_field: Chat: where the upstream put its reasoning, if it gave any.
        given: Ids that the client may name later; collected with `notes_ids` only.
        findings: The tool calls that were found in text, and the problems with them.
        paused: With `pause="return"`: what the upstream sent before it paused.  There is no body then.
    """

    body: bytes
    answer: Answer
    status: int = 200
    losses: tuple[Loss, ...] = ()
    reasoning_field: str = ""  # Chat: where the upstream put its reasoning, if it gave any
    given: frozenset[str] = frozenset()  # ids that the client may name later
    findings: Sequence[NativeFinding] = ()
    paused: Answer | None = None


class Translator:
    """Translate one streamed answer.

    Feed it the upstream's bytes in chunks of any size, forward what it returns, and call `close` at the end.  A failure
    of the upstream never raises: the client gets an error in its dialect, and `outcome` is a `Fault`.  It holds
    only what waits for its end (an event, a parallel call, a marker) and, for a Responses client, the answer so far, which
    the last event repeats; `limits` bounds both.

    Args:
        source: The upstream's dialect.
        target: The client's dialect.
        model: The upstream's name of the model; `native_format="auto"` chooses by it.
        native_format: The format of tool calls that the model may write as text: a family's name, a `Format`, `auto`, or
            `none`.
        stop: Stop sequences to match here, because the upstream cannot.
        watchers: Functions that make stages which see every event that the client gets, and change none.  They are for
            the gateway: what they are given (`Exchange`, and `DeltaRun` among the events) is not public and may change.
        continues: Do not end an answer that its upstream pauses: see `paused`, `resume` and `give_up`.
        **options: What is known of the exchange; see `ExchangeOptions`.

    Attributes:
        outcome: How the answer ended: a `Finish`, or a `Fault` if it failed.  None while it goes on.
        usage: The last token counts, which replace all earlier ones; None if there were none yet.  `spent` also has an
            estimate for an answer that ended early.
        losses: What was dropped or repaired so far.  Complete once the answer has ended: what the writer could not express
            is added then.
        calls: Names of the tools that the client was shown calls of so far, one for each call.  `Limits.max_calls`
            bounds them; an answer with more fails.
        findings: The tool calls that were found in text so far, and the problems with them, each a `NativeFinding`.
            Empty if no format applies.  The same list grows with the answer.
        begun: Content, or a proper end, was written for the client.  Until then a failed request can be repeated
            without the client noticing.

    Raises:
        ConfigError: There is no such dialect, profile or format.

    Example:
        translator = Translator(source="chat", target="anthropic", model="kimi-k2")
        for chunk in upstream:
            client.write(translator.feed(chunk))
        client.write(translator.close())
    """

    def __init__(  # noqa: PLR0913 -- where from, where to, and how
        self,
        *,
        source: str,
        target: str,
        model: str = "",
        native_format: Format | str = "auto",
        stop: Sequence[str] = (),
        watchers: Sequence[Watcher] = (),
        continues: bool = False,
        **options: Unpack[ExchangeOptions],
    ) -> None:
        from_dialect, to_dialect = dialect(source), dialect(target)
        exchange = make_exchange(
            source=from_dialect, target=to_dialect, continues=continues, **options
        )
        tools = options.get("tools")
        self.begun: bool = False
        self._wrote_content = False  # content was written
        self.calls: list[str] = []
        self.losses: list[Loss] = []
        self.outcome: Finish | Fault | None = None
        self.usage: Usage | None = None
        self._relay: Relay | None = None
        self._last_word = to_dialect.last_word
        self._readable_frames = to_dialect.readable_frames  # of what a relay forwards
        # Frames of the upstream are events: they cannot pass into a list.
        self._continuation = None
        if continues:
            self._continuation = Continuation(keeps_answer=not from_dialect.continues_by_token)
        same = source == target and not _uses_host_fields(exchange, source, model)
        if same and exchange.rendering.framing == "sse" and not continues:
            self._relay = Relay(
                resumes=from_dialect.independent_frames,
                ids=exchange.call_ids,
                functions_only=_functions_only(exchange.profile),
            )
        self._frames = from_dialect.frame_reader(exchange)
        relays = self._relay is not None
        self._reader = StreamReader(
            self._frames,
            exchange,
            keep_raw=relays,
            look=_id_search(from_dialect, exchange) if relays and exchange.notes_ids else None,
        )
        self._stages: list[Stage] = answer_stages(exchange, tools, stop, model, native_format)
        if self._continuation is not None:
            self._stages.insert(0, self._continuation)
        self._source = from_dialect
        self.findings: Sequence[NativeFinding] = findings_of(self._stages)
        self._watchers: list[Stage] = [watcher(exchange) for watcher in watchers]
        self._text_watchers = [one for one in self._watchers if getattr(one, "sees_text", True)]
        self._writer = to_dialect.writer(exchange)
        self._send = self._writer.send
        self._limits = exchange.limits
        self._exchange = exchange
        self._closed = False

    @property
    def reasoning_field(self) -> str:
        """Chat: the field in which the upstream gave its reasoning, if it gave any."""
        return self._frames.reasoning_field

    @property
    def spent(self) -> Usage:
        """The counts of the answer; of one that has not ended properly, what was generated so far."""
        if self.usage is not None and self.usage.final:
            return self.usage
        present = self._frames.assembler.usage_so_far()
        return present if self._continuation is None else self._continuation.spent(present)

    @property
    def response(self) -> bytes:
        """The complete response object that the client received, in a dialect whose servers store responses."""
        return self._writer.response

    @property
    def paused(self) -> Answer | None:
        """What the upstream sent before it paused; None if it did not.

        With `continues` only.  The caller sends the request that `Dialect.continue_request` makes of it, calls
        `resume` when the response begins and goes on feeding, or ends the answer with `give_up` or `fail`.
        """
        return None if self._continuation is None else self._continuation.paused

    @property
    def failure(self) -> Fault | None:
        """Why the present response failed, if the client got nothing of it and the caller may repeat the request.

        The answer of a translator that was never paused has failed with it; after a pause the client has not seen it.
        """
        if self._continuation is not None and self._continuation.failure is not None:
            return self._continuation.failure
        return self.outcome if not self.begun and isinstance(self.outcome, Fault) else None

    @property
    def repeatable(self) -> bool:
        """True if nothing of the present response was written, so the caller may repeat the request."""
        return not self.begun or (self._continuation is not None and self._continuation.waits)

    @property
    def halted(self) -> bool:
        """True if the rest of the present response is not needed: the answer ended, or waits for another response."""
        if self.outcome is not None:
            return True
        return self._continuation is not None and self._continuation.halted

    def resume(self) -> None:
        """Expect the response to the request that continues a paused answer; again, if that failed before content."""
        if self._continuation is None or not self._continuation.waits:
            raise MisuseError("resume of an answer that is not paused")
        self._continuation.resume()
        self._frames = self._source.frame_reader(self._exchange)
        self._reader = StreamReader(self._frames, self._exchange)
        self._closed = False

    def give_up(self) -> bytes:
        """End a paused answer as it is, and return its end for the client."""
        if self._continuation is None or not self._continuation.waits:
            raise MisuseError("end of an answer that is not paused")
        return self._end_paused(self._continuation.give_up())

    def _end_paused(self, events: list[EventOrRun]) -> bytes:
        """Return the end of an answer that is not continued."""
        for stage in (*self._stages[1:], *self._watchers):
            events = stage.feed(events)
        return self._render(events)

    def take_given(self) -> set[str]:
        """Return the ids that the client may name later and was given since the last call."""
        given = self._exchange.given
        taken = set(given)
        given.clear()
        return taken

    @property
    def done(self) -> bool:
        """True once the answer has ended; you can stop reading from the upstream."""
        return self.outcome is not None

    @property
    def empty(self) -> bool:
        """True if the answer came to its normal end without any content."""
        ended = self.outcome
        return (
            not self._wrote_content
            and isinstance(ended, Finish)
            and ended.reason is FinishReason.STOP
        )

    @property
    def held(self) -> int:
        """How many bytes wait for the end of their event, or of a body that came instead of a stream.

        The `feed` or `close` that ends them processes all of them at once: a caller may run that in a thread.
        """
        return self._reader.held

    def feed(self, data: bytes, /) -> bytes:
        """Translate bytes of the upstream, and return bytes for the client.

        Args:
            data: The next bytes of the body, decompressed, in a chunk of any size.  After the answer's end they are
                ignored.

        Raises:
            MisuseError: `close` was called before.  Nothing that the upstream sends raises.
        """
        if self._closed:
            raise MisuseError("feed after close")
        if self.outcome is not None:
            return b""
        if self._relay is not None:
            return self._readable_frames(self._relay_read(self._relay, data))
        try:
            events = self._reader.feed(data)
        except PeerError as error:
            events = self._reader.fail(fault_of(error))
        return self._render(self._through_stages(events))

    def close(self) -> bytes:
        """End the input: return what was held back, and the end of the answer or an error for the client."""
        if self._closed:
            raise MisuseError("close after close")
        self._closed = True
        if self.outcome is not None:
            return b""
        if self._relay is not None:
            out = self._readable_frames(self._relay_read(self._relay, None))
            return out + self._missing_end(self._relay, out)
        try:
            events = self._reader.close()
        except PeerError as error:
            events = self._reader.fail(fault_of(error))
        return self._render(self._through_stages(events))

    def fail(self, fault: Fault) -> bytes:
        """End the answer with a failure that the caller detected (a timeout, a lost connection).

        Returns what was held back and an error in the client's dialect, or nothing if the answer has ended already.

        Args:
            fault: What happened.  Its `message` is shown to the client as it is: it must contain no secret.
        """
        if self.outcome is not None:
            return b""
        if self._continuation is not None and self._continuation.waits:
            return self._end_paused(self._continuation.fail(fault))
        events = self._reader.fail(fault)
        if self._relay is None:
            return self._render(self._through_stages(events))
        self._relay.note_own_failure()
        return self._pass(self._relay, Unit(b"", events), self._through_stages(events))

    # --- within one dialect ------------------------------------------------------------------------

    def _relay_read(self, relay: Relay, data: bytes | None) -> bytes:
        """Forward the frames that need no change; without `data`, those that are left at the end."""
        reader = self._reader
        try:
            units = reader.close_units() if data is None else reader.feed_units(data)
            if len(units) == 1:
                return self._relay_unit(relay, units[0])
            return b"".join([self._relay_unit(relay, unit) for unit in units])
        except PeerError as error:
            out = [self._relay_unit(relay, unit) for unit in reader.take_units()]
            return b"".join([*out, self.fail(fault_of(error))])

    def _relay_unit(self, relay: Relay, unit: Unit) -> bytes:
        events = unit.events
        if self.outcome is not None:
            return self._after_end(relay, unit.raw)
        after = self._through_stages(events)
        if after != events:
            return self._relay_parts(relay, unit, after)
        alone = len(events) == 1 and not (unit.steps or unit.waited)  # one frame, one event
        if alone and type(events[0]) in _DELTAS and relay.calm:
            self._writer.skip(events[0])  # as nearly always, while a model writes
            return unit.raw
        return unit.raw if self._forward(relay, unit) else self._relay_parts(relay, unit, after)

    def _forward(self, relay: Relay, unit: Unit) -> bool:
        """Count frames as sent whose events no stage has changed; return whether the relay forwards them."""
        events = unit.events
        noted = [event for event in events if type(event) in _NOTED]
        if not relay.forwards(noted):
            return False
        begun = self.begun
        if not begun:
            self._begin(events)
        for event in noted:
            self._note(event)
        if self.outcome is None:
            self._follow(unit, begun=begun)
        else:
            self._writer.passed(unit.last)
        return True

    def _follow(self, unit: Unit, *, begun: bool) -> None:
        """Show the writer the frames that are forwarded, because it may have to continue after them."""
        writer = self._writer
        for part in unit.parts():
            events = part.events
            adds = bool(events) and type(events[0]) in _DELTAS
            if adds and len(events) == 1 and not part.waited:
                writer.skip(events[0])
                continue
            writer.expect(part.raw, resume=True)
            if not begun:
                writer.adopt(part.raw)
                begun = any(type(event) not in PRELUDE for event in events)
            for event in events:
                if adds:
                    writer.skip(event)
                else:
                    writer.send(event)
            writer.passed(part.raw)

    def _relay_parts(self, relay: Relay, unit: Unit, after: list[EventOrRun]) -> bytes:
        """Forward what can be forwarded of frames that the relay does not forward together."""
        pending = any(stage.pending for stage in self._stages)
        if not unit.steps and unit.template is None:
            return self._pass(relay, unit, after, pending=pending)
        change = find_change(unit.parts(), after, waits=relay.waits)
        out = [self._relay_part(relay, part) for part in change.head]
        if change.frames.raw or change.events or relay.waits:
            out.append(self._pass(relay, change.frames, change.events, pending=pending))
        out += [self._relay_part(relay, part, pending=pending) for part in change.tail]
        return b"".join(out)

    def _relay_part(self, relay: Relay, part: Unit, *, pending: bool = False) -> bytes:
        """Forward a frame whose events no stage has changed."""
        if self.outcome is None and self._forward(relay, part):
            return part.raw
        return self._pass(relay, part, part.events, pending=pending)

    def _missing_end(self, relay: Relay, out: bytes) -> bytes:
        """Return the last frame that the peer left out although it reported the finish of its answer."""
        if not isinstance(self.outcome, Finish) or not relay.follows or not self._last_word:
            return b""
        if not out or out.endswith((b"\n\n", b"\r\n\r\n", b"\r\r")):
            return self._last_word
        return (b"\n" if out.endswith((b"\n", b"\r")) else b"\n\n") + self._last_word

    def _pass(
        self, relay: Relay, unit: Unit, after: list[EventOrRun], *, pending: bool = False
    ) -> bytes:
        """Let the relay choose between frames and what the writer makes of their events."""
        raw, before = unit.raw, unit.events
        if self.outcome is not None:
            return self._after_end(relay, raw)
        if relay.follows:
            self._writer.expect(unit.first, resume=not relay.waits)
        if not self.begun:
            self._writer.adopt(unit.first)
        ends = _is_own_end(before, after)
        written = self._render(after[:-1] if ends else after)
        if ends:
            self._writer.adopt(unit.last)  # what it adds belongs to the end alone
            written += self._render(after[-1:])
        pending = pending and self.outcome is None
        out = relay.choose(raw, before, after, written, pending=pending)
        if relay.passed:
            self._writer.passed(out)
        elif self.done:
            self.losses += self._writer.losses  # of what it has written
        return out

    def _after_end(self, relay: Relay, raw: bytes) -> bytes:
        """Return what to forward of frames behind the end: only `[DONE]` behind a failure."""
        if isinstance(self.outcome, Finish):
            return b""
        return relay.after_failure(raw, self._last_word)

    def _through_stages(self, events: list[EventOrRun]) -> list[EventOrRun]:
        for stage in self._stages:
            events = stage.feed(events)
        is_text = len(events) == 1 and type(events[0]) in _PLAIN_TEXT
        for watcher in self._text_watchers if is_text else self._watchers:
            events = watcher.feed(events)
        return events

    def _render(self, events: list[EventOrRun]) -> bytes:
        send = self._send
        out: list[bytes] = []
        if not self.begun:
            self._begin(events)
        try:
            for event in events:
                if type(event) in _NOTED:
                    self._note(event)
                out.append(send(event))
        except IllegalOrderError as error:
            # Our own mistake: the client gets an error in its own dialect, and the stream ends.
            if self.outcome is not None:
                return b"".join(out)  # it has ended already
            fault = Fault(FaultKind.GATEWAY, f"gateway error: {error}", code="gateway_error")
            self.outcome = fault
            out.append(send(fault))
        except TooLargeError as error:
            self.outcome = fault = fault_of(error)
            out.append(send(fault))
        return out[0] if len(out) == 1 else b"".join(filter(None, out))  # no copy of a lone piece

    def _begin(self, events: Iterable[EventOrRun]) -> None:
        """Look whether the answer begins with these events."""
        self.begun = any(type(event) not in PRELUDE for event in events)
        self._wrote_content = any(type(event) not in _WORDLESS for event in events)

    def _note(self, event: EventOrRun) -> None:
        if isinstance(event, BlockStart):
            if event.kind in CALL_KINDS:
                check_call_count(len(self.calls) + 1, self._limits)
                self.calls.append(event.name)
        elif isinstance(event, Loss):
            self.losses.append(event)
        elif isinstance(event, Usage):
            self.usage = event
        elif isinstance(event, Finish | Fault):
            self.outcome = event
            if self._relay is None:
                self.losses += self._writer.losses


def _is_own_end(before: Sequence[EventOrRun], after: Sequence[EventOrRun]) -> bool:
    """Return whether an answer ends where its upstream ended it, not at a stop sequence that was found here."""
    theirs, ours = before[-1] if before else None, after[-1] if after else None
    if not isinstance(theirs, Finish) or not isinstance(ours, Finish):
        return False
    return ours.stop_sequence in (None, theirs.stop_sequence)


def translate_body(  # noqa: PLR0913 -- where from, where to, and how
    body: bytes,
    *,
    source: str,
    target: str,
    model: str = "",
    native_format: Format | str = "auto",
    stop: Sequence[str] = (),
    watchers: Sequence[Watcher] = (),
    earlier: Sequence[bytes] = (),
    pause: Literal["forward", "return", "end"] = "forward",
    request_id: str = "",
    **options: Unpack[ExchangeOptions],
) -> TranslatedBody:
    """Turn an upstream's complete answer into one for a client.

    An upstream that streams although none was requested is read too.  An error in the answer becomes the
    client's error body and its status.

    Args:
        body: The upstream's body.
        source: The upstream's dialect.
        target: The client's dialect.
        model: The upstream's name of the model; `native_format="auto"` chooses by it.
        native_format: The format of tool calls that the model may write as text: a family's name, a `Format`, `auto`, or
            `none`.
        stop: Stop sequences to match here, because the upstream cannot.
        watchers: Make stages that see all events and change none; see `Translator`.
        earlier: Bodies of answers that the upstream paused, which this one continues: the client gets one answer.
        pause: What happens if the upstream pauses the answer.  `forward`: the client learns of it and continues the answer
            itself.  `return`: nothing is translated, and the result has `paused`.  `end`: the answer ends there.
        request_id: An id to put into an error body.
        **options: What is known of the exchange; see `ExchangeOptions`.
    """
    spoken, to = dialect(source), dialect(target)
    continues = bool(earlier) or pause != "forward"
    exchange = make_exchange(source=spoken, target=to, body=body, continues=continues, **options)
    tools = options.get("tools")
    frames = spoken.frame_reader(exchange)
    before = read_whole(body, frames, exchange)
    events = before
    stages = answer_stages(exchange, tools, stop, model, native_format)
    if continues:
        parts = [read_whole(one, spoken.frame_reader(exchange), exchange) for one in earlier]
        continuation = Continuation()
        events = _joined(continuation, [*parts, before])
        if pause == "return" and continuation.paused is not None:
            so_far = structs.replace(continuation.paused, usage=continuation.spent(Usage()))
            return TranslatedBody(b"", so_far, paused=continuation.paused)
        if pause == "end" and continuation.paused is not None:
            events += continuation.give_up()
    for stage in (*stages, *(watcher(exchange) for watcher in watchers)):
        events = stage.feed(events)
    answer = fold(events)
    findings = findings_of(stages)
    try:
        check_call_count(len(answer.call_blocks), exchange.limits)
    except TooLargeError as error:
        answer = structs.replace(answer, finish=None, fault=fault_of(error))
    if answer.fault is not None:
        status, fault_body = to.encode_fault(answer.fault, request_id)
        return TranslatedBody(fault_body, answer, status, answer.losses, findings=findings)
    unchanged = False
    if source == target and body[:1] == b"{" and not _uses_host_fields(exchange, source, model):
        functions_only = _functions_only(exchange.profile)
        relay = Relay(resumes=False, ids=exchange.call_ids, functions_only=functions_only)
        if exchange.notes_ids:
            exchange.given.update(to.given_ids(body))
        unchanged = relay.is_unchanged(before, events)
    not_written: list[Loss] = []
    return TranslatedBody(
        body if unchanged else to.encode_body(answer, exchange, not_written),
        answer,
        200,
        (*answer.losses, *not_written),
        frames.reasoning_field,
        frozenset(exchange.given) if exchange.notes_ids else frozenset(),
        findings,
    )


def _joined(continuation: Continuation, parts: Sequence[list[EventOrRun]]) -> list[EventOrRun]:
    """Return the events of paused answers and of the one that continues them, as one answer."""
    out: list[EventOrRun] = []
    for part in parts:
        if continuation.halted:
            continuation.resume()
        out += continuation.feed(part)
    return out if continuation.failure is None else out + continuation.fail(continuation.failure)


def _id_search(source: Dialect, exchange: Exchange) -> Callable[[bytes], None]:
    """Return what collects the ids that an event of a relayed stream gives."""
    may_give, given_ids, given = source.may_give, source.given_ids, exchange.given

    def look(event: bytes) -> None:
        if may_give(event):
            given.update(given_ids(event))

    return look


def _uses_host_fields(exchange: Exchange, source: str, model: str) -> bool:
    """Return whether the client could not read what the upstream shows of its vendor-run tools."""
    request = exchange.request
    upstream = dialect(source)
    if request is None or not upstream.host_fields or not request.tools:
        return False
    return uses_host_fields(
        request, upstream, for_model(exchange.profile, bare_name(model), None, source)
    )


def _functions_only(profile: Profile) -> bool:
    """Return whether the upstream gets every tool as a function."""
    return not (profile.supports_custom_tools or profile.vendor_tools)


def translate_error(
    status: int, body: bytes, *, source: str, target: str, request_id: str = ""
) -> tuple[int, bytes]:
    """Turn an upstream's error response into the client's: its status and body.

    Args:
        status: The upstream's HTTP status.
        body: The upstream's body, in any shape.
        source: The upstream's dialect.
        target: The client's dialect.
        request_id: An id to put into the body, where the dialect has a place for it.
    """
    fault = dialect(source).decode_fault(status, body)
    return dialect(target).encode_fault(fault, request_id)
