"""MiniMax-M1: one object on each line, in one section."""

from typing import Final

from dragoman.toolcalls.format import ANYWHERE, Format, Where
from dragoman.toolcalls.grammars.json_objects import tagged_objects

FORMAT: Final = Format(
    key="minimax_m1",
    opens=("<tool_calls>",),
    says="MiniMax-M1",
    models=("minimax-m1*",),
    # Calls that the thinking quotes are not made.
    rules=tagged_objects("<tool_calls>", "</tool_calls>", at=ANYWHERE - {Where.THINK}),
)
