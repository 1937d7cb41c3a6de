"""Compressed bodies: any cut, any limit, and what is not compressed as its header says."""

import gzip
import zlib

import pytest

from dragoman.errors import MalformedError
from dragoman.transport.compression import ENCODINGS, Unpacker, unpacker, zstd

TEXT = b"It rains in Oslo. " * 2000


def deflated(data: bytes) -> bytes:
    """Return a body without zlib's header, as some clients write `deflate`."""
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return raw.compress(data) + raw.flush()


PACKED = {
    "gzip": ("gzip", gzip.compress(TEXT)),
    "deflate": ("deflate", zlib.compress(TEXT)),
    "deflate without a header": ("deflate", deflated(TEXT)),
    "zstd": ("zstd", zstd.compress(TEXT)),
}


def made(encoding: str) -> Unpacker:
    found = unpacker(encoding)
    assert found is not None
    return found


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize(("encoding", "data"), PACKED.values(), ids=PACKED)
def test_a_body_is_unpacked_however_it_is_cut_and_never_more_than_allowed_at_once(
    encoding: str, data: bytes, size: int
) -> None:
    unpacks, found = made(encoding), []
    for start in range(0, len(data), size):
        found.append(unpacks.feed(data[start : start + size], 100))
        while unpacks.holds:
            found.append(unpacks.feed(b"", 100))
    unpacks.close()

    assert TEXT == b"".join(found)
    assert max(map(len, found)) <= 100


@pytest.mark.parametrize(("encoding", "data"), PACKED.values(), ids=PACKED)
def test_a_body_that_is_cut_is_not_complete(encoding: str, data: bytes) -> None:
    unpacks = made(encoding)
    unpacks.feed(data[:-1], 1 << 20)

    with pytest.raises(MalformedError, match="it is truncated"):
        unpacks.close()


@pytest.mark.parametrize("data", [b"plain text", b"\xff" * 20])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_is_not_compressed_as_declared_is_refused(encoding: str, data: bytes) -> None:
    with pytest.raises(MalformedError, match="does not match its content-encoding"):
        made(encoding).feed(data, 1 << 20)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_empty_body_is_not_complete(encoding: str) -> None:
    with pytest.raises(MalformedError, match="it is truncated"):
        made(encoding).close()


@pytest.mark.parametrize(("encoding", "data"), PACKED.values(), ids=PACKED)
def test_data_after_the_end_is_refused(encoding: str, data: bytes) -> None:
    with pytest.raises(MalformedError, match="there is data after its end"):
        made(encoding).feed(data + b"more", 1 << 20)


def test_an_unknown_encoding_has_no_unpacker() -> None:
    assert unpacker("br") is None
