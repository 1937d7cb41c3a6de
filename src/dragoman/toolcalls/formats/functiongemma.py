"""FunctionGemma: bare keys, values between escapes."""

from typing import Final

from dragoman.toolcalls.format import Format, Literals, call, closes
from dragoman.toolcalls.patterns import Run

FORMAT: Final = Format(
    key="functiongemma",
    opens=("<start_function_call>call:",),
    says="FunctionGemma",
    models=("functiongemma*",),
    rules=(
        *call(
            ("<start_function_call>call:", Run(r"[^<>{}\s]", 1, 128, name="name"), "{"),
            body=Literals(style="gemma", closer="}", quote="<escape>", typed=True),
        ),
        *closes(("<end_function_call>",)),
    ),
    think=(),
)
