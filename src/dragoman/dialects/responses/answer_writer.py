"""Encodes events as a Responses stream."""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct

from dragoman.context import Exchange
from dragoman.dialects.encoding import encode, one_line
from dragoman.dialects.responses.body_writer import ResponseHead, annotation
from dragoman.dialects.responses.request_reader import ResponsesRequest
from dragoman.dialects.responses.schema import NULL
from dragoman.dialects.responses.tools_reader import BY_FLAVOR, content_of
from dragoman.dialects.sealing import seal
from dragoman.dialects.server_tools import minted_id, seal_server
from dragoman.turn.answer import Answer, unfold
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
    FinishReason,
    Flavor,
    InputDelta,
    Opaque,
    OpaqueKind,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    TextRun,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.server_tools import ServerCall, ServerKind, ServerResult, summary_of
from dragoman.turn.state import Legality

# The `incomplete_details.reason` of a turn that is not whole.
FINISH_WORDS: Final[dict[FinishReason, bytes]] = {
    FinishReason.LENGTH: b"max_output_tokens",
    FinishReason.CONTEXT_FULL: b"max_output_tokens",
    FinishReason.CONTENT_FILTER: b"content_filter",
    FinishReason.PAUSE: b"max_output_tokens",
}

# --- events that pass unchanged -------------------------------------------------------------------
# While frames are forwarded unchanged, the items have the upstream's ids and the events its numbers.  A writer
# that takes over in the middle must go on with these.

ADDED: Final = "response.output_item.added"

DONE: Final = "response.output_item.done"

# Frames that open what only the frames after them fill.
ANNOUNCEMENTS: Final = frozenset(
    {ADDED, "response.content_part.added", "response.reasoning_summary_part.added"}
)


class RelayedItem(Struct, frozen=True):
    """The item that a frame is about."""

    id: str = ""
    type: str = ""


class RelayedEvent(Struct, frozen=True):
    """What of a frame concerns the frames after it."""

    type: str = ""
    sequence_number: int | None = None
    output_index: int = 0
    item: RelayedItem = RelayedItem()
    response: Raw = Raw()  # the whole answer, in the last frame


_EVENT: Final = msgspec.json.Decoder(RelayedEvent)
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})


def relayed_events(raw: bytes) -> Iterator[RelayedEvent]:
    """Give what can be read of the events in some bytes of a stream."""
    for line in raw.splitlines():
        if line.startswith(b"data:"):
            try:
                yield _EVENT.decode(line[5:])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue  # it passes all the same, and nothing depends on it


# --- numbered events ------------------------------------------------------------------------------


class Output:
    """Number the events of one answer and keep its items."""

    def __init__(self) -> None:
        self.head: ResponseHead | None = None  # known from the start of the answer on
        self.sequence: int = 0  # of the next event
        self.items: list[bytes] = []  # finished ones
        self.skipped = 0  # items that were forwarded and caused no events
        self.known: dict[int, RelayedItem] = {}  # by output index: items that the upstream added

    @property
    def index(self) -> int:
        """The output index of the item that is open, or of the next one."""
        return len(self.items) + self.skipped

    def new_id(self, prefix: str, kind: str) -> str:
        """Return the id of the item at the present index: the upstream's, if it added this item."""
        assert self.head is not None  # noqa: S101 -- items come after the start
        known = self.known.get(self.index)
        if known is not None and known.type == kind and known.id:
            return known.id
        return self.head.item_id(prefix, self.index)

    def event(self, name: str, *fields: bytes) -> bytes:
        """Return one event; `fields` are pieces of JSON that follow one another.

        Large bytes are joined and never formatted: `join` lets other threads run, `%` does not.
        """
        word = name.encode()
        head = b'event: %b\ndata: {"type":"%b","sequence_number":%d,' % (word, word, self.sequence)
        self.sequence += 1
        return b"".join((head, *fields, b"}\n\n"))

    def added(self, item: bytes) -> bytes:
        """Announce an item."""
        return self.event(
            "response.output_item.added", b'"output_index":%d,"item":' % self.index, item
        )

    def done(self, item: bytes) -> bytes:
        """Finish an item."""
        at = b'"output_index":%d,"item":' % self.index
        self.items.append(item)
        return self.event("response.output_item.done", at, item)

    def left_open(self, item: bytes) -> None:
        """Keep an item for the response at the end without finishing it."""
        self.items.append(item)

    def whole(self, item: bytes) -> bytes:
        """Write an item that is complete from the start: its `added` and `done` events."""
        return self.added(item) + self.done(item)


