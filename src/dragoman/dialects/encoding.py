"""Encodes declared types as JSON.  Halves of surrogate pairs, which JSON text cannot hold, become U+FFFD."""

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.wire.surrogates import join_surrogates

_LONG_CHARS: Final = (
    1024 * 1024
)  # of a text that is encoded at once: other threads wait for its end
_ENCODER: Final = msgspec.json.Encoder()


def encode(value: object) -> bytes:
    """Return the JSON of a value; key order is the order of the fields."""
    if type(value) is str and len(value) > _LONG_CHARS:
        pieces = range(0, len(value), _LONG_CHARS)
        return b'"%b"' % b"".join([encode(value[at : at + _LONG_CHARS])[1:-1] for at in pieces])
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _ENCODER.encode(cleaned(value))


def one_line(raw: Raw) -> bytes:
    """Return JSON text without line ends, which occur between tokens only."""
    data = bytes(raw)
    # A client's tools are many bytes, most often in one line: looking for a line end is much faster than copying.
    return data.translate(None, b"\r\n") if b"\n" in data or b"\r" in data else data


def compact(data: bytes) -> bytes:
    """Return JSON text without blanks between its tokens."""
    try:
        return msgspec.json.format(data, indent=-1)
    except msgspec.DecodeError:  # half of a surrogate pair: only line ends are removed
        return one_line(Raw(data))


def utf8(text: str) -> bytes:
    """Return text in UTF-8; halves of a surrogate pair are joined, and a half alone becomes U+FFFD."""
    return join_surrogates(text).encode()


def escaped(text: str) -> str:
    """Return text escaped for the inside of a JSON string."""
    return encode(text)[1:-1].decode()


def cleaned(value: Any) -> Any:
    """Return a value of declared types with all of its texts repaired; raw JSON is left alone."""
    match value:
        case str():
            return join_surrogates(value)
        case Raw():
            return value
        case list() | tuple():
            return [cleaned(one) for one in value]
        case dict():
            return {join_surrogates(key): cleaned(one) for key, one in value.items()}
        case Struct():
            names = value.__struct_fields__
            return structs.replace(value, **{name: cleaned(getattr(value, name)) for name in names})
        case _:
            return value
