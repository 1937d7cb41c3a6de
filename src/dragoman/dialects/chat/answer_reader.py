"""Decodes answers of a Chat Completions upstream, streamed or complete, for the assembler."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.context import Exchange
from dragoman.dialects.chat.answer_writer import foreign_reason
from dragoman.dialects.chat.block_reader import Calls, Channels
from dragoman.dialects.chat.errors import finish_fault
from dragoman.dialects.chat.schema import (
    CHUNK,
    EMPTY,
    FIELDS,
    HEAD,
    PLAIN_ARGUMENTS,
    PLAIN_REASONING,
    PLAIN_TEXT,
    STRING,
    USAGE,
    Chunk,
    ChunkChoice,
    Delta,
    Head,
    Logprobs,
    PromptDetails,
    UrlCitation,
    UsageCounts,
    is_given,
)
from dragoman.dialects.chat.tools_reader import HostTools
from dragoman.dialects.cost import read_cost
from dragoman.dialects.decoding import decode
from dragoman.dialects.framing import assembler_for, empty_answer, nameless_call, truncated
from dragoman.dialects.openai_errors import decode_fault, error_fault
from dragoman.errors import MalformedError
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import CUT_REASONS, STOP, Citation, Fault, FinishReason, Usage
from dragoman.turn.server_tools import SourceRef
from dragoman.wire.sse import Frame
from dragoman.wire.surrogates import join_surrogates

# --- finish reasons and usage ---------------------------------------------------------------------

# What servers of this dialect say, and what it means.
FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "eos_token": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "insufficient_system_resource": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.CONTEXT_FULL,
    "tool_calls": FinishReason.TOOL_CALLS,
    "tool_use": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "recitation": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
}

# Finish reasons that report a failure.
FAILURES: Final = frozenset({"error", "abort", "aborted", "network_error"})


def read_usage(raw: Raw) -> Usage:
    """Read token counts in any spelling.

    Raises:
        MalformedError: they are not counts.
    """
    counts = decode(USAGE, bytes(raw))
    prompt = _count(counts.prompt_tokens, counts.input_tokens)
    output = _count(counts.completion_tokens, counts.output_tokens)
    details = counts.prompt_tokens_details or PromptDetails()
    read = _count(
        details.cached_tokens,
        counts.prompt_cache_hit_tokens,
        counts.cached_tokens,
        counts.cache_read_input_tokens,
    )
    written = _count(details.cache_write_tokens, counts.cache_creation_input_tokens)
    reasoning = _reasoning(counts)
    # Case: chat/s7_reasoning_counted_beside.
    if reasoning and _count(counts.total_tokens) >= prompt + output + reasoning:
        output += reasoning  # this peer counts reasoning beside the answer, not in it
    return Usage(
        input_tokens=max(0, prompt - read - written),
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_5m_tokens=written,
        reasoning_tokens=reasoning,
        cost=read_cost(counts.cost, counts.cost_in_usd_ticks),
        searches=_searches(counts),
    )


def _searches(counts: UsageCounts) -> int:
    runs = counts.server_tool_use_details or counts.server_tool_use
    calls = counts.server_side_tool_usage_details
    return _count(
        runs.web_search_requests if runs else None,
        calls.web_search_calls if calls else None,
        counts.num_search_queries,
    )


def _reasoning(counts: UsageCounts) -> int:
    details = counts.completion_tokens_details
    return _count(details.reasoning_tokens if details else None, counts.reasoning_tokens)


def _count(*spellings: float | None) -> int:
    """Return the first count that is given and not 0."""
    for one in spellings:
        if one:
            return max(0, int(one))
    return 0


# --- citations ------------------------------------------------------------------------------------
# Offsets count from the start of the message in the dialect, and from the start of the text block in the
# turn; `base` is the number of characters of text before the block.


class _Annotation(Struct, gc=False):
    type: str = ""
    url_citation: UrlCitation | None = None


_LIST: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])

_ANNOTATION: Final = msgspec.json.Decoder(_Annotation)

_URLS: Final[msgspec.json.Decoder[list[str | UrlCitation]]] = msgspec.json.Decoder(
    list[str | UrlCitation]
)


def read_annotations(raw: Raw, base: int) -> list[Citation | None]:
    """Read a message's annotations; one that is not a URL citation is returned as None.

    Raises:
        MalformedError: they are not a list of objects.
    """
    citations: list[Citation | None] = []
    for one in decode(_LIST, bytes(raw)) if is_given(raw) else ():
        cited = decode(_ANNOTATION, bytes(one)).url_citation
        citations.append(None if cited is None else _citation(cited, base, one))
    return citations


def read_addresses(raw: Raw) -> list[Citation]:
    """Read a list of URLs that the whole answer cites.

    Raises:
        MalformedError: it is not a list of URLs.
    """
    citations: list[Citation] = []
    for one in decode(_URLS, bytes(raw)):
        cited = UrlCitation(one) if isinstance(one, str) else UrlCitation(one.url, one.title)
        url = {"type": "url_citation", "url_citation": {"url": join_surrogates(cited.url)}}
        citations.append(_citation(cited, 0, Raw(msgspec.json.encode(url))))
    return citations


# How hosts mark a source in the text: `[1]`, `[ref_1]`, or `[[1]](https://…)`.
_MARK: Final = re.compile(
    r"\[\[[0-9]{1,3}\]\]\((https?://[^\s()]{1,2000})\)|\[((?:ref_)?[0-9]{1,3})\]"
)
_MARKING: Final = frozenset({"perplexity", "zai", "xai"})  # as `Profile.chat_search` names them
_MOST_MARKS: Final = 500  # of one answer


def read_marks(text: str, base: int, listed: Mapping[str, SourceRef]) -> list[Citation]:
    """Return a citation for each mark in a text block whose source the answer lists, by mark or address."""
    citations: list[Citation] = []
    for mark in islice(_MARK.finditer(text), _MOST_MARKS):
        source = listed.get(mark[1] or mark[2])
        if source is None:
            continue
        start, end = mark.span()
        cited = UrlCitation(source.url, source.title or None, base + start, base + end)
        place = {"url": source.url, "start_index": base + start, "end_index": base + end}
        raw = Raw(msgspec.json.encode({"type": "url_citation", "url_citation": place}))
        citations.append(_citation(cited, base, raw))
    return citations


def _marks_sources(exchange: Exchange) -> bool:
    """Return whether the upstream marks sources in its text, and may have searched."""
    host, request = exchange.profile.chat_search, exchange.request
    if host not in _MARKING:
        return False
    return host == "perplexity" or request is None or any(one.server for one in request.tools)


def _citation(cited: UrlCitation, base: int, raw: Raw) -> Citation:
    nowhere = not cited.end_index  # hosts that do not know the place write 0 and 0
    return Citation(
        -1,
        join_surrogates(cited.url),
        join_surrogates(cited.title or ""),
        join_surrogates(cited.content or ""),
        None if cited.start_index is None or nowhere else max(0, cited.start_index - base),
        None if cited.end_index is None or nowhere else max(0, cited.end_index - base),
        "openai",
        raw,
    )


# --- the reader -----------------------------------------------------------------------------------
# The fields of a chunk are read in the order in which the model can have produced them: reasoning,
# content, refusal, calls, then error, finish reason and counts.  Counts may follow the finish reason, so
# the end is emitted at `[DONE]` or at the end of input and not before.

_decode_plain: Final = PLAIN_TEXT.decode

# After so many failures of the plain decoder, a stream is no longer tried with it: its text chunks have
# further fields.
_MAX_DETOURS: Final = 16

_DONE: Final = b"[DONE]"

# Numeric codes of success, where a peer wraps its answers.
_SUCCESS: Final = frozenset({b"0", b"200", b'"0"', b'"200"', b"null"})


class ChatReader:
    """Read the frames of one answer into an assembler."""

    varied = False

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.assembler: Assembler = assembler_for(exchange, seal_plain=True)
        self._channels = Channels(self.assembler, cumulative=exchange.profile.cumulative)
        self._calls = Calls(exchange, self.assembler, self._channels.halves.join)
        self._started = False  # the answer's head was emitted
        self._plain = False  # the last chunk was text and nothing else: so may be the next one
        self._detours = 0  # how often that was wrong
        self._add_text = self.assembler.text
        self._ending: ChunkChoice | None = None  # the choice that brought the finish reason
        self._tail = False  # only the end is still to be emitted
        self._usage = EMPTY  # the last counts
        self._citations = EMPTY  # a list of addresses for the whole answer
        self._host_tools: HostTools | None = None  # tools that the host ran, if it shows them
        if _marks_sources(exchange):
            self._channels.keep_text()

    @property
    def reasoning_field(self) -> str:
        """Which field carried reasoning, if any did."""
        return self._channels.reasoning_field

    @property
    def pending(self) -> bool:
        """Something was read that has led to no event yet."""
        return self._tail or bool(self._channels.halves) or self._calls.pending

    def read(self, frame: Frame, /) -> None:
        """Read a frame into the assembler.

        Raises:
            MalformedError: it is not a chunk.
        """
        data = frame.data
        if self._plain:
            try:
                content = _decode_plain(data).choices[0].delta.content
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._plain = False
                self._detours += 1
            else:
                if content:
                    self._channels.chars += len(content)
                    self._add_text(content)
                return
        # Case: chat/s12_event_named_error.
        if frame.event == "error":
            self._fail(decode_fault(0, data))
            return
        try:
            chunk = CHUNK.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if data.startswith(_DONE):
                self._close()
                return
            chunk = self._decode_odd(data)
        self._chunk(chunk, data)

    @property
    def takes_text(self) -> bool:
        """Text, reasoning or arguments can just be added to the open block."""
        if self.assembler.in_text:
            opened = self._plain
        elif self.assembler.in_reasoning:
            opened = not self._channels.careful
        else:
            opened = self._calls.takes_args
        return opened and not self.pending

    def text_of(self, data: bytes, /) -> str:
        """Return the text, reasoning or arguments that a chunk adds to the open block; empty for one that says more."""
        try:
            if self.assembler.in_text:
                return _decode_plain(data).choices[0].delta.content
            if self.assembler.in_reasoning:
                thought = PLAIN_REASONING.decode(data).choices[0].delta
                return thought.reasoning_content or thought.reasoning or ""
            call = PLAIN_ARGUMENTS.decode(data).choices[0].delta.tool_calls[0]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ""
        return call.function.arguments if self._calls.is_last(call.index) else ""

    def add_text(self, chars: int, /) -> None:
        """Count text of the open block that was read elsewhere."""
        self._channels.chars += chars
        self.assembler.add_text(chars)

    def add_more(self, text: str, /) -> None:
        """Add to the reasoning or the arguments that are open."""
        if self.assembler.in_reasoning:
            self.assembler.reasoning(text)
        else:
            self._calls.add_more(text)

    def end(self) -> None:
        """End the input: end the turn, or report that it was truncated."""
        # `[DONE]` may be missing.  Case: chat/s10_no_done.
        if self._ending is not None or (
            self._exchange.profile.lenient_eof and len(self._calls) and self._calls.whole
        ):
            self._finish()
        else:
            self._cut()

    def read_body(self, body: bytes, /) -> None:
        """Read a complete answer into the assembler.

        Raises:
            MalformedError: it is neither an answer nor an error.
        """
        # Case: chat/s13_list_with_an_error.
        if body.lstrip().startswith(b"["):
            self.assembler.fault(decode_fault(0, body))
            return
        try:
            chunk = CHUNK.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            chunk = self._decode_odd(body)
        self._chunk(chunk, body)
        if self.assembler.ended:
            return
        if not chunk.choices:
            raise MalformedError("an answer without choices", path="$.choices")
        self._close()

    # --- chunks -----------------------------------------------------------------------------------

    def _decode_odd(self, data: bytes) -> Chunk:
        """Decode a chunk that the usual decoder rejects: cut characters, or an error of an odd shape."""
        self._channels.halves.active = self._channels.careful = True
        try:
            return decode(CHUNK, data)
        except MalformedError:
            error = _fields(data).get("error", EMPTY)
            if not is_given(error):
                raise
            return Chunk(error=error)

    def _chunk(self, chunk: Chunk, data: bytes) -> None:
        choices = chunk.choices
        if choices:
            choice = choices[0]
            if not self._started:
                self._start(data, choice.delta)
            if chunk.search_results or chunk.web_search:
                self._list_sources(chunk)
            # Case: chat/s4_several_choices.
            if len(choices) > 1 or choice.index:
                choice = self._first(choices)
            # A complete body inside a stream.  Case: chat/a9_everything_in_one_chunk.
            delta = choice.delta or choice.message
            if delta is not None:
                self._delta(delta, choice.logprobs)
            if choice.finish_reason is not None or choice.native_finish_reason is not None:
                self._note_ending(choice, chunk)
            if choice.usage or choice.error:
                self._note_usage(choice.usage)
                self._note_error(choice.error)
        elif choices is None and not chunk.error and not chunk.usage:
            self._odd(data)
        if chunk.usage:
            self._note_usage(chunk.usage)
            # Case: chat/a8_counts_after_the_finish_reason.
            self._tail = self._tail or not choices
        if chunk.error:
            self._note_error(chunk.error)
        # Case: chat/s7_counts_under_x_groq.
        if chunk.x_groq or chunk.citations:
            self._extras(chunk)

    def _first(self, choices: list[ChunkChoice]) -> ChunkChoice:
        """Return the choice with index 0, or an empty one; the others are not carried."""
        self._channels.lose_once("choice_dropped", "$.choices")
        return next(
            (
                choice
                for position, choice in enumerate(choices)
                if (position if choice.index is None else choice.index) == 0
            ),
            ChunkChoice(),
        )

    def _start(self, data: bytes, delta: Delta | None) -> None:
        head = decode(HEAD, data)
        self._started = True
        answer_id = _string(head.id)
        self._calls.seed = self._exchange.seed or answer_id
        created = bytes(head.created).partition(b".")[0]
        self.assembler.start(
            model=_string(head.model),
            id=answer_id,
            # Case: chat/s14_head_absent.
            created=int(created) if created.isdigit() and len(created) < 16 else 0,
        )
        # The vendor's SDK for Node gives up on an answer without a role (s1_role_never); other dialects
        # have no use for it.
        relayed = self._exchange.keep_identity
        if relayed and delta is not None and _has_content(delta) and not _names_role(head):
            self.assembler.loss("event_incomplete", "$.choices[0].delta.role")

    def _odd(self, data: bytes) -> None:
        """Look at a chunk without choices: it may be an error in a server's own format."""
        fields = _fields(data)
        texts = {"message", "detail"} & fields.keys()
        # Cases: chat/s12_object_is_error, chat/s12_code_and_message.
        if _string(fields.get("object", EMPTY)) == "error" or (
            texts and bytes(fields.get("code", Raw(b"-"))) not in _SUCCESS
        ):
            self._fail(decode_fault(0, data))

    # --- the content of a delta -------------------------------------------------------------------

    def _delta(self, delta: Delta, logprobs: Logprobs | None) -> None:
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            self._channels.reasoning(delta)
        content = delta.content
        if content:
            if content.__class__ is str and logprobs is None and not self._channels.careful:
                self._channels.chars += len(content)
                self.assembler.text(content)
                self._plain = self._detours < _MAX_DETOURS
            else:
                self._channels.content(content, logprobs)
        elif logprobs is not None:
            self._channels.token_records(logprobs, has_text=False)
        if delta.refusal:
            self._channels.refusal(delta.refusal)
        if delta.tool_calls:
            self._channels.enter("calls")
            self._calls.read(delta.tool_calls)
        # Case: chat/t12_legacy_function_call.
        elif delta.function_call is not None:
            self._channels.enter("calls")
            self._calls.read_legacy(delta.function_call)
        if delta.annotations or delta.audio or delta.images:
            self._additions(delta)
        if delta.executed_tools:
            self._ran(delta.executed_tools)

    # --- citations, searches and other fields -------------------------------------------------------

    def _additions(self, delta: Delta) -> None:
        try:
            citations = read_annotations(delta.annotations, self._channels.text_base)
        except MalformedError:
            citations = [None]
        for citation in citations:
            if citation is None:
                self._channels.lose_once("citations_dropped")
            else:
                self.assembler.citation(citation)
        if is_given(delta.audio):
            self._channels.lose_once("part_unknown", "", "audio")
        if is_given(delta.images):
            try:
                self._tools_of_host().images(delta.images)
            except MalformedError:
                self._channels.lose_once("part_unknown", "", "images")

    def _extras(self, chunk: Chunk) -> None:
        """Note what some vendors put beside the choices."""
        usage = _fields(bytes(chunk.x_groq)).get("usage")
        if usage is not None:
            self._note_usage(usage)
        if is_given(chunk.citations):
            self._citations = chunk.citations

    def _tools_of_host(self) -> HostTools:
        if self._host_tools is None:
            self._host_tools = HostTools(self.assembler)
        return self._host_tools

    def _list_sources(self, chunk: Chunk) -> None:
        """Note what a search found, and emit it if it comes before the text."""
        for raw in (chunk.search_results, chunk.web_search):
            if is_given(raw):
                try:
                    self._tools_of_host().sources(raw)
                except MalformedError:
                    self._channels.lose_once("part_unknown", "", "search results")
        if self._host_tools is not None and not self._channels.chars:
            self._host_tools.emit(last=False)

    def _ran(self, raw: Raw) -> None:
        if not is_given(raw):
            return
        try:
            self._tools_of_host().executed(raw)
        except MalformedError:
            self._channels.lose_once("part_unknown", "", "executed_tools")
            return
        if not self._channels.chars:
            self._tools_of_host().emit(last=False)

    def _cite_addresses(self) -> None:
        """Cite the addresses that were listed for the whole answer: where the text marks them, else without a place."""
        cited = read_addresses(self._citations) if is_given(self._citations) else []
        if self._host_tools is not None:
            cited = self._host_tools.titled(cited)
        marked = self._cite_marks(cited)
        cited = [one for one in cited if one.url not in marked]
        if not cited:
            return
        if self.assembler.has_calls or not self._channels.chars:
            # No text is open for citations, but the search found what it found.
            self.assembler.loss("citations_dropped")
            self._tools_of_host().cited(cited)
            return
        for citation in cited:
            self.assembler.citation(citation)

    def _cite_marks(self, cited: Sequence[Citation]) -> set[str]:
        """Cite the sources that the last text block marks, and return their addresses."""
        channels = self._channels
        if not channels.kept or not self.assembler.in_text:
            return set()
        listed = {} if self._host_tools is None else dict(self._host_tools.marks)
        for number, one in enumerate(cited, 1):
            listed[str(number)] = listed[one.url] = SourceRef(one.url, one.title)
        text = "".join(channels.kept)[channels.text_base :]
        marked = read_marks(text, channels.text_base, listed)
        for citation in marked:
            self.assembler.citation(citation)
        return {one.url for one in marked}

    # --- the end ------------------------------------------------------------------------------------

    def _note_usage(self, usage: Raw) -> None:
        if is_given(usage):
            self._usage = usage

    def _note_error(self, error: Raw) -> None:
        if is_given(error) and not self.assembler.ended:
            self._fail(error_fault(bytes(error)))

    def _note_ending(self, choice: ChunkChoice, chunk: Chunk) -> None:
        reason = (choice.finish_reason or "").lower()
        native = (choice.native_finish_reason or "").lower()
        # Cases: chat/g1_finish_reason_error, chat/g1_only_native_finish_reason.
        failure = reason if reason in FAILURES else native if native in FAILURES else ""
        if failure:
            if not is_given(chunk.error) and not is_given(choice.error):
                self._fail(finish_fault(failure))
        # Case: chat/s6_finish_reason_repeated.
        elif reason and self._ending is None:
            self._ending = choice
            self._tail = True
            self._plain = False
            self._channels.finished = self._channels.careful = True

    def _fail(self, fault: Fault) -> None:
        self._channels.give_up()
        self.assembler.fault(fault)

    def _cut(self) -> None:
        """Report that the stream stopped before its end."""
        inside = "a tool call" if len(self._calls) and not self._calls.whole else ""
        self._fail(truncated(inside))

    def _close(self) -> None:
        """End the turn: the peer sent the end of its stream."""
        if self._ending is not None:
            self._finish()
        elif not self._started:
            self.assembler.fault(empty_answer())
        elif not self._calls.whole or not (self._channels.chars or self.assembler.has_calls):
            self._cut()
        else:
            # `[DONE]` without a finish reason.  Case: chat/b9_no_reason_but_done.
            self._finish()

    def _finish(self) -> None:
        """Emit how the answer ended."""
        self._channels.end()
        reason, raw = self._reason()
        if self._calls.searches:
            reason = self._calls.end_searches(reason)
        if not self._calls.open_all():
            # Case: chat/a7_name_never_comes.
            if reason not in CUT_REASONS:
                self.assembler.fault(nameless_call())
                return
            # Test: test_a7_unnamed_call_of_a_cut_answer_is_a_loss.
            self.assembler.loss("call_without_name")
        self._report_usage()
        stop = self._stop_sequence() if reason is STOP else None
        if stop is not None:
            reason = FinishReason.STOP_SEQUENCE
        self.assembler.finish(reason, stop_sequence=stop, raw=raw)

    def _report_usage(self) -> None:
        try:
            self._cite_addresses()
            if self._host_tools is not None:
                self._host_tools.emit(last=True)
            if is_given(self._usage):
                self.assembler.usage(read_usage(self._usage))
        except MalformedError as error:
            self.assembler.loss("chunk_malformed", error.path, error.reason)

    def _reason(self) -> tuple[FinishReason | None, str]:
        """Return what the finish reason means, and the peer's own word for it."""
        word = "" if self._ending is None else (self._ending.finish_reason or "")
        reason = FINISH_REASONS.get(word.lower())
        # Case: chat/unknown_finish_reason.
        if reason is None:
            self.assembler.loss(
                "finish_reason_unknown", "", join_surrogates(word) or "none was given"
            )
        if reason is STOP and self._channels.refused:
            reason = FinishReason.REFUSAL
        return reason, foreign_reason(join_surrogates(word))

    def _stop_sequence(self) -> str | None:
        """Return the stop sequence that ended the answer, where the peer says."""
        # Case: chat/s21_stop_token.
        if self._ending is None or bytes(self._ending.stop_reason)[:1] != b'"':
            return None
        # Case: chat/s21_stop_reason.
        stop = _string(self._ending.stop_reason)
        request = self._exchange.request
        return stop if stop and (request is None or stop in request.stop) else None


def _fields(data: bytes) -> dict[str, Raw]:
    """Return the fields of an object as raw JSON; an empty dict if the data is not an object."""
    try:
        return decode(FIELDS, data)
    except MalformedError:
        return {}


def _has_content(delta: Delta) -> bool:
    content = (delta.content, delta.reasoning_content, delta.reasoning, delta.tool_calls)
    return any(content)


def _names_role(head: Head) -> bool:
    return any(one.delta is not None and is_given(one.delta.role) for one in head.choices or ())


def _string(raw: Raw) -> str:
    """Return a field that should be a string; another type counts as absent."""
    if bytes(raw)[:1] != b'"':
        return ""
    return join_surrogates(decode(STRING, bytes(raw)))
