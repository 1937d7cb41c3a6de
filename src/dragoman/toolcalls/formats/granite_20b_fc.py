"""Granite-20B-FunctionCalling: objects, each after a marker."""

from typing import Final

from dragoman.toolcalls.format import Format, closes
from dragoman.toolcalls.grammars.json_objects import objects_after

FORMAT: Final = Format(
    key="granite_20b_fc",
    opens=("<function_call>",),
    says="Granite-20B-FunctionCalling",
    models=("granite-20b-functioncalling",),
    rules=(*objects_after(("<function_call>",)), *closes(("<|endoftext|>",))),
)
