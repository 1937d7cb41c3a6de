"""Events to a Responses stream, and to a complete response.

Text and refusal blocks that follow each other are parts of one message item, which is closed when
something else begins or the turn ends.  Every other block is an item of its own.
"""

from typing import Final

from msgspec import Raw

from dragoman.dialects.responses.answer import (
    INCOMPLETE,
    ResponseHead,
    annotation,
    encode,
    one_line,
)
from dragoman.dialects.responses.request import ResponsesRequest
from dragoman.dialects.responses.shells import BY_FLAVOR, content_of
from dragoman.dialects.sealing import seal
from dragoman.exchange import Exchange
from dragoman.ids import ClientIds
from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Channel,
    Citation,
    Event,
    Fault,
    Finish,
    Flavor,
    InputDelta,
    Opaque,
    OpaqueKind,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.fold import Answer, unfold
from dragoman.turn.loss import Loss
from dragoman.turn.state import Legality

# One line and no blank one: SDKs take a comment that ends with a blank line for an empty event.
_PING: Final = b": keep-alive\n"
_VENDOR: Final = "openai"
_PROSE: Final = frozenset({BlockKind.TEXT, BlockKind.REFUSAL})
_DELTA: Final = (
    b"event: response.output_text.delta\n"
    b'data: {"type":"response.output_text.delta","sequence_number":%%d,'
    b'"item_id":"%b","output_index":%d,"content_index":%d,"delta":%%b,"logprobs":%%b}\n\n'
)


class _Message:
    """The message item that is open."""

    def __init__(self, item_id: str, index: int) -> None:
        self.id = item_id
        self.index = index
        self.parts: list[bytes] = []  # those that are whole


class _Part:
    """The content part, or the part of a reasoning item, that is open."""

    def __init__(self, kind: str, index: int) -> None:
        self.kind = kind  # output_text, refusal, summary_text or reasoning_text
        self.index = index
        self.texts: list[str] = []
        self.annotations: list[bytes] = []
        self.logprobs: list[bytes] = []

    @property
    def text(self) -> str:
        return "".join(self.texts)


class _Reasoning:
    """The reasoning item that is open."""

    def __init__(self, item_id: str, index: int) -> None:
        self.id = item_id
        self.index = index
        self.key: tuple[Channel, int] | None = None  # of the segment that is open
        self.summary: list[str] = []  # parts that are whole
        self.content: list[str] = []
        self.texts: list[str] = []  # all segments, in order


class _Call:
    """The call that is open."""

    def __init__(self, start: BlockStart, call_id: str) -> None:
        self.start = start
        self.call_id = call_id
        self.announced = False  # its item was added
        self.item_id = ""
        self.texts: list[str] = []


