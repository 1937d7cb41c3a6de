"""Hunyuan A13B: an array of objects between tags, the answer between others."""

from typing import Final

from dragoman.toolcalls.format import ANYWHERE, Format, Where
from dragoman.toolcalls.grammars.answers import answer_tags
from dragoman.toolcalls.grammars.json_objects import tagged_objects

FORMAT: Final = Format(
    key="hunyuan_a13b",
    opens=("<tool_calls>[",),
    says="Hunyuan A13B",
    models=("hunyuan-a13b*",),
    rules=(
        # Calls that the thinking quotes are not made.
        *tagged_objects("<tool_calls>", "</tool_calls>", at=ANYWHERE - {Where.THINK}),
        *answer_tags("answer"),
    ),
)
