"""Encodes events as a Chat Completions stream."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, assert_never

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.context import Exchange
from dragoman.dialects.chat.block_reader import _LIST, joined
from dragoman.dialects.chat.history_reader import ORIGIN_FIELD
from dragoman.dialects.chat.schema import (
    AnnotationOut,
    AnswerImageOut,
    AnswerImageUrl,
    CitedOut,
    CompletionDetailsOut,
    PromptDetailsOut,
    ToolUseOut,
    UsageOut,
)
from dragoman.dialects.decoding import decode
from dragoman.dialects.encoding import encode, escaped
from dragoman.dialects.identity import Identity, identity_of
from dragoman.dialects.openai_errors import encode_error
from dragoman.dialects.sealing import seal
from dragoman.ids import ClientIds
from dragoman.turn.answer import Block
from dragoman.turn.events import (
    TRUNCATED,
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
from dragoman.turn.request import ReasoningSegment
from dragoman.turn.server_tools import ServerKind, ServerResult, SourceRef, host_of
from dragoman.turn.state import Legality
from dragoman.turn.tools import ToolName, wire_name

_encode_text: Final = msgspec.json.Encoder().encode

# --- finish reasons and usage ---------------------------------------------------------------------

# The reasons of the dialect itself: others are kept in `Finish.raw`.
_OWN: Final = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter"})

FINISH_WORDS: Final[dict[FinishReason, str]] = {
    FinishReason.STOP: "stop",
    FinishReason.STOP_SEQUENCE: "stop",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.LENGTH: "length",
    FinishReason.CONTEXT_FULL: "length",
    FinishReason.CONTENT_FILTER: "content_filter",
    FinishReason.REFUSAL: "stop",
    # The answer is not finished; Chat has no other word for that.
    FinishReason.PAUSE: "length",
    FinishReason.COMPACTION: "length",
}


def foreign_reason(reason: str) -> str:
    """Return a peer's finish reason if the dialect does not have it, else an empty string."""
    return "" if reason in _OWN else reason


def finish_word(reason: FinishReason) -> str:
    """Return the `finish_reason` for a client."""
    return FINISH_WORDS[reason]


def write_usage(usage: Usage, foreign: Mapping[str, Raw]) -> UsageOut:
    """Return the counts for a client; a field of the upstream's own that is written beside them comes first."""
    return UsageOut(
        usage.prompt_tokens,
        usage.output_tokens,
        usage.prompt_tokens + usage.output_tokens,
        PromptDetailsOut(
            usage.cache_read_tokens, usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
        ),
        CompletionDetailsOut(usage.reasoning_tokens),
        None if "cost" in foreign else usage.cost,
        ToolUseOut(usage.searches) if usage.searches and not _counted(foreign) else None,
    )


def _counted(foreign: Mapping[str, Raw]) -> bool:
    """Return whether the upstream's own count of searches is written beside the tokens."""
    return "server_tool_use_details" in foreign


# --- citations ------------------------------------------------------------------------------------
# Offsets count from the start of the message in the dialect, and from the start of the text block in the
# turn; `base` is the number of characters of text before the block.


def write_annotation(citation: Citation, base: int) -> AnnotationOut | None:
    """Return the annotation for a client, or None if the source has no address."""
    if not citation.url:
        return None
    start = 0 if citation.start is None else citation.start + base
    end = 0 if citation.end is None else citation.end + base
    title = citation.title or host_of(citation.url)
    return AnnotationOut(CitedOut(citation.url, title, start, end))


def write_sources(sources: Sequence[SourceRef]) -> list[AnnotationOut]:
    """Return what searches found as annotations, for an answer that cites nothing itself."""
    found = {one.url: one for one in sources}
    return [AnnotationOut(CitedOut(one.url, one.shown_title, 0, 0)) for one in found.values()]


def found_sources(block: BlockStart | Block) -> tuple[SourceRef, ...] | None:
    """Return what a block of a web search found; None if it is of another tool, which the dialect cannot show."""
    server = block.server
    if server is None or server.does is not ServerKind.WEB_SEARCH:
        return None
    return server.sources if isinstance(server, ServerResult) else ()


