"""Cohere Command: a JSON array between special tokens."""

from typing import Final

from msgspec.structs import replace

from dragoman.toolcalls.format import (
    AHEAD,
    BLANKS,
    Action,
    Format,
    ObjectsSpec,
    Where,
    call,
    closes,
    markers,
    one_of,
)
from dragoman.toolcalls.formats.json_rules import tagged_objects

# --- cohere_command -----------------------------------------------------------------------------------
#
#     <|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>
#
# Text is between `<|START_RESPONSE|>` and `<|END_RESPONSE|>` or similar tokens.
# Cases: tests/corpus/toolcalls/cohere_command.

# Their ids are small counters that repeat in the next answer, so they are dropped: ids_are_counters.
_OBJECTS: Final = ObjectsSpec(
    name_keys=("tool_name", "name"), argument_keys=("parameters", "arguments")
)

COHERE_COMMAND: Final = Format(
    key="cohere_command",
    opens=("<|START_ACTION|>",),
    description="Command R7B, Command A, Command 3 and 4",
    models=("command-r7b*", "command-a*", "c4ai-command*"),
    rules=(
        *tagged_objects("<|START_ACTION|>", "<|END_ACTION|>", body=_OBJECTS, special=True),
        *closes(("<|END_OF_TURN_TOKEN|>",)),
        # As older Command R models write it.  Case: cohere_command/older_action_fence.
        *call(
            ("Action:", BLANKS, one_of("```json", "```"), BLANKS, AHEAD, "[", BLANKS, "{"),
            body=replace(_OBJECTS, declared=True),
        ),
        *markers(("```",), action=Action.SKIP, at={Where.TAIL}, then=Where.AFTER),
        *markers(
            (one_of("<|START_RESPONSE|>", "<|START_TEXT|>"),),
            action=Action.START_TEXT,
            at={Where.START, Where.ANSWER, Where.AFTER},
            then=Where.MESSAGE,
        ),
        *markers(
            (one_of("<|END_RESPONSE|>", "<|END_TEXT|>"),),
            action=Action.SKIP,
            at={Where.MESSAGE},
            then=Where.ANSWER,
        ),
    ),
    think=(("<|START_THINKING|>", "<|END_THINKING|>"),),
    special=(
        "<|END_ACTION|>",
        "<|END_RESPONSE|>",
        "<|END_TEXT|>",
        "<|END_THINKING|>",
        "<|END_OF_TURN_TOKEN|>",
        "<|START_OF_TURN_TOKEN|>",
        "<|CHATBOT_TOKEN|>",
    ),
    special_openers=(
        "<|START_ACTION|>",
        "<|START_RESPONSE|>",
        "<|START_TEXT|>",
        "<|START_THINKING|>",
    ),
)
