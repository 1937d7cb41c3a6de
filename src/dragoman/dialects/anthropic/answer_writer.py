"""Encodes events as a Messages stream."""

import re
from collections.abc import Sequence
from typing import Final, assert_never

import msgspec
from msgspec import Raw, Struct

from dragoman.context import Exchange
from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.errors import error_event
from dragoman.dialects.decoding import decode
from dragoman.dialects.encoding import encode, escaped, one_line
from dragoman.dialects.identity import Identity, identity_of
from dragoman.dialects.sealing import seal
from dragoman.dialects.server_tools import NULL, client_server_name, minted_id, seal_server
from dragoman.turn.answer import PART_BREAK, Block
from dragoman.turn.events import (
    CALL_KINDS,
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Channel,
    Citation,
    DeltaRun,
    EventOrRun,
    Fault,
    Finish,
    FinishReason,
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
from dragoman.turn.losses import Loss
from dragoman.turn.server_tools import (
    ServerCall,
    ServerKind,
    ServerResult,
    SourceRef,
    host_of,
    summary_of,
)
from dragoman.turn.state import Legality
from dragoman.turn.tools import wire_name

# --- blocks, usage and endings --------------------------------------------------------------------
# The writer and `encode_body` share this, so that a client accumulates from the stream what the body says.


_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])

FINISH_WORDS: Final[dict[FinishReason, str]] = {
    FinishReason.STOP: "end_turn",
    FinishReason.STOP_SEQUENCE: "stop_sequence",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.CONTEXT_FULL: "model_context_window_exceeded",
    FinishReason.CONTENT_FILTER: "refusal",
    FinishReason.REFUSAL: "refusal",
    FinishReason.PAUSE: "pause_turn",
    FinishReason.COMPACTION: "compaction",
}


class Ending(Struct, frozen=True):
    """How an answer ended."""

    stop_reason: str
    stop_sequence: str | None
    stop_details: schema.StopDetails | None


def ending_of(finish: Finish, *, refused: bool) -> Ending:
    """Return the ending; `refused` is set if the model declined in a separate refusal block."""
    reason = FINISH_WORDS[finish.reason]
    if refused and finish.reason is FinishReason.STOP:
        reason = "refusal"
    details = None
    if reason == "refusal" and (finish.category or finish.explanation):
        details = schema.StopDetails(
            category=finish.category or None, explanation=finish.explanation or None
        )
    return Ending(reason, finish.stop_sequence, details)


def usage_of(usage: Usage | None, exchange: Exchange) -> schema.WireUsage:
    """Return the counts.  Readers crash without the first and the last of them."""
    counts = usage or Usage(exchange.input_estimate)
    thinking = schema.OutputDetails(counts.reasoning_tokens) if counts.reasoning_tokens else None
    ran = None
    if counts.searches or counts.fetches:
        ran = schema.ServerToolUse(counts.searches, counts.fetches)
    return schema.WireUsage(
        input_tokens=counts.input_tokens,
        cache_read_input_tokens=counts.cache_read_tokens,
        cache_creation_input_tokens=counts.cache_write_5m_tokens + counts.cache_write_1h_tokens,
        output_tokens=counts.output_tokens,
        output_tokens_details=thinking,
        server_tool_use=ran,
    )


def message_identity(start: Start, exchange: Exchange) -> Identity:
    """Return the id, model and time of a message."""
    return identity_of(start, exchange, prefix="msg_", what="message")


