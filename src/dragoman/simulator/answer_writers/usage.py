"""How much the model read."""

from typing import Final

import msgspec

from dragoman.simulator.play import Asked
from dragoman.simulator.tokens import TOKEN

_READ: Final = ("system", "instructions", "messages", "input", "tools", "prompt")


def input_tokens(asked: Asked) -> int:
    """Count the JSON text of all that a model would read, at least one token."""
    given = (asked.fields[name] for name in _READ if name in asked.fields)
    return max(1, sum(len(msgspec.json.encode(one)) // TOKEN for one in given))
