"""Hunyuan A13B: an array of objects between tags."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.json_objects import tagged_objects

FORMAT: Final = Format(
    key="hunyuan_a13b",
    opens=("<tool_calls>[",),
    says="Hunyuan A13B",
    models=("hunyuan-a13b*",),
    rules=tagged_objects("<tool_calls>", "</tool_calls>"),
)