class Sealing:
    """Reasoning state for a Messages client: the vendor's own as it is, any other in an envelope."""

    def __init__(self, exchange: Exchange, losses: list[Loss]) -> None:
        self._exchange = exchange
        self._losses = losses

    def signature(self, opaque: Sequence[Opaque], text: str) -> str:
        """Return what signs a thinking block: empty if there is nothing to sign it with."""
        return self._data(opaque, text, OpaqueKind.SIGNATURE)

    def redacted(self, opaque: Sequence[Opaque]) -> str:
        """Return the data of a block whose reasoning is not shown."""
        return self._data(opaque, "", OpaqueKind.REDACTED)

    def call_signature(self, opaque: Sequence[Opaque], call_id: str) -> str:
        """Return the data of a block that carries a call's signature."""
        return self._sealed(opaque, "", call_id)

    def _data(self, opaque: Sequence[Opaque], text: str, native: OpaqueKind) -> str:
        for one in opaque:
            if one.kind is native and one.origin == schema.VENDOR:
                return one.data
        return self._sealed(opaque, text, "") if opaque else ""

    def _sealed(self, opaque: Sequence[Opaque], text: str, call_id: str) -> str:
        sealed = seal(self._exchange, opaque, text, call_id=call_id)
        if sealed is None:
            code = "opaque_dropped" if self._exchange.sealer is None else "opaque_too_large"
            self._losses.append(Loss(code, f"block {opaque[0].index}"))
        return sealed or ""


def is_unshown(opaque: Sequence[Opaque]) -> bool:
    """Return whether state without text is redacted thinking, not thinking that was left out.

    The vendor signs thinking even if its text is not shown; only its own signatures can do without.
    """
    return not any(
        one.kind is OpaqueKind.SIGNATURE and one.origin == schema.VENDOR for one in opaque
    )


def split_input(raw: Raw) -> tuple[bytes, bytes]:
    """Take the input out of a vendor-run call: clients expect it to be streamed."""
    fields = decode(_OBJECT, one_line(raw))
    given = fields.get("input")
    if given is None:
        return encode(fields), b""
    return encode(fields | {"input": Raw(b"{}")}), bytes(given)


# --- vendor-run tools of other vendors --------------------------------------------------------------
# The vendor's strictest readers (AI SDK, zod) demand each of these fields, and strings where strings are.

SERVER_ID: Final = "srvtoolu_"
MCP_ID: Final = "mcptoolu_"
# How the vendor calls the tools and their results.
_NAMES: Final = {
    ServerKind.WEB_SEARCH: "web_search",
    ServerKind.WEB_FETCH: "web_fetch",
    ServerKind.CODE: "code_execution",
    ServerKind.MCP: "mcp",
}


class ServerBlocks:
    """The calls and results of another vendor's tools, as blocks of this dialect."""

    def __init__(self, exchange: Exchange, losses: list[Loss]) -> None:
        self._exchange = exchange
        self._losses = losses
        self._calls: dict[
            str, tuple[BlockStart | Block, bool]
        ] = {}  # and whether reasoning came before

    def call(
        self, block: BlockStart | Block, index: int, *, reasoned: bool
    ) -> list[dict[str, object]]:
        """Return the block of a call; none, and a loss, if the dialect has none for it.

        The call of a page waits for its result: a page without its text has no block.
        """
        call = block.server
        if not isinstance(call, ServerCall) or call.does not in _NAMES:
            self._losses.append(Loss("server_block_dropped", f"block {index}", block.vendor))
            return []
        self._calls[block.call_id] = (block, reasoned)
        return [] if call.does is ServerKind.WEB_FETCH else [self._written(block.call_id, call)]

    def _written(self, call_id: str, call: ServerCall) -> dict[str, object]:
        if call.does is ServerKind.MCP:
            return {
                "type": "mcp_tool_use",
                "id": self._id(call_id, MCP_ID),
                "name": call.name,
                "server_name": client_server_name(call, self._exchange.request),
                "input": _input_of(call),
            }
        return {
            "type": "server_tool_use",
            "id": self._id(call_id),
            "name": _NAMES[call.does],
            "input": _input_of(call),
        }

    def result(self, block: BlockStart | Block, index: int) -> list[dict[str, object]]:
        """Return the block of a result, behind that of its call if it waits; none, and a loss, if it has none."""
        result = block.server
        call = self._calls[block.call_id][0].server if block.call_id in self._calls else None
        if not isinstance(result, ServerResult) or not isinstance(call, ServerCall):
            self._losses.append(Loss("server_block_dropped", f"block {index}", block.vendor))
            return []
        fetched = result.does is ServerKind.WEB_FETCH
        if fetched and not (result.output or result.error):
            detail = "a page without its text"
            self._losses.append(Loss("server_block_dropped", f"block {index}", detail))
            return []
        if result.does is ServerKind.MCP:
            return [self._mcp_result(block.call_id, result)]
        name = _NAMES[result.does]
        written = {
            "type": f"{name}_tool_result",
            "tool_use_id": self._id(block.call_id),
            "content": self._content(block, result, name),
        }
        return [self._written(block.call_id, call), written] if fetched else [written]

    def _mcp_result(self, call_id: str, result: ServerResult) -> dict[str, object]:
        text = result.output or result.error
        return {
            "type": "mcp_tool_result",
            "tool_use_id": self._id(call_id, MCP_ID),
            "is_error": bool(result.error),
            "content": [{"type": "text", "text": text}] if text else [],
        }

    def _id(self, call_id: str, prefix: str = SERVER_ID) -> str:
        return minted_id(prefix, self._exchange.seed, call_id)

    def _content(self, block: BlockStart | Block, result: ServerResult, name: str) -> object:
        if result.error:
            return {"type": f"{name}_tool_result_error", "error_code": result.error}
        if result.does is ServerKind.CODE:
            return {
                "type": "code_execution_result",
                "stdout": result.output,
                "stderr": "",
                "return_code": result.return_code or 0,
                "content": [],
            }
        if result.does is ServerKind.WEB_FETCH:
            return _fetched(result)
        sealed = self._sealed(block) if result.sources else ""
        return [
            {
                "type": "web_search_result",
                "url": source.url,
                "title": source.shown_title,
                "encrypted_content": "" if at else sealed,
                "page_age": source.age or None,
            }
            for at, source in enumerate(result.sources)
        ]

    def _sealed(self, result: BlockStart | Block) -> str:
        """Return the envelope of a call and its result, which the first source carries."""
        call, reasoned = self._calls[result.call_id]
        blocks = [
            (one.vendor, summary_of(one.server), one.raw)
            for one in (call, result)
            if one.server is not None
        ]
        call_id = self._id(result.call_id)
        return seal_server(self._exchange, blocks, self._losses, call_id=call_id, reasoned=reasoned)


