"""OLMo 3: calls in the syntax of Python, one on each line, between tags."""

from typing import Final

from dragoman.toolcalls.format import BLANKS, Do, Format, Run, Where, closes, marks, one_of
from dragoman.toolcalls.grammars.pythonic import further_python_calls, python_calls

FORMAT: Final = Format(
    key="olmo3",
    opens=("<function_calls>",),
    says="OLMo 3",
    models=("olmo-3*",),
    rules=(
        *python_calls(("<function_calls>", BLANKS, one_of(("[", BLANKS), ""))),
        *further_python_calls(",;"),
        *marks((Run(r"[,\s]", 0, 16), "]"), do=Do.SKIP, at={Where.TAIL}, then=Where.AFTER),
        *closes(("</function_calls>",), stray=False),
    ),
    starts_thinking=True,
)
