"""Cohere Command: an array of objects between special tokens, text between others."""

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

# Their ids are small counters, of no use beyond the answer.
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
        # As older Command R wrote it.
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
)