def write_image(block: BlockStart | Block, index: int) -> list[AnswerImageOut] | None:
    """Return the image that a block has, in OpenRouter's form; None if the block is of another tool.

    `index` is the number of images before it: OpenAI's SDK joins the lists of a stream by it.
    """
    server = block.server
    if server is None or server.does is not ServerKind.IMAGE:
        return None
    image = server.image if isinstance(server, ServerResult) else None
    if image is None:
        return []
    url = image.url or f"data:{image.media_type};base64,{image.data}"
    return [AnswerImageOut(AnswerImageUrl(url), index)]


# --- reasoning details ----------------------------------------------------------------------------


def write_details(exchange: Exchange, block: Block, first: int) -> list[Raw]:
    """Return a reasoning block as entries; `first` is the index of the first one.

    Indexes count over the whole answer, because clients join entries by them.  State of another vendor
    goes into an envelope, which is opened only for requests to its origin.
    """
    theirs = next((one for one in block.opaque if one.kind is OpaqueKind.DETAILS), None)
    if theirs is not None:
        entries = decode(_LIST, theirs.data.encode()) or []
    else:
        entries = _entries_of(exchange, block)
    return [
        Raw(msgspec.json.encode({**entry, "index": index}))
        for index, entry in enumerate(entries, first)
    ]


def call_state(state: Opaque, exchange: Exchange) -> bytes:
    """Return the state of a call for `extra_content`, with its origin if that is an upstream of another dialect."""
    data = state.data.encode()
    if exchange.keep_identity or not state.origin:
        return data
    return b'%b,"%b":%b}' % (data[:-1], ORIGIN_FIELD.encode(), encode(state.origin))


def _entries_of(exchange: Exchange, block: Block) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for segment in block.segments:
        kind = "summary" if segment.channel is Channel.SUMMARY else "text"
        entries.append({"type": f"reasoning.{kind}", kind: segment.text})
    state = next((one for one in block.opaque if one.kind is not OpaqueKind.PLAIN), None)
    envelope = seal(exchange, [state], joined(block)) if state is not None else None
    if state is not None and envelope is not None:
        if state.kind is OpaqueKind.SIGNATURE and entries:
            entries[-1]["signature"] = envelope
        else:
            entries.append({"type": "reasoning.encrypted", "data": envelope})
    return entries


# --- fields of the upstream -----------------------------------------------------------------------
# Servers add fields to chunks, choices and counts that are not in the API (OpenRouter: `provider`, `native_finish_reason`,
# `cost`).  If upstream and client both use this dialect, what is written in place of a chunk keeps them.

_CHUNK_FIELDS: Final = frozenset({"id", "object", "created", "model", "choices", "usage", "error"})
_CHOICE_FIELDS: Final = frozenset(
    {"index", "delta", "message", "text", "finish_reason", "logprobs", "usage"}
)
# The cost is written as the upstream wrote it, with its parts if it has some.
_USAGE_FIELDS: Final = frozenset(UsageOut.__struct_fields__) - {"cost"}
_MAX_FOREIGN_BYTES: Final = 4096  # of all such fields of one chunk; larger ones are left out
_MAX_CHUNK_BYTES: Final = 256 * 1024  # of a chunk, or of a body, that is searched for them
_MAX_LAST_CHUNKS: Final = 4  # that are searched at the end of an answer
_BRACKETS: Final = (b"{", b"[")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_OBJECTS: Final = msgspec.json.Decoder(list[dict[str, Raw]])


class ForeignFields(Struct, frozen=True):
    """Fields of an upstream's chunk, or of its body, that the dialect does not define."""

    chunk: dict[str, Raw] = {}
    choice: dict[str, Raw] = {}  # of the first choice
    usage: dict[str, Raw] = {}


def foreign_fields(data: bytes) -> ForeignFields:
    """Return the fields that the dialect does not define; none of JSON that is not a chunk or a body."""
    if len(data) > _MAX_CHUNK_BYTES:
        return ForeignFields()
    try:
        chunk = _OBJECT.decode(data)
        choices = _OBJECTS.decode(chunk.get("choices", b"[]"))
        counted = bytes(chunk.get("usage", b""))
        usage = _OBJECT.decode(counted) if counted[:1] == b"{" else {}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ForeignFields()
    left = [_MAX_FOREIGN_BYTES]
    return ForeignFields(
        _without(chunk, _CHUNK_FIELDS, left),
        _without(choices[0], _CHOICE_FIELDS, left) if choices else {},
        _without(usage, _USAGE_FIELDS, left),
    )


