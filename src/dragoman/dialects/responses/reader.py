"""Frames and bodies of a Responses upstream, told to the assembler.

What is said twice counts once: text and arguments are taken from the first place that has them, of the
deltas, the `.done` events, the finished item and the finished response.  Peers leave out any of these.
"""

from typing import Final, assert_never

import msgspec
from msgspec import Raw

from dragoman.dialects.decoding import decode
from dragoman.dialects.responses.events import (
    ANNOTATION,
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
    TextDeltaEvent,
    TextDone,
)
from dragoman.dialects.responses.faults import error_fault, find_fault
from dragoman.dialects.responses.outputs import Item, Items, usage_of
from dragoman.dialects.responses.schema import HEAD, HOSTED_ITEMS, NULL, Part
from dragoman.dialects.responses.shells import NAME_BY_CALL, SHELLS, arguments_of
from dragoman.dialects.responses.surrogates import Pairs
from dragoman.dialects.stream import truncated
from dragoman.errors import Malformed
from dragoman.exchange import Exchange
from dragoman.turn.assembly import Assembler
from dragoman.turn.events import (
    BlockKind,
    Channel,
    Citation,
    Fault,
    FaultKind,
    FinishReason,
    Flavor,
    OpaqueKind,
)
from dragoman.turn.tools import wire_name
from dragoman.wire.sse import Frame

_VENDOR: Final = "openai"
_INCOMPLETE: Final = {
    "max_output_tokens": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}


