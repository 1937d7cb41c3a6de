"""Decides which block of the answer each event of a Messages stream belongs to.

What a block is follows from its start; what a delta is, from its own type.  Indexes are only a hint:
some peers number every block 0.
"""

from typing import Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from dragoman.dialects.anthropic import schema
from dragoman.dialects.decoding import decode, decode_or_none
from dragoman.dialects.encoding import cleaned, encode
from dragoman.dialects.framing import nameless_call
from dragoman.dialects.tool_policy import wrapped_text
from dragoman.errors import MalformedError
from dragoman.limits import Limits
from dragoman.turn.arguments import JsonArguments
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import BlockKind, Channel, Citation, OpaqueKind
from dragoman.turn.server_tools import (
    UNAVAILABLE,
    ServerCall,
    ServerKind,
    ServerResult,
    SourceRef,
)

T = TypeVar("T")

Sort: TypeAlias = Literal["text", "thinking", "call", "held"]

_BLOCK: Final = msgspec.json.Decoder(schema.WireBlock)

_CITATION: Final = msgspec.json.Decoder(schema.WireCitation)

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_SERVER: Final = msgspec.json.Decoder(schema.ServerBlock)
_INPUT: Final = msgspec.json.Decoder(schema.ServerInput)
_HITS: Final[msgspec.json.Decoder[list[schema.SearchHit]]] = msgspec.json.Decoder(
    list[schema.SearchHit]
)
_FOUND: Final = msgspec.json.Decoder(schema.ServerFound)
_PAGE: Final = msgspec.json.Decoder(schema.FetchedPage)
_STRING: Final = msgspec.json.Decoder(str)
_TEXTS: Final[msgspec.json.Decoder[list[schema.ServerText]]] = msgspec.json.Decoder(
    list[schema.ServerText]
)

# Whole blocks that have no meaning but for their vendor.
_OPAQUE_TYPES: Final = frozenset({"compaction", "container_upload", "fallback"})

_NO_INPUT: Final = frozenset({b"", b"{}", b"null", b'""'})


def decode_cleanly(decoder: msgspec.json.Decoder[T], data: bytes, assembler: Assembler) -> T:
    """Decode JSON that may hold halves of surrogate pairs: they are joined, or replaced and reported."""
    data = bytes(data)
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = decode(decoder, data)
    whole: T = cleaned(value)
    if whole != value:
        assembler.loss("surrogate_replaced")
    return whole


class _Block:
    """A block that has started."""

    def __init__(self, number: int, sort: Sort, raw: Raw) -> None:
        self.number = number  # in the order of arrival: what calls are known by
        self.sort = sort
        self.raw = raw
        self.emitted = False  # it has led to an event
        self.ended = False
        self.signature = ""  # thinking: the last one counts
        self.input = ""  # calls: what the start had, good if no delta follows
        self.deltas: list[str] = []  # held blocks
        self.kind = BlockKind.OPAQUE  # held blocks
        self.content: dict[str, str] = {}  # held blocks: fields that came as deltas


