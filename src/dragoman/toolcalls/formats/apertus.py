"""Apertus: an array of objects whose one key is the tool."""

from typing import Final

from dragoman.toolcalls.format import Format, Objects
from dragoman.toolcalls.grammars.json_objects import tagged_objects

FORMAT: Final = Format(
    key="apertus",
    opens=("<|tools_prefix|>[",),
    says="Apertus 2509",
    models=("apertus*", "swiss-ai/*"),
    rules=tagged_objects(
        "<|tools_prefix|>", "<|tools_suffix|>", body=Objects(single_key=True), special=True
    ),
    think=(("<|inner_prefix|>", "<|inner_suffix|>"),),
    thinks_on=True,
)
