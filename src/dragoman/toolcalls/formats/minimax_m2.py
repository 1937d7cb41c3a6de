"""MiniMax-M2 and its successors: invokes in a section of their own."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.invokes import invokes

FORMAT: Final = Format(
    key="minimax_m2",
    opens=("<minimax:tool_call>",),
    says="MiniMax-M2, M2.1, M2.5, M2.7",
    models=("minimax-m2*",),
    rules=invokes(
        (),
        section=(("<minimax:tool_call>",), ("</minimax:tool_call>",)),
        closers=("parameter", "content"),
    ),
    starts_thinking=True,
)