class Blocks:
    """All blocks of one answer."""

    def __init__(self, assembler: Assembler, limits: Limits) -> None:
        self.count: int = 0  # blocks started
        self.held: bool = False  # something of the latest block has led to no event yet
        self._assembler = assembler
        self._limits = limits
        self._blocks: dict[int, _Block] = {}  # open, by the index that the peer gives them
        self._latest: _Block | None = None
        self._text_index: int | None = -1  # of the open text block, once it has led to an event
        self._misnumbered = False  # reported once
        # The call, or the thinking, that was added to last: its index in the stream, and its number.
        self._hot: tuple[int | None, int] = (None, -1)

    @property
    def in_text(self) -> bool:
        """A text block is open that has led to an event."""
        return self._text_index != -1

    def is_text(self, index: int) -> bool:
        """Return whether this is the text block that is open, and has led to an event."""
        return index == self._text_index

    @property
    def takes_more(self) -> bool:
        """Thinking, or input, can just be added to the block that was added to last."""
        return self._assembler.in_reasoning or self._assembler.takes_args(self._hot[1])

    def is_last(self, index: int) -> bool:
        """Return whether the block that was added to last has this index in the stream."""
        return index == self._hot[0]

    def add_more(self, text: str) -> None:
        """Add to the block that was added to last."""
        if self._assembler.in_reasoning:
            self._assembler.reasoning(text, Channel.SUMMARY)
        else:
            self._assembler.args(self._hot[1], text)

    @property
    def calls_are_whole(self) -> bool:
        """There are calls, and each has all of its arguments."""
        calls = [number for number in range(self.count) if self._assembler.knows_call(number)]
        return bool(calls) and all(self._assembler.call_is_whole(number) for number in calls)

    @property
    def inside(self) -> str:
        """What the stream is inside of, for the message if it ends here."""
        latest = self._latest
        if latest is None or latest.ended:
            return ""
        return "a tool call" if latest.sort == "call" else ""

    def start(self, index: int | None, raw: Raw) -> None:
        """Begin a block."""
        if not raw:
            raise MalformedError("a block starts without content", path="$.content_block")
        wire = decode_cleanly(_BLOCK, raw, self._assembler)
        self._text_index = -1
        self._end_before(index)
        number = self.count
        self.count += 1
        # Case: anthropic/a3_all_indexes_zero.
        if index != number:
            self._misnumber(f"block {number} has the index {index}")
        block = _Block(number, _sort(wire.type), raw)
        self._blocks[number if index is None else index] = self._latest = block
        match block.sort:
            case "text":
                self.held = True
                self._text(block, wire.text)
                for citation in wire.citations or ():
                    self._cite(block, citation)
            case "thinking":
                self.held = True
                self._thinking(block, wire.thinking)
                block.signature = wire.signature or ""
            case "call":
                self._start_call(block, wire)
            case "held":
                self._hold(block, wire)

    def _start_call(self, block: _Block, wire: schema.WireBlock) -> None:
        # Test: test_a7_call_without_a_name_is_a_failure.
        if not wire.name:
            self._assembler.fault(nameless_call())
            return
        self._assembler.open_call(block.number, call_id=wire.id or "", name=wire.name)
        # A writer starts a call at its first argument: what wrote nothing yet must not pass alone.
        self.held = True
        block.emitted = True
        if not wire.input:
            self._assembler.loss("event_incomplete", "$.content_block.input")
        # The whole input at the start.  Case: anthropic/input_at_start.
        elif bytes(wire.input) not in _NO_INPUT:
            block.input = bytes(wire.input).decode()

    def doubt_input(self) -> None:
        """Take the input of the call that is open as cut: the message is complete and ended at a limit.

        The vendor's documentation of `max_tokens` asks clients to send the request again if the last
        block is a call, because it may be truncated.  Its input is a complete object all the same;
        without its last bracket, clients can distinguish it from a whole one.
        """
        block = self._latest
        if block is None or block.sort != "call":
            return
        block.input = block.input.rstrip()[:-1]
        self._assembler.loss("input_uncertain", f"block {block.number}")

    def _hold(self, block: _Block, wire: schema.WireBlock) -> None:
        """Begin a block that is emitted as a whole, at its end."""
        self.held = True
        if wire.type == "redacted_thinking":
            if wire.data:
                self._assembler.split()
                self._assembler.opaque(OpaqueKind.REDACTED, wire.data)
            block.emitted = bool(wire.data)
            block.sort = "thinking"
            self.held = False
        elif wire.type.endswith("_tool_use"):
            block.kind = BlockKind.SERVER_CALL
        elif wire.type.endswith("_tool_result"):
            block.kind = BlockKind.SERVER_RESULT
        elif wire.type not in _OPAQUE_TYPES:
            self._assembler.loss("part_unknown", f"block {block.number}", wire.type)

    def _end_before(self, index: int | None) -> None:
        """End a block that cannot be open any more, now that another begins."""
        latest = self._latest
        if latest is None or latest.ended:
            return
        # An open call may be interleaved with the next.  Case: anthropic/a6_calls_interleaved.
        whole = latest.sort != "call" or self._assembler.call_is_whole(latest.number)
        if whole or (index is not None and self._blocks.get(index) is latest):
            self._unclosed(latest)

    def end_all(self) -> None:
        """End what is still open: the message is over."""
        for block in list(self._blocks.values()):
            if not (block.ended or self._assembler.ended):
                self._unclosed(block)
        self._blocks.clear()

    def _unclosed(self, block: _Block) -> None:
        self._assembler.loss("block_unclosed", f"block {block.number}")
        self._end_block(block)

    def stop(self, index: int | None) -> None:
        """End the block of that index, or the latest."""
        block = None if index is None else self._blocks.pop(index, None)
        if block is None or block.ended:
            block = self._latest
            if block is None or block.ended:
                # Case: anthropic/oddity_llama_cpp_two_calls.
                self._assembler.loss("late_delta_dropped", f"block {index}", "a second stop")
                return
            self._misnumber(f"a stop for block {index}")
        self._end_block(block)

    def _end_block(self, block: _Block) -> None:
        block.ended = True
        self._text_index = -1
        if block is self._latest:
            self.held = False
        match block.sort:
            case "call":
                if not self._assembler.knows_call(block.number):
                    return
                if block.input:
                    self._assembler.args(block.number, block.input)
                self._assembler.end_call(block.number)
                return
            case "thinking" if block.signature:
                self._assembler.opaque(OpaqueKind.SIGNATURE, block.signature)
                block.emitted = True
            case "held" if not block.emitted:
                self._emit_whole(block.kind, self._put_together(block))
                block.emitted = True
            case _:
                pass
        if block.emitted:
            self._assembler.split()
        else:
            # Case: anthropic/empty_text_block.
            self._assembler.loss("block_empty", f"block {block.number}")

    def _emit_whole(self, kind: BlockKind, raw: Raw) -> None:
        if kind is BlockKind.SERVER_CALL and (call := read_server_call(raw)) is not None:
            self._assembler.server_call(call[1], call_id=call[0], vendor=schema.VENDOR, raw=raw)
        elif kind is BlockKind.SERVER_RESULT and (result := read_server_result(raw)) is not None:
            self._assembler.server_result(
                result[1], call_id=result[0], vendor=schema.VENDOR, raw=raw
            )
        else:
            self._assembler.whole_block(kind, schema.VENDOR, raw)

    def _put_together(self, block: _Block) -> Raw:
        """Return a held block with what came as deltas in its place."""
        fields: dict[str, Raw] = {}
        joined = "".join(block.deltas)
        if joined:
            arguments = JsonArguments(limits=self._limits)
            text = arguments.feed(joined)
            ending = arguments.end()
            given = text + ending.text if ending.whole else wrapped_text(joined)
            fields["input"] = Raw(given.encode())
            for code in ending.losses if ending.whole else ("args_invalid",):
                self._assembler.loss(code, f"block {block.number}")
        fields |= {name: Raw(encode(text)) for name, text in block.content.items()}
        if not fields:
            return block.raw
        return Raw(encode(decode(_OBJECT, block.raw) | fields))

    def _misnumber(self, detail: str) -> None:
        if not self._misnumbered:
            self._misnumbered = True
            self._assembler.loss("block_index_fixed", "$.index", detail)

    # --- deltas -----------------------------------------------------------------------------------

    def delta(self, event: schema.WireEvent) -> None:
        """Add to a block."""
        delta = event.delta
        if (
            event.index == self._text_index
            and delta is not None
            and delta.type == "text_delta"
            and delta.text
        ):
            # The path of nearly every delta: more of a text that has begun.
            self._assembler.text(delta.text)
            return
        if delta is None:
            raise MalformedError("a delta event without a delta", path="$.delta")
        match delta.type:
            case "text_delta":
                self._text(self._open(event.index, "text"), delta.text)
            case "input_json_delta":
                self._input(event.index, delta.partial_json or "")
            case "thinking_delta":
                block = self._open(event.index, "thinking")
                self._thinking(block, delta.thinking)
                if block is not None:
                    self._hot = (event.index, block.number)
            case "signature_delta":
                block = self._open(event.index, "thinking")
                if block is not None:
                    block.signature = delta.signature or ""
                    self.held = True
                elif delta.signature:
                    self._assembler.opaque(OpaqueKind.SIGNATURE, delta.signature)
            case "citations_delta":
                self._cite(self._open(event.index, "text"), delta.citation)
            case "compaction_delta":
                self._compaction(self._open(event.index, "held"), delta)
            case other:
                block = self._blocks.get(event.index or 0)
                if block is None or block.sort != "held":
                    self._assembler.loss("part_unknown", "$.delta.type", f"delta {other}")

    def _open(self, index: int | None, sort: Sort) -> _Block | None:
        """Return the open block that a delta of this sort belongs to."""
        block = self._blocks.get(-1 if index is None else index)
        if block is not None and block.sort == sort and not block.ended:
            return block
        for block in reversed(self._blocks.values()):
            if block.sort == sort and not block.ended:
                # Case: anthropic/deltas_with_wrong_index.
                self._misnumber(f"a {sort} delta for block {index}")
                return block
        return None

    def _text(self, block: _Block | None, text: str | None) -> None:
        if text:
            self._assembler.text(text)
            self._note_emitted(block)

    def _thinking(self, block: _Block | None, text: str | None) -> None:
        if text:
            self._assembler.reasoning(text, Channel.SUMMARY)
            self._note_emitted(block)

    def _note_emitted(self, block: _Block | None) -> None:
        if block is not None and not block.emitted:
            block.emitted = True
            self.held = False
            if block.sort == "text" and block is self._blocks.get(block.number):
                self._text_index = block.number

    def _input(self, index: int | None, fragment: str) -> None:
        if not fragment:
            return
        block = self._open(index, "call")
        if block is not None and self._assembler.knows_call(block.number):
            # Deltas replace an input that came at the start.  Case: anthropic/input_at_start_and_deltas.
            block.input = ""
            self._hot = (index, block.number)
            before = len(self._assembler.out)
            self._assembler.args(block.number, fragment)
            if len(self._assembler.out) > before:
                self.held = False
            return
        block = self._open(index, "held")
        if block is None:
            self._assembler.loss("late_delta_dropped", f"block {index}", "input without a call")
        else:
            block.deltas.append(fragment)

    def _compaction(self, block: _Block | None, delta: schema.WireDelta) -> None:
        if block is None:
            return
        for name, text in (
            ("content", delta.content),
            ("encrypted_content", delta.encrypted_content),
        ):
            if text:
                block.content[name] = block.content.get(name, "") + text

    def _cite(self, block: _Block | None, raw: Raw) -> None:
        if not raw:
            return
        wire = decode_cleanly(_CITATION, raw, self._assembler)
        self._assembler.citation(
            Citation(
                0,
                wire.url or "",
                wire.title or wire.document_title or "",
                wire.cited_text or "",
                vendor=schema.VENDOR,
                raw=raw,
            )
        )
        self._note_emitted(block)


