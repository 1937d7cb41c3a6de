"""Opens and ends the blocks of one answer, one after another.

Everything that makes blocks is built on it: `Assembler` for what readers find in an upstream's fields, and the
stage that finds tool calls in text (`toolcalls/native_blocks.py`).
"""

from typing import Final

from msgspec import structs

from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.turn.events import (
    INVALID_ARGUMENTS,
    STOP,
    TOOL_CALLS,
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    EventOrRun,
    Fault,
    FaultKind,
    FinishReason,
    Flavor,
    InputDelta,
    Opaque,
    OpaqueKind,
)
from dragoman.turn.losses import Loss
from dragoman.turn.tools import NO_TOOLS, ToolName, ToolTable

_REASONING: Final = BlockKind.REASONING  # to look up a member costs as much as the rest of a delta
_TOOL_CALL: Final = BlockKind.TOOL_CALL
_CUSTOM_CALL: Final = BlockKind.CUSTOM_CALL
_CUSTOM: Final = Flavor.CUSTOM


class BlockBuilder:
    """The blocks of one answer.  `out` holds the events not yet taken."""

    def __init__(
        self,
        *,
        tools: ToolTable = NO_TOOLS,
        seed: str = "",
        origin: str = "",
        seal_plain: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.out: list[EventOrRun] = []
        self.index: int = -1  # of the open block, or the last one
        self.kind: BlockKind | None = None  # of the open block
        self.sealed: bool = False  # the open reasoning block carries opaque state
        self.args_size = 0  # of all calls
        self.half_input: str = ""  # the name of a free-form tool whose input was truncated
        self._tools = tools
        self._seed = seed
        self.origin: str = origin  # of the state that is emitted: `Opaque.origin`
        self._seal_plain = seal_plain  # unsigned reasoning is marked to be sent back
        self._limits = limits

    def take(self) -> list[EventOrRun]:
        """Return the events since the last call."""
        out = self.out
        self.out = []
        return out

    def begin_block(self, start: BlockStart) -> None:
        """Open a block under the next index; no other is open."""
        self.index += 1
        self.kind = start.kind
        self.sealed = False
        at = self.index
        self.out.append(start if start.index == at else structs.replace(start, index=at))

    def end_block(self) -> None:
        """End the open block, which is not a call."""
        if self.kind is None:
            return
        if self.kind is _REASONING and self._seal_plain and not self.sealed:
            self.out.append(Opaque(self.index, OpaqueKind.PLAIN, "", self.origin))
        self.kind = None
        self.out.append(BlockEnd(self.index))

    def begin_call(self, call_id: str, tool: ToolName) -> None:
        """End the open block and open one for a call."""
        self.end_block()
        custom = tool.flavor is _CUSTOM
        kind = _CUSTOM_CALL if custom else _TOOL_CALL
        name, namespace, flavor = tool.name, tool.namespace, tool.flavor
        self.begin_block(BlockStart(self.index + 1, kind, call_id, name, namespace, flavor))

    def call_delta(self, text: str) -> None:
        """Emit more of the open call's arguments or free-form input."""
        if self.kind is _CUSTOM_CALL:
            self.out.append(InputDelta(self.index, text))
        else:
            self.out.append(ArgsDelta(self.index, text))

    def end_call_block(self, name: str, *, complete: bool) -> None:
        """End the block of a call."""
        if not complete and self.kind is _CUSTOM_CALL:
            self.half_input = name
        self.out.append(BlockEnd(self.index, complete))
        self.kind = None

    def reason_with_calls(self, reason: FinishReason) -> FinishReason:
        """Return the finish reason of an answer that made calls; truncation and filters are never masked."""
        if reason in (STOP, FinishReason.STOP_SEQUENCE):
            detail = f"{reason} although calls were made"
            self.out.append(Loss("finish_reason_fixed", detail=detail))
            return TOOL_CALLS
        return reason


def half_input(name: str) -> Fault:
    """Return the failure of an answer that ends inside free-form input without a finish reason that explains it.

    Free text looks complete wherever it stops, so the client must not see its end.
    """
    message = f"the input of tool call `{name}` is incomplete"
    return Fault(FaultKind.UPSTREAM_BAD, message, code=INVALID_ARGUMENTS)
