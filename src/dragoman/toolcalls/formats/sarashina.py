"""Sarashina 2: a list in the syntax of Python after a marker."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.json_objects import objects_after

FORMAT: Final = Format(
    key="sarashina",
    opens=("<|tool_calls|>",),
    says="Sarashina 2.x",
    models=("sarashina*",),
    rules=objects_after(("<|tool_calls|>",)),
)
