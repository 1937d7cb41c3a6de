"""ERNIE 4.5: an object between tags, the answer between others."""

from typing import Final

from dragoman.toolcalls.format import Do, Format, Where, marks
from dragoman.toolcalls.grammars.json_objects import tagged_objects
from dragoman.toolcalls.patterns import Run

FORMAT: Final = Format(
    key="ernie45",
    opens=("<tool_call>",),
    says="ERNIE 4.5 thinking, ERNIE X1",
    models=("ernie-4.5*thinking*", "ernie-x1*"),
    rules=(
        *tagged_objects("<tool_call>", "</tool_call>"),
        # The answer stands between tags of its own.
        *marks(
            ("<response>\n",),
            ("<response>",),
            do=Do.SAY,
            at={Where.START, Where.ANSWER, Where.AFTER},
            then=Where.MESSAGE,
        ),
        *marks(
            (Run(r"\n", 0, 1), "</response>"), do=Do.SKIP, at={Where.MESSAGE}, then=Where.ANSWER
        ),
    ),
    starts_thinking=True,
)
