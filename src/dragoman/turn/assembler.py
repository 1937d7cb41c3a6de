"""Makes a legal stream of events from the content that a peer sends in any order.

The readers of all dialects report to an `Assembler` what they find; it opens and ends blocks, keeps them
from overlapping, checks arguments, and decides how the turn ends.  Knows no field names.

Blocks are serial.  While a call is open and its arguments are not whole, whatever else arrives waits
(bounded by `max_waiting_bytes`) and follows in the order of its arrival.  A call ends when its peer
says so, when its arguments are whole and something else begins, or at the end of the turn.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeAlias

from msgspec import Raw, structs

from dragoman.errors import TooLargeError
from dragoman.ids import derived_id
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.turn.arguments import CustomInput, Ending, JsonArguments, RawInput
from dragoman.turn.block_builder import BlockBuilder, half_input
from dragoman.turn.estimate import output_tokens
from dragoman.turn.events import (
    CUT_REASONS,
    NO_ARGUMENTS_YET,
    STOP,
    TOOL_CALLS,
    BlockKind,
    BlockStart,
    Channel,
    Citation,
    Fault,
    Finish,
    FinishReason,
    Flavor,
    Opaque,
    OpaqueKind,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.server_tools import (
    MAX_SOURCES,
    UNAVAILABLE,
    ServerCall,
    ServerKind,
    ServerResult,
    SourceRef,
)
from dragoman.turn.stages import check_call_count
from dragoman.turn.tools import NO_TOOLS, ToolName, ToolTable

_TEXT: Final = BlockKind.TEXT  # to look up a member costs as much as the rest of a delta
_REASONING: Final = BlockKind.REASONING
_TOOL_CALL: Final = BlockKind.TOOL_CALL
_CUSTOM_CALL: Final = BlockKind.CUSTOM_CALL
_CUSTOM: Final = Flavor.CUSTOM
_NULL: Final = Raw(b"null")
# Endings, a missing one included, of an answer that is whole.
_WHOLE: Final = frozenset(
    {None, FinishReason.STOP, FinishReason.STOP_SEQUENCE, FinishReason.TOOL_CALLS}
)
# Characters of one text delta: a longer text becomes several, so that no step over one takes long.
_LONG_CHARS: Final = 512 * 1024
_SHOWN_NAME_CHARS: Final = 80  # of a name that a model wrote, in a loss
# What waits is called with its assembler: one that held it would be a reference cycle around its text.
_Action: TypeAlias = Callable[["Assembler"], None]


class IncomingCall:
    """One call.  With `raw_input` its peer sends free text, not JSON."""

    def __init__(self, call_id: str, tool: ToolName, *, raw_input: bool, limits: Limits) -> None:
        self.call_id = call_id
        self.tool = tool
        self.kind: BlockKind = _TOOL_CALL
        self.arguments: JsonArguments | CustomInput | RawInput = JsonArguments(limits=limits)
        if tool.flavor is _CUSTOM:
            self.kind = _CUSTOM_CALL
            self.arguments = RawInput(limits=limits) if raw_input else CustomInput(limits=limits)
        self.open = False  # its block has been opened
        self.ended = False  # its peer reported its end
        self.cut = False  # its peer reported that it ended too early
        self.closed = False  # its block has been ended
        self.waiting: list[str] = []  # fragments that came before its block could open
        self.opaque: list[tuple[OpaqueKind, str]] = []
        self._probe = JsonArguments(limits=limits)  # has seen the first `_probed` that wait
        self._probed = 0

    @property
    def is_whole(self) -> bool:
        """Its arguments, waiting ones included, are complete JSON."""
        if self.open or self.closed:
            return self.closed or self.arguments.whole
        for fragment in self.waiting[self._probed :]:
            self._probe.feed(fragment)
        self._probed = len(self.waiting)
        return self._probe.whole

    def halved(self, ending: Ending) -> Ending:
        """Return its ending for a call that is not known to be whole.

        Clients take a call without any arguments for one that needs none and run it, so a call that
        was truncated before its first argument gets an opening bracket.
        """
        if self.kind is _CUSTOM_CALL:
            return Ending(ending.text, whole=False, losses=ending.losses)
        return Ending(NO_ARGUMENTS_YET, whole=False, losses=(*ending.losses, "args_missing"))


class Assembler(BlockBuilder):
    """Turn what a reader reports, in whatever order, into one answer's events."""

    def __init__(  # noqa: PLR0913 -- one keyword for each thing known of the exchange
        self,
        *,
        tools: ToolTable = NO_TOOLS,
        seed: str = "",
        origin: str = "",
        input_estimate: int = 0,
        seal_plain: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(
            tools=tools, seed=seed, origin=origin, seal_plain=seal_plain, limits=limits
        )
        self.ended: bool = False  # the terminal event is out
        self._input_estimate = input_estimate
        self._started = False
        self._call: IncomingCall | None = None  # whose block is open
        self._calls: dict[Hashable, IncomingCall] = {}
        self._call_count = 0
        # A deque while something waits: an empty one would take 760 bytes of every open stream.
        self._waiting: deque[IncomingCall | _Action] | tuple[()] = ()
        self._waiting_size = 0
        self._made_calls = 0  # calls whose block has ended
        self._usage: Usage | None = None
        self._chars = 0  # of output, for an estimate
        # Vendor-run tools: calls by id, the addresses that were cited, and what ran.  Dictionaries once needed.
        self._server: dict[str, tuple[ServerCall, bool] | None] | None = (
            None  # None: has its result
        )
        self._cited: dict[str, SourceRef] | None = None
        self._sourced = False  # a search gave sources
        self._ran: list[ServerKind] | tuple[()] = ()  # tools that did not fail

    # --- reports of readers -------------------------------------------------------------------

    @property
    def started(self) -> bool:
        return self._started

    @property
    def holding(self) -> bool:
        """The open call has arguments that were not forwarded yet, or what comes next decides its end."""
        call = self._call
        if call is None:
            return False
        return call.arguments.holding or (call.ended and not call.arguments.whole)

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def start(self, *, model: str = "", id: str = "", created: int = 0) -> None:  # noqa: A002 -- the event's field
        """Begin the turn; only the first report counts."""
        if not self._started:
            self._started = True
            self.out.append(Start(model, id, created))

    @property
    def in_text(self) -> bool:
        """A text block is open."""
        return self.kind is _TEXT

    @property
    def in_reasoning(self) -> bool:
        """A block of reasoning is open."""
        return self.kind is _REASONING

    def add_text(self, chars: int) -> None:
        """Count more text, whose deltas are emitted elsewhere."""
        self._chars += chars

    def text(self, text: str, logprobs: Raw | None = None) -> None:
        if len(text) > _LONG_CHARS and logprobs is None:
            for at in range(0, len(text), _LONG_CHARS):
                self.text(text[at : at + _LONG_CHARS])
            return
        if self.kind is not _TEXT and not self._ready(
            _TEXT, lambda to: to.text(text, logprobs), len(text)
        ):
            return
        self._chars += len(text)
        self.out.append(TextDelta(self.index, text, logprobs))

    def reasoning(self, text: str, channel: Channel = Channel.FULL, part: int = 0) -> None:
        if len(text) > _LONG_CHARS:
            for at in range(0, len(text), _LONG_CHARS):
                self.reasoning(text[at : at + _LONG_CHARS], channel, part)
            return
        if self.kind is not _REASONING and not self._ready(
            _REASONING, lambda to: to.reasoning(text, channel, part), len(text)
        ):
            return
        self._chars += len(text)
        self.out.append(ReasoningDelta(self.index, text, channel, part))

    def refusal(self, text: str) -> None:
        if self.kind is not BlockKind.REFUSAL and not self._ready(
            BlockKind.REFUSAL, lambda to: to.refusal(text), len(text)
        ):
            return
        self.out.append(RefusalDelta(self.index, text))

    def citation(self, citation: Citation) -> None:
        """Cite a source for the text block; `index` is filled in."""
        if self.kind is not _TEXT and not self._ready(
            _TEXT, lambda to: to.citation(citation), len(citation.raw)
        ):
            return
        if citation.url:
            self._note_source(citation)
        self.out.append(structs.replace(citation, index=self.index))

    def opaque(self, kind: OpaqueKind, data: str, item_id: str = "") -> None:
        """Attach a vendor's state to the reasoning block, opening one if none is open."""
        if self.kind is not _REASONING and not self._ready(
            _REASONING, lambda to: to.opaque(kind, data, item_id), len(data)
        ):
            return
        self.sealed = True
        self.out.append(Opaque(self.index, kind, data, self.origin, item_id))

    def split(self) -> None:
        """End the open block, unless it is a call: what follows opens a new one."""
        if self._call is None:
            self.end_block()
        elif self._waiting:
            self._wait(Assembler.split, 0)

    def whole_block(self, kind: BlockKind, vendor: str, raw: Raw) -> None:
        """Emit a block that the peer sent complete, once the calls before it have ended."""
        if self._blocked():
            self._wait(lambda to: to.whole_block(kind, vendor, raw), len(raw))
            return
        self.end_block()
        self.begin_block(BlockStart(self.index + 1, kind, vendor=vendor, raw=raw))
        self.end_block()

    def server_call(
        self,
        call: ServerCall,
        *,
        call_id: str = "",
        vendor: str = "",
        raw: Raw = _NULL,
        ran: bool = False,
    ) -> str:
        """Put in the call of a vendor-run tool, and return its id: one is made if the peer gave none.

        The result may follow at any time.  A call that has none at the end of a normal answer gets one then: what the
        answer cites, if a search has run (`ran`), else a failure.  A call of an MCP server without the name
        of its tool is dropped: it has no id, and no client could show it.
        """
        if call.does is ServerKind.MCP and not call.name:
            self.loss("server_block_dropped", f"call {call_id}", vendor)
            return ""
        if self._server is None:
            self._server = {}
        if not call_id or call_id in self._server:
            call_id = derived_id("srv_", self._seed, f"{call_id} server {len(self._server)}")
        check_call_count(len(self._server) + 1, self._limits)
        self._server[call_id] = (call, ran)
        self._server_block(
            BlockStart(0, BlockKind.SERVER_CALL, call_id, vendor=vendor, raw=raw, server=call)
        )
        return call_id

    def server_result(
        self, result: ServerResult, *, call_id: str = "", vendor: str = "", raw: Raw = _NULL
    ) -> None:
        """Put in the result of a vendor-run tool, with a call before it if the peer sent none."""
        calls = self._server or {}
        if call_id in calls and calls[call_id] is None:
            self.loss("late_delta_dropped", f"call {call_id}", "a second result")
            return
        if call_id not in calls:
            if result.does is ServerKind.MCP:  # its call needs a name, which only the peer knows
                self.loss("server_block_dropped", f"call {call_id}", vendor)
                return
            call_id = self.server_call(ServerCall(result.does), call_id=call_id)
        assert self._server is not None  # noqa: S101 -- the call is there
        self._server[call_id] = None
        self._sourced = self._sourced or bool(result.sources)
        if not result.error:
            self._ran = [*self._ran, result.does]
        self._server_block(
            BlockStart(0, BlockKind.SERVER_RESULT, call_id, vendor=vendor, raw=raw, server=result)
        )

    def _server_block(self, start: BlockStart) -> None:
        if self._blocked():
            self._wait(lambda to: to._server_block(start), len(start.raw))  # noqa: SLF001 -- itself
            return
        self.end_block()
        self.begin_block(start)
        self.end_block()

    def _note_source(self, citation: Citation) -> None:
        if self._cited is None:
            self._cited = {}
        if len(self._cited) < MAX_SOURCES:
            source = SourceRef(citation.url, citation.title, citation.cited_text)
            self._cited.setdefault(citation.url, source)

    def _end_server_tools(self) -> None:
        """Give each call of a vendor-run tool its result, at the end of an answer that is whole.

        Vendors that cite sources without showing a search, or count one, have searched: there is a call then,
        without a query.  What was cited are the sources of the last search, if no search gave any.
        """
        counted = 0 if self._usage is None else self._usage.searches
        if self._server is None and (self._cited or counted):
            self.server_call(ServerCall(ServerKind.WEB_SEARCH), ran=True)
        waiting = [
            (call_id, one) for call_id, one in (self._server or {}).items() if one is not None
        ]
        cited = tuple((self._cited or {}).values())
        for call_id, (call, ran) in reversed(waiting):
            searched = ran and call.does is ServerKind.WEB_SEARCH
            sources = cited if searched and not self._sourced else ()
            error = "" if searched else UNAVAILABLE
            self.server_result(ServerResult(call.does, sources, error=error), call_id=call_id)

    def open_call(  # noqa: PLR0913 -- what may be known of a call at its start
        self,
        key: Hashable,
        *,
        call_id: str,
        name: str,
        namespace: str = "",
        flavor: Flavor | None = None,
        raw_input: bool = False,
    ) -> None:
        """Begin a call; `key` names it in `args`, `end_call` and `call_opaque`.

        `flavor` and `namespace` are for peers that send them; otherwise the declared tools give them.
        With `raw_input` the peer sends free text, not JSON.
        """
        self._call_count += 1
        check_call_count(self._call_count, self._limits)
        tool = self._tools.resolve(name)
        if tool.name != name and name not in self._tools:
            # Case: gemini/default_api_prefix.
            self.loss("tool_name_fixed", detail=name[:_SHOWN_NAME_CHARS])
        if flavor is not None:
            tool = ToolName(tool.name, tool.namespace or namespace, flavor)
        call_id = call_id or derived_id("call_", self._seed, f"call {len(self._calls)}")
        call = IncomingCall(call_id, tool, raw_input=raw_input, limits=self._limits)
        self._calls[key] = call
        if self._blocked():
            self._wait(call, len(name) + len(call_id))
        else:
            self._open(call)

    def knows_call(self, key: Hashable) -> bool:
        return key in self._calls

    def call_is_whole(self, key: Hashable) -> bool:
        """Return whether a call's arguments, waiting ones included, are complete JSON."""
        return self._calls[key].is_whole

    def takes_args(self, key: Hashable) -> bool:
        """Return whether arguments can just be added to a call: its block is open, and nothing waits for its end."""
        call = self._calls.get(key)
        return call is not None and call is self._call and not (call.ended or self._waiting)

    def args(self, key: Hashable, fragment: str) -> None:
        """Add to a call's arguments."""
        self.args_size += len(fragment)
        if self.args_size > self._limits.max_turn_args_bytes:
            raise TooLargeError("max_turn_args_bytes", self._limits.max_turn_args_bytes)
        call = self._calls[key]
        if call is self._call:
            text = call.arguments.feed(fragment)
            if text:
                self._chars += len(text)
                self.call_delta(text)
            if self._waiting and call.arguments.whole:
                self._close_call(cut=False)
                self._drain()
        elif call.closed:
            if fragment.strip():
                self.loss("late_delta_dropped", f"call {call.call_id}")
        else:
            call.waiting.append(fragment)
            self._count_waiting(len(fragment))

    def takes_opaque(self, key: Hashable) -> bool:
        """Return whether state can still be attached to a call: its block has not ended."""
        return not self._calls[key].closed

    def call_opaque(self, key: Hashable, kind: OpaqueKind, data: str) -> None:
        """Attach a vendor's state to a call."""
        call = self._calls[key]
        if call is self._call:
            self.out.append(Opaque(self.index, kind, data, self.origin))
        elif call.closed:
            self.loss("late_delta_dropped", f"call {call.call_id}")
        else:
            call.opaque.append((kind, data))

    def end_call(self, key: Hashable, *, cut: bool = False) -> None:
        """Note that the peer ended a call, with `cut` before its arguments were complete."""
        call = self._calls[key]
        call.ended = True
        call.cut = cut
        if call is self._call and self._is_over(call):
            self._close_call(cut=False)
            self._drain()

    def usage(self, usage: Usage) -> None:
        """Note the counts so far; the last ones are emitted at the end."""
        self._usage = usage

    def loss(self, code: str, path: str = "", detail: str = "") -> None:
        self.out.append(Loss(code, path, detail))

    def finish(  # noqa: PLR0913 -- what an ending may say
        self,
        reason: FinishReason | None,
        *,
        stop_sequence: str | None = None,
        category: str = "",
        explanation: str = "",
        raw: str = "",
        token: str = "",
    ) -> None:
        """End the turn.  `reason` is the peer's finish reason, or None if it sent no usable one."""
        self.start()
        cut = reason in CUT_REASONS
        while self._call is not None:
            self._close_call(cut=cut)
            self._drain()
        if reason in _WHOLE and (self._server or self._cited or self._usage):
            self._end_server_tools()
        self.end_block()
        if self.half_input and not cut:
            self.fault(half_input(self.half_input))
            return
        agreed = self._agreed_reason(reason)
        self._report_usage()
        self.out.append(Finish(agreed, stop_sequence, category, explanation, raw, token))
        self.ended = True

    def fault(self, fault: Fault) -> None:
        """End the turn with a failure.  An open block stays open."""
        if self._waiting:
            self._waiting = ()
            self.loss("held_content_lost")
        self.out.append(fault)
        self.ended = True

    # --- blocks ---------------------------------------------------------------------------------

    def _ready(self, kind: BlockKind, again: _Action, size: int) -> bool:
        """Open a block of `kind`, or let the action wait for its turn."""
        if self._blocked():
            self._wait(again, size)
            return False
        self.end_block()
        self.begin_block(BlockStart(self.index + 1, kind))
        return True

    def begin_block(self, start: BlockStart) -> None:
        """Open a block under the next index, and the answer if nothing has opened it."""
        if self.index + 1 >= self._limits.max_blocks:
            raise TooLargeError("max_blocks", self._limits.max_blocks)
        self.start()
        super().begin_block(start)

    # --- calls ----------------------------------------------------------------------------------

    def _blocked(self) -> bool:
        """Return whether what comes now must wait, ending every call that can be ended first."""
        while self._call is not None:
            if not (self._call.ended or self._call.arguments.whole):
                return True
            self._close_call(cut=False)
            self._drain()
        return False

    def _wait(self, piece: "IncomingCall | _Action", size: int) -> None:
        if not self._waiting:
            self._waiting = deque()
        self._waiting.append(piece)
        self._count_waiting(size)

    def _count_waiting(self, size: int) -> None:
        self._waiting_size += size
        if self._waiting_size > self._limits.max_waiting_bytes:
            raise TooLargeError("max_waiting_bytes", self._limits.max_waiting_bytes)

    def _open(self, call: IncomingCall) -> None:
        self.begin_call(call.call_id, call.tool)
        call.open = True
        self._call = call
        for kind, data in call.opaque:
            self.out.append(Opaque(self.index, kind, data, self.origin))
        for fragment in call.waiting:
            text = call.arguments.feed(fragment)
            if text:
                self._delta(text)
        call.waiting.clear()

    def _delta(self, text: str) -> None:
        self._chars += len(text)
        self.call_delta(text)

    def _close_call(self, *, cut: bool) -> None:
        """End the open call; with `cut` its peer stopped before the end."""
        call = self._call
        assert call is not None  # noqa: S101 -- callers check
        self._call = None
        call.closed = True
        cut = cut or call.cut
        ending = call.arguments.end()
        if ending.open_ended and self._may_be_half(call, cut=cut):
            ending = call.halved(ending)
        if ending.text:
            self._delta(ending.text)
        for code in ending.losses:
            if not (cut and code == "args_invalid"):  # that it was cut explains it
                self.loss(code, f"call {call.call_id}")
        whole = ending.whole
        if not whole and not cut and call.arguments.may_close(*self._tools.parameters(call.tool)):
            whole = True
            if call.kind is _TOOL_CALL:
                self._delta("}")
            self.loss("args_repaired", f"call {call.call_id}", "the closing bracket was missing")
        elif not whole and (cut or not ending.broken):
            self.loss("call_cut", f"call {call.call_id}")
        self._made_calls += 1
        self.end_call_block(call.tool.name, complete=whole)

    def _may_be_half(self, call: IncomingCall, *, cut: bool) -> bool:
        """Return whether a call may lack its end although nothing of it shows that.

        Free text looks whole wherever it stops, and so does a call without arguments: only the peer
        knows, or what came after it.
        """
        if call.cut:
            return True
        if call.kind is _CUSTOM_CALL:
            return cut and not (call.ended or self._waiting)
        return (cut and not self._waiting) or bool(self._tools.parameters(call.tool)[0])

    def _is_over(self, call: IncomingCall) -> bool:
        """Return whether nothing more can come for a call: its peer ended it, or went on after it."""
        if call.arguments.whole:
            return call.ended or bool(self._waiting)
        return call.ended and (call.cut or isinstance(call.arguments, RawInput))

    def _drain(self) -> None:
        """Read the input that waits for its turn, until a call of it is still open."""
        while self._waiting and self._call is None and not self.ended:
            piece = self._waiting.popleft()
            if not isinstance(piece, IncomingCall):
                piece(self)
                continue
            self._open(piece)
            if self._is_over(piece):
                self._close_call(cut=False)
        if not self._waiting:
            self._waiting_size = 0

    # --- the end --------------------------------------------------------------------------------

    def _agreed_reason(self, reason: FinishReason | None) -> FinishReason:
        """Return a finish reason that agrees with the calls; the peer's is None if it gave none."""
        if self._made_calls:
            return TOOL_CALLS if reason is None else self.reason_with_calls(reason)
        if reason is TOOL_CALLS:
            self.loss("finish_reason_fixed", detail="tool_calls without calls")
            return STOP
        return reason or STOP

    def usage_so_far(self) -> Usage:
        """Return the counts of an answer that has not ended; what is not reported yet is estimated."""
        usage = self._usage or Usage(self._input_estimate)
        output = max(usage.output_tokens, output_tokens(self._chars))
        return structs.replace(usage, output_tokens=output, estimated=True)

    def _report_usage(self) -> None:
        usage = self._usage
        if usage is None:
            self.loss("usage_missing")
            usage = Usage(self._input_estimate, output_tokens(self._chars), estimated=True)
        if self._ran:
            usage = _with_runs(usage, self._ran)
        self.out.append(structs.replace(usage, final=True))


def _with_runs(usage: Usage, ran: Sequence[ServerKind]) -> Usage:
    """Return the counts with the runs of tools that the vendor did not count itself."""
    return structs.replace(
        usage,
        searches=usage.searches or ran.count(ServerKind.WEB_SEARCH),
        fetches=usage.fetches or ran.count(ServerKind.WEB_FETCH),
        code_runs=usage.code_runs or ran.count(ServerKind.CODE),
        mcp_calls=usage.mcp_calls or ran.count(ServerKind.MCP),
        images=usage.images or ran.count(ServerKind.IMAGE),
    )
