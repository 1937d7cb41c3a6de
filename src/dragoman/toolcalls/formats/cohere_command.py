"""Cohere Command: an array of objects between special tokens, text between others."""

from typing import Final

from dragoman.toolcalls.format import Do, Format, Objects, Where, marks
from dragoman.toolcalls.grammars.json_objects import tagged_objects
from dragoman.toolcalls.patterns import one_of

FORMAT: Final = Format(
    key="cohere_command",
    opens=("<|START_ACTION|>",),
    says="Command R7B, Command A, Command 3 and 4",
    models=("command-r7b*", "command-a*", "c4ai-command*"),
    rules=(
        *tagged_objects(
            "<|START_ACTION|>",
            "<|END_ACTION|>",
            # Their ids are small counters, of no use beyond the answer.
            body=Objects(
                name_keys=("tool_name", "name"), argument_keys=("parameters", "arguments")
            ),
            special=True,
        ),
        *marks(
            (one_of("<|START_RESPONSE|>", "<|START_TEXT|>"),),
            do=Do.SAY,
            at={Where.START, Where.ANSWER, Where.AFTER},
            then=Where.MESSAGE,
        ),
        *marks(
            (one_of("<|END_RESPONSE|>", "<|END_TEXT|>"),),
            do=Do.SKIP,
            at={Where.MESSAGE},
            then=Where.ANSWER,
        ),
    ),
    think=(("<|START_THINKING|>", "<|END_THINKING|>"),),
)
