"""GigaChat 3: one object after a marker."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    BLANKS,
    CALLED,
    Do,
    Format,
    Run,
    Where,
    closes,
    marks,
    one_of,
)
from dragoman.toolcalls.grammars.json_objects import objects_after

_OLD: Final = "function call<|role_sep|>"

FORMAT: Final = Format(
    key="gigachat3",
    opens=("<|function_call|>", "function call<|role_sep|>"),
    says="GigaChat 3, 3.1",
    models=("gigachat3*", "gigachat-3*"),
    rules=(
        *objects_after(("<|function_call|>",)),
        *objects_after((_OLD,)),
        *objects_after(("<|message_sep|>", BLANKS, _OLD)),
        # What stands between a separator and the call is no text.
        *marks(
            (
                "<|message_sep|>",
                Run("[^<]", 0, 64, name="noise"),
                AHEAD,
                one_of("<|function_call|>", _OLD),
                BLANKS,
                "{",
            ),
            do=Do.NOISE,
        ),
        *marks(
            ("<|message_sep|>", BLANKS, one_of("</s>", "")),
            do=Do.NOISE,
            at=CALLED | {Where.TEXT},
        ),
        *closes(("</s>",)),
    ),
)
