"""xLAM 2: an array of objects, bare, in a fence or between tags."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    AT_START,
    BLANKS,
    Do,
    Format,
    Objects,
    Where,
    call,
    marks,
    one_of,
)
from dragoman.toolcalls.grammars.json_objects import objects_after, tagged_objects
from dragoman.toolcalls.grammars.python_objects import python_objects

FORMAT: Final = Format(
    key="xlam",
    opens=("[",),
    says="Salesforce xLAM 2",
    models=("xlam*",),
    rules=(
        *tagged_objects("<tool_call>", "</tool_call>"),
        *objects_after(("[TOOL_CALLS]",)),
        *call(
            (one_of("```json", "```"), BLANKS, AHEAD, "[", BLANKS, "{"), body=Objects(declared=True)
        ),
        *python_objects((), at=AT_START - {Where.TAIL}, declared=True),
        *call((AHEAD, "[", BLANKS, "{"), body=Objects(declared=True), at=AT_START),
        # Reasoning that nobody told of: its closer is all that shows, and an array may follow it.
        *marks(
            ("</think>", BLANKS, AHEAD, "[", BLANKS, "{"),
            do=Do.NOISE,
            at={Where.START, Where.TEXT},
            then=Where.ANSWER,
        ),
        *marks(("```",), do=Do.SKIP, at={Where.TAIL}, then=Where.AFTER),
    ),
    bare=True,
)
