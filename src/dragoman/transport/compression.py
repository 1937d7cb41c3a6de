"""Decompresses bodies piece by piece, never to more bytes than are allowed."""

import sys
import zlib
from typing import Final, Protocol

from dragoman.errors import MalformedError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_GZIP: Final = 16 + zlib.MAX_WBITS
# The low half of the first byte of a deflated body with a zlib header.  Some clients send bodies without the header.
# Test: test_packed_bodies_are_unpacked.
_DEFLATED: Final = 8


class Unpacker(Protocol):
    """Undoes one content encoding."""

    @property
    def holds(self) -> bool:
        """There is more to come of what was fed, even if nothing is added."""
        ...

    def feed(self, data: bytes, most: int, /) -> bytes:
        """Return what `data` and what is held unpack to, at most `most` bytes.

        Raises:
            MalformedError: the data does not have this encoding.
        """
        ...

    def close(self) -> None:
        """Raise `MalformedError` if there should be more."""
        ...


class _Zlib:
    def __init__(self, bits: int | None) -> None:
        self._bits = bits  # None: it shows in the first byte
        self._inner = None if bits is None else zlib.decompressobj(bits)
        self._left = b""
        self._full = False  # as much as was allowed came out: there may be more inside

    @property
    def holds(self) -> bool:
        return bool(self._left) or self._full

    def feed(self, data: bytes, most: int, /) -> bytes:
        if self._left:
            data = self._left + data
        if self._inner is None:
            header = data[0] & 0x0F == _DEFLATED
            self._inner = zlib.decompressobj(zlib.MAX_WBITS if header else -zlib.MAX_WBITS)
        try:
            out = self._inner.decompress(data, most)
        except zlib.error as error:
            raise _wrong(error) from error
        self._left = self._inner.unconsumed_tail
        self._full = len(out) >= most and not self._inner.eof
        if self._inner.unused_data:
            raise _wrong("there is data after its end")
        return out

    def close(self) -> None:
        if self._inner is None or not self._inner.eof:
            raise _wrong("it is truncated")


class _Zstd:
    def __init__(self) -> None:
        self._inner = zstd.ZstdDecompressor()

    @property
    def holds(self) -> bool:
        return not self._inner.needs_input and not self._inner.eof

    def feed(self, data: bytes, most: int, /) -> bytes:
        try:
            out = self._inner.decompress(data, most)
        except (zstd.ZstdError, EOFError) as error:
            raise _wrong(error) from error
        if self._inner.unused_data:
            raise _wrong("there is data after its end")
        return out

    def close(self) -> None:
        if not self._inner.eof:
            raise _wrong("it is truncated")


ENCODINGS: Final = ("gzip", "deflate", "zstd")


def unpacker(encoding: str) -> Unpacker | None:
    """Return the decompressor for a `content-encoding`; None if the encoding is not supported."""
    match encoding:
        case "gzip" | "x-gzip":
            return _Zlib(_GZIP)
        case "deflate":
            return _Zlib(None)
        case "zstd":
            return _Zstd()
    return None


def _wrong(why: object) -> MalformedError:
    return MalformedError(f"the body does not match its content-encoding: {why}")
