"""Liquid LFM2: calls in the syntax of Python, or objects, between special tokens."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    BLANKS,
    Do,
    Format,
    Objects,
    Run,
    Where,
    call,
    closes,
    marks,
    one_of,
)
from dragoman.toolcalls.grammars.pythonic import further_python_calls, python_calls

_OPENER: Final = "<|tool_call_start|>"

FORMAT: Final = Format(
    key="lfm2",
    opens=("<|tool_call_start|>",),
    says="Liquid LFM2, LFM2.5",
    models=("lfm2*", "liquid/*"),
    rules=(
        *call(
            (_OPENER, BLANKS, AHEAD, one_of(("[", BLANKS, "{"), "{")),
            body=Objects(),
        ),
        *python_calls((_OPENER, BLANKS, one_of(("[", BLANKS), ""))),
        *further_python_calls(),
        *marks((Run(r"[,\s]", 0, 16), "]"), do=Do.SKIP, at={Where.TAIL}, then=Where.AFTER),
        *closes(("<|tool_call_end|>",)),
    ),
)