# --- message items --------------------------------------------------------------------------------

# The hot path: one text delta.  What does not change while a part is open is filled in once.
_DELTA: Final = (
    b"event: response.output_text.delta\n"
    b'data: {"type":"response.output_text.delta","sequence_number":%%d,'
    b'"item_id":"%b","output_index":%d,"content_index":%d,"delta":%%b,"logprobs":%%b}\n\n'
)


class MessageWriter:
    """Write message items, one after another."""

    def __init__(self, output: Output) -> None:
        self.part_open: bool = False
        self.open: bool = False
        self._output = output
        self._id = ""
        self._at = b""  # the fields that say which part an event is about
        self._parts: list[bytes] = []  # those that are whole
        self._kind = ""  # of the open part: output_text or refusal
        self._template = b""  # of its text deltas
        self._texts: list[str] = []
        self._annotations: list[bytes] = []
        self._waiting: list[Citation] = []  # for the end of the part
        self._logprobs: list[bytes] = []

    def open_part(self, kind: str) -> bytes:
        """Begin a part, and the message if none is open."""
        output = self._output
        out = b""
        if not self.open:
            self.open = True
            self._id = output.new_id("msg_", "message")
            self._parts = []
            out = output.added(self._item(b"in_progress"))
        self.part_open = True
        self._kind = kind
        self._texts, self._annotations, self._waiting, self._logprobs = [], [], [], []
        where = (self._id.encode(), output.index, len(self._parts))
        self._template = _DELTA % where
        self._at = b'"item_id":"%b","output_index":%d,"content_index":%d' % where
        return out + self._event("response.content_part.added", b'"part":%b' % self._part(b'""'))

    def text(self, text: str, logprobs: Raw | None = None) -> bytes:
        """Add text to the open part."""
        self._texts.append(text)
        tokens = b"[]"
        if logprobs is not None:
            tokens = one_line(logprobs)
            self._logprobs.append(tokens.strip()[1:-1])
        output = self._output
        out = self._template % (output.sequence, encode(text), tokens)
        output.sequence += 1
        return out

    def run(self, run: TextRun) -> bytes:
        """Add texts to the open part, each with its own delta."""
        self._texts.append(run.text)
        output, template = self._output, self._template
        first = output.sequence
        output.sequence += len(run.bodies)
        deltas = enumerate(run.bodies, first)
        return b"".join([template % (at, b'"%b"' % body, b"[]") for at, body in deltas])

    def refuse(self, text: str) -> bytes:
        """Add to the open refusal; one that is shown as text is text."""
        if self._kind == "output_text":
            return self.text(text)
        self._texts.append(text)
        return self._event("response.refusal.delta", b'"delta":', encode(text))

    def cite(self, citation: Citation) -> bytes | None:
        """Add a citation to the open part; None if it cannot be said here.

        One without a place is about the whole part and waits for its end, and so do those after it.
        """
        if annotation(citation, 0) is None:
            return None
        unplaced = citation.url and (citation.start is None or citation.end is None)
        if unplaced or self._waiting:
            self._waiting.append(citation)
            return b""
        return self._annotate(citation, 0)

    def _annotate(self, citation: Citation, length: int) -> bytes:
        note = annotation(citation, length)
        assert note is not None  # noqa: S101 -- `cite` looked
        fields = b'"annotation_index":%d,"annotation":%b' % (len(self._annotations), note)
        self._annotations.append(note)
        return self._event("response.output_text.annotation.added", fields)

    def close_part(self) -> bytes:
        """End the open part; the message stays open for more."""
        joined = "".join(self._texts)
        out = b"".join(self._annotate(citation, len(joined)) for citation in self._waiting)
        text = encode(joined)
        whole = self._part(text)
        if self._kind == "refusal":
            done = self._event("response.refusal.done", b'"refusal":', text)
        else:
            logprobs = b',"logprobs":[%b]' % b",".join(self._logprobs)
            done = self._event("response.output_text.done", b'"text":', text, logprobs)
        part_done = self._event("response.content_part.done", b'"part":', whole)
        self._parts.append(whole)
        self.part_open = False
        return b"".join((out, done, part_done))

    def close(self, *, cut: bool = False) -> bytes:
        """End the message, if one is open."""
        if not self.open:
            return b""
        self.open = False
        return self._output.done(self._item(b"incomplete" if cut else b"completed"))

    def _event(self, name: str, *fields: bytes) -> bytes:
        return self._output.event(name, self._at, b",", *fields)

    def _item(self, status: bytes) -> bytes:
        head = b'{"id":"%b","type":"message","role":"assistant","status":"%b","content":[' % (
            self._id.encode(),
            status,
        )
        return b"".join((head, b",".join(self._parts), b"]}"))

    def _part(self, text: bytes) -> bytes:
        """Return the open part as JSON; `text` is its text, as JSON too."""
        if self._kind == "refusal":
            return b'{"type":"refusal","refusal":%b}' % text
        logprobs = b',"logprobs":[%b]' % b",".join(self._logprobs) if self._logprobs else b""
        tail = b',"annotations":[%b]%b}' % (b",".join(self._annotations), logprobs)
        return b"".join((b'{"type":"output_text","text":', text, tail))


