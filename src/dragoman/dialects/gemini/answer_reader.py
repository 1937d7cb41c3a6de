"""Reads the answers of a Gemini upstream, streamed or complete, into the assembler.

Reads liberally.  A finish reason may come with the last content, alone, or twice; counts may follow it: the end
is emitted at the end of input and not before.  Chunks are deltas; only the counts are cumulative.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from dragoman.context import Exchange
from dragoman.dialects.decoding import decode
from dragoman.dialects.encoding import encode
from dragoman.dialects.framing import assembler_for, truncated
from dragoman.dialects.gemini.block_reader import Blocks, is_empty
from dragoman.dialects.gemini.errors import event_fault
from dragoman.dialects.gemini.schema import (
    NO_RAW,
    VENDOR,
    Candidate,
    Chunk,
    GroundingChunk,
    GroundingMetadata,
    GroundingSupport,
    PromptFeedback,
    TextChunk,
    UrlContextMetadata,
    UsageMetadata,
    WebSource,
    family_of,
    given,
)
from dragoman.dialects.gemini.tools_writer import wire_names
from dragoman.errors import MalformedError
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import CUT_REASONS, Citation, Fault, FaultKind, FinishReason, Usage
from dragoman.turn.server_tools import ServerCall, ServerKind, ServerResult, SourceRef
from dragoman.wire.sse import Frame

_CHUNK: Final = msgspec.json.Decoder(Chunk)
_CHUNKS: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])
_decode_text: Final = msgspec.json.Decoder(TextChunk).decode
_USAGE: Final = msgspec.json.Decoder(UsageMetadata, strict=False)  # int64 may come as a string
_GROUNDING: Final = msgspec.json.Decoder(GroundingMetadata)
_PAGES: Final = msgspec.json.Decoder(UrlContextMetadata)
_NO_COUNTS: Final = 4  # bytes: `null` and `{}` are not longer, and counts are

_OBJECT: Final[msgspec.json.Decoder[dict[str, Raw]]] = msgspec.json.Decoder(dict[str, Raw])
_OBJECTS: Final[msgspec.json.Decoder[list[dict[str, Raw]]]] = msgspec.json.Decoder(
    list[dict[str, Raw]]
)
_CHUNK_FIELDS: Final = frozenset(Chunk.__struct_encode_fields__)
_CANDIDATE_FIELDS: Final = frozenset(Candidate.__struct_encode_fields__) - {"citationMetadata"}
_MAX_UNKNOWN: Final = 32  # fields of an answer that are reported

# The default of the enum, which some servers write where Google leaves the field out.
_UNSPECIFIED: Final = "FINISH_REASON_UNSPECIFIED"

FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    "SAFETY": FinishReason.CONTENT_FILTER,
    "RECITATION": FinishReason.CONTENT_FILTER,
    "BLOCKLIST": FinishReason.CONTENT_FILTER,
    "PROHIBITED_CONTENT": FinishReason.CONTENT_FILTER,
    "SPII": FinishReason.CONTENT_FILTER,
    "MODEL_ARMOR": FinishReason.CONTENT_FILTER,
    "LANGUAGE": FinishReason.CONTENT_FILTER,
    "IMAGE_SAFETY": FinishReason.CONTENT_FILTER,
    "IMAGE_PROHIBITED_CONTENT": FinishReason.CONTENT_FILTER,
    "IMAGE_RECITATION": FinishReason.CONTENT_FILTER,
    "CONTINUATION": FinishReason.PAUSE,
}
# Enums may come as numbers.  Google's two APIs have their own from 6 on, of which 6 to 8 are filters in both.
_NUMBERS: Final = {
    **dict(enumerate((_UNSPECIFIED, "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER"))),
    **dict.fromkeys((6, 7, 8), "SAFETY"),
    11: "IMAGE_SAFETY",
}
_BLOCKS: Final = {0: "", 1: "SAFETY", 2: "OTHER", 3: "BLOCKLIST", 4: "PROHIBITED_CONTENT"}
# The model's call was unusable and is not in the content.
_BAD_CALLS: Final = frozenset(
    {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"}
)
# Say nothing about the answer: content makes it a normal one, none a failure.
_VAGUE: Final = frozenset({"OTHER", "NO_IMAGE", "IMAGE_OTHER", _UNSPECIFIED, ""})


def read_usage(raw: Raw) -> Usage:
    """Read token counts.

    Raises:
        MalformedError: they are not counts.
    """
    # An int64 may be a string.  Case: gemini/usage_in_every_chunk.
    counts = decode(_USAGE, bytes(raw))
    prompt, tools = _count(counts.prompt_token_count), _count(counts.tool_use_prompt_token_count)
    cached, thoughts = (
        _count(counts.cached_content_token_count),
        _count(counts.thoughts_token_count),
    )
    output = _count(counts.candidates_token_count) + thoughts
    # Counts of zero are left out, and clones leave out more: what the sum has beyond the rest is output.
    # Case: gemini/total_beyond_the_sum.
    output += max(0, _count(counts.total_token_count) - prompt - tools - output)
    return Usage(
        input_tokens=max(0, prompt + tools - cached),
        output_tokens=output,
        cache_read_tokens=cached,
        reasoning_tokens=thoughts,
    )


def _finish_reason(value: str | int) -> str:
    return _NUMBERS.get(value, str(value)) if isinstance(value, int) else value.upper()


def _block_reason(value: str | int | None) -> str:
    """Return why a prompt was refused; empty: it was not."""
    if isinstance(value, int):
        return _BLOCKS.get(value, "OTHER")
    word = (value or "").upper()
    return "" if word.endswith("_UNSPECIFIED") else word


def unknown_fields(data: bytes) -> list[str]:
    """Return the paths of what a chunk, or an answer, has beside the fields that are read and written again."""
    try:
        chunk = _OBJECT.decode(data)
        candidates = _OBJECTS.decode(chunk.get("candidates", b"[]"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    first = candidates[0] if candidates else {}
    unknown = [f"$.{name[:40]}" for name in chunk if name not in _CHUNK_FIELDS]
    unknown += [f"$.candidates[0].{name[:40]}" for name in first if name not in _CANDIDATE_FIELDS]
    return unknown[:_MAX_UNKNOWN]


def _count(given_count: int | None) -> int:
    return max(0, given_count or 0)


class GeminiReader:
    """Read the chunks of an answer into an assembler."""

    reasoning_field = ""  # the dialect has one place for it

    def __init__(self, exchange: Exchange) -> None:
        self.assembler: Assembler = assembler_for(exchange)
        request = exchange.request
        # Offsets of citations count bytes: where a search may cite, the text is kept to convert them.
        searches = request is not None and any(tool.server for tool in request.tools)
        changed = wire_names(request.tools, None) if request is not None else {}
        names = {name: wire for name, wire in changed.items() if wire in exchange.tools}
        self._blocks = Blocks(
            self.assembler,
            exchange.limits,
            names,
            keep_text=searches,
            signs_calls=exchange.profile.signs_calls,
        )
        self._keeps_text = searches
        # Of a chunk that only continues the open text.
        self._add_text = self._blocks.add_text if searches else self.assembler.text
        self._lenient_eof = exchange.profile.lenient_eof
        self._origin = exchange.profile.origin
        self._reason: str | None = None
        self._writes_default = (
            False  # `FINISH_REASON_UNSPECIFIED` says nothing: content followed it
        )
        self._message = ""  # with which the finish reason is explained
        self._blocked = ""  # why the prompt was refused
        self._grounding = NO_RAW
        self._pages = NO_RAW  # what `urlContext` read
        self._tool_tokens = False  # tokens of what a tool found were counted
        self._searches = request is not None and any(
            tool.does is ServerKind.WEB_SEARCH for tool in request.tools
        )
        self._relayed = exchange.keep_identity
        self._rewritten = self._relayed and exchange.rendering.framing == "list"
        self._continues = exchange.continues
        self._token = ""  # with which the answer goes on
        self._lost: tuple[str, ...] = ()  # paths of losses that are reported once
        self._plain = False  # the last chunk was text and nothing else: so may be the next one
        self._usage = NO_RAW  # the last counts; the first ones were reported at once

    @property
    def pending(self) -> bool:
        """A call waits for what follows it, or the end is near."""
        return self._blocks.held or (self._ends and not self.assembler.ended)

    @property
    def _ends(self) -> bool:
        return self._reason is not None or bool(self._blocked)

    def read(self, frame: Frame, /) -> None:
        """Read a chunk into the assembler.

        Raises:
            MalformedError: it is not a chunk.
        """
        data = frame.data
        if self._plain:
            try:
                chunk = _decode_text(data)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                pass
            else:
                text = chunk.candidates[0].content.parts[0].text
                if text:
                    self._add_text(text)
                usage = chunk.usage_metadata
                if len(usage) > _NO_COUNTS:
                    self._count(usage)
                return
        # Servers that imitate Google send `[DONE]`; counts may still follow it.  Case: gemini/usage_after_the_finish.
        if not data.startswith(b"[DONE]"):
            self._read_chunks(data)

    def _count(self, usage: Raw) -> None:
        """Keep counts, which come with every chunk: the first show the prompt's, only the last are read again."""
        if not self._usage:
            self.assembler.usage(read_usage(usage))
        self._usage = usage

    @property
    def takes_text(self) -> bool:
        """Text can just be added to the open block."""
        return self._plain and self.assembler.in_text and not self.pending and not self._keeps_text

    def text_of(self, data: bytes, /) -> str:
        """Return the text of a chunk that only adds text, perhaps with counts, which are kept."""
        try:
            chunk = _decode_text(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ""
        text, usage = chunk.candidates[0].content.parts[0].text, chunk.usage_metadata
        if len(usage) > _NO_COUNTS:
            if not (text and self._usage):
                return ""  # the first counts are reported at once
            self._usage = usage
        return text

    @property
    def varied(self) -> bool:
        """Counts come with every chunk, if they come at all."""
        return bool(self._usage)

    def add_text(self, chars: int, /) -> None:
        """Count text of the open block that was read elsewhere."""
        self.assembler.add_text(chars)

    def add_more(self, text: str, /) -> None:
        """Neither reasoning nor arguments are taken by themselves: see `takes_text`."""

    def end(self) -> None:
        """End the input: end the turn, or report that it was truncated."""
        if self.assembler.ended:
            return
        if self._usage:
            self.assembler.usage(read_usage(self._usage))
        if self._ends:
            self._finish()
        # Test: test_a_lenient_upstream_may_end_after_its_calls.
        elif self._lenient_eof and self.assembler.has_calls:
            detail = "the stream ended after its calls without a finish reason"
            self.assembler.loss("finish_reason_fixed", detail=detail)
            self._reason = "STOP"
            self._finish()
        else:
            # Case: gemini/ends_inside_call.
            self._blocks.release()
            self.assembler.fault(truncated(self._blocks.inside))

    def read_body(self, body: bytes, /) -> None:
        """Read a complete answer into the assembler, or the list of chunks of a stream without `alt=sse`.

        Raises:
            MalformedError: it is neither an answer nor an error.
        """
        if body.lstrip()[:1] != b"[":
            self._read_chunk(body)
            if not self.assembler.ended and not self._ends:
                raise MalformedError("an answer without a finish reason", path="$.candidates")
        else:
            # Case: gemini/list_of_chunks.
            for raw in decode(_CHUNKS, body):
                self._read_chunks(bytes(raw))
        self.end()

    # --- chunks -----------------------------------------------------------------------------------

    def _read_chunks(self, data: bytes) -> None:
        """Read a chunk, or a list of chunks in its place, which is most often a list of one error."""
        # Cases: gemini/error_list_as_an_event, gemini/error_list_in_a_list.
        chunks = decode(_CHUNKS, data) if data.lstrip()[:1] == b"[" else (data,)
        for chunk in chunks:
            if not self.assembler.ended:
                self._read_chunk(bytes(chunk))

    def _read_chunk(self, data: bytes) -> None:
        try:
            chunk = _CHUNK.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            chunk = decode(_CHUNK, data)
        self._plain = False
        if self._rewritten:
            for path in unknown_fields(data):
                self._lose_once("field_dropped", path)
        # Cases: gemini/error_in_the_stream, gemini/error_inside_call.
        if given(chunk.error):
            self._blocks.release()
            self.assembler.fault(event_fault(chunk.error))
            return
        candidates = chunk.candidates or []
        feedback = chunk.prompt_feedback or PromptFeedback()
        blocked = _block_reason(feedback.block_reason)
        if candidates or blocked:
            self._start(chunk.model_version or "", chunk.response_id or "")
        # Case: gemini/prompt_blocked.
        if blocked:
            self._blocked = blocked
            self._message = feedback.block_reason_message or ""
        if candidates:
            self._candidate(self._first(candidates))
        if given(chunk.usage_metadata) and not self.assembler.ended:
            self._count(chunk.usage_metadata)
            counts = decode(_USAGE, bytes(chunk.usage_metadata))
            self._tool_tokens = bool(counts.tool_use_prompt_token_count)

    def _lose_once(self, code: str, path: str) -> None:
        if path not in self._lost and len(self._lost) < _MAX_UNKNOWN:
            self._lost = (*self._lost, path)
            self.assembler.loss(code, path)

    def _start(self, model: str, response_id: str) -> None:
        """Begin the answer; only models of the same family read its signatures."""
        if not self.assembler.started and (family := family_of(model)):
            self.assembler.origin = f"{self._origin}/{family}"
        self.assembler.start(model=model, id=response_id)

    def _first(self, candidates: Sequence[Candidate]) -> Candidate:
        """Return the candidate with index 0, or an empty one; the others are not carried."""
        first = next((one for one in candidates if not one.index), None)
        if len(candidates) > 1 or first is None:
            # Cases: gemini/several_candidates, gemini/candidates_in_turn.
            self._lose_once("choice_dropped", "$.candidates")
        return first or Candidate()

    def _candidate(self, candidate: Candidate) -> None:
        content = candidate.content
        parts = (content.parts if content is not None else None) or ()
        if self._reason == _UNSPECIFIED and not all(map(is_empty, parts)):
            self._reason, self._writes_default = None, True  # it was not the end
        if parts and self._reason is not None:
            # Without it the answer would depend on where its stream stops.  Case: gemini/content_after_the_finish.
            if not all(map(is_empty, parts)):
                self.assembler.loss("content_after_finish", "$.candidates[0].content")
            # A repeated finish has an empty text beside it.  Case: gemini/finish_reason_twice.
            parts = ()
        for raw in parts:
            self._blocks.add(raw, candidate.logprobs_result)
            if self.assembler.ended:
                return
        if given(candidate.citation_metadata) and not self._relayed:
            # Case: gemini/citation_metadata.
            self._lose_once("citations_dropped", "$.candidates[0].citationMetadata")
        # It grows: the last one counts.  Case: gemini/grounding.
        if given(candidate.grounding_metadata):
            self._grounding = candidate.grounding_metadata
        if given(candidate.url_context_metadata):
            self._pages = candidate.url_context_metadata
        if candidate.finish_reason is not None:
            word = _finish_reason(candidate.finish_reason)
            if word != _UNSPECIFIED or not (self._reason or self._writes_default):
                self._reason = word
            self._token = candidate.continuation_token or ""
            self._message = candidate.finish_message or self._message
        self._plain = self._blocks.in_text and self._reason is None and not self._rewritten

    # --- the end ----------------------------------------------------------------------------------

    def _finish(self) -> None:
        word = self._reason or ""
        reason = FINISH_REASONS.get(word)
        if self._reason is None and self._blocked:
            word, reason = self._blocked, FinishReason.CONTENT_FILTER
        goes_on = self._relayed or (self._continues and bool(self._token))
        if reason is FinishReason.PAUSE and not goes_on:
            # The token with which the answer goes on is not sent back.  Case: gemini/continuation.
            self.assembler.loss("continuation_capped", "$.candidates[0].continuationToken")
            reason = FinishReason.LENGTH
        # Cases: gemini/max_tokens_after_call, gemini/partial_arguments_without_end.
        self._blocks.end_call(cut=reason in CUT_REASONS or self._blocks.in_pieces)
        if given(self._grounding):
            self._cite()
        elif self._tool_tokens and self._searches and not given(self._pages):
            # A search may leave nothing but the tokens of what it found.  Case: gemini/search_only_counted.
            self.assembler.server_call(ServerCall(ServerKind.WEB_SEARCH), ran=True)
        # Case: gemini/pages_read.
        if given(self._pages):
            self._show_pages()
        calls, content = self.assembler.has_calls, self.assembler.index >= 0
        vague = reason is None and word in _VAGUE  # a blocked prompt may have the same word
        # Cases: gemini/malformed_call, gemini/other_without_content.
        if (word in _BAD_CALLS and not calls) or (vague and not content):
            self.assembler.fault(_bad_ending(word, self._message))
            return
        if word in _BAD_CALLS:
            self.assembler.loss("finish_reason_fixed", detail=f"{word} although calls were made")
            reason = FinishReason.TOOL_CALLS
        elif reason is None:
            # Case: gemini/unknown_finish_reason.
            self.assembler.loss("finish_reason_unknown", detail=word[:40])
            reason = FinishReason.STOP
        # The dialect has one word for both.  Case: gemini/thought_text_two_calls.
        if reason is FinishReason.STOP and calls:
            reason = FinishReason.TOOL_CALLS
        filtered = reason is FinishReason.CONTENT_FILTER
        self.assembler.finish(
            reason,
            category=word.lower() if filtered else "",
            explanation=self._message if filtered else "",
            raw="" if word in FINISH_REASONS else word[:40],
            token=self._token if reason is FinishReason.PAUSE else "",
        )

    # --- citations --------------------------------------------------------------------------------

    def _cite(self) -> None:
        """Emit the sources of the text block, if it is still open."""
        grounding = decode(_GROUNDING, bytes(self._grounding))
        sources = grounding.grounding_chunks or []
        if given(grounding.search_entry_point) and (self._rewritten or not self._relayed):
            self.assembler.loss("citations_dropped", detail="searchEntryPoint")
        if sources and not self.assembler.in_text:
            self.assembler.loss("citations_dropped", "$.candidates[0].groundingMetadata")
        elif sources:
            self._cite_sources(grounding, sources)
        queries = tuple(grounding.web_search_queries or ())
        found = [_web(one) for one in sources if one.web is not None]
        if queries or found:
            call = self.assembler.server_call(ServerCall(ServerKind.WEB_SEARCH, queries))
            result = ServerResult(ServerKind.WEB_SEARCH, tuple(found))
            self.assembler.server_result(result, call_id=call)

    def _show_pages(self) -> None:
        """Emit the pages that were read: their addresses, and why one could not be read."""
        for page in decode(_PAGES, bytes(self._pages)).url_metadata or ():
            url = page.retrieved_url or ""
            word = str(page.url_retrieval_status or "").upper()
            error = "" if word in _READ else _UNREAD.get(word, "url_not_accessible")
            call = self.assembler.server_call(
                ServerCall(ServerKind.WEB_FETCH, (url,) if url else ())
            )
            sources = (SourceRef(url),) if url and not error else ()
            result = ServerResult(ServerKind.WEB_FETCH, sources, error=error)
            self.assembler.server_result(result, call_id=call)

    def _cite_sources(
        self, grounding: GroundingMetadata, sources: Sequence[GroundingChunk]
    ) -> None:
        text = "".join(self._blocks.texts).encode("utf-8", "surrogatepass")
        cited: set[int] = set()
        for support in grounding.grounding_supports or ():
            for at in support.grounding_chunk_indices or ():
                if 0 <= at < len(sources):
                    cited.add(at)
                    self.assembler.citation(_citation(sources[at], support, text))
        for at, source in enumerate(sources):
            if at not in cited:
                self.assembler.citation(_citation(source, GroundingSupport(), text))


# How reading a page ended; enums may come as numbers.
_READ: Final = frozenset({"URL_RETRIEVAL_STATUS_SUCCESS", "1"})
_UNREAD: Final = {"URL_RETRIEVAL_STATUS_UNSAFE": "url_not_allowed", "4": "url_not_allowed"}


def _web(source: GroundingChunk) -> SourceRef:
    web = source.web or WebSource()
    return SourceRef(web.uri or "", web.title or "")


def _citation(source: GroundingChunk, support: GroundingSupport, text: bytes) -> Citation:
    web = source.web or source.retrieved_context or source.maps or WebSource()
    segment = support.segment
    start = end = None
    if segment is not None and text and segment.end_index is not None:
        first, last = max(0, segment.start_index or 0), max(0, segment.end_index)
        # Offsets of another part of the answer mean nothing in this one.
        # Test: test_sources_of_another_part_have_no_place_in_this_one.
        cited = (segment.text or "").encode("utf-8", "surrogatepass")
        if not cited or text[first:last] == cited:
            # They count bytes.  Case: gemini/search_queries.
            start, end = _characters(text, first), _characters(text, last)
    raw = Raw(encode({"groundingChunk": source, "groundingSupport": support}))
    return Citation(0, web.uri or "", web.title or "", "", start, end, VENDOR, raw)


def _characters(text: bytes, offset: int) -> int:
    """Return the offset in characters of an offset in bytes."""
    return len(text[:offset].decode("utf-8", "ignore"))


def _bad_ending(word: str, message: str) -> Fault:
    """Return the failure of an answer that ended without anything that a client could use."""
    detail = f": {message}" if message else ""
    reason = f"the upstream ended its response with {word or 'no content'}{detail}"
    return Fault(FaultKind.UPSTREAM_BAD, reason, code=word.lower() or "upstream_empty")
