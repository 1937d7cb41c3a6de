"""FunctionGemma: bare keys, values between escapes."""

from typing import Final

from dragoman.toolcalls.format import BLANKS, Format, Literals, Run, call, closes

FORMAT: Final = Format(
    key="functiongemma",
    opens=("<start_function_call>call:",),
    says="FunctionGemma",
    models=("functiongemma*",),
    rules=(
        *call(
            (
                "<start_function_call>",
                BLANKS,
                "call:",
                Run(r"[^<>{}\s]", 1, 128, name="name"),
                BLANKS,
                "{",
            ),
            body=Literals(style="gemma", closer="}", quote="<escape>", typed=True),
        ),
        # The second asks for the tool's result: a model that stops there has said all.
        *closes(("<end_function_call>",), ("<start_function_response>",)),
    ),
    think=(),
)
