"""Llama-Nemotron and Nemotron Nano v2: an array of objects between tags."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.json_objects import tagged_objects

FORMAT: Final = Format(
    key="nemotron_deci",
    opens=("<TOOLCALL>[",),
    says="Llama-Nemotron Super and Ultra, Nemotron Nano v2",
    models=("*nemotron-super*v1*", "nemotron-nano-9b-v2", "nemotron-nano-12b-v2"),
    rules=tagged_objects("<TOOLCALL>", "</TOOLCALL>"),
)
