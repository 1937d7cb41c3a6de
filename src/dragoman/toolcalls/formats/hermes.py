"""Hermes, Qwen2.5, Qwen3, QwQ, Granite 4 and others: a JSON object between `<tool_call>` tags."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.formats.json_rules import tagged_objects
from dragoman.toolcalls.formats.qwen import xml_functions

# --- hermes -------------------------------------------------------------------------------------------
#
#     <tool_call>
#     {"name": "f", "arguments": {"a": 1}}
#     </tool_call>
#
# The tag may also hold Qwen3-Coder's functions: finetunes and templates mix the two.
# Cases: tests/corpus/toolcalls/hermes.

_OPENER: Final = "<tool_call>"
_CLOSER: Final = "</tool_call>"

HERMES: Final = Format(
    key="hermes",
    opens=("<tool_call>{",),
    description="Hermes 2 Pro to 4, Qwen2.5, Qwen3, QwQ, Granite 4, Trinity, SmolLM3, Reka",
    models=("hermes-*", "qwen2.5*", "qwen3-*", "qwq*", "granite-4*", "trinity-*"),
    rules=(*tagged_objects(_OPENER, _CLOSER), *xml_functions(_OPENER, _CLOSER)),
    starts_thinking=True,
)