class ResponsesWriter:
    """Write one answer."""

    def __init__(self, exchange: Exchange) -> None:
        self.losses: list[Loss] = []
        self.response = b""  # the last response object: the whole answer, once it has ended
        self._exchange = exchange
        self._legality = Legality()
        self._head: ResponseHead | None = None
        self._sequence = 0
        self._output: list[bytes] = []  # finished items
        self._message: _Message | None = None
        self._part: _Part | None = None
        self._reasoning: _Reasoning | None = None
        self._call: _Call | None = None
        self._opaque: list[Opaque] = []  # of the open block
        self._template = b""  # of the open text part's deltas
        self._usage: Usage | None = None
        request = exchange.request
        self._ids = ClientIds(request.call_ids if request is not None else ())
        self._encrypted = _wants_encrypted(exchange)

    def send(self, event: Event, /) -> bytes:
        """Return the bytes that tell `event`."""
        self._legality.check(event)
        match event:
            case TextDelta(text=text, logprobs=logprobs):
                return self._text(text, logprobs)
            case ArgsDelta(json=text) | InputDelta(text=text):
                return self._arguments(text)
            case ReasoningDelta(text=text, channel=channel, part=part):
                return self._reason(text, channel, part)
            case RefusalDelta(text=text):
                return self._refuse(text)
            case BlockStart():
                return self._open(event)
            case BlockEnd(complete=complete):
                return self._close(complete=complete)
            case Opaque():
                self._opaque.append(event)
                return b""
            case Citation():
                return self._cite(event)
            case Start():
                return self._start(event)
            case Usage():
                self._usage = event
                return b""
            case Finish():
                return self._finish(event)
            case Fault():
                return self._fail(event)
            case Ping():
                return _PING
            case Loss():
                return b""

    # --- the response ---------------------------------------------------------------------------

    def _start(self, start: Start) -> bytes:
        self._head = ResponseHead(self._exchange, start)
        response = b'"response":%b' % self._head.render(b"in_progress")
        return self._event("response.created", response) + self._event(
            "response.in_progress", response
        )

    def _finish(self, finish: Finish) -> bytes:
        assert self._head is not None  # noqa: S101 -- the legality table says so
        incomplete = INCOMPLETE.get(finish.reason, b"")
        out = self._close_message(cut=bool(incomplete))
        status = b"incomplete" if incomplete else b"completed"
        self.response = self._head.render(
            status, output=b",".join(self._output), usage=self._usage, incomplete=incomplete
        )
        return out + self._event(f"response.{status.decode()}", b'"response":%b' % self.response)

    def _fail(self, fault: Fault) -> bytes:
        out = b""
        if self._head is None:
            out = self._start(Start())
        assert self._head is not None  # noqa: S101 -- set by `_start`
        if self._part is None:
            out += self._close_message()
        self.response = self._head.render(
            b"failed", output=b",".join(self._output), usage=self._usage, fault=fault
        )
        return out + self._event("response.failed", b'"response":%b' % self.response)

    # --- blocks ---------------------------------------------------------------------------------

    def _open(self, start: BlockStart) -> bytes:
        self._opaque = []
        if start.kind in _PROSE:
            return self._open_part(start.kind)
        out = self._close_message()
        match start.kind:
            case BlockKind.REASONING:
                return out + self._open_reasoning()
            case BlockKind.TOOL_CALL | BlockKind.CUSTOM_CALL:
                # What signs the call comes first, so its item waits for the first of its arguments.
                self._call = _Call(start, self._ids.render(start.call_id))
            case _ if start.vendor == _VENDOR:
                return out + self._whole_item(one_line(start.raw))
            case _:
                self._lose("server_block_dropped", f"{start.vendor} {start.kind}")
        return out

    def _close(self, *, complete: bool) -> bytes:
        if self._call is not None:
            return self._close_call(complete=complete)
        if self._reasoning is not None:
            return self._close_reasoning()
        if self._part is not None:
            return self._close_part()
        return b""

    def _whole_item(self, item: bytes) -> bytes:
        return self._added(item) + self._done(item)

    # --- messages -------------------------------------------------------------------------------

    def _open_part(self, kind: BlockKind) -> bytes:
        out = b""
        if self._message is None:
            self._message = _Message(self._new_id("msg_"), len(self._output))
            out = self._added(_message(self._message.id, b"in_progress", b""))
        message = self._message
        word = "output_text"
        if kind is BlockKind.REFUSAL:
            if self._exchange.rendering.responses_refusal == "text":
                self._lose("refusal_as_text")
            else:
                word = "refusal"
        self._part = part = _Part(word, len(message.parts))
        self._template = _DELTA % (message.id.encode(), message.index, part.index)
        return out + self._event(
            "response.content_part.added", self._at_part() + b',"part":%b' % _part(part)
        )

    def _text(self, text: str, logprobs: Raw | None = None) -> bytes:
        part = self._part
        assert part is not None  # noqa: S101 -- the legality table says so
        part.texts.append(text)
        tokens = b"[]"
        if logprobs is not None:
            tokens = one_line(logprobs)
            part.logprobs.append(tokens.strip()[1:-1])
        out = self._template % (self._sequence, encode(text), tokens)
        self._sequence += 1
        return out

    def _refuse(self, text: str) -> bytes:
        part = self._part
        assert part is not None  # noqa: S101 -- the legality table says so
        if part.kind == "output_text":
            return self._text(text)
        part.texts.append(text)
        return self._event(
            "response.refusal.delta", self._at_part() + b',"delta":%b' % encode(text)
        )

    def _cite(self, citation: Citation) -> bytes:
        part = self._part
        assert part is not None  # noqa: S101 -- the legality table says so
        note = annotation(citation, sum(map(len, part.texts)))
        if note is None:
            self._lose("citations_dropped", citation.vendor)
            return b""
        index = len(part.annotations)
        part.annotations.append(note)
        return self._event(
            "response.output_text.annotation.added",
            self._at_part() + b',"annotation_index":%d,"annotation":%b' % (index, note),
        )

    def _close_part(self) -> bytes:
        part, message = self._part, self._message
        assert part is not None  # noqa: S101 -- the caller looked
        assert message is not None  # noqa: S101 -- parts are opened in one
        at, whole = self._at_part(), _part(part)
        if part.kind == "refusal":
            out = self._event("response.refusal.done", at + b',"refusal":%b' % encode(part.text))
        else:
            out = self._event(
                "response.output_text.done",
                at + b',"text":%b,"logprobs":[%b]' % (encode(part.text), b",".join(part.logprobs)),
            )
        out += self._event("response.content_part.done", at + b',"part":%b' % whole)
        message.parts.append(whole)
        self._part = None
        return out

    def _close_message(self, *, cut: bool = False) -> bytes:
        message = self._message
        if message is None:
            return b""
        self._message = None
        status = b"incomplete" if cut else b"completed"
        return self._done(_message(message.id, status, b",".join(message.parts)))

    def _at_part(self) -> bytes:
        assert self._message is not None  # noqa: S101 -- parts are opened in one
        assert self._part is not None  # noqa: S101 -- the caller has one open
        return b'"item_id":"%b","output_index":%d,"content_index":%d' % (
            self._message.id.encode(),
            self._message.index,
            self._part.index,
        )

    # --- reasoning ------------------------------------------------------------------------------

    def _open_reasoning(self) -> bytes:
        self._reasoning = _Reasoning(self._new_id("rs_"), len(self._output))
        return self._added(encode({"id": self._reasoning.id, "type": "reasoning", "summary": []}))

    def _reason(self, text: str, channel: Channel, number: int) -> bytes:
        item = self._reasoning
        assert item is not None  # noqa: S101 -- the legality table says so
        out = b""
        if item.key != (channel, number):
            out = self._close_segment(item)
            item.key = (channel, number)
            out += self._open_segment(item, channel)
        part = self._part
        assert part is not None  # noqa: S101 -- opened above
        part.texts.append(text)
        name = "reasoning_summary_text" if part.kind == "summary_text" else "reasoning_text"
        return out + self._event(
            f"response.{name}.delta", _at_segment(item, part) + b',"delta":%b' % encode(text)
        )

    def _open_segment(self, item: _Reasoning, channel: Channel) -> bytes:
        shown = self._exchange.rendering.responses_reasoning
        if channel is Channel.FULL and shown == "content":
            self._part = part = _Part("reasoning_text", len(item.content))
            name = "response.content_part.added"
        else:
            self._part = part = _Part("summary_text", len(item.summary))
            name = "response.reasoning_summary_part.added"
        return self._event(name, _at_segment(item, part) + b',"part":%b' % _part(part))

    def _close_segment(self, item: _Reasoning) -> bytes:
        part = self._part
        if part is None:
            return b""
        self._part = None
        item.texts.append(part.text)
        at, text = _at_segment(item, part), b',"text":%b' % encode(part.text)
        if part.kind == "summary_text":
            item.summary.append(part.text)
            names = ("response.reasoning_summary_text.done", "response.reasoning_summary_part.done")
        else:
            item.content.append(part.text)
            names = ("response.reasoning_text.done", "response.content_part.done")
        return self._event(names[0], at + text) + self._event(
            names[1], at + b',"part":%b' % _part(part)
        )

    def _close_reasoning(self) -> bytes:
        item = self._reasoning
        assert item is not None  # noqa: S101 -- the caller looked
        out = self._close_segment(item)
        self._reasoning = None
        return out + self._done(
            _reasoning(item.id, item.summary, item.content, self._seal("\n\n".join(item.texts)))
        )

    def _seal(self, text: str, call_id: str = "") -> str | None:
        """Return what `encrypted_content` holds: the vendor's own state, or an envelope of another's."""
        opaque = self._opaque
        if not opaque:
            return None
        if not self._encrypted:
            self._lose("opaque_dropped", "the client did not ask for reasoning.encrypted_content")
            return None
        for state in opaque:
            if state.kind is OpaqueKind.ENCRYPTED and state.origin == _VENDOR:
                return state.data
        sealed = seal(self._exchange, opaque, text, keep_text=True, call_id=call_id)
        if sealed is None and self._exchange.sealer is None:
            self._lose("opaque_dropped", "there is no key to seal it with")
        elif sealed is None:
            self._lose("opaque_too_large")
        return sealed

    # --- calls ----------------------------------------------------------------------------------

    def _arguments(self, text: str) -> bytes:
        call = self._call
        assert call is not None  # noqa: S101 -- the legality table says so
        out = self._announce(call)
        call.texts.append(text)
        if call.start.flavor in BY_FLAVOR:
            return out
        name = "custom_tool_call_input" if _is_custom(call) else "function_call_arguments"
        return out + self._event(
            f"response.{name}.delta", self._at_call(call) + b',"delta":%b' % encode(text)
        )

    def _announce(self, call: _Call) -> bytes:
        """Add the call's item, after a reasoning item that keeps what signs the call."""
        if call.announced:
            return b""
        call.announced = True
        out = b""
        sealed = self._seal("", call.call_id)
        if sealed is not None:
            signature = _reasoning(self._new_id("rs_"), [], [], sealed)
            out = self._whole_item(signature)
        if call.start.flavor in BY_FLAVOR:
            return out  # what it says is known at its end only
        call.item_id = self._new_id("ctc_" if _is_custom(call) else "fc_")
        return out + self._added(_call(call, "", b"in_progress"))

    def _close_call(self, *, complete: bool) -> bytes:
        call = self._call
        assert call is not None  # noqa: S101 -- the caller looked
        out = self._announce(call)
        self._call = None
        text = "".join(call.texts)
        if call.start.flavor in BY_FLAVOR:
            return out + self._shell_item(call, text, complete=complete)
        if _is_custom(call):
            name, field = "custom_tool_call_input", b"input"
        else:
            name, field = "function_call_arguments", b"arguments"
        out += self._event(
            f"response.{name}.done", self._at_call(call) + b',"%b":%b' % (field, encode(text))
        )
        return out + self._done(_call(call, text, b"completed" if complete else b"incomplete"))

    def _shell_item(self, call: _Call, text: str, *, complete: bool) -> bytes:
        """Write a call of a built-in tool; one that does not fit its shape is written as a function's."""
        shell = BY_FLAVOR[call.start.flavor]
        content = content_of(call.start.flavor, text) if complete else None
        if content is None:
            call.item_id = self._new_id("fc_")
            at = self._at_call(call)
            status = b"completed" if complete else b"incomplete"
            return (
                self._added(_call(call, "", b"in_progress"))
                + self._event(
                    "response.function_call_arguments.delta", at + b',"delta":%b' % encode(text)
                )
                + self._event(
                    "response.function_call_arguments.done", at + b',"arguments":%b' % encode(text)
                )
                + self._done(_call(call, text, status))
            )
        item = {
            "id": self._new_id(shell.id_prefix),
            "type": shell.call_type,
            "status": "in_progress",
            "call_id": call.call_id,
        }
        item_content = "operation" if call.start.flavor is Flavor.APPLY_PATCH else "action"
        added = encode({**item, item_content: content})
        return self._added(added) + self._done(
            encode({**item, "status": "completed", item_content: content})
        )

    def _at_call(self, call: _Call) -> bytes:
        return b'"item_id":"%b","output_index":%d' % (call.item_id.encode(), len(self._output))

    # --- bytes ----------------------------------------------------------------------------------

    def _new_id(self, prefix: str) -> str:
        assert self._head is not None  # noqa: S101 -- items come after the start
        return self._head.item_id(prefix, len(self._output))

    def _added(self, item: bytes) -> bytes:
        return self._event(
            "response.output_item.added", b'"output_index":%d,"item":%b' % (len(self._output), item)
        )

    def _done(self, item: bytes) -> bytes:
        out = self._event(
            "response.output_item.done", b'"output_index":%d,"item":%b' % (len(self._output), item)
        )
        self._output.append(item)
        return out

    def _event(self, name: str, fields: bytes) -> bytes:
        word = name.encode()
        out = b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b}\n\n' % (
            word,
            word,
            self._sequence,
            fields,
        )
        self._sequence += 1
        return out

    def _lose(self, code: str, detail: str = "") -> None:
        self.losses.append(Loss(code, f"block {self._legality.index}", detail))