# --- reasoning items ------------------------------------------------------------------------------


class ReasoningWriter:
    """Write reasoning items, one after another."""

    def __init__(self, output: Output, shown_as: Literal["summary", "content"]) -> None:
        self.open: bool = False
        self._output = output
        self._shown_as = shown_as  # how the model's full reasoning is shown
        self._id = ""
        self._key: tuple[Channel, int] | None = None  # of the open segment
        self._in_summary = True  # the open segment is a part of the summary
        self._at = b""  # the fields that say which segment an event is about
        self._texts: list[str] = []  # of the open segment
        self._summary: list[str] = []  # segments that are whole
        self._content: list[str] = []
        self._all: list[str] = []

    def begin(self) -> bytes:
        """Open an item."""
        self.open = True
        self._id = self._output.new_id("rs_", "reasoning")
        self._key = None
        self._summary, self._content, self._all = [], [], []
        return self._output.added(reasoning_item(self._id, [], [], None))

    def text(self, text: str, channel: Channel, part: int) -> bytes:
        """Add reasoning."""
        out = b""
        if self._key != (channel, part):
            out = self._close_segment()
            self._key = (channel, part)
            out += self._open_segment(channel)
        self._texts.append(text)
        name = "reasoning_summary_text" if self._in_summary else "reasoning_text"
        return out + self._event(f"response.{name}.delta", b'"delta":', encode(text))

    def end_text(self) -> tuple[bytes, str]:
        """End the last segment; return its events, and all text of the item."""
        out = self._close_segment()
        return out, "\n\n".join(self._all)

    def close(self, sealed: str | None) -> bytes:
        """End the item, with the state that its client is to send back."""
        self.open = False
        return self._output.done(reasoning_item(self._id, self._summary, self._content, sealed))

    def _open_segment(self, channel: Channel) -> bytes:
        self._texts = []
        self._in_summary = channel is Channel.SUMMARY or self._shown_as == "summary"
        if self._in_summary:
            index, number = b"summary_index", len(self._summary)
            name, kind = "response.reasoning_summary_part.added", b"summary_text"
        else:
            index, number = b"content_index", len(self._content)
            name, kind = "response.content_part.added", b"reasoning_text"
        self._at = b'"item_id":"%b","output_index":%d,"%b":%d' % (
            self._id.encode(),
            self._output.index,
            index,
            number,
        )
        return self._event(name, b'"part":{"type":"%b","text":""}' % kind)

    def _close_segment(self) -> bytes:
        if self._key is None:
            return b""
        self._key = None
        whole = "".join(self._texts)
        self._all.append(whole)
        if self._in_summary:
            self._summary.append(whole)
            kind = b"summary_text"
            names = ("response.reasoning_summary_text.done", "response.reasoning_summary_part.done")
        else:
            self._content.append(whole)
            kind = b"reasoning_text"
            names = ("response.reasoning_text.done", "response.content_part.done")
        text = encode(whole)
        return self._event(names[0], b'"text":', text) + self._event(
            names[1], b'"part":{"type":"%b","text":%b}' % (kind, text)
        )

    def _event(self, name: str, *fields: bytes) -> bytes:
        return self._output.event(name, self._at, b",", *fields)