def _without(fields: dict[str, Raw], own: frozenset[str], left: list[int]) -> dict[str, Raw]:
    """Return the fields that are not among `own`, as far as there are bytes `left`."""
    kept: dict[str, Raw] = {}
    for name in [name for name in fields if name not in own]:
        size = len(name) + len(bytes(fields[name]))
        if size <= left[0]:
            left[0] -= size
            kept[name] = fields[name]
    return kept


def written_fields(fields: dict[str, Raw]) -> bytes:
    """Return fields as JSON that continues an object: each begins with a comma."""
    return b"".join(b",%b:%b" % (encode(name), bytes(fields[name])) for name in fields)


def _scalars(fields: dict[str, Raw]) -> dict[str, Raw]:
    return {name: one for name, one in fields.items() if bytes(one)[:1] not in _BRACKETS}


def _lists(fields: dict[str, Raw]) -> dict[str, Raw]:
    """Return the fields whose value is a list or an object."""
    return {name: one for name, one in fields.items() if bytes(one)[:1] in _BRACKETS}


# --- the writer -----------------------------------------------------------------------------------
# Clients join all strings of the deltas, so role, ids and names are written once.  What a client's
# accumulator makes of the stream is what `encode_body` gives for the same answer.

CallShape: TypeAlias = Literal["function", "custom", "wrapped"]

# What follows the delta of a chunk that does not end the answer.
_TAIL: Final = b',"finish_reason":null}]}\n\n'

DONE: Final = b"data: [DONE]\n\n"

# One line only: a blank line after a comment makes some clients see an empty event.
KEEP_ALIVE: Final = b": keep-alive\n"

# A field in which an upstream's chunk has reasoning, found in the chunk's bytes.
_SEEN_REASONING: Final = re.compile(rb'"(reasoning(?:_content)?)"\s*:\s*"(?!")')

_REASONING_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "reasoning_content": ("reasoning_content",),
    "reasoning": ("reasoning",),
    "both": ("reasoning_content", "reasoning"),
    "details": ("reasoning_content",),
    "off": (),
}


def completion_identity(start: Start, exchange: Exchange) -> Identity:
    """Return the fields that all chunks of an answer share; an id of this dialect stays if no seed replaces it."""
    who = identity_of(start, exchange, prefix="chatcmpl-", what="answer")
    own = start.id.startswith("chatcmpl-") and not exchange.seed
    return structs.replace(who, id=start.id) if own else who


class CallNames:
    """How the calls of one answer are shown to the client."""

    def __init__(self, exchange: Exchange) -> None:
        request = exchange.request
        self._own = request is not None and request.dialect == "chat"
        self.ids: ClientIds = exchange.call_ids
        self._declared = {
            ToolName(tool.name, tool.namespace, tool.flavor)
            for tool in (request.tools if request is not None and self._own else ())
        }

    def name_of(self, call: BlockStart | Block) -> str:
        """Return the name as the client declared it; names of others are made legal."""
        if self._own and not call.namespace:
            return call.name
        return wire_name(call.name, call.namespace)

    def shape_of(self, call: BlockStart | Block) -> CallShape:
        """Return how a call is written: free-form input only for a client that declared it so."""
        if call.kind is not BlockKind.CUSTOM_CALL:
            return "function"
        declared = ToolName(call.name, call.namespace, call.flavor) in self._declared
        return "custom" if declared else "wrapped"


def reasoning_fields(exchange: Exchange) -> tuple[str, ...]:
    """Return the fields that carry reasoning text for this client."""
    return _REASONING_FIELDS[exchange.rendering.chat_reasoning]


