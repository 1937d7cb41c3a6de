"""Sarashina 2: a list in the syntax of Python after a marker, or as the whole answer."""

from typing import Final

from dragoman.toolcalls.format import AT_START, Format, Where
from dragoman.toolcalls.grammars.json_objects import objects_after
from dragoman.toolcalls.grammars.python_objects import python_objects

FORMAT: Final = Format(
    key="sarashina",
    opens=("<|tool_calls|>",),
    says="Sarashina 2.x",
    models=("sarashina*",),
    rules=(
        *python_objects(("<|tool_calls|>",)),
        *objects_after(("<|tool_calls|>",)),
        # Without the marker only the answer's very beginning counts, and only declared tools.
        *python_objects((), at=AT_START - {Where.TAIL}, declared=True),
    ),
)
