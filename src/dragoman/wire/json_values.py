"""Decodes JSON of a peer in limited time: counts its values before it decodes them.

Every decoder of untyped JSON takes `read_float`: msgspec itself needs 30 µs for a number such as `1e308`,
in which no other thread runs, and a request may hold a million of them.
"""

from math import isfinite
from typing import Any, Final

import msgspec

_STEP: Final = 1024 * 1024  # bytes that are looked at in one go
_MAX_EXACT: Final = 2.0**53  # up to here every integer is exact as a float
_NEITHER: Final = bytes(set(range(256)) - set(b'",'))  # what is neither a quote nor a comma


def read_float(text: str) -> float:
    """Read a number with a fraction or an exponent.

    Raises:
        ValueError: it is out of range; msgspec makes a `ValidationError` of that.
    """
    number = float(text)
    if not isfinite(number):
        raise ValueError("Number out of range")
    return number


def _read_number(text: str) -> float:
    """Read the same; `1.0` is the integer 1, as JavaScript writes it."""
    number = read_float(text)
    return int(number) if number.is_integer() and abs(number) < _MAX_EXACT else number


_ANY: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(float_hook=read_float)
_NUMBERS: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(float_hook=_read_number)
_SORTED: Final = msgspec.json.Encoder(order="sorted")


def decode_any(text: bytes | str) -> Any:
    """Return JSON as plain Python values.

    Raises:
        msgspec.DecodeError: it is not JSON.
        UnicodeError: a string in it has half a character.
        RecursionError: it nests too deeply.
    """
    return _ANY.decode(text)


def canonical_json(text: str) -> str:
    """Return JSON that is the same for equal values: with sorted keys, without blanks.

    It shows that two texts of a call's arguments mean the same.  Text that is not JSON is returned unchanged.
    """
    try:
        return _SORTED.encode(_NUMBERS.decode(text)).decode()
    except (ValueError, RecursionError, OverflowError):
        return text


def has_more(data: bytes, byte: bytes, most: int) -> bool:
    """Return whether a byte occurs more than `most` times; other threads may run in between."""
    if len(data) <= most:
        return False
    starts = range(0, len(data), _STEP)
    return sum(data.count(byte, start, start + _STEP) for start in starts) > most


def has_more_items(data: bytes, most: int) -> bool:
    """Return whether a JSON text has more than `most` commas outside its strings.

    A decoder cannot be interrupted, and needs memory for every value, so this is checked before it begins.
    The time is linear, and no single step takes long.
    """
    if not has_more(data, b",", most):
        return False
    count = 0
    inside = False  # a string
    left = b""  # a backslash whose escape is cut
    for start in range(0, len(data), _STEP):
        piece = left + data[start : start + _STEP]
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        left = piece[-1:] if backslashes % 2 else b""
        if left:
            piece = piece[:-1]
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        between = piece.translate(None, _NEITHER).split(b'"')
        count += sum(map(len, between[inside::2]))
        if count > most:
            return True
        inside ^= len(between) % 2 == 0
    return False