class ResponsesReader:
    """Read one answer."""

    def __init__(self, exchange: Exchange) -> None:
        self.assembler = Assembler(
            tools=exchange.tools,
            seed=exchange.seed,
            origin=exchange.profile.origin,
            input_estimate=exchange.input_estimate,
            seal_plain=False,
            limits=exchange.limits,
        )
        self._tools = exchange.tools
        self._strict = exchange.strict
        self._lenient_eof = exchange.profile.lenient_eof
        self._items = Items()
        self._focus: tuple[object, ...] = ()  # which part the open text or reasoning block holds
        self._spoke = False  # text was said
        self._refusing = False  # the last thing said was a refusal
        self._pairs: Pairs | None = None  # set once the peer cut a surrogate pair in two

    @property
    def pending(self) -> bool:
        """A call's name has not come yet, or half a character is held."""
        return any(item.held for item in self._items) or bool(self._pairs and self._pairs.held)

    def read(self, frame: Frame, /) -> None:
        """Tell what one frame says."""
        try:
            event = STREAM_EVENTS.decode(frame.data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._read_odd(frame)
            return
        self._tell(event)

    def end(self) -> None:
        """End of the stream, with no terminal event."""
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
        """Tell what a complete answer says, or an error body."""
        try:
            response = decode(RESPONSE, body)
        except Malformed:
            fault = _fault_in(body)
            if fault is None:
                raise
            self.assembler.fault(fault)
            return
        if response.output is None and response.status is None:
            fault = _fault_in(body)
            if fault is None:
                raise Malformed("neither an answer nor an error", path="$")
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
        """Read a frame that is no event as declared: `[DONE]`, an error, an unknown or broken event."""
        if frame.data.startswith(b"[DONE]"):
            self.end()
            return
        head = decode(HEAD, frame.data)
        name = head.type if head.type is not None else frame.event
        decoder = STREAM_EVENTS_BY_NAME.get(name)
        if decoder is not None:
            # Half a surrogate pair, or a peer that names the event on its own line only.
            event = decode(decoder, frame.data)
            if self._pairs is None:
                self._pairs = Pairs()
            self._tell(event)
        elif name == "error" or head.error != NULL:
            fault = _fault_in(frame.data) or Fault(FaultKind.SERVER, "the upstream gave no reason")
            self.assembler.fault(fault)

    def _tell(self, event: StreamEvent) -> None:
        match event:
            case TextDeltaEvent():
                self._text(
                    self._items.of(event, "message"),
                    event.content_index,
                    event.delta,
                    event.logprobs,
                )
            case ArgumentsDelta():
                self._args(self._items.of(event, "function_call"), event.delta)
            case InputDeltaEvent():
                self._args(self._items.of(event, "custom_tool_call"), event.delta)
            case SummaryDelta(summary_index=index, delta=text):
                self._reasoning(self._items.of(event, "reasoning"), Channel.SUMMARY, index, text)
            case ReasoningTextDelta(content_index=index, delta=text):
                self._reasoning(self._items.of(event, "reasoning"), Channel.FULL, index, text)
            case RefusalDeltaEvent():
                self._refusal(self._items.of(event, "message"), event.content_index, event.delta)
            case Created() | InProgress() | Queued():
                self._start(event.response)
            case ItemAdded():
                self._added(event)
            case ItemDone():
                out = decode(OUTPUT_ITEM, bytes(event.item))
                item = self._items.done(out, event.output_index)
                self._finish_item(item, out, event.item)
            case PartDone() | TextDone() | RefusalDone() | AnnotationAdded():
                self._tell_part(event)
            case ArgumentsDone() | InputDone() | SummaryDone() | ReasoningTextDone():
                self._tell_done(event)
            case Completed():
                self._complete(event.response, cut=event.response.status == "incomplete")
            case Incomplete():
                self._complete(event.response, cut=True)
            case Failed() | Cancelled():
                self._fail(event.response)
            case _:
                assert_never(event)

    def _tell_part(self, event: PartDone | TextDone | RefusalDone | AnnotationAdded) -> None:
        item = self._items.of(event, "message")
        index = event.content_index
        match event:
            case TextDone(text=text):
                if ("text", index) not in item.given:
                    self._text(item, index, text)
            case RefusalDone(refusal=text):
                if ("refusal", index) not in item.given:
                    self._refusal(item, index, text)
            case AnnotationAdded(annotation=annotation):
                self._cite(item, index, annotation)
            case PartDone(part=part):
                if item.type == "message" and part is not None:
                    self._message_part(item, index, part)
                    self._split()

    def _tell_done(
        self, event: ArgumentsDone | InputDone | SummaryDone | ReasoningTextDone
    ) -> None:
        match event:
            case ArgumentsDone(arguments=text, name=name):
                item = self._items.of(event, "function_call")
                if not item.opened and name:
                    self._open(item, OutputItem(item.type, item.id, name=name))
                self._whole_args(item, text)
            case InputDone(input=text):
                self._whole_args(self._items.of(event, "custom_tool_call"), text)
            case SummaryDone(summary_index=index, text=text):
                item = self._items.of(event, "reasoning")
                if ("summary", index) not in item.given:
                    self._reasoning(item, Channel.SUMMARY, index, text)
            case ReasoningTextDone(content_index=index, text=text):
                item = self._items.of(event, "reasoning")
                if ("full", index) not in item.given:
                    self._reasoning(item, Channel.FULL, index, text)

    # --- the response ---------------------------------------------------------------------------

    def _start(self, response: ResponseObject) -> None:
        self.assembler.start(
            model=response.model or "",
            id=response.id or "",
            created=int(response.created_at or 0),
        )

    def _complete(self, response: ResponseObject, *, cut: bool) -> None:
        """Take what was not streamed, and end the turn."""
        self._start(response)
        for position, raw in enumerate(response.output or ()):
            self._take_item(position, raw)
            if self.assembler.ended:
                return
        for item in self._items:
            if item.opened and not item.done and not cut:
                self.assembler.end_call(item.key)
            elif item.held and not item.opened:
                self._nameless(item)
            if self.assembler.ended:
                return
        if response.usage is not None:
            self.assembler.usage(usage_of(response.usage))
        self.assembler.finish(self._reason(response, cut=cut))

    def _take_item(self, position: int, raw: Raw) -> None:
        """Take what an item of the finished response says and the stream did not."""
        try:
            out = decode(OUTPUT_ITEM, bytes(raw))
        except Malformed as error:
            # One bad item must not cost the end of the turn.
            if self._strict:
                raise
            self.assembler.loss("chunk_malformed", f"$.output[{position}]", error.reason)
            return
        item = self._items.done(out, position)
        if not item.done:
            self._finish_item(item, out, raw)

    def _reason(self, response: ResponseObject, *, cut: bool) -> FinishReason | None:
        if not cut:
            only_refusal = self._refusing and not self._spoke and not self.assembler.has_calls
            return FinishReason.REFUSAL if only_refusal else None
        details = response.incomplete_details
        word = (details.reason if details else None) or "max_output_tokens"
        reason = _INCOMPLETE.get(word)
        if reason is None:
            # Whatever it was, the answer is not whole.
            self.assembler.loss("finish_reason_unknown", detail=f"{word}, read as cut")
            reason = FinishReason.LENGTH
        return reason

    def _fail(self, response: ResponseObject) -> None:
        self._start(response)
        try:
            error = msgspec.json.decode(response.error)
        except msgspec.DecodeError:  # half a surrogate pair
            error = None
        if isinstance(error, dict):
            fault = error_fault(error)
        else:
            text = error if isinstance(error, str) and error else ""
            fault = Fault(FaultKind.SERVER, text or f"the response {response.status or 'failed'}")
        self.assembler.fault(fault)

    # --- items ----------------------------------------------------------------------------------

    def _added(self, event: ItemAdded) -> None:
        out = decode(OUTPUT_ITEM, bytes(event.item))
        item = self._items.added(out, event.output_index)
        if item.type in ("function_call", "custom_tool_call") and not item.opened:
            self._open(item, out)

    def _finish_item(self, item: Item, out: OutputItem, raw: Raw) -> None:
        """Take what a finished item says and its events did not."""
        item.done = True
        kind = out.type or item.type
        match kind:
            case "message":
                for index, part in enumerate(out.content or ()):
                    self._message_part(item, index, part)
                self._split()
            case "reasoning":
                self._finish_reasoning(item, out)
            case "function_call" | "custom_tool_call":
                self._finish_call(item, out)
            case "local_shell_call" | "shell_call" | "apply_patch_call" if _client_runs(out):
                self._shell_call(item, out, SHELLS[NAME_BY_CALL[kind]].flavor)
            case _:
                self._refusing = False
                self.assembler.whole_block(_block_kind(kind), _VENDOR, raw)

    def _message_part(self, item: Item, index: int, part: Part) -> None:
        if part.type == "refusal" or (part.text is None and part.refusal):
            if ("refusal", index) not in item.given:
                self._refusal(item, index, part.refusal or "")
            return
        if ("text", index) not in item.given:
            self._text(item, index, part.text or "")
        if ("cited", index) not in item.given:
            for annotation in part.annotations or ():
                self._cite(item, index, annotation)

    def _finish_reasoning(self, item: Item, out: OutputItem) -> None:
        for index, part in enumerate(out.summary or ()):
            if ("summary", index) not in item.given:
                self._reasoning(item, Channel.SUMMARY, index, part.text or "")
        for index, part in enumerate(out.content or ()):
            if ("full", index) not in item.given:
                self._reasoning(item, Channel.FULL, index, part.text or "")
        if out.encrypted_content:
            self._turn_to("reasoning", item.key)
            self.assembler.opaque(OpaqueKind.ENCRYPTED, out.encrypted_content, out.id or item.id)
        self._split()

    def _finish_call(self, item: Item, out: OutputItem) -> None:
        if not item.opened:
            self._open(item, out)
        if not item.opened:
            self._nameless(item)
            return
        text = out.input if item.type == "custom_tool_call" else out.arguments
        if isinstance(text, dict):
            text = msgspec.json.encode(text).decode()
        if isinstance(text, str):
            self._whole_args(item, text)
        # A cut call has not ended: the end of the turn says how.
        if out.status != "incomplete":
            self.assembler.end_call(item.key)

    def _shell_call(self, item: Item, out: OutputItem, flavor: Flavor) -> None:
        self._refusing = False
        self.assembler.open_call(
            item.key,
            call_id=out.call_id or out.id or "",
            name=NAME_BY_CALL[out.type],
            flavor=flavor,
        )
        item.opened = True
        content = out.operation if flavor is Flavor.APPLY_PATCH else out.action
        self.assembler.args(item.key, arguments_of(flavor, content))
        if out.status != "incomplete":
            self.assembler.end_call(item.key)

    def _open(self, item: Item, out: OutputItem) -> None:
        """Open a call, if its name is known by now."""
        if not out.name:
            return
        self._refusing = False
        namespace = out.namespace or ""
        wire = wire_name(out.name, namespace)
        known = wire in self._tools
        custom = item.type == "custom_tool_call"
        flavor = Flavor.CUSTOM if custom else None
        if namespace and not known:
            flavor = flavor or Flavor.FUNCTION
        self.assembler.open_call(
            item.key,
            call_id=out.call_id or out.id or item.id,
            name=wire if known else out.name,
            namespace=namespace,
            flavor=flavor,
            raw_input=custom,
        )
        item.opened = True
        held, item.held = item.held, []
        for fragment in held:
            self.assembler.args(item.key, fragment)

    def _nameless(self, item: Item) -> None:
        self.assembler.loss("call_without_name", f"item {item.id}")
        message = "the upstream made a tool call without a name"
        self.assembler.fault(Fault(FaultKind.UPSTREAM_BAD, message, code="upstream_malformed"))

    # --- pieces ---------------------------------------------------------------------------------

    def _turn_to(self, *part: object) -> None:
        """End the open block unless it holds this part."""
        if self._focus != part:
            self._split()
            self._focus = part

    def _split(self) -> None:
        if self._pairs and self._pairs.held:
            self._release_half()
        self._focus = ()
        self.assembler.split()

    def _text(self, item: Item, index: int, text: str, logprobs: list[Raw] | None = None) -> None:
        if self._pairs:
            text = self._whole_text(text)
        if not text:
            return
        self._turn_to("text", item.key, index)
        item.given.add(("text", index))
        self._spoke = True
        self._refusing = False
        self.assembler.text(text, Raw(msgspec.json.encode(logprobs)) if logprobs else None)

    def _refusal(self, item: Item, index: int, text: str) -> None:
        if self._pairs:
            text = self._whole_text(text)
        if not text:
            return
        self._turn_to("refusal", item.key, index)
        item.given.add(("refusal", index))
        self._refusing = True
        self.assembler.refusal(text)

    def _reasoning(self, item: Item, channel: Channel, part: int, text: str) -> None:
        if self._pairs:
            text = self._whole_text(text)
        if not text:
            return
        self._turn_to("reasoning", item.key)
        item.given.add((str(channel), part))
        self._refusing = False
        self.assembler.reasoning(text, channel, part)

    def _args(self, item: Item, fragment: str) -> None:
        if self._pairs:
            fragment = self._whole_text(fragment)
        if not fragment:
            return
        item.given.add(("args", 0))
        if item.opened:
            self.assembler.args(item.key, fragment)
        else:
            item.held.append(fragment)

    def _whole_args(self, item: Item, text: str) -> None:
        """Take arguments that come in one piece, unless they came already."""
        if self._pairs and self._pairs.held:
            self._args(item, self._pairs.give_up(self.assembler))
        if ("args", 0) not in item.given:
            self._args(item, text)

    def _cite(self, item: Item, index: int, raw: Raw) -> None:
        try:
            note = ANNOTATION.decode(raw)
        except msgspec.MsgspecError:
            self.assembler.loss("citations_dropped", f"item {item.id}", "of unknown shape")
            return
        item.given.add(("cited", index))
        self._turn_to("text", item.key, index)
        self.assembler.citation(
            Citation(
                0,
                note.url or "",
                note.title or "",
                start=note.start_index,
                end=note.end_index,
                vendor=_VENDOR,
                raw=raw,
            )
        )

    def _whole_text(self, text: str) -> str:
        assert self._pairs is not None  # noqa: S101 -- callers check
        return self._pairs.join(text, self.assembler)

    def _release_half(self) -> None:
        """Let out, replaced, the half of a character whose other half never came."""
        assert self._pairs is not None  # noqa: S101 -- callers check
        text = self._pairs.give_up(self.assembler)
        match self._focus[:1]:
            case ("text",):
                self.assembler.text(text)
            case ("refusal",):
                self.assembler.refusal(text)
            case _:
                pass


def _fault_in(data: bytes) -> Fault | None:
    try:
        return find_fault(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _client_runs(out: OutputItem) -> bool:
    """Say whether a shell call is for the client: one in a container was run by the vendor."""
    return out.environment is None or not out.environment.type.startswith("container")


def _block_kind(kind: str) -> BlockKind:
    if kind.endswith("_output"):
        return BlockKind.SERVER_RESULT
    if kind in HOSTED_ITEMS or kind.endswith("_call"):
        return BlockKind.SERVER_CALL
    return BlockKind.OPAQUE
