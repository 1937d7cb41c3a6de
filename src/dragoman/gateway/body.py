"""The body of a client's request: bounded in size and time, plain or packed."""

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import ContentEncodingError
from aiohttp.web_exceptions import HTTPException

from dragoman.errors import Malformed, TooLarge

# Packings that are undone on the way in.
ENCODINGS: Final = frozenset({"", "identity", "gzip", "x-gzip", "deflate", "zstd"})
_SECONDS: Final = 120.0  # a client that sends slower than this holds a place for nothing


class UnknownEncoding(Malformed):
    """A packing that cannot be undone."""

    http_status = 415


async def read_body(http: web.BaseRequest, limit: int) -> bytes:
    """Return the whole body of a request.

    Raises:
        UnknownEncoding: it is packed in a way that is not known.
        Malformed: it is not packed as it says, or took too long.
        TooLarge: it passes `limit`, packed or not.
    """
    encoding = http.headers.get("content-encoding", "").strip().lower()
    if encoding not in ENCODINGS:
        known = ", ".join(sorted(ENCODINGS - {""}))
        raise UnknownEncoding(f"content-encoding `{encoding[:40]}` is not one of {known}")
    if (http.content_length or 0) > limit:
        raise TooLarge("max_request_bytes", limit)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_SECONDS):
            while data := await http.content.readany():
                size += len(data)
                if size > limit:
                    raise TooLarge("max_request_bytes", limit)
                parts.append(data)
    except TimeoutError as error:
        raise Malformed(f"the body did not arrive within {_SECONDS:g} s") from error
    except (ContentEncodingError, web.RequestPayloadError, HTTPException) as error:
        raise Malformed(f"the body cannot be read: {error}") from error
    return b"".join(parts)