def _sort(wire_type: str) -> Sort:
    match wire_type:
        case "text":
            return "text"
        case "thinking":
            return "thinking"
        case "tool_use":
            return "call"
        case _:
            return "held"


# --- vendor-run tools ---------------------------------------------------------------------------------

# What a tool does, by the name in its call or by the beginning of its result's type.
_DOES: Final[dict[str, ServerKind]] = {
    "web_search": ServerKind.WEB_SEARCH,
    "web_fetch": ServerKind.WEB_FETCH,
    "code_execution": ServerKind.CODE,
    "bash_code_execution": ServerKind.CODE,
    "text_editor_code_execution": ServerKind.CODE,
    "tool_search_tool_regex": ServerKind.TOOL_SEARCH,
    "tool_search_tool_bm25": ServerKind.TOOL_SEARCH,
    "tool_search": ServerKind.TOOL_SEARCH,
    "tool_search_tool": ServerKind.TOOL_SEARCH,
    "mcp": ServerKind.MCP,
}


def read_server_call(raw: Raw) -> tuple[str, ServerCall] | None:
    """Return id and content of a vendor-run tool's call; None if it is of no known shape."""
    wire = decode_or_none(_SERVER, raw)
    if wire is None or not wire.id:
        return None
    if wire.type == "mcp_tool_use":
        arguments = wire.input or Raw(b"{}")
        name, server = wire.name or "", wire.server_name or ""
        return wire.id, ServerCall(ServerKind.MCP, (), arguments, name, server)
    does = _DOES.get(wire.name or "", ServerKind.OTHER)
    asked = decode_or_none(_INPUT, wire.input) or schema.ServerInput()
    queries = tuple(one for one in (asked.query, asked.url) if one)
    if does is ServerKind.CODE:
        # Of a shell or an editor, the command is the code.
        code = asked.command or "" if asked.code is None else asked.code
        return wire.id, ServerCall(does, arguments=Raw(encode({"code": code})))
    if queries:
        return wire.id, ServerCall(does, queries)
    return wire.id, ServerCall(does, (), wire.input or Raw(b"{}"), wire.name or "")


