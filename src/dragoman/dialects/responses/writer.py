"""Events to a Responses stream, and to a complete response.

Text and refusal blocks that follow each other are parts of one message item, which is closed when
something else begins or the turn ends.  Every other block is an item of its own.
"""

from typing import Final

from dragoman.dialects.identity import client_ids
from dragoman.dialects.responses.answer import INCOMPLETE, ResponseHead, one_line
from dragoman.dialects.responses.call_item import CallWriter
from dragoman.dialects.responses.message_item import MessageWriter
from dragoman.dialects.responses.output import Output
from dragoman.dialects.responses.reasoning_item import ReasoningWriter, reasoning_item
from dragoman.dialects.responses.relayed import ADDED, ANNOUNCEMENTS, DONE, relayed_events
from dragoman.dialects.responses.request import ResponsesRequest
from dragoman.dialects.runs import TextRun
from dragoman.dialects.sealing import seal
from dragoman.exchange import Exchange
from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    Event,
    Fault,
    Finish,
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
KEEP_ALIVE: Final = b": keep-alive\n"
_VENDOR: Final = "openai"


class ResponsesWriter:
    """Write one answer."""

    def __init__(self, exchange: Exchange) -> None:
        self.losses: list[Loss] = []
        self.response = b""  # the response object at the end: the whole answer
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
        self._opaque: list[Opaque] = []  # of the open block
        self._usage: Usage | None = None
        self._ids = client_ids(exchange)
        self._encrypted = _wants_encrypted(exchange)

    def send(self, event: Event, /) -> bytes:
        """Return the bytes that tell `event`."""
        self._legality.check(event)
        match event:
            case TextDelta():
                return self._message.text(event.text, event.logprobs)
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

    def send_run(self, run: TextRun, /) -> bytes:
        """Write deltas of text as `send` writes them one by one."""
        self._legality.check(TextDelta(run.index, run.text))
        return self._message.run(run)

    def expect(self, raw: bytes, /, *, resume: bool) -> bool:
        """Keep the upstream's ids, and its numbers, should these bytes of its own not pass."""
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

    def skip(self, event: Event, /) -> None:
        """Know a delta that passes: items are told in full at their end."""
        self.send(event)

    def passed(self, raw: bytes, /) -> None:
        """Know that these bytes of the upstream have been sent in place of what was written."""
        for event in relayed_events(raw):
            if event.type == DONE and event.item.type == "message" and not self._message.part_open:
                self._message.close()
            elif event.type == DONE and event.item.type != "message":
                self._finish_cut("incomplete")  # the upstream has finished it
            if event.sequence_number is not None:
                self._output.sequence = event.sequence_number + 1

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
        incomplete = INCOMPLETE.get(finish.reason, b"")
        out = self._finish_cut("incomplete" if incomplete else "completed")
        out += self._message.close(cut=bool(incomplete))
        self.response = output.head.render(
            b"incomplete" if incomplete else b"completed",
            output=b",".join(output.items),
            usage=self._usage,
            incomplete=incomplete,
        )
        name = "response.incomplete" if incomplete else "response.completed"
        return out + output.event(name, b'"response":%b' % self.response)

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
        return out + output.event("response.failed", b'"response":%b' % self.response)

    # --- blocks ---------------------------------------------------------------------------------

    def _open(self, start: BlockStart) -> bytes:
        return self._finish_cut("completed") + self._open_block(start)

    def _finish_cut(self, status: str) -> bytes:
        """Finish the item of a call with broken arguments.

        Only a response that ends at a limit, or fails, has an incomplete item: the AI SDK passes over
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
                self._call = CallWriter(self._output, start, self._ids.render(start.call_id))
                if not self._exchange.expects_call_signatures:
                    return self._message.close() + self._announce(self._call)
                # What signs the call comes first, so its item waits for the first of its arguments.
            case _ if start.vendor == _VENDOR:
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


def encode_body(answer: Answer, exchange: Exchange) -> bytes:
    """Return the complete response: what the last event of its stream carries."""
    writer = ResponsesWriter(exchange)
    for event in unfold(answer):
        writer.send(event)
    return writer.response


def _wants_encrypted(exchange: Exchange) -> bool:
    request = exchange.request
    always = exchange.rendering.responses_encrypted == "always"
    if always or not isinstance(request, ResponsesRequest):
        return True
    return request.store is False or "reasoning.encrypted_content" in request.include
