"""Apriel: an array of objects with ids, between tags; reasoning in free words before a marker."""

from typing import Final

from dragoman.toolcalls.format import Do, Format, Objects, Where, marks
from dragoman.toolcalls.grammars.json_objects import tagged_objects
from dragoman.toolcalls.patterns import BLANKS, Run, one_of

_ANSWER: Final = "[BEGIN FINAL RESPONSE]"

FORMAT: Final = Format(
    key="apriel",
    opens=("<tool_calls>[",),
    says="Apriel 1.5, 1.6",
    models=("apriel*",),
    rules=(
        *tagged_objects("<tool_calls>", "</tool_calls>", body=Objects(id_keys=("id",))),
        *marks(
            (Run(r"\n", 0, 1), "[END FINAL RESPONSE]", BLANKS, one_of("<|end|>", "")),
            do=Do.SKIP,
            at={Where.TEXT, Where.ANSWER, Where.AFTER, Where.LATER},
            then=Where.ANSWER,
        ),
    ),
    think=(
        ("Here are my reasoning steps:", _ANSWER),
        ("<thinking>", "</thinking>"),
        ("<think>", "</think>"),
    ),
    starts_thinking=True,
)
