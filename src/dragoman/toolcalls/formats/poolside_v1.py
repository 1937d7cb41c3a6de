"""Poolside Laguna: keys and values in tags."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.glm import GLM

FORMAT: Final = Format(
    key="poolside_v1",
    opens=("<tool_call>NAME",),
    says="Poolside Laguna",
    models=("laguna*", "poolside/*"),
    rules=GLM,
)
