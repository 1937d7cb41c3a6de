"""What GLM and its kin share: keys and values in tags."""

from typing import Final

from dragoman.toolcalls.format import Rule
from dragoman.toolcalls.grammars.json_objects import tagged_objects
from dragoman.toolcalls.grammars.tool_call_tag import keyed_values

GLM: Final[tuple[Rule, ...]] = (
    *keyed_values(("<tool_call>",), ("</tool_call>",)),
    # Some quantised models write an object into the tag.
    *tagged_objects("<tool_call>", "</tool_call>"),
)
