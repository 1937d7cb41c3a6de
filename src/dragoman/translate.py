"""The front door of the core: requests, answers and streams from one dialect into another.

    translator = Translator(source="chat", target="anthropic")
    out = translator.feed(data)      # any chunking
    out = translator.close()         # end of input

Pure: ids, time and keys come in as arguments.  Every failure of a peer, and even one of our own, leaves
as an ending of the client's dialect, never as a broken stream.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypedDict, Unpack

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects import dialect
from dragoman.dialects.decoding import decode
from dragoman.dialects.dialect import Dialect
from dragoman.dialects.stream import StreamReader, Unit, read_answer
from dragoman.errors import DragomanError, IllegalOrder, Malformed, MisuseError, PeerError, TooLarge
from dragoman.exchange import Exchange, Rendering, Target
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.opaque import PREFIX, Sealer
from dragoman.profiles import profile as find_profile
from dragoman.profiles.profile import Profile
from dragoman.relay import Relay
from dragoman.toolcalls.selection import stages as native_stages
from dragoman.toolcalls.stage import Stage
from dragoman.turn.estimate import estimate_tokens
from dragoman.turn.events import (
    Event,
    Fault,
    FaultKind,
    Finish,
    ReasoningDelta,
    TextDelta,
    Usage,
)
from dragoman.turn.fold import Answer, fold
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request, Tool
from dragoman.turn.stops import StopSequences
from dragoman.turn.tools import ToolTable

_NOTED: Final = frozenset({Finish, Fault, Usage, Loss})
_TEXT: Final = frozenset({TextDelta, ReasoningDelta})
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_TOOLS: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])


class _Outline(Struct):
    """What must be known of a request that is passed on unread."""

    model: str
    stream: bool = False


_OUTLINE: Final = msgspec.json.Decoder(_Outline)
# Refusals that concern what a vendor may well understand, though nobody else does.
_VENDORS_OWN: Final = frozenset(
    {"unsupported_content_block", "unsupported_parameter", "item_not_found"}
)


class TranslatedRequest(Struct, frozen=True):
    """A client's request in an upstream's dialect."""

    body: bytes
    request: Request  # what the client meant
    losses: tuple[Loss, ...] = ()
    stop: tuple[str, ...] = ()  # for `Translator(stop=…)`: what the upstream cannot match itself


class TranslatedBody(Struct, frozen=True):
    """An upstream's complete answer in a client's dialect."""

    body: bytes
    answer: Answer
    status: int = 200  # of an error, if the answer is one
    losses: tuple[Loss, ...] = ()


class ExchangeOptions(TypedDict, total=False):
    """What a caller may know of an exchange; each has a sensible default."""

    profile: Profile | str  # of the upstream; a name or a `Profile`; default `generic`
    request: (
        Request | None
    )  # the client's: tells custom tools, renamed tools and ids of the history
    tools: Sequence[Tool]  # its tools, if the request is not at hand
    seed: str  # what ids are derived from; without one the upstream's id is used
    created: int  # Unix seconds; without it what the upstream said
    sealer: Sealer | None  # without one foreign reasoning state is not carried
    input_estimate: int | None  # tokens of the request; without it estimated from the request
    strict: bool  # a malformed event is a failure instead of a loss
    rendering: Rendering | None
    limits: Limits


def make_exchange(*, keep_identity: bool = False, **options: Unpack[ExchangeOptions]) -> Exchange:
    """Put together what is known of an exchange; what is not given follows from the request."""
    profile = options.get("profile", "generic")
    request = options.get("request")
    tools = tuple(options.get("tools", ())) if request is None else request.tools
    input_estimate = options.get("input_estimate")
    if input_estimate is None:
        input_estimate = 0 if request is None else estimate_tokens(request)
    return Exchange(
        profile=find_profile(profile) if isinstance(profile, str) else profile,
        request=request,
        tools=ToolTable.of(tools),
        model="" if request is None else request.model,
        keep_identity=keep_identity,
        seed=options.get("seed", ""),
        created=options.get("created", 0),
        sealer=options.get("sealer"),
        input_estimate=input_estimate,
        strict=options.get("strict", False),
        rendering=options.get("rendering") or Rendering(),
        limits=options.get("limits", DEFAULT_LIMITS),
    )


class Translator:
    """Translate one streamed answer.

    `model` is the upstream's id of the model, and `native_format` the family of tool calls that it may
    write as text: a family's key, `auto` for what the model is known to write, or `none`.  `stop` are stop
    sequences to match here.  For the rest see `ExchangeOptions`.
    """

    def __init__(
        self,
        *,
        source: str,
        target: str,
        model: str = "",
        native_format: str = "auto",
        stop: Sequence[str] = (),
        **options: Unpack[ExchangeOptions],
    ) -> None:
        exchange = make_exchange(keep_identity=source == target, **options)
        request, tools = exchange.request, options.get("tools", ())
        from_dialect, to_dialect = dialect(source), dialect(target)
        self.losses: list[Loss] = []  # what was not carried, or mended, so far
        self.outcome: Finish | Fault | None = None  # how the answer ended
        self.usage: Usage | None = None  # the last counts
        self._relay: Relay | None = None
        if source == target:
            used = frozenset() if request is None else request.call_ids
            self._relay = Relay(resumes=from_dialect.frames_stand_alone, used_ids=used)
        self._reader = StreamReader(
            from_dialect.frame_reader(exchange), exchange, keep_raw=self._relay is not None
        )
        self._stages: list[Stage] = _stages(exchange, tools, stop, model, native_format)
        self._writer = to_dialect.writer(exchange)
        self._send = self._writer.send
        self._closed = False

    @property
    def done(self) -> bool:
        """The answer has ended: what still comes from the upstream is of no use."""
        return self.outcome is not None

    def feed(self, data: bytes, /) -> bytes:
        """Take bytes of the upstream and return bytes for the client."""
        if self._closed:
            raise MisuseError("feed after close")
        if self.outcome is not None:
            return b""
        if self._relay is not None:
            return self._relay_units(self._relay, self._reader.feed_units(data))
        try:
            events = self._reader.feed(data)
        except PeerError as error:
            return self.fail(fault_of(error))
        return self._write(events)

    def close(self) -> bytes:
        """End of the upstream's stream: return what was held back and how it ended."""
        if self._closed:
            raise MisuseError("close after close")
        self._closed = True
        if self.outcome is not None:
            return b""
        if self._relay is not None:
            return self._relay_units(self._relay, self._reader.close_units())
        try:
            events = self._reader.close()
        except PeerError as error:
            return self.fail(fault_of(error))
        return self._write(events)

    def fail(self, fault: Fault) -> bytes:
        """End the answer with a failure that the shell found (a timeout, a lost connection)."""
        if self.outcome is not None:
            return b""
        events = self._reader.fail(fault)
        if self._relay is None:
            return self._write(events)
        self._relay.spoil()
        return self._pass(self._relay, b"", events)

    def _relay_units(self, relay: Relay, units: Iterable[Unit]) -> bytes:
        """Pass on what needs no change."""
        out: list[bytes] = []
        stages, send = self._stages, self._send
        try:
            for unit in units:
                events = unit.events
                if (
                    len(events) == 1
                    and type(event := events[0]) in _TEXT
                    and relay.calm
                    and all(stage.passes(event) for stage in stages)
                ):
                    send(event)  # the writer must know, should it take over
                    out.append(unit.raw)
                else:
                    out.append(self._pass(relay, unit.raw, events))
        except PeerError as error:
            out.append(self.fail(fault_of(error)))
        return b"".join(out)

    def _pass(self, relay: Relay, raw: bytes, events: list[Event]) -> bytes:
        """Relay one unit of a same-dialect stream."""
        if self.outcome is not None:
            # `[DONE]` and whatever else follows the end passes; a mended stream has its own.
            return relay.after_end(raw)
        after = self._through_stages(events)
        written = self._render(after)
        pending = any(stage.pending for stage in self._stages) and self.outcome is None
        return relay.choose(raw, events, after, written, pending=pending)

    def _write(self, events: list[Event]) -> bytes:
        return self._render(self._through_stages(events))

    def _through_stages(self, events: list[Event]) -> list[Event]:
        for stage in self._stages:
            events = stage.feed(events)
        return events

    def _render(self, events: list[Event]) -> bytes:
        send = self._send
        out: list[bytes] = []
        try:
            for event in events:
                if type(event) in _NOTED:
                    self._note(event)
                out.append(send(event))
        except IllegalOrder as error:
            # Our own mistake: the client is told in its own dialect, and the stream ends.
            if self.outcome is not None:
                return b"".join(out)  # it has ended already
            fault = Fault(FaultKind.GATEWAY, f"gateway error: {error}", code="gateway_error")
            self.outcome = fault
            out.append(send(fault))
        return b"".join(out)

    def _note(self, event: Event) -> None:
        if isinstance(event, Loss):
            self.losses.append(event)
        elif isinstance(event, Usage):
            self.usage = event
        elif isinstance(event, Finish | Fault):
            self.outcome = event
            self.losses += self._writer.losses


