"""How many values a JSON text holds, counted without decoding it."""

from typing import Final

_STEP: Final = 1024 * 1024  # bytes that are looked at in one go
_NEITHER: Final = bytes(set(range(256)) - set(b'",'))  # what is neither a quote nor a comma


def has_more_items(data: bytes, most: int) -> bool:
    """Say whether a JSON text has more than `most` commas outside its strings.

    Decoders cannot be interrupted, and need memory for every value: this tells before they begin.  The
    time is linear, and no single step takes long.
    """
    if len(data) <= most or data.count(b",") <= most:
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
