"""The body of a client's request: bounded in size and time, plain or packed."""

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

from dragoman.errors import MalformedError, TooLargeError
from dragoman.transport.compression import ENCODINGS, Unpacker, unpacker

_PLAIN: Final = frozenset({"", "identity"})
_SECONDS: Final = 120.0  # a client that sends slower than this holds a place for nothing
_UNPACKED_BYTES: Final = 1024 * 1024  # at once: a small packet may hold a thousand times its size
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class UnknownEncodingError(MalformedError):
    """A packing that cannot be undone."""

    http_status = 415


async def read_body(http: web.BaseRequest, limit: int, count: Callable[[int], object]) -> bytes:
    """Return the whole body of a request; `count` is called with the size of each unpacked piece.

    Raises:
        UnknownEncodingError: it is packed in a way that is not known.
        MalformedError: it is not packed as it says, or took too long.
        TooLargeError: it passes `limit`, packed or not.
    """
    encoding = http.headers.get("content-encoding", "").strip().lower()
    packing = None if encoding in _PLAIN else unpacker(encoding)
    if packing is None and encoding not in _PLAIN:
        known = ", ".join(ENCODINGS)
        raise UnknownEncodingError(f"content-encoding `{encoding[:40]}` is not one of {known}")
    if (http.content_length or 0) > limit:
        raise TooLargeError("max_request_bytes", limit)
    if packing is None and http.content.is_eof():  # all of it is here, as mostly
        body = http.content.read_nowait()
        if len(body) > limit:
            raise TooLargeError("max_request_bytes", limit)
        count(len(body))
        return body
    try:
        async with asyncio.timeout(_SECONDS):
            if http.headers.get("expect", "").lower() == "100-continue":
                await http.writer.write(_CONTINUE)
                http.writer.output_size = 0  # nothing of the answer has left
            return await _read(http, limit, packing, count)
    except TimeoutError as error:
        raise MalformedError(f"the body did not arrive within {_SECONDS:g} s") from error
    except web.RequestPayloadError as error:
        raise MalformedError(f"the body cannot be read: {error}") from error


async def _read(
    http: web.BaseRequest,
    limit: int,
    packing: Unpacker | None,
    count: Callable[[int], object],
) -> bytes:
    parts: list[bytes] = []
    size = 0
    while data := await http.content.readany():
        while True:
            piece = data if packing is None else packing.feed(data, _UNPACKED_BYTES)
            size += len(piece)
            if size > limit:
                raise TooLargeError("max_request_bytes", limit)
            count(len(piece))
            parts.append(piece)
            if packing is None or not packing.holds:
                break
            data = b""
            await asyncio.sleep(0)  # a few bytes may hold very much: others have their turn
    if packing is not None:
        packing.close()
    return b"".join(parts)
