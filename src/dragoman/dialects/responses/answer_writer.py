"""Encodes events as a Responses stream."""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.context import Exchange
from dragoman.dialects.encoding import encode, one_line
from dragoman.dialects.responses.body_writer import (
    CallWriter,
    MessageWriter,
    Output,
    ReasoningWriter,
    ResponseHead,
    reasoning_item,
)
from dragoman.dialects.responses.request_reader import ResponsesRequest
from dragoman.dialects.responses.schema import NULL, RelayedEvent
from dragoman.dialects.sealing import seal
from dragoman.dialects.server_tools import client_server_name, minted_id, seal_server
from dragoman.turn.answer import Answer, unfold
from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
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


# --- vendor-run tools of other vendors ------------------------------------------------------------
# A call and its result are one item here.  It waits for the result, but not longer than to the next block
# of another sort; a result that comes later is not shown.

_SEARCH_ID: Final = "ws_"
_ITEM_IDS: Final = {
    ServerKind.WEB_SEARCH: ("web_search_call", _SEARCH_ID),
    ServerKind.CODE: ("code_interpreter_call", "ci_"),
    ServerKind.MCP: ("mcp_call", "mcp_"),
    ServerKind.IMAGE: ("image_generation_call", "ig_"),
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
        if call.does is ServerKind.IMAGE:
            return self._image(item_id, found)
        state = self._state(start, result, item_id, reasoned=reasoned)
        if call.does is ServerKind.MCP:
            return state + self._mcp(item_id, call, found)
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

    def _image(self, item_id: str, found: ServerResult | None) -> bytes:
        """Write an image.  Clients expect its content: one of which only the address is known has no item."""
        image = None if found is None else found.image
        if image is not None and not image.data:
            self._lose("server_block_dropped", "an image of which only the address is known")
            return b""
        item: dict[str, object] = {"id": item_id, "type": "image_generation_call", "result": None}
        output = self._output
        out = [output.added(encode(item | {"status": "in_progress"}))]
        at = b'"item_id":"%b","output_index":%d' % (item_id.encode(), output.index)
        steps = ("in_progress", "generating", "completed")
        out += [output.event(f"response.image_generation_call.{step}", at) for step in steps]
        if image is not None:
            kind = image.media_type.removeprefix("image/")
            item |= {"result": image.data, "output_format": kind}
        status = "failed" if image is None else "completed"
        return b"".join((*out, output.done(encode(item | {"status": status}))))

    def _mcp(self, item_id: str, call: ServerCall, found: ServerResult | None) -> bytes:
        """Write the call of an MCP server's tool, with its arguments and what it returned."""
        arguments = "{}" if call.arguments == NULL else bytes(call.arguments).decode()
        failed = found is not None and bool(found.error)
        item: dict[str, object] = {
            "id": item_id,
            "type": "mcp_call",
            "approval_request_id": None,
            "name": call.name,
            "server_label": client_server_name(call, self._exchange.request),
        }
        unknown = {"arguments": "", "output": None, "error": None, "status": "in_progress"}
        output, returned = self._output, "" if found is None else found.output
        out = [output.added(encode(item | unknown))]
        at = b'"item_id":"%b","output_index":%d' % (item_id.encode(), output.index)
        out.append(output.event("response.mcp_call.in_progress", at))
        for step, field in (("delta", b"delta"), ("done", b"arguments")):
            name = f"response.mcp_call_arguments.{step}"
            out.append(output.event(name, at, b',"%b":' % field, encode(arguments)))
        status = "failed" if failed else "completed"
        out.append(output.event(f"response.mcp_call.{status}", at))
        error = (
            {"type": "mcp_tool_execution_error", "content": returned or found.error}
            if failed and found
            else None
        )
        item |= {"arguments": arguments, "output": None if failed else returned, "error": error}
        return b"".join((*out, output.done(encode(item | {"status": status}))))

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

    def send(self, event: EventOrRun, /) -> bytes:
        """Return the bytes of `event`."""
        self._legality.check(event)
        match event:
            case TextDelta():
                return self._message.text(event.text, event.logprobs)
            case DeltaRun():
                return self._run(event)
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

    def expect(self, raw: bytes, /, *, resume: bool) -> None:
        """Keep the upstream's ids, and its numbers, in case its bytes `raw` are not forwarded."""
        output = self._output
        numbers: list[int] = []
        for event in relayed_events(raw):
            if event.sequence_number is not None:
                numbers.append(event.sequence_number)
            if event.type == ADDED:
                output.known[event.output_index] = event.item
                if not self._message.open:
                    output.skipped = max(0, event.output_index - len(output.items))
        if resume and numbers:
            output.sequence = numbers[0]

    def adopt(self, raw: bytes, /) -> None:
        """Keep nothing: servers of this dialect add no fields that clients read."""

    def skip(self, event: EventOrRun, /) -> None:
        """Take note of a delta whose frame is forwarded: the end of its item repeats all of it.

        Each forwarded delta has one number.  `send` may count the item's announcement too, which was
        forwarded before.  Case: cut_in_call_from_responses of tests/gateway/endings.
        """
        following = self._output.sequence + (len(event.bodies) if type(event) is DeltaRun else 1)
        if type(event) is DeltaRun and type(event.whole) is TextDelta:
            self._legality.check(event)
            self._message.keep(event.text)
        else:
            self.send(event)
        self._output.sequence = following

    def passed(self, raw: bytes, /) -> None:
        """Note that these bytes of the upstream have been sent in place of what was written."""
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
                out += self._late_signature(call.call_id)
            return out
        if self._reasoning.open:
            out, text = self._reasoning.end_text()
            return out + self._reasoning.close(self._seal(text))
        return self._message.close_part() if self._message.part_open else b""

    def _late_signature(self, call_id: str) -> bytes:
        """Write a reasoning item that keeps what came after the arguments of a call."""
        sealed = self._seal("", call_id)
        self._opaque = []
        if sealed is None:
            return b""
        done = self._finish_cut("completed")
        new_id = self._output.new_id("rs_", "reasoning")
        return done + self._output.whole(reasoning_item(new_id, [], [], sealed))

    def _run(self, run: DeltaRun) -> bytes:
        """Write each delta as `send` writes it."""
        match run.whole:
            case TextDelta():
                return self._message.run(run)
            case ArgsDelta(json=text):
                assert self._call is not None  # noqa: S101 -- the legality table says so
                return self._announce(self._call) + self._call.run(run.bodies, text)
            case ReasoningDelta(text=text, channel=channel, part=part):
                return self._reasoning.run(run.bodies, text, channel, part)

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


def encode_body(answer: Answer, exchange: Exchange, losses: list[Loss]) -> bytes:
    """Return the response object that ends a stream; add what the dialect has no form for to the losses."""
    writer = ResponsesWriter(exchange)
    for event in unfold(answer):
        writer.send(event)
    losses += writer.losses
    return writer.response
