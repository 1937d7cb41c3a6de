"""The list of models that an upstream gives."""

from typing import Final

import msgspec
from msgspec import Struct

from dragoman.probe.response import Heard, shown

_MOST: Final = 5_000


class _Named(Struct):
    id: str


class _Body(Struct):
    data: list[_Named]


_DECODER: Final = msgspec.json.Decoder(_Body)


class Listing(Struct, frozen=True):
    names: tuple[str, ...] = ()
    trouble: str = ""  # why there is no list


def read_listing(heard: Heard) -> Listing:
    if heard.failure is not None:
        return Listing(trouble=heard.failure.reason)
    if heard.fault is not None:
        return Listing(trouble=f"{heard.status}: {shown(heard.fault.message)}")
    try:
        body = _DECODER.decode(heard.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Listing(trouble="what came is no list of models")
    return Listing(tuple(one.id for one in body.data[:_MOST]))
