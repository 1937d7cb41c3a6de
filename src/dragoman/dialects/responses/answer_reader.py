"""Reads the answers of a Responses upstream, streamed or complete, into the assembler."""

from collections.abc import Callable, Hashable
from typing import Final, assert_never

import msgspec
from msgspec import Raw

from dragoman.context import Exchange
from dragoman.dialects.decoding import decode
from dragoman.dialects.framing import assembler_for, truncated
from dragoman.dialects.openai_errors import decode_fault, error_fault, find_fault
from dragoman.dialects.responses.block_reader import Pieces, usage_of
from dragoman.dialects.responses.schema import (
    HEAD,
    NULL,
    OUTPUT_ITEM,
    RESPONSE,
    STREAM_EVENTS,
    STREAM_EVENTS_BY_NAME,
    AnnotationAdded,
    ArgumentsDelta,
    ArgumentsDone,
    Cancelled,
    Completed,
    Created,
    Failed,
    Incomplete,
    InProgress,
    InputDeltaEvent,
    InputDone,
    ItemAdded,
    ItemDone,
    OutputItem,
    PartDone,
    Queued,
    ReasoningTextDelta,
    ReasoningTextDone,
    RefusalDeltaEvent,
    RefusalDone,
    ResponseObject,
    StreamEvent,
    SummaryDelta,
    SummaryDone,
    SummaryPartDone,
    TextDeltaEvent,
    TextDone,
)
from dragoman.errors import MalformedError
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import TEXT, Channel, Fault, FaultKind, FinishReason, Usage
from dragoman.wire.sse import Frame

FINISH_REASONS: Final = {
    "max_output_tokens": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}

_TEXT: Final = msgspec.json.Decoder(TextDeltaEvent)
_ARGUMENTS: Final = msgspec.json.Decoder(ArgumentsDelta)

# Events that open a part, of which only the next ones say something.
_ANNOUNCEMENTS: Final = frozenset(
    {"response.content_part.added", "response.reasoning_summary_part.added"}
)

# The values of `error` that peers send when they give no error.
_NO_ERROR: Final = frozenset({b"null", b"{}", b'""'})


def read_usage(body: bytes) -> Usage | None:
    """Return the token counts that a complete object reports; None: it reports none."""
    try:
        found = decode(RESPONSE, body).usage
    except MalformedError:
        return None
    return None if found is None else usage_of(found)


