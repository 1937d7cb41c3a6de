"""Apriel: an array of objects with ids, between tags."""

from typing import Final

from dragoman.toolcalls.format import Format, Objects
from dragoman.toolcalls.grammars.json_objects import tagged_objects

FORMAT: Final = Format(
    key="apriel",
    opens=("<tool_calls>[",),
    says="Apriel 1.5, 1.6",
    models=("apriel*",),
    rules=tagged_objects("<tool_calls>", "</tool_calls>", body=Objects(id_keys=("id",))),
)
