"""Encodes events as a stream of `streamGenerateContent`.

Clients are strict about the bytes: one line `data: ` with a whole JSON object, a blank line, no names of events,
no comments.  Each chunk has a role and at least one part; without them an SDK forgets the whole answer.  Calls
are written whole, when their block has ended.
"""

import base64
import re
from collections.abc import Sequence
from typing import Final, assert_never

import msgspec
from msgspec import Raw

from dragoman.context import Exchange
from dragoman.dialects.decoding import valid_utf8
from dragoman.dialects.encoding import encode, one_line, utf8
from dragoman.dialects.gemini.answer_reader import FINISH_REASONS, unknown_fields
from dragoman.dialects.gemini.block_reader import TEXT_SIGNATURE
from dragoman.dialects.gemini.errors import error_object
from dragoman.dialects.gemini.schema import (
    MCP_ID,
    VENDOR,
    ExecutableCode,
    GroundingChunk,
    GroundingMetadata,
    GroundingSupport,
    McpCall,
    McpCallArgs,
    Segment,
    UrlContextMetadata,
    UrlMetadata,
    UsageMetadata,
    WebSource,
)
from dragoman.dialects.identity import Identity, identity_of
from dragoman.dialects.server_tools import NULL, client_server_name, minted_id
from dragoman.envelopes import Envelope, text_digest
from dragoman.turn.answer import PART_BREAK, Block, half_call
from dragoman.turn.events import (
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
from dragoman.turn.server_tools import ServerCall, ServerKind, ServerResult, host_of
from dragoman.turn.state import Legality
from dragoman.turn.tools import wire_name
from dragoman.wire.json_values import decode_any
from dragoman.wire.sse import Frame, frames_of

KEEP_ALIVE: Final = b"\r\n"  # comments and named events end the stream for several SDKs

# --- parts, counts and endings --------------------------------------------------------------------
# The writer and `encode_body` share this, so that a client accumulates from the stream what the body says.

FINISH_WORDS: Final[dict[FinishReason, str]] = {
    FinishReason.STOP: "STOP",
    FinishReason.STOP_SEQUENCE: "STOP",
    FinishReason.TOOL_CALLS: "STOP",
    FinishReason.REFUSAL: "STOP",
    FinishReason.COMPACTION: "STOP",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTEXT_FULL: "MAX_TOKENS",
    FinishReason.PAUSE: "MAX_TOKENS",
    FinishReason.CONTENT_FILTER: "SAFETY",
}
# Why a prompt is refused as a whole, in the words of the dialect.
_BLOCK_REASONS: Final = frozenset(
    {
        "SAFETY",
        "OTHER",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "IMAGE_SAFETY",
        "MODEL_ARMOR",
        "JAILBREAK",
    }
)


def finish_word(finish: Finish) -> str:
    """Return the word for an ending; a filter's own word if it is one of the dialect's."""
    if finish.token:
        return "CONTINUATION"  # the token is only known of an upstream of the dialect
    if finish.reason is FinishReason.CONTENT_FILTER:
        word = finish.category.upper()
        if FINISH_REASONS.get(word) is FinishReason.CONTENT_FILTER:
            return word
    return FINISH_WORDS[finish.reason]


def feedback_of(finish: Finish, *, empty: bool) -> dict[str, str] | None:
    """Return `promptFeedback`: why a prompt was refused before anything was answered."""
    if finish.reason is not FinishReason.CONTENT_FILTER or not empty:
        return None
    word = finish.category.upper()
    feedback = {"blockReason": word if word in _BLOCK_REASONS else "SAFETY"}
    return feedback | ({"blockReasonMessage": finish.explanation} if finish.explanation else {})


def usage_of(usage: Usage | None) -> UsageMetadata:
    """Return the counts; those of zero are left out, as Google does."""
    counts = usage or Usage()
    answered = max(0, counts.output_tokens - counts.reasoning_tokens)
    return UsageMetadata(
        prompt_token_count=counts.prompt_tokens,
        cached_content_token_count=counts.cache_read_tokens or None,
        candidates_token_count=answered,
        thoughts_token_count=counts.reasoning_tokens or None,
        total_token_count=counts.prompt_tokens + answered + counts.reasoning_tokens,
    )


def response_identity(start: Start, exchange: Exchange) -> Identity:
    """Return the id, model and time of an answer."""
    return identity_of(start, exchange, prefix="", what="response")


def shows_thoughts(exchange: Exchange) -> bool:
    """Return whether the client asked to see reasoning; one whose request is not known gets it."""
    return exchange.request is None or exchange.request.reasoning.show in ("summary", "full")


def call_part(name: str, call_id: str, arguments: str, signature: str) -> bytes:
    """Return the part of a whole call."""
    signed = b',"thoughtSignature":%b' % encode(signature) if signature else b""
    return b'{"functionCall":{"name":%b,"args":%b,"id":%b}%b}' % (
        encode(name),
        utf8(arguments),
        encode(call_id),
        signed,
    )


def is_object(arguments: str) -> bool:
    """Return whether arguments can be written: Google's are objects."""
    try:
        _OBJECT.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


_CODE: Final = msgspec.json.Decoder(ExecutableCode)
_OBJECT: Final[msgspec.json.Decoder[dict[str, Raw]]] = msgspec.json.Decoder(dict[str, Raw])


class Grounding:
    """The sources of an answer, for its end."""

    def __init__(self, losses: list[Loss]) -> None:
        self._losses = losses
        self._places: dict[str, int] = {}  # of the sources in their list, by address
        self._titles: dict[str, str] = {}
        self._supports: list[GroundingSupport] = []
        self._cited: list[Citation] = []
        self._queries: list[str] = []
        self._pages: list[UrlMetadata] = []  # that were read

    def add(self, citation: Citation) -> None:
        """Cite a source for the open text block."""
        if not citation.url:
            self._losses.append(Loss("citations_dropped", f"block {citation.index}"))
            return
        self._cited.append(citation)

    def note(self, server: ServerCall | ServerResult | None) -> bool:
        """Note a search or a page that was read, and what was found; return whether it is one of these."""
        if server is None or server.does not in _GROUNDED:
            return False
        if server.does is ServerKind.WEB_FETCH:
            self._read(server)
        elif isinstance(server, ServerCall):
            self._queries += server.queries
        else:
            for one in server.sources:
                self._place(one.url, one.title)
        return True

    def _read(self, server: ServerCall | ServerResult) -> None:
        if isinstance(server, ServerCall):
            self._pages += [UrlMetadata(url, _FETCHED) for url in server.queries]
        elif server.error and self._pages:
            self._pages[-1] = UrlMetadata(self._pages[-1].retrieved_url, _NOT_FETCHED)

    def end_block(self, text: str, part: int) -> None:
        """Note where the citations of a text block point; `part` is its index among the parts.

        Offsets of the dialect count bytes.  A source without a place is in the list of sources alone.
        """
        for one in self._cited:
            at = self._place(one.url, one.title)
            if one.start is None or one.end is None or one.end > len(text):
                continue
            start = len(text[: one.start].encode("utf-8", "surrogatepass"))
            cited = text[one.start : one.end]
            end = start + len(cited.encode("utf-8", "surrogatepass"))
            segment = Segment(part or None, start or None, end, cited)
            self._supports.append(GroundingSupport(segment, [at]))
        self._cited.clear()

    def _place(self, url: str, title: str) -> int:
        """Return the place of a source in the list; the first title that is known for it counts."""
        self._titles[url] = self._titles.get(url) or title
        return self._places.setdefault(url, len(self._places))

    @property
    def waits(self) -> bool:
        return bool(self._cited)

    def metadata(self) -> GroundingMetadata | None:
        if not self._places and not self._queries:
            return None
        # Google's own titles are hosts, and readers show a source without one as untitled.
        chunks = [
            GroundingChunk(web=WebSource(url, self._titles[url] or host_of(url)))
            for url in self._places
        ]
        return GroundingMetadata(
            web_search_queries=self._queries or None,
            grounding_chunks=chunks or None,
            grounding_supports=self._supports or None,
        )

    def pages(self) -> UrlContextMetadata | None:
        """Return the pages that were read; the dialect has no place for their content."""
        return UrlContextMetadata(self._pages) if self._pages else None


_GROUNDED: Final = frozenset({ServerKind.WEB_SEARCH, ServerKind.WEB_FETCH})
_FETCHED: Final = "URL_RETRIEVAL_STATUS_SUCCESS"
_NOT_FETCHED: Final = "URL_RETRIEVAL_STATUS_ERROR"


def code_part(server: ServerCall | ServerResult | None) -> bytes:
    """Return code that another vendor ran, or what it printed, as a part; empty if it is something else."""
    if server is None or server.does is not ServerKind.CODE:
        return b""
    if isinstance(server, ServerCall):
        try:
            code = _CODE.decode(server.arguments)
        except (msgspec.DecodeError, UnicodeDecodeError):
            code = ExecutableCode()
        return encode({"executableCode": {"language": "PYTHON", "code": code.code}})
    failed = server.error or server.return_code
    outcome = "OUTCOME_FAILED" if failed else "OUTCOME_OK"
    return encode({"codeExecutionResult": {"outcome": outcome, "output": server.output}})


def foreign_part(block: BlockStart | Block, exchange: Exchange) -> bytes | None:
    """Return the part for what another vendor's tool did: empty if it needs none, None if there is none for it."""
    server = block.server
    if server is not None and server.does is ServerKind.IMAGE:
        return _image_part(server)
    return code_part(server) or mcp_part(block, exchange) or None


def _image_part(server: ServerCall | ServerResult) -> bytes | None:
    if isinstance(server, ServerCall):
        return b""  # the image says all
    image = server.image
    if image is None or not image.data:
        return None
    return encode({"inlineData": {"mimeType": image.media_type, "data": image.data}})


def mcp_part(block: BlockStart | Block, exchange: Exchange) -> bytes:
    """Return the call of an MCP server's tool that another vendor ran, or its result; empty: it is something else."""
    server = block.server
    if server is None or server.does is not ServerKind.MCP:
        return b""
    call_id = minted_id(MCP_ID, exchange.seed, block.call_id)
    if isinstance(server, ServerCall):
        arguments = Raw(b"{}") if server.arguments == NULL else Raw(one_line(server.arguments))
        name = client_server_name(server, exchange.request)
        call = McpCall(call_id, McpCallArgs(server.name, name, arguments))
        return encode({"toolCall": call})
    field = "error" if server.error else "output"
    response = {field: server.output or server.error}
    return encode({"toolResponse": {"id": call_id, "response": response}})


class Sealing:
    """Reasoning state for a client: Google's own as it is in a relay, any other in an envelope.

    An envelope is in base64, because SDKs decode the field, and on a call, because Gemini CLI drops thoughts and
    joins texts.  The reasoning between two calls is in the envelope of the second; each entry has its place:
    the number of texts and calls between the call before and itself.
    """

    def __init__(self, exchange: Exchange, losses: list[Loss]) -> None:
        self._exchange = exchange
        self._losses = losses
        self._waiting: list[Envelope] = []  # for the next call
        self._units = 0  # texts and calls since the last call that carried state
        self._in_text = False

    @property
    def waits(self) -> bool:
        """Some state was not written yet."""
        return bool(self._waiting)

    def text(self) -> None:
        """Note that text was written."""
        if not self._in_text:
            self._in_text = True
            self._units += 1

    def reasoning(self, opaque: Sequence[Opaque], text: str) -> None:
        """Note the state of a reasoning block."""
        if not opaque:
            return
        if self._exchange.sealer is None:
            if any(one.kind is not OpaqueKind.PLAIN for one in opaque):
                self._losses.append(Loss("opaque_dropped", f"block {opaque[0].index}"))
            return
        self._waiting.append(self._envelope(opaque, text, self._units))

    def call(self, opaque: Sequence[Opaque], call_id: str) -> str:
        """Return what a call carries: empty if there is nothing."""
        self._in_text = False
        self._units += 1
        signatures = [one for one in opaque if one.kind is OpaqueKind.TOOL_SIGNATURE]
        if self._exchange.keep_identity and signatures:
            return own_signature(signatures[0].data)
        if signatures and self._exchange.sealer is None:
            self._losses.append(Loss("opaque_dropped", f"block {signatures[0].index}"))
            return ""
        if signatures:
            self._waiting.append(self._envelope(signatures[:1], "", None, call_id))
        sealed = self._sealed()
        if sealed:
            self._units = 0
        return sealed

    def rest(self) -> str:
        """Return what no call was left to carry."""
        return self._sealed()

    def _envelope(
        self, opaque: Sequence[Opaque], text: str, place: int | None, call_id: str = ""
    ) -> Envelope:
        state = next((one for one in opaque if one.kind is not OpaqueKind.PLAIN), opaque[0])
        return Envelope(
            origin=state.origin,
            kind=state.kind,
            model=self._exchange.model,
            data=state.data,
            text=text,
            digest=text_digest(text),
            item_id=state.item_id,
            call_id=call_id,
            place=place,
        )

    def _sealed(self) -> str:
        waiting, self._waiting = self._waiting, []
        if not waiting or self._exchange.sealer is None:
            return ""
        first = msgspec.structs.replace(waiting[0], more=tuple(waiting[1:]))
        sealed = self._exchange.sealer.seal(first)
        if sealed is None:
            self._losses.append(Loss("opaque_too_large", "$.candidates[0].content"))
            return ""
        return base64.b64encode(sealed.encode()).decode()


def own_signature(data: str) -> str:
    """Return Google's signature from the state of a call; empty if the state is another vendor's."""
    try:
        state = decode_any(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    google = state.get("google") if isinstance(state, dict) else None
    signature = google.get("thought_signature") if isinstance(google, dict) else None
    return signature if isinstance(signature, str) else ""


# --- the writer -----------------------------------------------------------------------------------

_HEAD: Final = b'data: {"candidates":[{"content":{"parts":['
_EMPTY_PART: Final = b'{"text":""}'
_encode_text: Final = msgspec.json.Encoder().encode


def _plain_lines(out: bytes) -> bytes:
    """Escape characters at which Google's SDK for Python ends a line, though SSE does not."""
    # Test: test_google_sdk_reads_the_content_that_was_written.
    return (
        out.replace(b"\xe2\x80\xa8", rb"\u2028")
        .replace(b"\xe2\x80\xa9", rb"\u2029")
        .replace(b"\xc2\x85", rb"\u0085")
    )


class GeminiWriter:
    """Write one answer."""

    def __init__(self, exchange: Exchange) -> None:
        self.losses: list[Loss] = []
        self.response = b""  # no server of this dialect stores responses
        self._exchange = exchange
        self._legality = Legality()
        self._check = self._legality.check
        self._sealing = Sealing(exchange, self.losses)
        self._grounding = Grounding(self.losses)
        self._ids = exchange.call_ids
        self._shown = shows_thoughts(exchange)
        self._tail = b""  # of every chunk but the last
        self._text_head = _HEAD + b'{"text":'
        self._text_tail = b""
        self._block: BlockStart | None = None  # the open block
        self._texts: list[
            str
        ] = []  # arguments of the open call, or text of the open reasoning block
        self._opaque: list[Opaque] = []  # of the open block
        self._part = (Channel.FULL, 0)  # of the open reasoning block
        self._records: list[bytes] = []  # token probabilities
        request = exchange.request
        # Citations need the text that they point to; without a search there are none.
        self._keep_text = request is None or any(tool.server for tool in request.tools)
        self._parts = 0  # of the content so far; the pieces of a text are one
        self._usage: Usage | None = None

    def expect(self, raw: bytes, /, *, resume: bool) -> None:
        """Nothing of an upstream's chunk concerns what is written in its place."""

    def passed(self, raw: bytes, /) -> None:
        """Nothing of a chunk that has passed concerns what is written later."""

    def adopt(self, raw: bytes, /) -> None:
        """Report the fields of the upstream's chunk that are not written again."""
        for line in raw.splitlines():
            known = {one.path for one in self.losses}
            self.losses += [
                Loss("field_dropped", path)
                for path in unknown_fields(line.removeprefix(b"data:"))
                if path not in known
            ]

    def skip(self, event: EventOrRun, /) -> None:
        """Note a delta of text whose chunk is forwarded."""
        if type(event.whole if type(event) is DeltaRun else event) is TextDelta:
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
        if cls is TextDelta and not self._keep_text and event.logprobs is None:  # type: ignore[union-attr]
            try:
                text = _encode_text(event.text)  # type: ignore[union-attr]
            except UnicodeEncodeError:
                text = encode(event.text)  # type: ignore[union-attr]
            out = self._text_head + text + self._text_tail
        else:
            out = self._write(event)
        return out if out.isascii() else _plain_lines(out)

    def _write(self, event: EventOrRun) -> bytes:
        match event:
            case TextDelta():
                return self._text(event)
            case DeltaRun(whole=TextDelta()):
                return self._text_run(event)
            case DeltaRun(whole=ArgsDelta() as whole):
                return self._write(whole)
            case DeltaRun():
                return b"".join(map(self._write, event.deltas()))
            case ReasoningDelta():
                return self._reasoning(event)
            case ArgsDelta(json=text) | InputDelta(text=text):
                self._texts.append(text)
                return b""
            case RefusalDelta(text=text):
                return self._text_head + encode(text) + self._text_tail
            case BlockStart():
                return self._start_block(event)
            case BlockEnd():
                return self._end_block(event)
            case Opaque():
                self._opaque.append(event)
                return b""
            case Citation():
                self._grounding.add(event)
                return b""
            case Ping():
                return KEEP_ALIVE
            case Start():
                self._start(event)
                return b""
            case Usage():
                self._usage = event
                return b""
            case Loss():
                return b""
            case Finish():
                return self._finish(event)
            case Fault():
                return b"data: %b\n\n" % error_object(event)
            case _:
                assert_never(event)

    def _start(self, event: Start) -> None:
        who = response_identity(event, self._exchange)
        self._tail = b',"modelVersion":%b,"responseId":%b}\n\n' % (
            encode(who.model),
            encode(who.id),
        )
        self._text_tail = b'}],"role":"model"},"index":0}]' + self._tail

    def _chunk(self, part: bytes) -> bytes:
        return b'%b%b],"role":"model"},"index":0}]%b' % (_HEAD, part, self._tail)

    def _part_chunk(self, part: bytes) -> bytes:
        """Write a part that has no pieces."""
        self._parts += 1
        return self._chunk(part)

    # --- text -------------------------------------------------------------------------------------

    def _text(self, event: TextDelta) -> bytes:
        if self._keep_text:
            self._texts.append(event.text)
        if event.logprobs is not None:
            self._records.append(bytes(event.logprobs))
        return self._text_head + encode(event.text) + self._text_tail

    def _text_run(self, run: DeltaRun) -> bytes:
        """Write each delta as `send` writes it."""
        if self._keep_text:
            self._texts.append(run.text)
        before, after = self._text_head, self._text_tail
        return b'%b"%b"%b' % (before, (b'"%b%b"' % (after, before)).join(run.bodies), after)

    # --- blocks -----------------------------------------------------------------------------------

    def _start_block(self, event: BlockStart) -> bytes:
        self._block = event
        self._texts.clear()
        self._opaque.clear()
        self._part = (Channel.FULL, 0)
        match event.kind:
            case BlockKind.TEXT:
                self._sealing.text()
            case BlockKind.REFUSAL:
                self._sealing.text()
                self.losses.append(Loss("refusal_as_text", f"block {event.index}"))
            case BlockKind.SERVER_CALL | BlockKind.SERVER_RESULT | BlockKind.OPAQUE:
                return self._vendor_block(event)
            case BlockKind.REASONING | BlockKind.TOOL_CALL | BlockKind.CUSTOM_CALL:
                pass
            case _:
                assert_never(event.kind)
        return b""

    def _vendor_block(self, event: BlockStart) -> bytes:
        """Write a block that only its vendor understands; it has no deltas."""
        if event.vendor == VENDOR:
            return self._part_chunk(one_line(event.raw))
        if self._grounding.note(event.server):
            return b""
        if (part := foreign_part(event, self._exchange)) is not None:
            return self._part_chunk(part) if part else b""
        code = "content_dropped" if event.kind is BlockKind.OPAQUE else "server_block_dropped"
        self.losses.append(Loss(code, f"block {event.index}", event.vendor))
        return b""

    def _end_block(self, event: BlockEnd) -> bytes:
        block = self._block
        assert block is not None  # noqa: S101 -- the order is legal
        match block.kind:
            case BlockKind.TEXT | BlockKind.REFUSAL:
                if self._grounding.waits:
                    self._grounding.end_block("".join(self._texts), self._parts)
                self._parts += 1
            case BlockKind.REASONING:
                return self._end_reasoning()
            case BlockKind.TOOL_CALL | BlockKind.CUSTOM_CALL:
                return self._call(block, "".join(self._texts), complete=event.complete)
            case _:
                pass
        return b""

    def _call(self, block: BlockStart, text: str, *, complete: bool) -> bytes:
        name = wire_name(block.name, block.namespace) if block.namespace else block.name
        if block.kind is BlockKind.CUSTOM_CALL:
            arguments = encode({"input": text}).decode()
        else:
            arguments = text
            complete = complete and is_object(text)
        if not complete:
            self._sealing.text()
            return self._part_chunk(b'{"text":%b}' % encode(half_call(name, text)))
        call_id = self._ids.of(block.index, block.call_id)
        signature = self._sealing.call(self._opaque, call_id)
        return self._part_chunk(
            call_part(
                name,
                call_id,
                one_line(Raw(utf8(arguments))).decode(),
                signature,
            )
        )

    # --- reasoning --------------------------------------------------------------------------------

    def _reasoning(self, event: ReasoningDelta) -> bytes:
        part = (event.channel, event.part)
        text = event.text if part == self._part or not self._texts else PART_BREAK + event.text
        self._part = part
        self._texts.append(text)
        if not self._shown:
            return b""
        return self._chunk(b'{"text":%b,"thought":true}' % encode(text))

    def _end_reasoning(self) -> bytes:
        text = "".join(self._texts)
        own = next((one for one in self._opaque if one.kind is not OpaqueKind.PLAIN), None)
        if self._exchange.keep_identity and own is not None:
            part = b'{"text":"","thoughtSignature":%b%b}'
            thought = b"" if own.item_id == TEXT_SIGNATURE else b',"thought":true'
            return self._part_chunk(part % (encode(own.data), thought))
        if text and self._shown:
            self._parts += 1
        self._sealing.reasoning(self._opaque, text)
        return b""

    # --- the end ----------------------------------------------------------------------------------

    def _finish(self, event: Finish) -> bytes:
        part = _EMPTY_PART
        if self._sealing.waits and (sealed := self._sealing.rest()):
            part = b'{"text":"","thoughtSignature":%b}' % encode(sealed)
        fields: list[bytes] = [b'"finishReason":"%b"' % finish_word(event).encode()]
        if event.token:
            fields.append(b'"continuationToken":%b' % encode(event.token))
        if event.explanation and event.reason is FinishReason.CONTENT_FILTER:
            fields.append(b'"finishMessage":%b' % encode(event.explanation))
        metadata = self._grounding.metadata()
        if metadata is not None:
            fields.append(b'"groundingMetadata":%b' % encode(metadata))
        pages = self._grounding.pages()
        if pages is not None:
            fields.append(b'"urlContextMetadata":%b' % encode(pages))
        if self._records:
            fields.append(b'"logprobsResult":%b' % logprobs_of(self._records))
        feedback = feedback_of(event, empty=self._legality.index < 0)
        refused = b"" if feedback is None else b',"promptFeedback":%b' % encode(feedback)
        return b'%b%b],"role":"model"},%b,"index":0}]%b,"usageMetadata":%b%b' % (
            _HEAD,
            part,
            b",".join(fields),
            refused,
            encode(usage_of(self._usage)),
            self._tail,
        )


_ENDINGS: Final = frozenset({Finish, Fault})


class ListWriter(GeminiWriter):
    """Write one answer as a JSON list of its chunks.

    Only an answer that has ended, or failed, has the closing bracket.  The bytes that keep a connection alive
    are white space here too.
    """

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self._before = b"["  # the next chunk

    def send(self, event: EventOrRun, /) -> bytes:
        """Return the bytes of an event.

        Raises:
            IllegalOrderError: the event is not allowed here.
        """
        out = super().send(event)
        if not out or type(event) is Ping:
            return out
        chunks = out.removeprefix(b"data: ").removesuffix(b"\n\n").split(b"\n\ndata: ")
        before, self._before = self._before, b",\r\n"
        end = b"]" if type(event) in _ENDINGS else b""
        return before + b",\r\n".join(chunks) + end


def answer_writer(exchange: Exchange) -> GeminiWriter:
    """Return the writer of an answer, in the framing that the client asked for."""
    return ListWriter(exchange) if exchange.rendering.framing == "list" else GeminiWriter(exchange)


def logprobs_of(records: Sequence[bytes]) -> bytes:
    """Return token probabilities as the dialect writes them, from the records of the turn."""
    chosen: list[object] = []
    top: list[object] = []
    for listed in records:
        try:
            entries = decode_any(listed)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        for entry in entries if isinstance(entries, list) else ():
            if not isinstance(entry, dict):
                continue
            chosen.append(_choice(entry))
            others = entry.get("top_logprobs")
            listed_top = (
                [_choice(one) for one in others if isinstance(one, dict)]
                if isinstance(others, list)
                else []
            )
            top.append({"candidates": listed_top})
    return encode({"chosenCandidates": chosen, "topCandidates": top})


def _choice(record: dict[str, object]) -> dict[str, object]:
    return {"token": record.get("token"), "logProbability": record.get("logprob")}


# --- what is forwarded of an upstream -------------------------------------------------------------

# Frames that every client reads: one line `data: ` with an object that is not empty; and blank lines.
_READABLE: Final = re.compile(rb"(?:data: \{(?!\s*+\}).*+\n\r?\n|\r?\n)*+")
_BLANK_LINE: Final = (b"\n", b"\r\n")
_BARE_CR: Final = re.compile(rb"\r(?!\n)")
_SEPARATORS: Final = re.compile(rb"\xe2\x80[\xa8\xa9]")  # see `_plain_lines`
_NEXT_LINE: Final = b"\xc2\x85"
_LF, _CR, _OF_SEPARATORS, _OF_NEXT_LINE = (
    b"\n\r\xe2\xc2"  # as numbers they are found several times as fast
)
_OBJECTS: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])