class ResponsesReader:
    """Read one answer."""

    reasoning_field = ""  # the dialect has one place for it
    varied = True  # events have numbers

    def __init__(self, exchange: Exchange) -> None:
        self.assembler: Assembler = assembler_for(exchange)
        self.add_text: Callable[[int], None] = self.assembler.add_text
        self._pieces = Pieces(self.assembler, exchange.tools)
        self._items = self._pieces.items
        self._strict = exchange.strict
        self._lenient_eof = exchange.profile.lenient_eof
        # The output limit, if the peer does not report that an answer reached it.
        self._unreported_limit = (
            _limit(exchange) if exchange.profile.truncation_unreported else None
        )
        # The call that was added to last: how its events name it, and its key.
        self._hot_call: tuple[tuple[str | None, int | None], Hashable] | None = None
        self._announced = False  # the last event only opened what the next ones fill
        self._named = (
            False  # events were seen to have names, or it was reported that they have none
        )
        self._numbered = (
            False  # the events were seen to have numbers, or it was reported that they have none
        )

    @property
    def pending(self) -> bool:
        """A call's name has not come yet, half a character is held, or an item was announced and is empty so far."""
        return self._announced or self._pieces.nameless > 0 or bool(self._pieces.halves)

    def read(self, frame: Frame, /) -> None:
        """Read one frame into the assembler."""
        self._announced = False
        try:
            event = STREAM_EVENTS.decode(frame.data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._read_odd(frame)
            return
        hot = self._pieces.hot
        # The path of nearly every event: more text for the part that is open.
        if (
            hot is not None
            and type(event) is TextDeltaEvent
            and event.item_id == hot.item_id
            and event.content_index == hot.content_index
            and event.output_index == hot.output_index
            and event.delta
            and not event.logprobs
        ):
            self.assembler.text(event.delta)
            return
        if not self._named:
            self._look_at_name(frame)
        self._read_event(event)

    @property
    def takes_text(self) -> bool:
        """Text can just be added to the open part, or arguments to the open call."""
        if self.assembler.in_text:
            return self._pieces.hot is not None and not self.pending
        hot = self._hot_call
        return hot is not None and self.assembler.takes_args(hot[1]) and not self.pending

    def text_of(self, data: bytes, /) -> str:
        """Return the text, or the arguments, of an event that only adds them to what is open; empty for every other."""
        try:
            if self.assembler.kind is not TEXT:
                more, hot = _ARGUMENTS.decode(data), self._hot_call
                return more.delta if hot and hot[0] == (more.item_id, more.output_index) else ""
            event, open_part = _TEXT.decode(data), self._pieces.hot
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return ""
        same = (
            open_part is not None
            and event.item_id == open_part.item_id
            and event.content_index == open_part.content_index
            and event.output_index == open_part.output_index
            and not event.logprobs
        )
        return event.delta if same else ""

    def add_more(self, text: str, /) -> None:
        """Add to the arguments of the open call."""
        if self._hot_call is not None:
            self.assembler.args(self._hot_call[1], text)

    def end(self) -> None:
        """End of the stream, with no terminal event."""
        # Cases: responses/g2_end_without_terminal_event, responses/g2_end_inside_a_call.
        calls = [item for item in self._items if item.opened]
        if (
            self._lenient_eof
            and calls
            and all(self.assembler.call_is_whole(item.key) for item in calls)
        ):
            self.assembler.finish(None)
            return
        self.assembler.fault(truncated())

    def read_body(self, body: bytes, /) -> None:
        """Read a complete answer, or an error body, into the assembler."""
        try:
            response = decode(RESPONSE, body)
        except MalformedError:
            fault = find_fault(body)
            if fault is None:
                raise
            self.assembler.fault(fault)
            return
        if response.output is None and response.status is None:
            fault = find_fault(body)
            if fault is None:
                raise MalformedError("neither an answer nor an error", path="$")
            self.assembler.fault(fault)
            return
        self._start(response)
        match response.status:
            case "failed" | "cancelled":
                self._fail(response)
            case "incomplete":
                self._complete(response, cut=True)
            case "queued" | "in_progress":
                message = f"the upstream's answer is still {response.status.replace('_', ' ')}"
                self.assembler.fault(
                    Fault(FaultKind.UPSTREAM_BAD, message, code="upstream_malformed")
                )
            case _:
                self._complete(response, cut=False)

    # --- frames ---------------------------------------------------------------------------------

    def _read_odd(self, frame: Frame) -> None:
        """Read a frame that is not a declared event: `[DONE]`, an error, an unknown or broken event."""
        if frame.data.startswith(b"[DONE]"):
            self.end()
            return
        head = decode(HEAD, frame.data)
        name = head.type if head.type is not None else frame.event
        self._announced = name in _ANNOUNCEMENTS
        decoder = STREAM_EVENTS_BY_NAME.get(name)
        if decoder is not None:
            # Cases: responses/s16_surrogate_pair_over_two_events, responses/type_on_the_event_line_only.
            # Half a surrogate pair, or a peer that names the event on its own line only.
            event = decode(decoder, frame.data)
            self._pieces.halves.active = True
            self._read_event(event)
        # Cases: responses/error_event_flat, responses/error_event_nested, responses/error_object_and_done.
        elif name == "error" or head.error != NULL:
            self.assembler.fault(decode_fault(0, frame.data))

    def _read_event(self, event: StreamEvent) -> None:
        match event:
            case TextDeltaEvent():
                self._pieces.text(
                    self._items.of(event, "message"),
                    event.content_index,
                    event.delta,
                    event.logprobs,
                )
                self._pieces.hot = event if event.delta and not self._pieces.halves.active else None
            case ArgumentsDelta():
                item = self._items.of(event, "function_call")
                self._pieces.args(item, event.delta)
                self._hot_call = ((event.item_id, event.output_index), item.key)
            case InputDeltaEvent():
                self._pieces.args(self._items.of(event, "custom_tool_call"), event.delta)
            case SummaryDelta(summary_index=index, delta=text):
                self._pieces.reasoning(
                    self._items.of(event, "reasoning"), Channel.SUMMARY, index, text
                )
            case ReasoningTextDelta(content_index=index, delta=text):
                self._pieces.reasoning(
                    self._items.of(event, "reasoning"), Channel.FULL, index, text
                )
            case RefusalDeltaEvent():
                self._pieces.refusal(
                    self._items.of(event, "message"), event.content_index, event.delta
                )
            case Created() | InProgress() | Queued():
                if not self._numbered:
                    self._look_at_numbers(event.sequence_number, "$.sequence_number")
                self._start(event.response)
            case ItemAdded():
                count = len(self.assembler.out)
                self._added(event)
                self._announced = len(self.assembler.out) == count
            case ItemDone():
                out = decode(OUTPUT_ITEM, bytes(event.item))
                item = self._items.done(out, event.output_index)
                self._pieces.finish(item, out, event.item)
            case PartDone() | TextDone() | RefusalDone() | AnnotationAdded():
                self._read_part(event)
            case (
                ArgumentsDone()
                | InputDone()
                | SummaryDone()
                | SummaryPartDone()
                | ReasoningTextDone()
            ):
                self._read_done(event)
            case Completed():
                self._complete(event.response, cut=event.response.status == "incomplete")
            case Incomplete():
                self._complete(event.response, cut=True)
            case Failed() | Cancelled():
                self._fail(event.response)
            case _:
                assert_never(event)

    def _read_part(self, event: PartDone | TextDone | RefusalDone | AnnotationAdded) -> None:
        index = event.content_index
        if isinstance(event, PartDone) and event.part and event.part.type == "reasoning_text":
            item = self._items.of(event, "reasoning")
            if ("full", index) not in item.given:
                self._pieces.reasoning(item, Channel.FULL, index, event.part.text or "")
            return
        item = self._items.of(event, "message")
        match event:
            case TextDone(text=text):
                if ("text", index) not in item.given:
                    self._pieces.text(item, index, text)
            case RefusalDone(refusal=text):
                if ("refusal", index) not in item.given:
                    self._pieces.refusal(item, index, text)
            case AnnotationAdded(annotation=annotation):
                self._pieces.cite(item, index, annotation)
            case PartDone(part=part):
                if item.type == "message" and part is not None:
                    self._pieces.message_part(item, index, part)
                    self._pieces.split()

    def _read_done(
        self,
        event: ArgumentsDone | InputDone | SummaryDone | SummaryPartDone | ReasoningTextDone,
    ) -> None:
        match event:
            case ArgumentsDone(arguments=text, name=name):
                item = self._items.of(event, "function_call")
                if not item.opened and name:
                    self._pieces.open_call(item, OutputItem(item.type, item.id, name=name))
                self._pieces.whole_args(item, text)
            case InputDone(input=text):
                self._pieces.whole_args(self._items.of(event, "custom_tool_call"), text)
            case SummaryDone(summary_index=index, text=text):
                item = self._items.of(event, "reasoning")
                if ("summary", index) not in item.given:
                    self._pieces.reasoning(item, Channel.SUMMARY, index, text)
            # Case: responses/reasoning_in_part_done_only.
            case SummaryPartDone(summary_index=index, part=part):
                item = self._items.of(event, "reasoning")
                if part is not None and ("summary", index) not in item.given:
                    self._pieces.reasoning(item, Channel.SUMMARY, index, part.text or "")
            case ReasoningTextDone(content_index=index, text=text):
                item = self._items.of(event, "reasoning")
                if ("full", index) not in item.given:
                    self._pieces.reasoning(item, Channel.FULL, index, text)

    # --- the response ---------------------------------------------------------------------------

    def _look_at_name(self, frame: Frame) -> None:
        self._named = True
        # Case: responses/oddity_transformers_serve_no_event_names.
        if not frame.event:
            self.assembler.loss("event_unnamed", "$", "an event without a name")

    def _look_at_numbers(self, number: int | None, path: str) -> None:
        self._numbered = True
        if number is None:
            self.assembler.loss("event_incomplete", path)

    def _start(self, response: ResponseObject) -> None:
        self.assembler.start(
            model=response.model or "",
            id=response.id or "",
            created=int(response.created_at or 0),
        )

    def _complete(self, response: ResponseObject, *, cut: bool) -> None:
        """Take what was not streamed, and end the turn."""
        self._start(response)
        # Case: responses/b10_oddity_llama_cpp_cut_call.
        if not cut and self._reached_limit(response):
            cut = True
            self.assembler.loss("finish_reason_fixed", "$.status", "truncated at the token limit")
        for position, raw in enumerate(response.output or ()):
            self._take_item(position, raw)
            if self.assembler.ended:
                return
        for item in self._items:
            # Case: responses/missing_done_events.
            if item.opened and not item.done and not cut:
                self.assembler.end_call(item.key)
            # Case: responses/a7_call_without_a_name.
            elif item.held and not item.opened:
                self._pieces.end_nameless(item, cut=cut)
            if self.assembler.ended:
                return
        # Test: test_half_of_a_character_whose_other_half_never_comes_is_replaced.
        if self._pieces.halves:
            self._pieces.split()
        if response.usage is not None:
            self.assembler.usage(usage_of(response.usage))
        self.assembler.finish(self._reason(response, cut=cut))

    def _take_item(self, position: int, raw: Raw) -> None:
        """Take what an item of the finished response says and the stream did not."""
        try:
            out = decode(OUTPUT_ITEM, bytes(raw))
        except MalformedError as error:
            # One bad item must not cost the end of the turn.
            if self._strict:
                raise
            self.assembler.loss("chunk_malformed", f"$.output[{position}]", error.reason)
            return
        item = self._items.final(out, position)
        # Cases: responses/items_never_streamed, responses/b6_arguments_in_response_only.
        if not item.done:
            self._pieces.finish(item, out, raw)
        else:
            self._pieces.take_late(item, out, raw)

    def _reached_limit(self, response: ResponseObject) -> bool:
        if self._unreported_limit is None or response.usage is None:
            return False
        return usage_of(response.usage).output_tokens >= self._unreported_limit

    def _reason(self, response: ResponseObject, *, cut: bool) -> FinishReason | None:
        if not cut:
            return FinishReason.REFUSAL if self._pieces.only_refused else None
        details = response.incomplete_details
        word = (details.reason if details else None) or "max_output_tokens"
        reason = FINISH_REASONS.get(word)
        if reason is None:
            # Case: responses/incomplete_for_another_reason.
            # Whatever it was, the answer is not whole.
            self.assembler.loss("finish_reason_unknown", detail=f"{word}; treated as truncated")
            reason = FinishReason.LENGTH
        return reason

    def _fail(self, response: ResponseObject) -> None:
        self._start(response)
        if bytes(response.error) in _NO_ERROR:
            fault = Fault(FaultKind.SERVER, f"the response {response.status or 'failed'}")
        else:
            fault = error_fault(bytes(response.error))
        self.assembler.fault(fault)

    def _added(self, event: ItemAdded) -> None:
        out = decode(OUTPUT_ITEM, bytes(event.item))
        before = len(self._items)
        item = self._items.added(out, event.output_index)
        if event.output_index not in (None, before) and len(self._items) > before:
            # oddity_transformers_serve_call
            detail = f"{event.output_index} became {before}"
            self.assembler.loss("block_index_fixed", "$.output_index", detail)
        if item.type in ("function_call", "custom_tool_call") and not item.opened:
            self._pieces.open_call(item, out)


def _limit(exchange: Exchange) -> int | None:
    return None if exchange.request is None else exchange.request.max_output