def _input_of(call: ServerCall) -> object:
    if call.does in (ServerKind.CODE, ServerKind.MCP):
        return call.arguments if call.arguments != NULL else {}
    field = "url" if call.does is ServerKind.WEB_FETCH else "query"
    return {field: " | ".join(call.queries)} if call.queries else {}


def _fetched(result: ServerResult) -> dict[str, object]:
    source = result.sources[0] if result.sources else SourceRef("")
    return {
        "type": "web_fetch_result",
        "url": source.url,
        "content": {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": result.output},
            "title": source.title or None,
        },
        "retrieved_at": source.age or None,
    }


def citation_of(citation: Citation) -> Raw | None:
    """Return a citation in this dialect; None if it has no address and is of another vendor."""
    if citation.vendor == schema.VENDOR:
        return citation.raw
    if not citation.url:
        return None
    return Raw(
        encode(
            {
                "type": "web_search_result_location",
                "url": citation.url,
                "title": citation.title or host_of(citation.url),
                "cited_text": citation.cited_text,
                "encrypted_index": "",
            }
        )
    )


# --- the writer -----------------------------------------------------------------------------------
# Legal by construction: one `message_start`, blocks one after another with indexes that count 0, 1, 2, …,
# every block in its empty form first, one signature before a thinking block's stop.  The indexes are the
# writer's own, for a block of the turn may become none, one or two here.

_START: Final = (
    b"event: message_start\ndata: "
    b'{"type":"message_start","message":{"id":%b,"type":"message","role":"assistant","model":%b,'
    b'"content":[],"stop_reason":null,"stop_sequence":null,'
    b'"usage":{"input_tokens":%d,"output_tokens":0}}}\n\n'
)

_BLOCK_START: Final = (
    b"event: content_block_start\ndata: "
    b'{"type":"content_block_start","index":%d,"content_block":%b}\n\n'
)

# The start of a block, as an upstream writes it, with its index.
_BLOCK_BEGUN: Final = re.compile(
    rb'"type"\s*:\s*"content_block_start"\s*,\s*"index"\s*:\s*([0-9]{1,9})'
)

