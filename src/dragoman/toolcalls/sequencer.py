"""From what the engine finds to a legal sequence of blocks.

Opens and ends blocks as their content comes, numbers them, and names the tools as their client knows
them.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman.ids import derived_id
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.turn.arguments import CustomInput
from dragoman.turn.events import (
    NO_ARGUMENTS_YET,
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    Fault,
    FaultKind,
    Flavor,
    InputDelta,
    Opaque,
    OpaqueKind,
    ReasoningDelta,
    TextDelta,
)
from dragoman.turn.losses import Loss
from dragoman.turn.tools import NO_TOOLS, ToolTable

# Problems that are told once for an answer, however often they occur.
_ONCE: Final = frozenset({"native_blank_dropped"})
# Text that comes in many small steps is joined up to this: beyond it, joining costs more than it saves.
_MAX_DELTA_CHARS: Final = 4096


class Broken(Struct, frozen=True, gc=False):
    """A call whose arguments have passed a limit: the answer fails, half a call cannot be recalled."""

    fault: Fault
    at: int  # what stands from here on in `out` is not to be told


class Sequencer:
    """Build blocks.  `out` holds the events not yet taken."""

    def __init__(
        self,
        *,
        table: ToolTable = NO_TOOLS,
        seed: str = "",
        origin: str = "",
        seal_plain: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.out: list[Event] = []
        self.index = -1  # of the open block, or the last one
        self.kind: BlockKind | None = None  # of the open block
        self.start: BlockStart | None = (
            None  # of a block that the upstream opened and we did not yet
        )
        self.sealed = False  # the open block carries opaque state
        self.calls = 0  # calls begun
        self.half_input = ""  # the name of a free-form tool whose input was truncated
        self.overfull = False  # the open call's arguments have passed their limit
        self.broken: Broken | None = None  # a call whose arguments nobody can use
        self.seed = seed
        self._table = table
        self._origin = origin
        self._seal_plain = seal_plain
        self._limits = limits
        self._custom: CustomInput | None = None  # reads the open call's input, if it is free text
        self._size = 0  # of the open call's arguments
        self._turn_size = 0  # of the arguments of those before it
        self._name = ""  # of the last call
        self._limit = ""  # the limit that its arguments have passed
        self._told: set[str] = set()
        self._last: TextDelta | ReasoningDelta | None = None  # made here: more may be added to it

    def take(self) -> list[Event]:
        """Return the events since the last call."""
        out = self.out
        self.out = []
        return out

    # --- what the engine says ----------------------------------------------------------------------

    def text(self, text: str, /) -> None:
        if self.kind is not BlockKind.TEXT:
            self.open(BlockKind.TEXT)
        last = self._last
        if isinstance(last, TextDelta) and self._may_grow(last):
            text = last.text + text
            self.out.pop()
        self._last = TextDelta(self.index, text)
        self.out.append(self._last)

    def reasoning(self, text: str, /) -> None:
        if self.kind is not BlockKind.REASONING:
            self.open(BlockKind.REASONING)
        last = self._last
        if isinstance(last, ReasoningDelta) and self._may_grow(last):
            text = last.text + text
            self.out.pop()
        self._last = ReasoningDelta(self.index, text)
        self.out.append(self._last)

    def begin(self, call_id: str, name: str, /) -> None:
        tool = self._table.resolve(name)
        call_id = call_id or derived_id("call_", self.seed, f"native call {self.calls}")
        self.calls += 1
        self.start = None  # the upstream's block, if it goes on, is another one
        self._turn_size += self._size
        self._size = 0
        self.overfull = False
        self._name = tool.name
        self._limit = ""
        custom = tool.flavor is Flavor.CUSTOM
        kind = BlockKind.CUSTOM_CALL if custom else BlockKind.TOOL_CALL
        self._custom = CustomInput(limits=self._limits) if custom else None
        self.end_block()
        self._begin(
            BlockStart(self.index + 1, kind, call_id, tool.name, tool.namespace, tool.flavor)
        )

    def args(self, json: str, /) -> None:
        self._size += len(json)
        self.hold(0)
        if self._custom is None:
            self.out.append(ArgsDelta(self.index, json))
        else:
            self._input(self._custom.feed(json))

    def hold(self, size: int, /) -> None:
        if self.overfull:
            return
        size += self._size
        if size > self._limits.max_tool_args_bytes:
            self._overflow("max_tool_args_bytes")
        elif self._turn_size + size > self._limits.max_turn_args_bytes:
            self._overflow("max_turn_args_bytes")

    def _overflow(self, limit: str) -> None:
        self.overfull = True
        self.problem("native_call_invalid", f"limit `{limit}` passed", limit=limit)
        self._break()

    def _break(self) -> None:
        said = f"upstream answer refused: limit `{self._limit}` passed by tool call `{self._name}`"
        fault = Fault(FaultKind.UPSTREAM_BAD, said, code=self._limit)
        self.broken = Broken(fault, len(self.out))

    def end(self, *, complete: bool) -> None:
        complete = complete and not self.overfull
        if self._custom is not None:
            self._input(self._custom.end().text)
            self._custom = None
            if not complete:
                self.half_input = self._name
        elif not complete and not self._size:
            self.args(NO_ARGUMENTS_YET)
            self.problem("args_missing", self._name)
        if self._limit and self.broken is None:
            self._break()
        self.out.append(BlockEnd(self.index, complete))
        self.kind = None

    def problem(self, code: str, detail: str = "", *, limit: str = "") -> None:
        if code in _ONCE:
            if code in self._told:
                return
            self._told.add(code)
        self._limit = self._limit or limit
        self.out.append(Loss(code, detail=detail, limit=limit))

    # --- blocks ------------------------------------------------------------------------------------

    def open(self, kind: BlockKind) -> None:
        """End the open block and open one of text or reasoning: the upstream's own, if it waits."""
        self.end_block()
        start = self.start
        self.start = None
        if start is None or start.kind is not kind:
            start = BlockStart(self.index + 1, kind)
        self.pass_on(start)

    def pass_on(self, start: BlockStart) -> None:
        """Open a block that the upstream opened; no other is open."""
        index = self.index + 1
        self._begin(start if start.index == index else replace(start, index=index))

    def end_block(self) -> None:
        """End the open block, which is not a call."""
        if self.kind is None:
            return
        if self.kind is BlockKind.REASONING and self._seal_plain and not self.sealed:
            self.out.append(Opaque(self.index, OpaqueKind.PLAIN, "", self._origin))
        self.kind = None
        self.out.append(BlockEnd(self.index))

    def _begin(self, start: BlockStart) -> None:
        self.index = start.index
        self.kind = start.kind
        self.sealed = False
        self.out.append(start)

    def _may_grow(self, last: TextDelta | ReasoningDelta) -> bool:
        return len(last.text) < _MAX_DELTA_CHARS and bool(self.out) and self.out[-1] is last

    def _input(self, text: str) -> None:
        if text:
            self.out.append(InputDelta(self.index, text))
