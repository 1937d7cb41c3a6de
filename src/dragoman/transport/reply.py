"""One response of a server, read while it arrives."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final, Self

from dragoman.errors import MalformedError
from dragoman.transport import failures
from dragoman.transport.compression import Unpacker, unpacker
from dragoman.transport.connection import Connection
from dragoman.transport.failures import TransportError

_DRAIN_SECONDS: Final = 0.25  # for the end of an answer that is already complete
_DRAIN_BYTES: Final = 64 * 1024
_ERROR_BYTES: Final = 1024 * 1024  # of an error's body
_UNPACKED_BYTES: Final = 256 * 1024  # that are given out at once
_LONGEST_WAIT: Final = 30 * 86_400.0  # seconds; what asks for more is nonsense
_LARGE_BYTES: Final = 64 * 1024  # of a piece behind which others have their turn
_PLAIN: Final = frozenset({"", "identity"})


class Reply:
    """What a server answers to one request."""

    __slots__ = (
        "_connection",
        "_release",
        "_released",
        "headers",
        "listen",
        "status",
        "take",
        "wait",
    )

    def __init__(self, connection: Connection, release: Callable[[Connection], object]) -> None:
        """Take over a connection whose server has answered; `release` takes it back.

        Raises:
            TransportError: the content encoding of the body is not supported.
        """
        self._connection = connection
        self._release = release
        self._released = False  # the connection is no longer ours
        self.status: int = connection.status
        self.headers: Mapping[str, str] = connection.headers
        # `take` returns what has arrived, nothing at the end, and None if one has to `wait` first, or to
        # `listen`; it raises `TransportError` if the answer breaks off.
        self.take: Callable[[], bytes | None] = connection.take
        self.wait: Callable[[], asyncio.Future[None]] = connection.wait
        self.listen: Callable[[Callable[[], object] | None], None] = connection.listen
        encoding = self.headers.get("content-encoding", "").strip().lower()
        if encoding not in _PLAIN:
            packing = unpacker(encoding)
            if packing is None:
                message = f"content-encoding `{encoding[:40]}`, which was not requested"
                raise failures.malformed(connection.where, message)
            self.take = partial(self._take_unpacked, packing)

    @property
    def request_id(self) -> str:
        """The server's name for the request, if it has one."""
        return self.headers.get("request-id") or self.headers.get("x-request-id") or ""

    @property
    def retry_after(self) -> float | None:
        """Seconds that the server asks to wait; a value that makes no sense is ignored."""
        # Test: test_a_wait_is_reported_in_seconds_or_not_at_all.
        for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            value = _number(self.headers.get(name, "")) * unit
            if 0 <= value <= _LONGEST_WAIT:
                return value
        return _seconds_until(self.headers.get("retry-after", ""))

    @property
    def should_retry(self) -> bool | None:
        """The server's `x-should-retry`: whether another attempt may help; None without that header."""
        # Test: test_g9_upstream_may_say_whether_another_attempt_helps.
        return _BOOLEANS.get(self.headers.get("x-should-retry", ""))

    async def read(self) -> bytes:
        """Return what has arrived, at least a byte; nothing at the end.

        Raises:
            TransportError: the answer breaks off here.
        """
        while (data := self.take()) is None:
            await self.wait()
        if len(data) >= _LARGE_BYTES:
            await asyncio.sleep(0)  # packed bytes may hold very much: others have their turn
        return data

    def _take_unpacked(self, packing: Unpacker) -> bytes | None:
        try:
            while True:
                data = b"" if packing.holds else self._connection.take()
                if data is None:
                    return None
                if not data and not packing.holds:
                    packing.close()
                    return b""
                if out := packing.feed(data, _UNPACKED_BYTES):
                    return out
        except MalformedError as error:
            raise failures.malformed(self._connection.where, error) from error

    async def read_all(self, limit: int, heard: Callable[[], object]) -> bytes | None:
        """Return the whole answer, None if it is larger than `limit`; `heard` is called for each piece."""
        parts: list[bytes] = []
        size = 0
        while (data := self.take()) != b"":
            if data is None:
                await self.wait()
                continue
            heard()
            size += len(data)
            if size > limit:
                return None
            parts.append(data)
            if len(data) >= _LARGE_BYTES:
                await asyncio.sleep(0)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def read_error(self) -> bytes:
        """Return the beginning of an error's body, however it ends."""
        parts: list[bytes] = []
        size = 0
        try:
            while size < _ERROR_BYTES and (data := await self.read()):
                size += len(data)
                parts.append(data)
        # Test: test_an_error_whose_body_does_not_come_is_reported_all_the_same.
        except TransportError:
            pass  # what came must do
        return b"".join(parts)[:_ERROR_BYTES]

    def abort(self, why: TransportError) -> None:
        """Close the connection; a reader, now or later, gets `why`."""
        self._connection.abort(why)

    async def drain(self) -> None:
        """Read the rest of the response if it is short, so that the connection can serve another request."""
        connection = self._connection
        if self._released:
            return
        connection.listen(None)
        if not connection.ended:
            size = 0
            try:
                async with asyncio.timeout(_DRAIN_SECONDS):
                    while size < _DRAIN_BYTES and (data := await self.read()):
                        size += len(data)
            except (TimeoutError, TransportError):
                return
        self.release()

    def release(self) -> None:
        """Let the connection serve another request: the answer was read to its end."""
        if not self._released:
            self._released = True
            self._release(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the rest of the answer and close the connection, so that the server stops generating."""
        if not self._released:
            self._connection.abort()


_BOOLEANS: Final = {"true": True, "false": False}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _seconds_until(date: str) -> float | None:
    """Return how far off a date of HTTP is, 0 if it has passed; None if it is none."""
    try:
        # Test: test_date_to_wait_for_is_passed_on_as_seconds.
        moment = parsedate_to_datetime(date)
        if moment.tzinfo is None:
            return None
        wait = (moment - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):  # a year, or a zone, that no calendar has
        return None
    return max(0.0, wait) if wait <= _LONGEST_WAIT else None
