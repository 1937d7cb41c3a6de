"""Reads an upstream's list of models, in either of the two shapes that servers send."""

from typing import Final

import msgspec
from msgspec import Struct


class _Named(Struct):
    id: str = ""
    name: str = ""  # Google's: `models/NAME`


class _Listing(Struct):
    data: list[_Named] | None = None
    models: list[_Named] | None = None  # Google's


_DECODER: Final = msgspec.json.Decoder(_Listing)


def read_model_list(body: bytes, most: int) -> list[str] | None:
    """Return the names of the first `most` models; None if the body is not a list of models."""
    try:
        listing = _DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    listed = listing.models if listing.data is None else listing.data
    if listed is None:
        return None
    names = (one.id or one.name.removeprefix("models/") for one in listed[:most])
    return [one for one in names if one]
