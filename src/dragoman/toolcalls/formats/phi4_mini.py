"""Phi-4-mini: an array of objects after a plain word or a special token."""

from typing import Final

from dragoman.toolcalls.format import Format, closes
from dragoman.toolcalls.grammars.json_objects import functools_array, objects_after

FORMAT: Final = Format(
    key="phi4_mini",
    opens=("functools[", "<|tool_call|>["),
    says="Phi-4-mini",
    models=("phi-4-mini*", "phi4-mini"),
    rules=(
        *functools_array(),
        *objects_after(("<|tool_call|>",)),
        *closes(("<|/tool_call|>",)),
    ),
    bare=True,
)
