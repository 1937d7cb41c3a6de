"""FireFunction v2: an array of objects after a plain word."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.json_objects import functools_array

FORMAT: Final = Format(
    key="firefunction",
    opens=("functools[",),
    says="FireFunction v2",
    models=("firefunction*",),
    rules=functools_array(),
    bare=True,
)
