"""ERNIE 4.5: an object between tags, the answer between others."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.answers import answer_tags
from dragoman.toolcalls.grammars.json_objects import tagged_objects

FORMAT: Final = Format(
    key="ernie45",
    opens=("<tool_call>",),
    says="ERNIE 4.5 thinking, ERNIE X1",
    models=("ernie-4.5*thinking*", "ernie-x1*"),
    rules=(*tagged_objects("<tool_call>", "</tool_call>"), *answer_tags("response")),
    starts_thinking=True,
)
