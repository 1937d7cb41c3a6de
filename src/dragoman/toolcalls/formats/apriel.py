"""Apriel: an array of objects with ids, between tags; reasoning in free words, then the answer."""

from typing import Final

from dragoman.toolcalls.format import (
    BLANKS,
    CALLED,
    Do,
    Format,
    Objects,
    Pattern,
    Run,
    Where,
    marks,
    one_of,
)
from dragoman.toolcalls.grammars.json_objects import tagged_objects

_ANSWER_END: Final[Pattern] = (
    Run(r"\n", 0, 1),
    "[END FINAL RESPONSE]",
    BLANKS,
    one_of("<|end|>", ""),
)

FORMAT: Final = Format(
    key="apriel",
    opens=("<tool_calls>[",),
    says="Apriel 1.5, 1.6",
    models=("apriel*",),
    rules=(
        *tagged_objects("<tool_calls>", "</tool_calls>", body=Objects(id_keys=("id",))),
        *marks(("Here are my reasoning steps:",), do=Do.REASON, at={Where.START}, then=Where.THINK),
        *marks(
            ("[BEGIN FINAL RESPONSE]", BLANKS),
            do=Do.SAY,
            at={Where.START, Where.THINK, Where.ANSWER, Where.AFTER},
            then=Where.MESSAGE,
        ),
        *marks(_ANSWER_END, do=Do.SKIP, at={Where.MESSAGE}, then=Where.ANSWER),
        # A call inside the answer hides that it was opened.
        *marks(_ANSWER_END, do=Do.NOISE, at=CALLED),
    ),
    think=(("<thinking>", "</thinking>"), ("<think>", "</think>")),
    starts_thinking=True,
)
