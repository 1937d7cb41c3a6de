"""Jamba 1.5 to 1.7: an array of objects between tags."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.json_objects import tagged_objects

FORMAT: Final = Format(
    key="jamba",
    opens=("<tool_calls>[",),
    says="Jamba 1.5 to 1.7",
    models=("jamba*",),
    rules=tagged_objects("<tool_calls>", "</tool_calls>"),
)