def reasoning_item(
    item_id: str, summary: list[str], content: list[str], sealed: str | None
) -> bytes:
    """Return a reasoning item as JSON."""
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


# --- call items -----------------------------------------------------------------------------------


class CallWriter:
    """Write one call."""

    def __init__(self, output: Output, start: BlockStart, call_id: str) -> None:
        self.call_id = call_id
        self.announced: bool = False
        self.waits: bool = (
            False  # its item is not finished, for its status follows from what comes next
        )
        self._output = output
        self._start = start
        self._custom = start.kind is BlockKind.CUSTOM_CALL
        # What a shell is to do is known at the end of the call only.
        self._shell = BY_FLAVOR.get(start.flavor)
        self._id = ""
        self._texts: list[str] = []

    def announce(self) -> bytes:
        """Add the call's item."""
        self.announced = True
        if self._shell is not None:
            return b""
        self._id = (
            self._output.new_id("ctc_", "custom_tool_call")
            if self._custom
            else self._output.new_id("fc_", "function_call")
        )
        return self._output.added(self._item("", "in_progress"))

    def arguments(self, text: str) -> bytes:
        """Add to the arguments, or to the free-form input."""
        self._texts.append(text)
        if self._shell is not None:
            return b""
        name = "custom_tool_call_input" if self._custom else "function_call_arguments"
        return self._event(f"response.{name}.delta", b'"delta":', encode(text))

    def close(self, *, complete: bool) -> bytes:
        """End the call; one that was cut keeps its arguments as they are, and waits for `finish_item`.

        A client that reads done items runs free-form input whatever its status, so input that was cut
        is never done: only the response at the end has its item.
        """
        text = "".join(self._texts)
        out = b""
        if self._shell is not None:
            content = content_of(self._start.flavor, text) if complete else None
            if content is not None:
                return self._output.added(self._shell_item(content, "in_progress")) + (
                    self._output.done(self._shell_item(content, "completed"))
                )
            # It does not fit the tool's shape: emitted as a function's call, so that nothing is lost.
            self._shell = None
            self._texts = []
            out = self.announce() + self.arguments(text)
        if self._custom and not complete:
            self._output.left_open(self._item(text, "incomplete"))
            return out
        if self._custom:
            name, field = "response.custom_tool_call_input.done", b"input"
        else:
            name, field = "response.function_call_arguments.done", b"arguments"
        out += self._event(name, b'"%b":' % field, encode(text))
        self.waits = not complete
        return out if self.waits else out + self.finish_item("completed")

    def finish_item(self, status: str) -> bytes:
        """Finish the item of the call."""
        self.waits = False
        return self._output.done(self._item("".join(self._texts), status))

    def _event(self, name: str, *fields: bytes) -> bytes:
        at = b'"item_id":"%b","output_index":%d' % (self._id.encode(), self._output.index)
        return self._output.event(name, at, b",", *fields)

    def _item(self, text: str, status: str) -> bytes:
        start = self._start
        item = {"id": self._id, "type": "custom_tool_call" if self._custom else "function_call"}
        if not self._custom or status == "incomplete":  # a custom call has one only if it was cut
            item["status"] = status
        item["call_id"] = self.call_id
        item["name"] = start.name
        if start.namespace:
            item["namespace"] = start.namespace
        item["input" if self._custom else "arguments"] = text
        return encode(item)

    def _shell_item(self, content: object, status: str) -> bytes:
        flavor = self._start.flavor
        shell = BY_FLAVOR[flavor]
        return encode(
            {
                "id": self._output.new_id(shell.id_prefix, shell.call_type),
                "type": shell.call_type,
                "status": status,
                "call_id": self.call_id,
                "operation" if flavor is Flavor.APPLY_PATCH else "action": content,
            }
        )


