"""The blocks that the engine finds in an answer's text: text, reasoning and tool calls.

`NativeBlocks` is the machine's sink.  It emits blocks with the builder that the dialects' readers use too.
"""

from typing import Final

from msgspec import Struct

from dragoman.errors import TooLargeError
from dragoman.ids import derived_id
from dragoman.limits import DEFAULT_LIMITS, Limits, describe_excess
from dragoman.toolcalls.findings import NativeFinding, TextChannel
from dragoman.turn.arguments import CustomInput
from dragoman.turn.block_builder import BlockBuilder
from dragoman.turn.events import (
    CALL_KINDS,
    NO_ARGUMENTS_YET,
    REASONING,
    TEXT,
    BlockKind,
    BlockStart,
    Fault,
    FaultKind,
    Flavor,
    ReasoningDelta,
    TextDelta,
)
from dragoman.turn.losses import Loss
from dragoman.turn.tools import NO_TOOLS, ToolTable

# Problems that are reported once for an answer, however often they occur.
_ONCE: Final = frozenset({"native_blank_dropped"})
# Text that comes in many small steps is joined up to this: beyond it, joining costs more than it saves.
_MAX_DELTA_CHARS: Final = 4096


class FailedCall(Struct, frozen=True, gc=False):
    """A call whose arguments have passed a limit: the answer fails, because half of it may be sent already."""

    fault: Fault
    at: int  # events in `out` from here on are dropped


class NativeBlocks(BlockBuilder):
    """Emit the blocks of text, reasoning and calls that a machine finds."""

    def __init__(
        self,
        *,
        table: ToolTable = NO_TOOLS,
        seed: str = "",
        origin: str = "",
        seal_plain: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(
            tools=table, seed=seed, origin=origin, seal_plain=seal_plain, limits=limits
        )
        # Of a block that the upstream has opened, while none of its content has been emitted.
        self.start: BlockStart | None = None
        self.calls: int = 0  # calls begun
        self.family = ""  # the format whose rules apply, and the field that they apply to
        self.channel: TextChannel = "content"
        self.findings: list[NativeFinding] = []
        self.overfull: bool = False  # the open call's arguments have passed their limit
        self.failed: FailedCall | None = None
        self._custom: CustomInput | None = None  # reads the open call's input, if it is free text
        self._size = 0  # of the open call's arguments
        self._name = ""  # of the last call
        self._limit = ""  # the limit that its arguments have passed
        self._reported: tuple[str, ...] = ()  # codes of `_ONCE`
        self._last: TextDelta | ReasoningDelta | None = None  # made here: more may be added to it

    def use_seed(self, seed: str) -> None:
        """Derive ids from the upstream's id of the answer, unless the exchange gave a seed."""
        self._seed = self._seed or seed

    # --- what the engine finds ---------------------------------------------------------------------

    def text(self, text: str, /) -> None:
        """Add to the text block, opening one if none is open."""
        if self.kind is not TEXT:
            self.open(TEXT)
        last = self._last
        if isinstance(last, TextDelta) and self._may_grow(last):
            text = last.text + text
            self.out.pop()
        self._last = TextDelta(self.index, text)
        self.out.append(self._last)

    def reasoning(self, text: str, /) -> None:
        """Add to the reasoning block, opening one if none is open."""
        if self.kind is not REASONING:
            self.open(REASONING)
        last = self._last
        if isinstance(last, ReasoningDelta) and self._may_grow(last):
            text = last.text + text
            self.out.pop()
        self._last = ReasoningDelta(self.index, text)
        self.out.append(self._last)

    def begin(self, call_id: str, name: str, /) -> None:
        """Begin a call; an empty id means that the format has none."""
        tool = self._tools.resolve(name)
        call_id = call_id or derived_id("call_", self._seed, f"native call {self.calls}")
        self.calls += 1
        self.start = None  # if the upstream's block goes on, that is another one
        self._size = 0
        self.overfull = False
        self._name = tool.name
        self._limit = ""
        custom = tool.flavor is Flavor.CUSTOM
        self._custom = CustomInput(limits=self._limits) if custom else None
        self.begin_call(call_id, tool)
        self.findings.append(NativeFinding(self.family, self.channel, self.index, tool.name))

    def args(self, json: str, /) -> None:
        """Add to the arguments of the open call."""
        size = len(json)
        self._size += size
        self.args_size += size
        limits = self._limits
        if self._size > limits.max_tool_args_bytes or self.args_size > limits.max_turn_args_bytes:
            self.hold(0)
        text = json if self._custom is None else self._custom.feed(json)
        if text:
            self.call_delta(text)

    def hold(self, size: int, /) -> None:
        """Apply the limits to arguments that have arrived and must wait."""
        if self.overfull:
            return
        sizes = (("max_tool_args_bytes", self._size), ("max_turn_args_bytes", self.args_size))
        for limit, held in sizes:
            most = getattr(self._limits, limit)
            if held + size > most:
                self.overfull = True
                self.problem("native_call_invalid", str(TooLargeError(limit, most)), limit=limit)
                self._fail()
                return

    def _fail(self) -> None:
        excess = describe_excess(self._limit, getattr(self._limits, self._limit))
        message = f"upstream answer refused at tool call `{self._name}`: {excess}"
        fault = Fault(FaultKind.UPSTREAM_BAD, message, code=self._limit)
        self.failed = FailedCall(fault, len(self.out))

    def end(self, *, complete: bool) -> None:
        """End the open call; a truncated or invalid one is not complete."""
        complete = complete and not self.overfull
        if self._custom is not None:
            rest = self._custom.end().text
            if rest:
                self.call_delta(rest)
            self._custom = None
        elif not complete and not self._size:
            self.args(NO_ARGUMENTS_YET)
            self.problem("args_missing", self._name)
        if self._limit and self.failed is None:
            self._fail()
        self.end_call_block(self._name, complete=complete)

    def problem(self, code: str, detail: str = "", *, limit: str = "", excerpt: str = "") -> None:
        """Report what was dropped, repaired or not understood."""
        if code in _ONCE:
            if code in self._reported:
                return
            self._reported += (code,)
        self._limit = self._limit or limit
        loss = Loss(code, detail=detail, limit=limit, excerpt=excerpt)
        self.out.append(loss)
        called = self._name if self.kind in CALL_KINDS else ""
        self.findings.append(
            NativeFinding(self.family, self.channel, max(self.index, 0), called, loss)
        )

    # --- blocks ------------------------------------------------------------------------------------

    def open(self, kind: BlockKind) -> None:
        """End the open block and open one of text or reasoning: the upstream's own, if it waits."""
        self.end_block()
        start = self.start
        self.start = None
        if start is None or start.kind is not kind:
            start = BlockStart(self.index + 1, kind)
        self.begin_block(start)

    def _may_grow(self, last: TextDelta | ReasoningDelta) -> bool:
        return len(last.text) < _MAX_DELTA_CHARS and bool(self.out) and self.out[-1] is last