def translate_request(  # noqa: PLR0913 -- where from, where to, and how
    body: bytes,
    *,
    source: str,
    target: str,
    profile: Profile | str = "generic",
    model: str = "",
    strict: bool = False,
    repair_history: bool = False,
    prefill: str = "reject",
    sealer: Sealer | None = None,
    known_ids: Mapping[str, str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> TranslatedRequest:
    """Turn a client's request into one for an upstream; `model` is the upstream's name for the model.

    Raises:
        Malformed: the request is not of its dialect; carries the path.
        Untranslatable: the target cannot say what the request asks for; carries the path.
        TooLarge: it passes `max_request_bytes`.
    """
    if len(body) > limits.max_request_bytes:
        raise TooLarge("max_request_bytes", limits.max_request_bytes)
    request = _decode(body, source, target, sealer, limits)
    to = Target(
        profile=find_profile(profile) if isinstance(profile, str) else profile,
        model=model or request.model,
        strict=strict,
        repair_history=repair_history,
        prefill="continue" if prefill == "continue" else "reject",
        known_ids=dict(known_ids or {}),
        limits=limits,
    )
    if source == target:
        return _forward(body, request, dialect(target), to)
    encoded = dialect(target).encode_request(request, to)
    losses = request.losses + encoded.losses
    return TranslatedRequest(encoded.body, request, losses, encoded.stop)


def _decode(
    body: bytes, source: str, target: str, sealer: Sealer | None, limits: Limits
) -> Request:
    """Read a request; what only the vendor of its dialect understands may pass to that dialect."""
    from_dialect = dialect(source)
    try:
        return from_dialect.decode_request(body, sealer=sealer, limits=limits)
    except Malformed as error:
        if source != target or error.code not in _VENDORS_OWN or _has_minted(body):
            raise
        outline = decode(_OUTLINE, body)
        return Request(dialect=from_dialect.name, model=outline.model, stream=outline.stream)


def _has_minted(body: bytes) -> bool:
    """Say whether a request may hold ids or envelopes that were made here."""
    return PREFIX.encode() in body or b'"gx' in body or b'"gh-' in body


def _forward(body: bytes, request: Request, to: Dialect, target: Target) -> TranslatedRequest:
    """Keep the client's bytes; only the model, and what means nothing upstream, is written anew."""
    fields = decode(_FIELDS, body)
    profile = target.profile
    rewritten: list[str] = []
    if _has_minted(body) or profile.id_style in ("kimi", "mistral9") or profile.reasoning_filler:
        rewritten += to.history_fields
    if profile.schema_dialect != "any":
        rewritten.append("tools")
    losses = request.losses
    if rewritten:
        encoded = to.encode_request(request, target)
        losses += tuple(loss for loss in encoded.losses if _concerns(loss, rewritten))
        fresh = decode(_FIELDS, encoded.body)
        for name in rewritten:
            if name in fresh:
                fields[name] = fresh[name]
            else:
                fields.pop(name, None)
    elif target.model == request.model:
        return TranslatedRequest(body, request, losses)
    fields["model"] = Raw(msgspec.json.encode(target.model))
    return TranslatedRequest(msgspec.json.encode(fields), request, losses)


def _concerns(loss: Loss, fields: Sequence[str]) -> bool:
    """Say whether a loss lies in one of the top-level fields."""
    return any(loss.path.startswith(f"$.{name}") for name in fields)


def translate_body(  # noqa: PLR0913 -- where from, where to, and how
    body: bytes,
    *,
    source: str,
    target: str,
    model: str = "",
    native_format: str = "auto",
    stop: Sequence[str] = (),
    request_id: str = "",
    **options: Unpack[ExchangeOptions],
) -> TranslatedBody:
    """Turn an upstream's complete answer into one for a client.

    An answer that came as a stream although none was asked for is read as one.  An error in the answer
    gives the client's error body and its status.
    """
    exchange = make_exchange(keep_identity=source == target, **options)
    tools = options.get("tools", ())
    to = dialect(target)
    before = _read_whole(body, dialect(source), exchange)
    events = before
    for stage in _stages(exchange, tools, stop, model, native_format):
        events = stage.feed(events)
    answer = fold(events)
    if answer.fault is not None:
        status, fault_body = to.encode_fault(answer.fault, request_id)
        return TranslatedBody(fault_body, answer, status, answer.losses)
    if source == target and Relay(resumes=False).stands(before, events) and body[:1] == b"{":
        return TranslatedBody(body, answer, losses=answer.losses)
    return TranslatedBody(to.encode_body(answer, exchange), answer, losses=answer.losses)


def _read_whole(body: bytes, source: Dialect, exchange: Exchange) -> list[Event]:
    frames = source.frame_reader(exchange)
    try:
        if len(body) > exchange.limits.max_response_bytes:
            raise TooLarge("max_response_bytes", exchange.limits.max_response_bytes)
        if body.lstrip()[:1] in (b"{", b"["):
            read_answer(frames, body)
            return frames.assembler.take()
        reader = StreamReader(frames, exchange)
        return reader.feed(body) + reader.close()
    except PeerError as error:
        frames.assembler.fault(fault_of(error))
        return frames.assembler.take()


def translate_error(
    status: int, body: bytes, *, source: str, target: str, request_id: str = ""
) -> tuple[int, bytes]:
    """Turn an upstream's error answer into the client's: its status and body."""
    fault = dialect(source).decode_fault(status, body)
    return dialect(target).encode_fault(fault, request_id)


def refuse(error: DragomanError, *, target: str, request_id: str = "") -> tuple[int, bytes]:
    """Turn an error of ours about a client's request into that client's error answer."""
    return dialect(target).encode_fault(fault_of_request(error), request_id)


def fault_of(error: PeerError) -> Fault:
    """Return the fault for an upstream that broke its dialect or a limit."""
    code = error.limit if isinstance(error, TooLarge) else "upstream_malformed"
    return Fault(FaultKind.UPSTREAM_BAD, f"upstream answer refused: {error}", code=code)


def fault_of_request(error: DragomanError) -> Fault:
    """Return the fault for a client's request that cannot be served as it is."""
    path = getattr(error, "path", "")
    code = getattr(error, "code", "")
    if isinstance(error, TooLarge):
        return Fault(FaultKind.TOO_LARGE, str(error), status=413, code="request_too_large")
    kind = FaultKind.BAD_REQUEST if error.http_status == 400 else FaultKind.GATEWAY
    return Fault(kind, str(error), status=error.http_status, code=code, param=path)


def decode_tools(body: bytes) -> tuple[Tool, ...]:
    """Read a JSON list of tool definitions, each in the shape of any of the three dialects.

    Raises:
        Malformed: it is no list, or a definition fits no dialect.
    """
    tools: list[Tool] = []
    definitions = decode(_TOOLS, body)
    for index, raw in enumerate(definitions):
        tools += _decode_tool(bytes(raw), f"$[{index}]")
    return tuple(tools)


def _decode_tool(raw: bytes, path: str) -> tuple[Tool, ...]:
    keys = decode(_FIELDS, raw).keys()
    shapes: tuple[str, ...] = ("responses", "anthropic", "chat")
    if "input_schema" in keys:
        shapes = ("anthropic",)
    elif "function" in keys or "custom" in keys:
        shapes = ("chat",)
    reasons: list[str] = []
    for name in shapes:
        body = b'%b,"tools":[%b]}' % (_EMPTY_REQUEST[name], raw)
        try:
            return dialect(name).decode_request(body, sealer=None, limits=DEFAULT_LIMITS).tools
        except Malformed as error:
            reasons.append(f"{name}: {error}")
    raise Malformed(f"a tool definition that fits no dialect ({'; '.join(reasons)})", path=path)


_EMPTY_REQUEST: Final = {
    "chat": b'{"model":"m","messages":[]',
    "anthropic": b'{"model":"m","max_tokens":1,"messages":[]',
    "responses": b'{"model":"m","input":[]',
}


def _stages(
    exchange: Exchange, tools: Sequence[Tool], stop: Sequence[str], model: str, native_format: str
) -> list[Stage]:
    """Return the steps between reader and writer that this exchange needs."""
    stages: list[Stage] = [
        *native_stages(exchange, model=model, native_format=native_format, tools=tools)
    ]
    if stop:
        stages.append(StopSequences(stop, input_estimate=exchange.input_estimate))
    return stages
