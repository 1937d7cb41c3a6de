"""LongCat-Flash: an object between tags."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.json_objects import tagged_objects

FORMAT: Final = Format(
    key="longcat",
    opens=("<longcat_tool_call>",),
    says="LongCat-Flash",
    models=("longcat*",),
    rules=tagged_objects("<longcat_tool_call>", "</longcat_tool_call>"),
    think=(("<longcat_think>", "</longcat_think>"), ("<think>", "</think>")),
)