def encode_body(answer: Answer, exchange: Exchange) -> bytes:
    """Return the complete response: what the last event of its stream carries."""
    writer = ResponsesWriter(exchange)
    for event in unfold(answer):
        writer.send(event)
    return writer.response


def _wants_encrypted(exchange: Exchange) -> bool:
    request = exchange.request
    if not isinstance(request, ResponsesRequest):
        return True
    return request.store is False or "reasoning.encrypted_content" in request.include


def _is_custom(call: _Call) -> bool:
    return call.start.kind is BlockKind.CUSTOM_CALL


def _message(item_id: str, status: bytes, parts: bytes) -> bytes:
    return b'{"id":"%b","type":"message","role":"assistant","status":"%b","content":[%b]}' % (
        item_id.encode(),
        status,
        parts,
    )


def _part(part: _Part) -> bytes:
    """Return a part as JSON, with what it holds so far."""
    text = encode(part.text)
    if part.kind == "refusal":
        return b'{"type":"refusal","refusal":%b}' % text
    if part.kind != "output_text":
        return b'{"type":"%b","text":%b}' % (part.kind.encode(), text)
    logprobs = b',"logprobs":[%b]' % b",".join(part.logprobs) if part.logprobs else b""
    return b'{"type":"output_text","text":%b,"annotations":[%b]%b}' % (
        text,
        b",".join(part.annotations),
        logprobs,
    )


def _at_segment(item: _Reasoning, part: _Part) -> bytes:
    index = b"summary_index" if part.kind == "summary_text" else b"content_index"
    return b'"item_id":"%b","output_index":%d,"%b":%d' % (
        item.id.encode(),
        item.index,
        index,
        part.index,
    )


def _reasoning(item_id: str, summary: list[str], content: list[str], sealed: str | None) -> bytes:
    item: dict[str, object] = {
        "id": item_id,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in summary],
    }
    if content:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in content]
    if sealed is not None:
        item["encrypted_content"] = sealed
    return encode(item)


def _call(call: _Call, text: str, status: bytes) -> bytes:
    """Return a call's item with its arguments so far; a client tells tools apart by their namespace."""
    start = call.start
    custom = _is_custom(call)
    item = {"id": call.item_id, "type": "custom_tool_call" if custom else "function_call"}
    if not custom or status == b"incomplete":  # a custom call has a status only if it was cut
        item["status"] = status.decode()
    item["call_id"] = call.call_id
    item["name"] = start.name
    if start.namespace:
        item["namespace"] = start.namespace
    item["input" if custom else "arguments"] = text
    return encode(item)
