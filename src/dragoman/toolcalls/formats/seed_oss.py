"""Seed-OSS: functions and parameters in tags, inside tags of its own."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.tool_call_tag import xml_functions

FORMAT: Final = Format(
    key="seed_oss",
    opens=("<seed:tool_call>",),
    says="Seed-OSS",
    models=("seed-oss*", "bytedance-seed/*"),
    rules=xml_functions("<seed:tool_call>", "</seed:tool_call>"),
    think=(("<seed:think>", "</seed:think>"),),
    starts_thinking=True,
)
