"""Granite 3 and Granite-20B-FunctionCalling."""

from typing import Final

from dragoman.toolcalls.format import AHEAD, AT_START, BLANKS, Format, ObjectsSpec, call, closes
from dragoman.toolcalls.formats.json_rules import objects_after, tagged_objects

# --- granite ------------------------------------------------------------------------------------------
#
# Granite 3: an array of objects after a marker, or as the whole answer.

GRANITE: Final = Format(
    key="granite",
    opens=("<|tool_call|>[", "<tool_call>["),
    description="Granite 3.x",
    models=("granite-3*", "granite3.*"),
    rules=(
        *objects_after(("<|tool_call|>",)),
        *tagged_objects("<tool_call>", "</tool_call>"),
        # Without a marker only the answer's very beginning counts, and only declared tools.
        *call((AHEAD, "[", BLANKS, "{"), body=ObjectsSpec(declared=True), at=AT_START),
        *closes(("<|end_of_text|>",)),
    ),
    think=(
        ("Here is my thought process:", "Here is my response:"),
        ("Here's my thought process:", "Here's my response:"),
        ("<think>", "</think>"),
    ),
    bare=True,
)

# --- granite_20b_fc -----------------------------------------------------------------------------------
#
# Granite-20B-FunctionCalling: objects, each after a marker.

GRANITE_20B_FC: Final = Format(
    key="granite_20b_fc",
    opens=("<function_call>",),
    description="Granite-20B-FunctionCalling",
    models=("granite-20b-functioncalling",),
    rules=(*objects_after(("<function_call>",)), *closes(("<|endoftext|>",))),
)
