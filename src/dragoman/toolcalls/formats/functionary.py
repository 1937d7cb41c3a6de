"""Functionary: JSON after a name in a tag, or after `>>>` and a name."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    BLANKS,
    Do,
    Format,
    Json,
    Run,
    Where,
    call,
    closes,
    marks,
)

_NAME: Final = Run(r"[A-Za-z0-9_.\-]", 1, 128, name="name")

FORMAT: Final = Format(
    key="functionary",
    opens=("<function=", ">>>NAME"),
    says="Functionary v3.1, v3.2",
    models=("functionary*",),
    rules=(
        *call(("<function=", _NAME, ">", BLANKS, AHEAD, "{"), body=Json()),
        *closes(("</function>",), stray=False),
        *closes(("<|eom_id|>",), ("<|eot_id|>",)),
        *marks((">>>all\n",), do=Do.SAY, then=Where.MESSAGE),
        *call((">>>", _NAME, "\n", BLANKS, AHEAD, "{"), body=Json()),
        # The first `>>>` stands in the prompt.
        *marks(("all\n",), do=Do.SAY, at={Where.START}, then=Where.MESSAGE),
        *call((_NAME, "\n", BLANKS, AHEAD, "{"), body=Json(), at={Where.START}, declared=True),
    ),
    think=(),
    bare=True,
)
