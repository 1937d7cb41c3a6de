"""Granite 3 and Granite-20B-FunctionCalling: JSON after a marker.  Granite 4 is `hermes`."""

from typing import Final

from dragoman.toolcalls.format import AHEAD, AT_START, BLANKS, Format, ObjectsSpec, call, closes
from dragoman.toolcalls.formats.json_rules import (
    answer_tags,
    objects_after,
    objects_in_prose,
    tagged_objects,
)

# --- granite ------------------------------------------------------------------------------------------
#
#     <|tool_call|>[{"name": "f", "arguments": {"a": 1}}]
#
# Reasoning and answer may be marked by sentences: "Here is my thought process:".
# Cases: tests/corpus/toolcalls/granite.

GRANITE: Final = Format(
    key="granite",
    opens=("<|tool_call|>[", "<tool_call>["),
    description="Granite 3.x",
    models=("granite-3*", "granite3.*"),
    rules=(
        *objects_after(("<|tool_call|>",)),
        *tagged_objects("<tool_call>", "</tool_call>"),
        # Without a marker: only declared tools.
        # Case: granite/bare_array_of_no_tool.
        *call((AHEAD, "[", BLANKS, "{"), body=ObjectsSpec(declared=True), at=AT_START),
        *objects_in_prose(("[", BLANKS, "{"), body=ObjectsSpec()),
        *closes(("<|end_of_text|>",)),
        # Granite 3.3.  Case: granite/n8_response_tags.
        *answer_tags("response"),
    ),
    think=(
        ("Here is my thought process:", "Here is my response:"),
        ("Here's my thought process:", "Here's my response:"),
        ("<think>", "</think>"),
    ),
    bare=True,
    special=("<|end_of_text|>",),
    special_openers=("<|tool_call|>",),
)

# --- granite_20b_fc -----------------------------------------------------------------------------------
#
#     <function_call> {"name": "f", "arguments": {}}<function_call> {"name": "g", "arguments": {}}
#
# A marker before each object, and no closer.
# Cases: tests/corpus/toolcalls/granite_20b_fc.

GRANITE_20B_FC: Final = Format(
    key="granite_20b_fc",
    opens=("<function_call>",),
    description="Granite-20B-FunctionCalling",
    models=("granite-20b-functioncalling",),
    rules=(*objects_after(("<function_call>",)), *closes(("<|endoftext|>",))),
    special=("<|endoftext|>",),
)
