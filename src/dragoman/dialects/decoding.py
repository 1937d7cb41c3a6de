"""JSON of a peer into declared types: foreign exceptions become ours, with the path of the field."""

import json
import re
from typing import Final, TypeVar

import msgspec

from dragoman.errors import Malformed

T = TypeVar("T")

_AT_PATH: Final = re.compile(r"(?P<reason>.*) - at `(?P<path>[^`]*)`\Z", re.DOTALL)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Decode `data`, or raise `Malformed` with the path of what is wrong.

    Bytes that are not UTF-8 are replaced by U+FFFD, and half surrogate pairs are kept as such (some
    peers cut a pair over two events), so that neither costs the turn.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise malformed(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        mended = data.decode("utf-8", "replace").encode()
        if mended == data and not _SURROGATE.search(data):
            raise Malformed(f"not valid JSON: {error}") from None
    try:
        return msgspec.convert(json.loads(mended), decoder.type)
    except msgspec.ValidationError as error:
        raise malformed(error) from None
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not valid JSON: {error}") from None


def malformed(error: msgspec.ValidationError) -> Malformed:
    """Return our error for a value of the wrong shape."""
    match = _AT_PATH.match(str(error))
    if match:
        return Malformed(_lower_first(match["reason"]), path=match["path"])
    return Malformed(_lower_first(str(error)), path="$")


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