_DELTA: Final = (
    b"event: content_block_delta\ndata: "
    b'{"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":%%b}}\n\n'
)

_BLOCK_STOP: Final = (
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
)

_MESSAGE_DELTA: Final = (
    b'event: message_delta\ndata: {"type":"message_delta","delta":%b,"usage":%b}\n\n'
)

MESSAGE_STOP: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

KEEP_ALIVE: Final = b'event: ping\ndata: {"type":"ping"}\n\n'

_ERROR: Final = b"event: error\ndata: %b\n\n"

_EMPTY_TEXT: Final = b'{"type":"text","text":""}'

_EMPTY_THINKING: Final = b'{"type":"thinking","thinking":"","signature":""}'

_EMPTY_CALL: Final = b'{"type":"tool_use","id":%b,"name":%b,"input":{}}'

_REDACTED: Final = b'{"type":"redacted_thinking","data":%b}'

_CUSTOM_HEAD: Final = '{"input":"'

_CUSTOM_TAIL: Final = '"}'

_encode_text: Final = msgspec.json.Encoder().encode


class MessagesWriter:
    """Write one answer."""

    def __init__(self, exchange: Exchange) -> None:
        self.losses: list[Loss] = []
        self.response = b""  # no server of this dialect stores responses
        self._exchange = exchange
        self._legality = Legality()
        self._check = self._legality.check
        self._sealing = Sealing(exchange, self.losses)
        self._ids = exchange.call_ids
        self._next = 0  # index of the next block here
        self._index: int | None = None  # of the block that is open here
        self._delta = b""  # template for the deltas of the open block
        self._opening: BlockStart | None = None  # a block whose start has not been written
        self._opaque: list[Opaque] = []  # of the open block
        self._thoughts: list[str] = []  # text of the open reasoning block
        self._part = (Channel.FULL, 0)  # of the open reasoning block
        self._call_id = ""  # of the open call, as the client knows it
        self._custom = False  # the open call takes free text
        self._signed_calls = exchange.expects_call_signatures
        self._refused = False
        self._usage: Usage | None = None
        self._server = ServerBlocks(exchange, self.losses)
        self._reasoned = False  # the last block was reasoning

    def expect(self, raw: bytes, /, *, resume: bool) -> None:
        """Count the blocks as the upstream does, in case its bytes `raw` are not forwarded."""
        if resume:
            begun = _BLOCK_BEGUN.search(raw)
            if begun is not None:
                self._next = max(self._next, int(begun[1]))

    def passed(self, raw: bytes, /) -> None:
        """Do nothing: forwarded frames do not change what is written later."""

    def adopt(self, raw: bytes, /) -> None:
        """Do nothing: servers of this dialect add no fields that clients read."""

    def skip(self, event: EventOrRun, /) -> None:
        """Note a delta of text or arguments whose frame is forwarded."""
        if type(event) is DeltaRun:
            event = event.whole
        if type(event) is TextDelta or (type(event) is ArgsDelta and self._opening is None):
            self._check(event)
        else:
            self.send(event)

    def send(self, event: EventOrRun, /) -> bytes:
        """Return the bytes of an event.

        Raises:
            IllegalOrderError: the event is not allowed here.
        """
        cls = type(event)
        legality = self._legality
        # What `check` looks at first, without a call for every delta.
        if cls not in legality.allowed or event.index != legality.index:  # type: ignore[union-attr]
            legality.check(event)
        if cls is TextDelta:
            try:
                return self._delta % _encode_text(event.text)  # type: ignore[union-attr]  # see cls
            except UnicodeEncodeError:
                return self._delta % encode(event.text)  # type: ignore[union-attr]  # see cls
        if cls is ArgsDelta and self._opening is None:
            return self._delta % encode(event.json)  # type: ignore[union-attr]  # see cls
        return self._write(event)

    def _run(self, run: DeltaRun) -> bytes:
        """Write each delta as `send` writes it."""
        whole = run.whole
        if self._opening is not None:
            first, *rest = run.deltas()
            return b"".join([self._write(first), *map(self.send, rest)])
        if isinstance(whole, ReasoningDelta):
            if (whole.channel, whole.part) != self._part:
                return b"".join(map(self._write, run.deltas()))
            self._thoughts.append(whole.text)
        before, after = self._delta.split(b"%b")
        return b'%b"%b"%b' % (before, (b'"%b%b"' % (after, before)).join(run.bodies), after)

    def _write(self, event: EventOrRun) -> bytes:
        match event:
            case DeltaRun():
                return self._run(event)
            case ReasoningDelta():
                return self._reasoning(event)
            case ArgsDelta(json=text):
                return self._open_call() + self._delta % encode(text)
            case InputDelta(text=text):
                head = b"" if self._opening is None else self._open_call()
                return head + self._delta % encode(escaped(text))
            case TextDelta(text=text) | RefusalDelta(text=text):
                return self._delta % encode(text)
            case BlockStart():
                return self._start_block(event)
            case BlockEnd():
                return self._end_block(event)
            case Opaque():
                self._opaque.append(event)
                return b""
            case Citation():
                return self._cite(event)
            case Ping():
                return KEEP_ALIVE
            case Start():
                who = message_identity(event, self._exchange)
                estimate = self._exchange.input_estimate
                return _START % (encode(who.id), encode(who.model), estimate)
            case Usage():
                self._usage = event
                return b""
            case Loss():
                return b""
            case Finish():
                return self._finish(event)
            case Fault():
                return self._fail(event)
            case _:
                assert_never(event)

    # --- blocks -----------------------------------------------------------------------------------

    def _start_block(self, event: BlockStart) -> bytes:
        self._opaque.clear()
        self._thoughts.clear()
        reasoned, self._reasoned = self._reasoned, event.kind is BlockKind.REASONING
        match event.kind:
            case BlockKind.TEXT:
                return self._open(_EMPTY_TEXT, b"text_delta", b"text")
            case BlockKind.REFUSAL:
                self._refused = True
                return self._open(_EMPTY_TEXT, b"text_delta", b"text")
            case BlockKind.REASONING | BlockKind.TOOL_CALL | BlockKind.CUSTOM_CALL:
                # What it begins with here depends on what comes first.
                self._opening = event
                self._custom = event.kind is BlockKind.CUSTOM_CALL
                waits = event.kind is BlockKind.REASONING or self._signed_calls
                return b"" if waits else self._open_call()
            case BlockKind.SERVER_CALL | BlockKind.SERVER_RESULT | BlockKind.OPAQUE:
                return self._vendor_block(event, reasoned=reasoned)
            case _:
                assert_never(event.kind)

    def _open(self, block: bytes, delta_type: bytes = b"", field: bytes = b"") -> bytes:
        """Start a block here."""
        self._opening = None
        self._index = self._next
        self._next += 1
        if delta_type:
            self._delta = _DELTA % (self._index, delta_type, field)
        return _BLOCK_START % (self._index, block)

    def _close(self) -> bytes:
        """Stop the block that is open here."""
        index, self._index = self._index, None
        return _BLOCK_STOP % index if index is not None else b""

    def _vendor_block(self, event: BlockStart, *, reasoned: bool) -> bytes:
        """Write the block of a vendor-run tool, or one that only its vendor understands; it has no deltas."""
        if event.vendor == schema.VENDOR:
            return self._whole(event.raw, called=event.kind is BlockKind.SERVER_CALL)
        out: list[bytes] = []
        for block in self._foreign_blocks(event, reasoned=reasoned):
            called = block["type"] in ("server_tool_use", "mcp_tool_use")
            out += [self._close(), self._whole(Raw(encode(block)), called=called)]
        return b"".join(out)

    def _whole(self, raw: Raw, *, called: bool) -> bytes:
        """Start a block that comes in one piece; the input of a call is streamed."""
        if not called:
            return self._open(one_line(raw))
        block, given = split_input(raw)
        start = self._open(block, b"input_json_delta", b"partial_json")
        return start + self._delta % encode(given.decode()) if given else start

    def _foreign_blocks(self, event: BlockStart, *, reasoned: bool) -> list[dict[str, object]]:
        match event.kind:
            case BlockKind.SERVER_CALL:
                return self._server.call(event, event.index, reasoned=reasoned)
            case BlockKind.SERVER_RESULT:
                return self._server.result(event, event.index)
            case _:
                self.losses.append(Loss("content_dropped", f"block {event.index}", event.vendor))
                return []

    def _end_block(self, event: BlockEnd) -> bytes:
        opening = self._opening
        if opening is not None and opening.kind is BlockKind.REASONING:
            return self._end_unshown()
        if self._thoughts:
            return self._sign() + self._close()
        head = b"" if opening is None else self._open_call()
        tail = b""
        if self._custom and event.complete:
            tail = self._delta % encode(_CUSTOM_TAIL)
        self._custom = False
        return head + tail + self._close() + self._sign_call()

    # --- reasoning ----------------------------------------------------------------------------------

    def _reasoning(self, event: ReasoningDelta) -> bytes:
        part = (event.channel, event.part)
        text = event.text
        start = b""
        if self._opening is not None:
            start = self._open(_EMPTY_THINKING, b"thinking_delta", b"thinking")
        elif part != self._part:
            text = PART_BREAK + text
        self._part = part
        self._thoughts.append(text)
        return start + self._delta % encode(text)

    def _sign(self) -> bytes:
        """Write the signature of the open thinking block: its field must be there, even empty."""
        signature = self._sealing.signature(self._opaque, "".join(self._thoughts))
        self._thoughts.clear()
        return _DELTA % (self._index, b"signature_delta", b"signature") % encode(signature)

    def _end_unshown(self) -> bytes:
        """Write a reasoning block that had no text."""
        self._opening = None
        if not is_unshown(self._opaque):
            return self._open(_EMPTY_THINKING) + self._sign() + self._close()
        data = self._sealing.redacted(self._opaque)
        return self._redacted(data)

    def _redacted(self, data: str) -> bytes:
        return self._open(_REDACTED % encode(data)) + self._close() if data else b""

    # --- calls --------------------------------------------------------------------------------------

    def _open_call(self) -> bytes:
        """Start a call, after the block that carries its signature."""
        call = self._opening
        assert call is not None  # noqa: S101 -- callers look
        self._opening = None
        self._call_id = self._ids.of(call.index, call.call_id)
        signed = self._sign_call()
        name = wire_name(call.name, call.namespace) if call.namespace else call.name
        block = _EMPTY_CALL % (encode(self._call_id), encode(name))
        start = signed + self._open(block, b"input_json_delta", b"partial_json")
        return start + self._delta % encode(_CUSTOM_HEAD) if self._custom else start

    def _sign_call(self) -> bytes:
        """Write the signature of a call in a separate block: before the call or, if it came late, after it."""
        if not self._opaque:
            return b""
        data = self._sealing.call_signature(self._opaque, self._call_id)
        self._opaque.clear()
        return self._redacted(data)

    # --- the rest -------------------------------------------------------------------------------------

    def _cite(self, event: Citation) -> bytes:
        citation = citation_of(event)
        if citation is None:
            self.losses.append(Loss("citations_dropped", f"block {event.index}"))
            return b""
        delta = _DELTA % (self._index, b"citations_delta", b"citation")
        return delta % one_line(citation)

    def _finish(self, event: Finish) -> bytes:
        ending = ending_of(event, refused=self._refused)
        delta: dict[str, object] = {
            "stop_reason": ending.stop_reason,
            "stop_sequence": ending.stop_sequence,
        }
        if ending.stop_details is not None:
            delta["stop_details"] = ending.stop_details
        usage = encode(usage_of(self._usage, self._exchange))
        return _MESSAGE_DELTA % (encode(delta), usage) + MESSAGE_STOP

    def _fail(self, event: Fault) -> bytes:
        """Write the error event; close open text or thinking before it only if that is asked for."""
        tail = self._exchange.rendering.stream_error_tail
        in_call = self._legality.kind in CALL_KINDS
        closed = b"" if in_call or tail == "open" else self._close()
        last = MESSAGE_STOP if tail == "message_stop" else b""
        return closed + _ERROR % error_event(event) + last
