"""JSON of a peer as plain values, whatever its numbers are.

Every decoder of untyped JSON takes `read_float`: msgspec itself needs 30 µs for a number such as `1e308`,
in which no other thread runs, and a request may hold a million of them.
"""

from math import isfinite
from typing import Any, Final

import msgspec


def read_float(text: str) -> float:
    """Read a number with a fraction or an exponent.

    Raises:
        ValueError: it is out of range; msgspec makes a `ValidationError` of that.
    """
    number = float(text)
    if not isfinite(number):
        raise ValueError("Number out of range")
    return number


_ANY: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(float_hook=read_float)


def decode_any(text: bytes | str) -> Any:
    """Return JSON as plain Python values.

    Raises:
        msgspec.DecodeError: it is not JSON.
        UnicodeError: a string in it has half a character.
        RecursionError: it nests too deeply.
    """
    return _ANY.decode(text)
