"""FunctionGemma and Gemma 4."""

from typing import Final

from dragoman.toolcalls.format import (
    BLANKS,
    Action,
    Format,
    LiteralsSpec,
    Run,
    Where,
    call,
    closes,
    markers,
)

# --- functiongemma ------------------------------------------------------------------------------------
#
# FunctionGemma: bare keys, values between escapes.

FUNCTIONGEMMA: Final = Format(
    key="functiongemma",
    opens=("<start_function_call>call:",),
    description="FunctionGemma",
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
            body=LiteralsSpec(style="gemma", closer="}", quote="<escape>", typed=True),
        ),
        # The second asks for the tool's result: a model that stops there has said all.
        *closes(("<end_function_call>",), ("<start_function_response>",)),
    ),
    think=(),
)

# --- gemma4 -------------------------------------------------------------------------------------------
#
# Gemma 4: bare keys, strings between marks of their own.

GEMMA4: Final = Format(
    key="gemma4",
    opens=("<|tool_call>call:",),
    description="Gemma 4",
    models=("gemma-4*", "gemma4*"),
    rules=(
        *call(
            ("<|tool_call>call:", Run(r"[^<>{}\s]", 1, 128, name="name"), BLANKS, "{"),
            body=LiteralsSpec(style="gemma", closer="}", quote='<|"|>'),
        ),
        # The second asks for the tool's result: a model that stops there has said all.
        *closes(("<tool_call|>",), ("<|tool_response>",)),
        # The opener of the reasoning channel may have been stripped.
        *markers(("thought\n",), action=Action.START_REASONING, at={Where.START}, then=Where.THINK),
    ),
    think=(("<|channel>thought\n", "<channel|>"),),
)
