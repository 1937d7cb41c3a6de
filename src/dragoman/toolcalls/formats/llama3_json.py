"""Llama 3: an object as the whole answer, or after a special token."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    AT_START,
    BLANKS,
    Format,
    Json,
    Objects,
    Run,
    Where,
    call,
    closes,
    one_of,
)
from dragoman.toolcalls.grammars.json_objects import further_objects, objects_after

_OBJECTS: Final = Objects(argument_keys=("parameters", "arguments"))
_IN_TAIL: Final = frozenset({Where.TAIL})
_BARE: Final = Objects(argument_keys=("parameters", "arguments"), declared=True)

FORMAT: Final = Format(
    key="llama3_json",
    opens=("<|python_tag|>", "{"),
    says="Llama 3.1, 3.2, 3.3",
    models=("llama-3.1*", "llama-3.2*", "llama-3.3*", "llama3.*"),
    rules=(
        *objects_after(("<|python_tag|>",), body=_OBJECTS),
        # Without the token only the answer's very beginning counts, and only declared tools.
        *call((AHEAD, "{"), body=_BARE, at=AT_START - {Where.TAIL}),
        *further_objects(body=_BARE, separator=";,"),
        *objects_after((";", BLANKS, "<|python_tag|>"), body=_OBJECTS, at=_IN_TAIL),
        # Custom tools of Llama 3.1.
        *call(
            ("<function=", Run(r"[^<>\s]", 1, 128, name="name"), ">", BLANKS, AHEAD, "{"),
            body=Json(),
        ),
        *closes(("</function>",), stray=False),
        *closes((one_of("<|eom_id|>", "<|eot_id|>"),)),
    ),
    bare=True,
)