# --- vendor-run tools of other vendors ------------------------------------------------------------
# A call and its result are one item here.  It waits for the result, but not longer than to the next block
# of another sort; a result that comes later is not shown.

_SEARCH_ID: Final = "ws_"
_ITEM_IDS: Final = {
    ServerKind.WEB_SEARCH: ("web_search_call", _SEARCH_ID),
    ServerKind.CODE: ("code_interpreter_call", "ci_"),
}
_SOURCES: Final = "web_search_call.action.sources"
_OUTPUTS: Final = "code_interpreter_call.outputs"


class ServerWriter:
    """Write the items of vendor-run tools that another vendor ran."""

    def __init__(self, output: Output, exchange: Exchange, losses: list[Loss]) -> None:
        self.own: set[str] = set()  # calls whose items are the vendor's own
        self._output = output
        self._exchange = exchange
        self._losses = losses
        self.waiting: dict[
            str, tuple[BlockStart, bool]
        ] = {}  # calls, and whether reasoning came before
        request = exchange.request
        self._include = request.include if isinstance(request, ResponsesRequest) else ()
        self._sealed = _wants_encrypted(exchange)

    def hold(self, call: BlockStart, *, reasoned: bool) -> None:
        """Keep a call until its result comes."""
        self.waiting[call.call_id] = (call, reasoned)

    def answer(self, result: BlockStart) -> bytes:
        """Write a call with its result."""
        held = self.waiting.pop(result.call_id, None)
        if held is None:
            late = isinstance(result.server, ServerResult) and result.server.sources
            if late and result.call_id not in self.own and _SOURCES in self._include:
                self._lose("server_block_dropped", "sources came after the search")
            return b""
        return self._write(held[0], result, reasoned=held[1])

    def flush(self) -> bytes:
        """Write the calls that wait, without their results."""
        waiting, self.waiting = self.waiting, {}
        return b"".join(
            self._write(call, None, reasoned=reasoned) for call, reasoned in waiting.values()
        )

    def _write(self, start: BlockStart, result: BlockStart | None, *, reasoned: bool) -> bytes:
        call = start.server
        if not isinstance(call, ServerCall) or call.does not in _ITEM_IDS:
            self._lose("server_block_dropped", f"{start.vendor} {start.kind}")
            return b""
        found = result.server if result is not None else None
        found = found if isinstance(found, ServerResult) else None
        kind, prefix = _ITEM_IDS[call.does]
        item_id = minted_id(prefix, self._exchange.seed, start.call_id)
        state = self._state(start, result, item_id, reasoned=reasoned)
        if call.does is ServerKind.WEB_SEARCH:
            steps = ("in_progress", "searching", "completed")
            first, last = self._search(item_id, call, found)
        else:
            steps = ("in_progress", "interpreting", "completed")
            first, last = self._code(item_id, call, found)
        output = self._output
        out = [state, output.added(first)]
        at = b'"item_id":"%b","output_index":%d' % (item_id.encode(), output.index)
        out += [output.event(f"response.{kind}.{step}", at) for step in steps]
        out.append(output.done(last))
        return b"".join(out)

    def _search(
        self, item_id: str, call: ServerCall, found: ServerResult | None
    ) -> tuple[bytes, bytes]:
        """Return the item as it is added and as it is done.  Codex shows the query from the first."""
        action: dict[str, object] = {"type": "search", "query": " | ".join(call.queries)}
        if len(call.queries) > 1:
            action["queries"] = call.queries
        item: dict[str, object] = {"id": item_id, "type": "web_search_call"}
        first = encode(item | {"status": "in_progress", "action": action})
        if found is not None and _SOURCES in self._include:
            action["sources"] = [{"type": "url", "url": one.url} for one in found.sources]
        status = "failed" if found is not None and found.error else "completed"
        return first, encode(item | {"status": status, "action": action})

    def _code(
        self, item_id: str, call: ServerCall, found: ServerResult | None
    ) -> tuple[bytes, bytes]:
        item: dict[str, object] = {
            "id": item_id,
            "type": "code_interpreter_call",
            "code": _code_of(call),
            "container_id": minted_id("cntr_", self._exchange.seed, item_id),
            "outputs": None,
        }
        first = encode(item | {"status": "in_progress"})
        if found is not None and found.output and _OUTPUTS in self._include:
            item["outputs"] = [{"type": "logs", "logs": found.output}]
        failed = found is not None and bool(found.error or found.return_code)
        return first, encode(item | {"status": "failed" if failed else "completed"})

    def _state(
        self, call: BlockStart, result: BlockStart | None, item_id: str, *, reasoned: bool
    ) -> bytes:
        """Write a reasoning item that keeps the vendor's own call and result, if the client returns those."""
        if not self._sealed:
            return b""
        both = [one for one in (call, result) if one is not None and one.server is not None]
        blocks = [(one.vendor, summary_of(one.server), one.raw) for one in both if one.server]
        sealed = seal_server(
            self._exchange, blocks, self._losses, call_id=item_id, reasoned=reasoned
        )
        if not sealed:
            return b""
        new_id = self._output.new_id("rs_", "reasoning")
        return self._output.whole(reasoning_item(new_id, [], [], sealed))

    def _lose(self, code: str, detail: str) -> None:
        self._losses.append(Loss(code, "", detail))