def read_server_result(raw: Raw) -> tuple[str, ServerResult] | None:
    """Return the id of the call and the content of a vendor-run tool's result; None: of no known shape."""
    wire = decode_or_none(_SERVER, raw)
    if wire is None or not wire.tool_use_id:
        return None
    does = _DOES.get(wire.type.removesuffix("_tool_result"), ServerKind.OTHER)
    if does is ServerKind.MCP:
        return wire.tool_use_id, _mcp_result(wire)
    hits = decode_or_none(_HITS, wire.content)
    if hits is not None:
        sources = tuple(
            SourceRef(one.url, one.title or "", age=one.page_age or "") for one in hits if one.url
        )
        return wire.tool_use_id, ServerResult(does, sources)
    found = decode_or_none(_FOUND, wire.content) or schema.ServerFound()
    if found.error_code is not None or found.type.endswith("_error"):
        return wire.tool_use_id, ServerResult(does, error=found.error_code or UNAVAILABLE)
    if does is ServerKind.WEB_FETCH and found.url:
        page = decode_or_none(_PAGE, found.content) or schema.FetchedPage()
        text = page.source.data if page.source is not None and page.source.type == "text" else ""
        source = SourceRef(found.url, page.title or "", age=found.retrieved_at or "")
        return wire.tool_use_id, ServerResult(does, (source,), text or "")
    output = "".join(filter(None, (found.stdout, found.stderr)))
    return wire.tool_use_id, ServerResult(does, output=output, return_code=found.return_code)


def _mcp_result(wire: schema.ServerBlock) -> ServerResult:
    texts = decode_or_none(_TEXTS, wire.content) or []
    output = decode_or_none(_STRING, wire.content) or "\n".join(
        one.text for one in texts if one.text
    )
    return ServerResult(ServerKind.MCP, output=output, error=UNAVAILABLE if wire.is_error else "")
