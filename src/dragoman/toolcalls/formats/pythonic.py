"""Llama 4, Llama 3.2 and ToolACE: a list of calls in the syntax of Python."""

from typing import Final

from dragoman.toolcalls.format import (
    AT_START,
    BLANKS,
    Do,
    Format,
    Run,
    Where,
    closes,
    marks,
    one_of,
)
from dragoman.toolcalls.grammars.pythonic import further_python_calls, python_calls

FORMAT: Final = Format(
    key="pythonic",
    opens=("[", "<|python_start|>"),
    says="Llama 4, Llama 3.2 (small), ToolACE",
    models=("llama-4*", "toolace*"),
    rules=(
        *python_calls(("<|python_start|>", BLANKS, one_of(("[", BLANKS), ""))),
        *python_calls(("[", BLANKS), at=AT_START),
        # One call without brackets: only a declared tool tells it from code.
        *python_calls((), at={Where.START, Where.ANSWER}, declared=True),
        *further_python_calls(",;"),
        *marks((Run(r"[,\s]", 0, 16), "]"), do=Do.SKIP, at={Where.TAIL}, then=Where.AFTER),
        *closes((one_of("<|python_end|>", "<|eom_id|>", "<|eot_id|>", "<|eot|>"),)),
    ),
    bare=True,
)