class ChatWriter:
    """Write one streamed answer."""

    def __init__(self, exchange: Exchange) -> None:
        self.losses: list[Loss] = []
        self.response = b""  # no server of this dialect stores responses
        self._exchange = exchange
        self._check = Legality().check
        self._names = CallNames(exchange)
        self._fields = [b'"%b":' % name.encode() for name in reasoning_fields(exchange)]
        self._seen_fields: list[bytes] = []  # of an upstream whose chunks pass
        self._with_details = exchange.rendering.chat_reasoning == "details"
        self._first_fields = b""  # of every chunk: what names the answer
        self._foreign = ForeignFields()  # of the upstream's chunks, if they are of this dialect
        self._tail = _TAIL
        self._whole_head = b""  # of every chunk, up to its choices
        self._head = b""  # and up to its delta
        self._text_head = b""
        self._args_head = b""  # of the open call's deltas
        self._extra_head = b""  # of its vendor state
        self._shape: CallShape = "function"  # of the open call
        self._input_begun = False  # the open call's wrapped input has begun
        self._calls = 0
        self._kind: BlockKind | None = None  # of the open block
        self._last_kind: BlockKind | None = None
        self._part = 0  # of the open reasoning block
        # Of the open reasoning block, for its details: pieces of text by channel and part, and state.
        self._texts: dict[tuple[Channel, int], list[str]] = {}
        self._opaque: list[Opaque] = []
        self._detail_index = 0
        self._chars = 0  # of text so far
        self._base = 0  # of text before the open block
        self._annotations: list[AnnotationOut] = []
        self._sources: list[SourceRef] = []  # that searches found
        self._searched = False  # a search ran
        self._images = 0  # so far
        self._usage: Usage | None = None

    def expect(self, raw: bytes, /, *, resume: bool) -> None:
        """Write reasoning in the same fields as the upstream."""
        for name in _SEEN_REASONING.findall(raw):
            if name not in self._seen_fields:
                self._seen_fields.append(name)
                self._fields = [b'"%b":' % one for one in self._seen_fields]

    def adopt(self, raw: bytes, /) -> None:
        """Keep the fields of the upstream's chunks that the dialect does not define.

        Those with a single value are repeated in every chunk that is written, as servers do; lists and
        objects come once, with the first or the last chunk.
        """
        before = self._foreign
        chunk, choice, usage = dict(before.chunk), dict(before.choice), dict(before.usage)
        lines = [line[5:] for line in raw.splitlines() if line.startswith(b"data:")]
        for line in lines[-_MAX_LAST_CHUNKS:]:
            found = foreign_fields(line)
            chunk |= found.chunk
            choice |= found.choice
            usage |= found.usage
        self._foreign = ForeignFields(chunk, choice, usage)
        if self._foreign != before:
            self._tail = b',"finish_reason":null%b}]}\n\n' % written_fields(_scalars(choice))
            self._build_heads()

    def passed(self, raw: bytes, /) -> None:
        """Do nothing: forwarded frames do not change what is written later."""

    def skip(self, event: EventOrRun, /) -> None:
        """Note a delta whose frame is forwarded."""
        if type(event) is DeltaRun:
            event = event.whole
        if type(event) is TextDelta and event.logprobs is None:
            self._check(event)
            self._chars += len(event.text)
        elif type(event) is ArgsDelta:
            self._check(event)
        elif type(event) is ReasoningDelta and not self._with_details:
            self._check(event)
            self._part = event.part
        else:
            self.send(event)

    def send(self, event: EventOrRun, /) -> bytes:
        """Return the bytes of an event.

        Raises:
            IllegalOrderError: the event is not allowed here.
        """
        self._check(event)
        if event.__class__ is TextDelta and event.logprobs is None:
            self._chars += len(event.text)
            try:
                text = _encode_text(event.text)
            except UnicodeEncodeError:
                text = encode(event.text)
            return b"%b%b}%b" % (self._text_head, text, self._tail)
        return self._write(event)

    def _run(self, run: DeltaRun) -> bytes:
        """Write each delta as `send` writes it."""
        whole = run.whole
        if isinstance(whole, TextDelta):
            self._chars += len(whole.text)
            before, after = self._text_head + b'"', b'"}' + self._tail
        elif isinstance(whole, ArgsDelta):
            before, after = self._args_head + b'"', b'"}}]}' + self._tail
        elif whole.part != self._part or len(self._fields) != 1:
            return b"".join(map(self._write, run.deltas()))
        else:
            self._keep_details(whole)
            before, after = b'%b{%b"' % (self._head, self._fields[0]), b'"}' + self._tail
        return before + (after + before).join(run.bodies) + after

    def _write(self, event: EventOrRun) -> bytes:
        match event:
            case DeltaRun():
                return self._run(event)
            case ArgsDelta(json=json):
                return b"%b%b}}]}%b" % (self._args_head, encode(json), self._tail)
            case ReasoningDelta():
                return self._reasoning(event)
            case TextDelta(text=text, logprobs=logprobs):
                return self._text_with_records(text, bytes(logprobs or b"[]"))
            case BlockStart():
                return self._begin(event)
            case BlockEnd(complete=complete):
                return self._end(complete=complete)
            case InputDelta(text=text):
                return self._input(text)
            case RefusalDelta(text=text):
                return self._chunk(b'{"refusal":%b}' % encode(text))
            case Opaque():
                return self._state(event)
            case Citation():
                self._cite(event)
                return b""
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
            case _:
                assert_never(event)

    def _chunk(self, delta: bytes) -> bytes:
        return self._head + delta + self._tail

    def _fail(self, fault: Fault) -> bytes:
        """Write the error event, unless the client wants truncated streams to end as they did."""
        tail = self._exchange.rendering.chat_truncated_tail
        if fault.code == TRUNCATED and tail == "nothing":
            return b""
        return b"data: %b\n\n%b" % (encode_error(fault), DONE)

    def _start(self, event: Start) -> bytes:
        who = completion_identity(event, self._exchange)
        self._first_fields = (
            b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b'
            % (encode(who.id), who.created, encode(who.model))
        )
        self._build_heads()
        first = self._chunk(b'{"role":"assistant","content":""}')
        foreign = self._foreign
        if not foreign.chunk and not foreign.choice:
            return first
        once = written_fields(_lists(foreign.chunk))
        self._foreign = ForeignFields(_scalars(foreign.chunk), _scalars(foreign.choice))
        return first.removesuffix(b"}\n\n") + once + b"}\n\n"

    def _build_heads(self) -> None:
        more = written_fields(_scalars(self._foreign.chunk))
        self._whole_head = self._first_fields + more + b',"choices":['
        self._head = self._whole_head + b'{"index":0,"delta":'
        self._text_head = self._head + b'{"content":'

    # --- blocks -----------------------------------------------------------------------------------

    def _begin(self, event: BlockStart) -> bytes:
        self._kind = event.kind
        match event.kind:
            case BlockKind.TEXT:
                self._base = self._chars
            case BlockKind.REASONING:
                self._part = 0
                self._texts.clear()
                self._opaque.clear()
                if self._last_kind is BlockKind.REASONING and self._fields:
                    return self._reasoning_text("\n\n")
            case BlockKind.TOOL_CALL | BlockKind.CUSTOM_CALL:
                return self._begin_call(event)
            case BlockKind.SERVER_CALL | BlockKind.SERVER_RESULT | BlockKind.OPAQUE:
                made, found = write_image(event, self._images), found_sources(event)
                if made is not None:
                    self._images += len(made)
                    return self._chunk(b'{"images":%b}' % encode(made)) if made else b""
                if found is None:
                    detail = event.vendor
                    self.losses.append(Loss("server_block_dropped", f"block {event.index}", detail))
                else:
                    self._searched = True
                    self._sources += found
            case BlockKind.REFUSAL:
                pass
            case _:
                assert_never(event.kind)
        return b""

    def _end(self, *, complete: bool) -> bytes:
        self._last_kind, self._kind = self._kind, None
        if self._last_kind is BlockKind.CUSTOM_CALL and self._shape == "wrapped":
            # Clients run a call without any arguments, so even one that was cut at once has some.
            closing = ("" if self._input_begun else '{"input":"') + ('"}' if complete else "")
            if closing:
                return b"%b%b}}]}%b" % (self._args_head, encode(closing), self._tail)
        if self._last_kind is BlockKind.REASONING and self._with_details:
            return self._details()
        return b""

    def _begin_call(self, event: BlockStart) -> bytes:
        index = self._calls
        self._calls += 1
        self._input_begun = False
        self._shape = self._names.shape_of(event)
        call_id = encode(self._names.ids.of(event.index, event.call_id))
        name = encode(self._names.name_of(event))
        head = b'{"tool_calls":[{"index":%d' % index
        if self._shape == "custom":
            self._args_head = self._head + head + b',"custom":{"input":'
            call = b'"type":"custom","custom":{"name":%b,"input":""}' % name
        else:
            self._args_head = self._head + head + b',"function":{"arguments":'
            call = b'"type":"function","function":{"name":%b,"arguments":""}' % name
        # Some clients demand the call's own object in every delta.
        self._extra_head = self._args_head + b'""},"extra_content":'
        return self._chunk(b'%b,"id":%b,%b}]}' % (head, call_id, call))

    def _input(self, text: str) -> bytes:
        if self._shape == "wrapped":
            text = escaped(text)
            if not self._input_begun:
                self._input_begun = True
                text = '{"input":"' + text
        return b"%b%b}}]}%b" % (self._args_head, encode(text), self._tail)

    def _text_with_records(self, text: str, records: bytes) -> bytes:
        self._chars += len(text)
        return b'%b%b},"logprobs":{"content":%b,"refusal":null}%b' % (
            self._text_head,
            encode(text),
            records,
            self._tail,
        )

    # --- reasoning --------------------------------------------------------------------------------

    def _reasoning(self, event: ReasoningDelta) -> bytes:
        text = event.text
        if event.part != self._part:
            self._part = event.part
            text = "\n\n" + text
        self._keep_details(event)
        return self._reasoning_text(text)

    def _keep_details(self, event: ReasoningDelta) -> None:
        if self._with_details:
            self._texts.setdefault((event.channel, event.part), []).append(event.text)

    def _reasoning_text(self, text: str) -> bytes:
        if not self._fields:
            return b""
        encoded = encode(text)
        return self._chunk(b"{%b}" % b",".join(field + encoded for field in self._fields))

    def _state(self, event: Opaque) -> bytes:
        if self._kind is BlockKind.REASONING:
            self._opaque.append(event)
        elif event.kind is OpaqueKind.TOOL_SIGNATURE and event.data.startswith("{"):
            state = call_state(event, self._exchange)
            return b"%b%b}]}%b" % (self._extra_head, state, self._tail)
        return b""

    def _details(self) -> bytes:
        segments = tuple(
            ReasoningSegment("".join(texts), channel) for (channel, _), texts in self._texts.items()
        )
        block = Block(BlockKind.REASONING, segments=segments, opaque=tuple(self._opaque))
        entries = write_details(self._exchange, block, self._detail_index)
        if not entries:
            return b""
        self._detail_index += len(entries)
        return self._chunk(b'{"reasoning_details":%b}' % encode(entries))

    # --- the end ----------------------------------------------------------------------------------

    def _cite(self, event: Citation) -> None:
        annotation = write_annotation(event, self._base)
        if annotation is None:
            self.losses.append(Loss("citations_dropped", f"block {event.index}"))
        else:
            self._annotations.append(annotation)

    def _finish(self, event: Finish) -> bytes:
        out = b""
        if not self._annotations and self._sources:
            self._annotations = write_sources(self._sources)
        if self._searched and not self._annotations:
            self.losses.append(Loss("server_block_dropped", detail="a search without sources"))
        if self._annotations:
            # In one piece: clients cannot join lists whose entries have no index.
            out = self._chunk(b'{"annotations":%b}' % encode(self._annotations))
        out += b'%b{},"finish_reason":%b%b}]%b}\n\n' % (
            self._head,
            encode(finish_word(event.reason)),
            written_fields(self._foreign.choice),
            written_fields(_lists(self._foreign.chunk)),
        )
        request = self._exchange.request
        if self._usage is not None and (request is None or request.include_usage):
            foreign = self._foreign.usage
            usage = encode(write_usage(self._usage, foreign))[:-1] + written_fields(foreign)
            out += b'%b],"usage":%b}}\n\n' % (self._whole_head, usage)
        return out + DONE
