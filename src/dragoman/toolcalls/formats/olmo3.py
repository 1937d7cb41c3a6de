"""OLMo 3: calls in the syntax of Python, one on each line, between tags."""

from typing import Final

from dragoman.toolcalls.format import Format, closes
from dragoman.toolcalls.grammars.pythonic import further_python_calls, python_calls
from dragoman.toolcalls.patterns import BLANKS

FORMAT: Final = Format(
    key="olmo3",
    opens=("<function_calls>",),
    says="OLMo 3",
    models=("olmo-3*",),
    rules=(
        *python_calls(("<function_calls>", BLANKS)),
        *further_python_calls(",;"),
        *closes(("</function_calls>",), stray=False),
    ),
    starts_thinking=True,
)