def _code_of(call: ServerCall) -> str:
    try:
        return _CODE.decode(call.arguments).code
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


class _Code(Struct, frozen=True, gc=False):
    code: str = ""


_CODE: Final = msgspec.json.Decoder(_Code)


# --- the writer -----------------------------------------------------------------------------------
# Text and refusal blocks that follow each other are parts of one message item, which is closed when
# something else begins or the turn ends.  Every other block is a separate item.

# One line and no blank one: SDKs take a comment that ends with a blank line for an empty event.
KEEP_ALIVE: Final = b": keep-alive\n"

_VENDOR: Final = "openai"


class ResponsesWriter:
    """Write one answer."""

    def __init__(self, exchange: Exchange) -> None:
        self.losses: list[Loss] = []
        self.response: bytes = b""  # the response object at the end: the whole answer
        self._exchange = exchange
        self._legality = Legality()
        self._output = Output()
        self._message = MessageWriter(self._output)
        # Full reasoning that comes as such from the same dialect stays what it is.
        shown_as = "content" if exchange.keep_identity else exchange.rendering.responses_reasoning
        self._reasoning = ReasoningWriter(self._output, shown_as)
        self._call: CallWriter | None = None  # the one that is open
        self._cut: CallWriter | None = (
            None  # a call with broken arguments whose item is not finished
        )
        self._server = ServerWriter(self._output, exchange, self.losses)
        self._reasoned = False  # the last block was reasoning
        self._opaque: list[Opaque] = []  # of the open block
        self._usage: Usage | None = None
        self._ids = exchange.call_ids
        self._encrypted = _wants_encrypted(exchange)

    def send(self, event: Event, /) -> bytes:
        """Return the bytes of `event`."""
        self._legality.check(event)
        match event:
            case TextDelta():
                return self._message.text(event.text, event.logprobs)
            case TextRun():
                return self._message.run(event)
            case ArgsDelta(json=text) | InputDelta(text=text):
                return self._arguments(text)
            case ReasoningDelta(text=text, channel=channel, part=part):
                return self._reasoning.text(text, channel, part)
            case RefusalDelta(text=text):
                return self._message.refuse(text)
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
                return KEEP_ALIVE
            case Loss():
                return b""

    def expect(self, raw: bytes, /, *, resume: bool) -> bool:
        """Keep the upstream's ids, and its numbers, in case its bytes `raw` are not forwarded."""
        output = self._output
        numbers: list[int] = []
        announces = False
        for event in relayed_events(raw):
            announces = event.type in ANNOUNCEMENTS
            if event.sequence_number is not None:
                numbers.append(event.sequence_number)
            if event.type == ADDED:
                output.known[event.output_index] = event.item
                if not self._message.open:
                    output.skipped = max(0, event.output_index - len(output.items))
        if resume and numbers:
            output.sequence = numbers[0]
        return announces

    def adopt(self, raw: bytes, /) -> None:
        """Keep nothing: servers of this dialect add no fields that clients read."""

    def skip(self, event: Event, /) -> None:
        """Take note of a delta whose frame is forwarded: the end of its item repeats all of it.

        Each forwarded delta has one number.  `send` may count the item's announcement too, which was
        forwarded before.  Case: cut_in_call_from_responses of tests/gateway/endings.
        """
        following = self._output.sequence + (len(event.bodies) if type(event) is TextRun else 1)
        self.send(event)
        self._output.sequence = following

    def passed(self, raw: bytes, /) -> None:
        """Know that these bytes of the upstream have been sent in place of what was written."""
        for event in relayed_events(raw):
            if event.type == DONE and event.item.type == "message" and not self._message.part_open:
                self._message.close()
            elif event.type == DONE and event.item.type != "message":
                self._finish_cut("incomplete")  # the upstream has finished it
            if event.sequence_number is not None:
                self._output.sequence = event.sequence_number + 1
            if event.type in _ENDS and event.response != NULL:
                self.response = bytes(event.response)

    # --- the response ---------------------------------------------------------------------------

    def _start(self, start: Start) -> bytes:
        self._output.head = head = ResponseHead(self._exchange, start)
        response = b'"response":%b' % head.render(b"in_progress")
        return self._output.event("response.created", response) + self._output.event(
            "response.in_progress", response
        )

    def _finish(self, finish: Finish) -> bytes:
        output = self._output
        assert output.head is not None  # noqa: S101 -- the legality table says so
        incomplete = FINISH_WORDS.get(finish.reason, b"")
        out = self._finish_cut("incomplete" if incomplete else "completed")
        out += self._flush_server()
        out += self._message.close(cut=bool(incomplete))
        self.response = output.head.render(
            b"incomplete" if incomplete else b"completed",
            output=b",".join(output.items),
            usage=self._usage,
            incomplete=incomplete,
        )
        name = "response.incomplete" if incomplete else "response.completed"
        return b"".join((out, output.event(name, b'"response":', self.response)))

    def _fail(self, fault: Fault) -> bytes:
        output = self._output
        out = b"" if output.head is not None else self._start(Start())
        assert output.head is not None  # noqa: S101 -- set by `_start`
        out += self._finish_cut("incomplete")
        if not self._message.part_open:
            out += self._message.close()
        self.response = output.head.render(
            b"failed", output=b",".join(output.items), usage=self._usage, fault=fault
        )
        return b"".join((out, output.event("response.failed", b'"response":', self.response)))

    # --- blocks ---------------------------------------------------------------------------------

    def _open(self, start: BlockStart) -> bytes:
        reasoned, self._reasoned = self._reasoned, start.kind is BlockKind.REASONING
        out = self._finish_cut("completed")
        if start.server is not None and start.raw == NULL and start.call_id in self._server.own:
            return out  # it is in the item of its call
        if start.server is not None and start.vendor != _VENDOR:
            return out + self._foreign_tool(start, reasoned=reasoned)
        return out + self._flush_server() + self._open_block(start)

    def _foreign_tool(self, start: BlockStart, *, reasoned: bool) -> bytes:
        self._opaque = []
        if start.kind is BlockKind.SERVER_CALL:
            self._server.hold(start, reasoned=reasoned)
            return b""
        closed = self._message.close() if start.call_id in self._server.waiting else b""
        return closed + self._server.answer(start)

    def _flush_server(self) -> bytes:
        if not self._server.waiting:
            return b""
        return self._message.close() + self._server.flush()

    def _finish_cut(self, status: str) -> bytes:
        """Finish the item of a call with broken arguments.

        Only a response that ends at a limit, or fails, has an incomplete item: the AI SDK ignores
        items with that status, so its agents would never report the arguments to the model.
        """
        call, self._cut = self._cut, None
        return b"" if call is None else call.finish_item(status)

    def _open_block(self, start: BlockStart) -> bytes:
        self._opaque = []
        match start.kind:
            case BlockKind.TEXT:
                return self._message.open_part("output_text")
            case BlockKind.REFUSAL:
                if self._exchange.rendering.responses_refusal == "text":
                    self._lose("refusal_as_text")
                    return self._message.open_part("output_text")
                return self._message.open_part("refusal")
            case BlockKind.REASONING:
                return self._message.close() + self._reasoning.begin()
            case BlockKind.TOOL_CALL | BlockKind.CUSTOM_CALL:
                self._call = CallWriter(
                    self._output, start, self._ids.of(start.index, start.call_id)
                )
                if not self._exchange.expects_call_signatures:
                    return self._message.close() + self._announce(self._call)
                # What signs the call comes first, so its item waits for the first of its arguments.
            case _ if start.vendor == _VENDOR:
                if start.raw == NULL:
                    return b""
                self._server.own.add(start.call_id)
                return self._message.close() + self._output.whole(one_line(start.raw))
            case _:
                self._lose("server_block_dropped", f"{start.vendor} {start.kind}")
        return self._message.close()

    def _close(self, *, complete: bool) -> bytes:
        if self._call is not None:
            call = self._call
            out = self._announce(call) + call.close(complete=complete)
            self._call = None
            self._cut = call if call.waits else None
            if self._opaque:
                self._lose("opaque_dropped", "it came after the call's arguments")
            return out
        if self._reasoning.open:
            out, text = self._reasoning.end_text()
            return out + self._reasoning.close(self._seal(text))
        return self._message.close_part() if self._message.part_open else b""

    def _arguments(self, text: str) -> bytes:
        assert self._call is not None  # noqa: S101 -- the legality table says so
        return self._announce(self._call) + self._call.arguments(text)

    def _announce(self, call: CallWriter) -> bytes:
        """Add the call's item, after a reasoning item that keeps what signs the call."""
        if call.announced:
            return b""
        out = b""
        sealed = self._seal("", call.call_id)
        self._opaque = []
        if sealed is not None:
            out = self._output.whole(
                reasoning_item(self._output.new_id("rs_", "reasoning"), [], [], sealed)
            )
        return out + call.announce()

    def _cite(self, citation: Citation) -> bytes:
        out = self._message.cite(citation)
        if out is None:
            self._lose("citations_dropped", citation.vendor)
            return b""
        return out

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

    def _lose(self, code: str, detail: str = "") -> None:
        self.losses.append(Loss(code, f"block {self._legality.index}", detail))


def _wants_encrypted(exchange: Exchange) -> bool:
    request = exchange.request
    always = exchange.rendering.responses_encrypted == "always"
    if always or not isinstance(request, ResponsesRequest):
        return True
    return request.store is False or "reasoning.encrypted_content" in request.include


def encode_body(answer: Answer, exchange: Exchange) -> bytes:
    """Return the complete response: what the last event of its stream carries."""
    writer = ResponsesWriter(exchange)
    for event in unfold(answer):
        writer.send(event)
    return writer.response