def readable_frames(raw: bytes) -> bytes:
    """Return an upstream's frames in the form that every client reads; nearly always they have it.

    Servers that imitate Google write comments, names, `[DONE]` and several lines of data, at which Google's SDKs
    and Gemini CLI fail.  What has no object becomes a sign of life.
    """
    return raw if _is_readable(raw) else b"".join(map(_readable_frame, frames_of(raw)))


def _is_readable(raw: bytes) -> bool:
    line = raw.find(_LF) + 1
    # As nearly always, while a model writes: one frame, whose only line ends are those behind its line.
    one = raw[line:] in _BLANK_LINE and raw[:8] == b'data: {"' and raw.find(_CR, 0, line - 2) < 0
    if not one and (
        _READABLE.fullmatch(raw) is None or (_CR in raw and _BARE_CR.search(raw) is not None)
    ):
        return False
    return raw.isascii() or not (
        (_OF_SEPARATORS in raw and _SEPARATORS.search(raw) is not None)
        or (_OF_NEXT_LINE in raw and _NEXT_LINE in raw)
    )


def _readable_frame(frame: Frame) -> bytes:
    if _is_readable(frame.raw):
        return frame.raw
    data = valid_utf8(frame.data.strip())
    try:
        objects = _OBJECTS.decode(data if data[:1] == b"[" else b"[%b]" % data)
    except (msgspec.DecodeError, RecursionError):
        return KEEP_ALIVE
    lines = [b"data: %b\r\n\r\n" % _plain_lines(one_line(one)) for one in objects]
    return b"".join([one for one in lines if _is_readable(one)]) or KEEP_ALIVE
