"""Reads the answers of a Messages upstream, streamed or whole, into the assembler.

Reads liberally.  Peers leave out stops, ends and counts, number every block 0, begin blocks that are not
empty, or add `[DONE]`.  The start of a block gives the block's type; each delta is read by its own type.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, structs

from dragoman.context import Exchange
from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.block_reader import Blocks, decode_cleanly
from dragoman.dialects.anthropic.errors import decode_fault, event_fault
from dragoman.dialects.cost import read_cost
from dragoman.dialects.framing import assembler_for, truncated
from dragoman.errors import MalformedError
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import CUT_REASONS, FinishReason, Ping, Usage
from dragoman.wire.sse import Frame

_EVENT: Final = msgspec.json.Decoder(schema.WireEvent)

_TEXT: Final = msgspec.json.Decoder(schema.DeltaEvent[schema.OnlyText])
_THINKING: Final = msgspec.json.Decoder(schema.DeltaEvent[schema.OnlyThinking])
_INPUT: Final = msgspec.json.Decoder(schema.DeltaEvent[schema.OnlyInput])

_MESSAGE: Final = msgspec.json.Decoder(schema.WireMessage)

FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "stop_sequence": FinishReason.STOP_SEQUENCE,
    "tool_use": FinishReason.TOOL_CALLS,
    "pause_turn": FinishReason.PAUSE,
    "refusal": FinishReason.CONTENT_FILTER,
    "model_context_window_exceeded": FinishReason.CONTEXT_FULL,
    "compaction": FinishReason.COMPACTION,
}


class MessagesReader:
    """Read the events of a Messages stream into an assembler."""

    reasoning_field = ""  # the dialect has one place for it
    varied = False

    def __init__(self, exchange: Exchange) -> None:
        self.assembler: Assembler = assembler_for(exchange)
        self.add_text: Callable[[int], None] = self.assembler.add_text
        self._lenient_eof = exchange.profile.lenient_eof
        self._input_estimate = exchange.input_estimate
        self._blocks = Blocks(self.assembler, exchange.limits)
        self._usage: schema.WireUsage | None = None
        self._reason: str | None = None
        self._stop_sequence: str | None = None
        self._details = schema.StopDetails()

    @property
    def pending(self) -> bool:
        """A block has begun that led to no event yet, or the end is near."""
        return self._blocks.held or (self._reason is not None and not self.assembler.ended)

    def read(self, frame: Frame, /) -> None:
        """Read an event into the assembler."""
        # Cases: anthropic/done_marker, anthropic/done_marker_without_reason.
        if frame.data.startswith(b"[DONE]"):
            self.end()
            return
        try:
            event = _EVENT.decode(frame.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            event = decode_cleanly(_EVENT, frame.data, self.assembler)
        match event.type or frame.event:
            case "content_block_delta":
                self._blocks.delta(event)
            case "content_block_start":
                # Case: anthropic/oddity_llama_cpp_no_message_start.
                if not self.assembler.started:
                    self.assembler.loss("event_incomplete", "$", "there was no `message_start`")
                self._blocks.start(event.index, event.content_block)
            case "content_block_stop":
                self._blocks.stop(event.index)
            case "ping":
                self.assembler.out.append(Ping())
            case "message_start":
                # Case: anthropic/no_event_names_crlf.
                if not frame.event:
                    self.assembler.loss("event_unnamed", "$", "an event without a name")
                self._start(decode_cleanly(_MESSAGE, event.message, self.assembler))
            case "message_delta":
                self._message_delta(event)
            case "message_stop":
                self._finish()
            case "message":
                self._whole(decode_cleanly(_MESSAGE, frame.data, self.assembler))
            # Case: anthropic/error_without_type.
            case _ if _given(event.error):
                self.assembler.fault(event_fault(event.error))
            case "error":
                self.assembler.fault(decode_fault(0, frame.data))
            case other:
                # Case: anthropic/pings_and_unknown_events.
                self.assembler.loss("part_unknown", "$.type", f"event {other or 'without a type'}")

    @property
    def takes_text(self) -> bool:
        """Text, thinking or the input of a call can just be added to the open block."""
        in_text = self.assembler.in_text
        opened = self._blocks.in_text if in_text else self._blocks.takes_more
        return opened and not self.pending

    def text_of(self, data: bytes, /) -> str:
        """Return the text, thinking or input that a delta adds to the open block; empty for every other event."""
        try:
            if self.assembler.in_text:
                event = _TEXT.decode(data)
                return event.delta.text if self._blocks.is_text(event.index) else ""
            if self.assembler.in_reasoning:
                thought = _THINKING.decode(data)
                return thought.delta.thinking if self._blocks.is_last(thought.index) else ""
            more = _INPUT.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ""
        return more.delta.partial_json if self._blocks.is_last(more.index) else ""

    def add_more(self, text: str, /) -> None:
        """Add to the thinking or to the input that is open."""
        self._blocks.add_more(text)

    def end(self) -> None:
        """End the turn: a stop reason makes it a whole one, with or without `message_stop`."""
        if self.assembler.ended:
            return
        # Case: anthropic/message_stop_missing.
        if self._reason is not None:
            self._finish()
        elif self._lenient_eof and self._blocks.calls_are_whole:
            self.assembler.loss(
                "finish_reason_fixed",
                detail="the stream ended after its calls without a stop reason",
            )
            self._finish()
        else:
            self.assembler.fault(truncated(self._blocks.inside))

    def read_body(self, body: bytes, /) -> None:
        """Read a complete answer into the assembler."""
        message = decode_cleanly(_MESSAGE, body, self.assembler)
        if message.type == "error" or _given(message.error):
            self.assembler.fault(decode_fault(0, body))
            return
        self._whole(message)

    # --- the message ------------------------------------------------------------------------------

    def _start(self, message: schema.WireMessage, *, cut: bool = False) -> None:
        self.assembler.start(model=message.model or "", id=message.id or "")
        self._count_usage(message.usage)
        content = message.content or ()
        for position, raw in enumerate(content, 1):
            self._blocks.start(self._blocks.count, raw)
            if self.assembler.ended:
                return
            if cut and position == len(content):
                self._blocks.doubt_input()
            self._blocks.stop(self._blocks.count - 1)

    def _whole(self, message: schema.WireMessage) -> None:
        if message.content is None:
            raise MalformedError("the answer has no content", path="$.content")
        self._start(message, cut=FINISH_REASONS.get(message.stop_reason or "") in CUT_REASONS)
        self._note_end(message.stop_reason, message.stop_sequence, message.stop_details)
        self._finish()

    def _message_delta(self, event: schema.WireEvent) -> None:
        self._count_usage(event.usage)
        delta = event.delta
        if delta is not None:
            self._note_end(delta.stop_reason, delta.stop_sequence, delta.stop_details)
        # Case: anthropic/missing_block_stops.
        if self._reason is not None:
            self._blocks.end_all()

    def _note_end(
        self, reason: str | None, sequence: str | None, details: schema.StopDetails | None
    ) -> None:
        self._reason = reason or self._reason
        self._stop_sequence = sequence or self._stop_sequence
        self._details = details or self._details

    def _count_usage(self, usage: schema.WireUsage | None) -> None:
        """Note counts; they are cumulative, and those not repeated keep their value."""
        if usage is None:
            return
        before = self._usage or schema.WireUsage()
        given = {
            name: getattr(usage, name)
            for name in usage.__struct_fields__
            if getattr(usage, name) not in (None, schema.NO_RAW)
        }
        self._usage = structs.replace(before, **given)

    def _counts(self, reported: schema.WireUsage) -> Usage:
        """Return the counts of the answer; the prompt's tokens are estimated if the upstream did not count them."""
        counts = _usage(reported)
        if reported.input_tokens is not None or counts.prompt_tokens:
            return counts
        self.assembler.loss(
            "usage_missing", "$.usage.input_tokens", "the upstream did not report input tokens"
        )
        return structs.replace(counts, input_tokens=self._input_estimate, estimated=True)

    def _finish(self) -> None:
        self._blocks.end_all()
        if self.assembler.ended:
            return
        if self._usage is not None:
            self.assembler.usage(self._counts(self._usage))
        reason = FINISH_REASONS.get(self._reason or "")
        if self._reason is not None and reason is None:
            self.assembler.loss("finish_reason_unknown", "$.delta.stop_reason", self._reason)
        self.assembler.finish(
            reason,
            stop_sequence=self._stop_sequence,
            category=self._details.category or "",
            explanation=self._details.explanation or "",
            raw="refusal" if self._reason == "refusal" else "",
        )


def _given(raw: Raw) -> bool:
    return bool(raw) and bytes(raw) != b"null"


def _usage(wire: schema.WireUsage) -> Usage:
    written = wire.cache_creation_input_tokens or 0
    long = wire.cache_creation.ephemeral_1h_input_tokens if wire.cache_creation is not None else 0
    long = min(long, written) if written else long
    short = written - long if written else _short(wire)
    details = wire.output_tokens_details
    ran = wire.server_tool_use or schema.ServerToolUse()
    return Usage(
        wire.input_tokens or 0,
        wire.output_tokens or 0,
        wire.cache_read_input_tokens or 0,
        short,
        long,
        (details.thinking_tokens or 0) if details is not None else 0,
        cost=read_cost(wire.cost, wire.cost_in_usd_ticks),
        searches=ran.web_search_requests or 0,
        fetches=ran.web_fetch_requests or 0,
    )


def _short(wire: schema.WireUsage) -> int:
    return wire.cache_creation.ephemeral_5m_input_tokens if wire.cache_creation is not None else 0
