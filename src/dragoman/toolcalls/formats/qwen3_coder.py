"""Qwen3-Coder, Qwen3.5 and later, Nemotron-3, MiMo, Step-3.5: functions and parameters in tags."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.json_objects import tagged_objects
from dragoman.toolcalls.grammars.tool_call_tag import xml_functions

FORMAT: Final = Format(
    key="qwen3_coder",
    opens=("<tool_call><function=", "<function="),
    says="Qwen3-Coder, Qwen3.5+, Nemotron-3, MiMo, Step-3.5",
    models=("qwen3-coder*", "qwen3.5*", "nemotron-3*", "mimo-v2*", "step-3.5*"),
    rules=(
        *xml_functions("<tool_call>", "</tool_call>"),
        # Where templates are mixed up, an object stands in the tag.
        *tagged_objects("<tool_call>", "</tool_call>"),
    ),
    trim_think=True,
    starts_thinking=True,
)
