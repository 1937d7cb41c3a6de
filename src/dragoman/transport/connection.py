"""One connection to a server: sends requests and receives responses, one after the other.

The parser works where the bytes arrive, and the reader is woken once for each arrival, however many chunks
it held.  All connections of an event loop receive into the same memory: Python's own loop would otherwise ask
the system for 256 KB, and give them back, for each arrival.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, cast

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpResponseParser,
)
from msgspec import Struct

from dragoman.errors import TooLargeError
from dragoman.limits import Limits
from dragoman.transport import failures
from dragoman.transport.failures import TransportError
from dragoman.transport.proxy import Proxy

_HOLD: Final = 128 * 1024  # bytes that wait to be read, before the server has to wait
_MAX_INFORMATIONAL: Final = 100  # answers of the kind "100 Continue" before the real one
_MAX_FRAMING: Final = 64 * 1024  # bytes of chunk headers and trailers without a byte of the body
_WITHOUT_BODY: Final = frozenset({204, 304})


class Server(Struct, frozen=True):
    """The other end of a connection.  Connections are kept by it, so it also has the proxy between."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    proxy: Proxy | None = None
    proxy_tls: ssl.SSLContext | None = None  # for the connection to the proxy itself

    @property
    def where(self) -> str:
        """The server, in messages."""
        through = "" if self.proxy is None else f" through the proxy {self.proxy.where}"
        return f"{self.host}:{self.port}{through}"


class ProxyServer(Server, frozen=True):
    """A proxy as the other end of a connection."""

    @property
    def where(self) -> str:
        return f"the proxy {self.host}:{self.port}"


class Connection(asyncio.BufferedProtocol):
    """Speaks HTTP/1.1.  `ask` sends a request and waits for the head of its answer, `take` gives the rest."""

    __slots__ = (
        "_failure",
        "_framing",
        "_head_bytes",
        "_header_count",
        "_headers",
        "_held",
        "_informational",
        "_limits",
        "_listener",
        "_loop",
        "_on_lost",
        "_parser",
        "_parts",
        "_paused",
        "_reason_bytes",
        "_room",
        "_transport",
        "_until_close",
        "_waiter",
        "answered",
        "ended",
        "headers",
        "keeps",
        "on_body",
        "server",
        "since",
        "status",
    )

    def __init__(
        self,
        server: Server,
        limits: Limits,
        on_lost: Callable[["Connection"], object],
        room: memoryview,
    ) -> None:
        self.server: Server = server
        self._limits = limits
        self._room = room  # for what arrives: of no meaning between two arrivals
        self._loop = asyncio.get_running_loop()
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None  # of the reader
        self._parts: list[bytes] = []  # of the body, not read yet
        self.on_body: Callable[[bytes], None] = (
            self._parts.append
        )  # called by the parser, once for each chunk
        self._parser = HttpResponseParser(self)
        self._failure: TransportError | None = None
        self.since: float = 0.0  # when the last answer ended
        self.begin()

    def begin(self) -> None:
        """Expect an answer, the next one after one that has ended."""
        self._parts.clear()
        self._listener: Callable[[], object] | None = None
        self.status: int = 0
        self.headers: dict[str, str] = {}  # names in lower case
        self._headers: list[tuple[bytes, bytes]] = []
        self._header_count = 0
        self._reason_bytes = 0
        self._head_bytes = 0  # since the last header
        self._informational = 0
        self._framing = 0  # bytes since the last one of the body
        self._held = 0
        self._paused = False
        self._until_close = False  # the body ends with the connection
        self.answered: bool = False  # the head has come
        self.ended: bool = False  # and the body
        self.keeps: bool = False  # the connection may be used again

    @property
    def where(self) -> str:
        """The server, in messages."""
        return self.server.where

    # --- for the connector ------------------------------------------------------------------------------

    async def ask(self, head: bytes, body: bytes | None) -> None:
        """Send a request and wait until the head of its answer has come.

        Raises:
            TransportError: there is none.
        """
        transport = self._transport
        # Test: test_a_connection_that_its_server_closed_meanwhile_is_not_used.
        if transport is None or transport.is_closing():
            raise failures.unanswered(self.where)
        transport.writelines((head, body)) if body else transport.write(head)
        while not self.answered:
            if self._failure is not None:
                raise self._failure.again()
            await self.wait()

    def take(self) -> bytes | None:
        """Return what has arrived of the body, nothing at its end, None before more has come.

        Raises:
            TransportError: the answer breaks off here.
        """
        parts = self._parts
        if not parts:
            if self._failure is not None:
                raise self._failure.again()
            return b"" if self.ended else None
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._held = 0
        if self._paused:
            self._paused = False
            if self._transport is not None:
                self._transport.resume_reading()
        return data

    def wait(self) -> asyncio.Future[None]:
        """Return what is done when there may be something to take.  One task at a time waits."""
        waiter = self._waiter = self._loop.create_future()
        return waiter

    def listen(self, listener: Callable[[], object] | None) -> None:
        """Call `listener`, instead of waking the waiting task, when there may be something to take.

        It is called by the event loop, never inside a task.
        """
        self._listener = listener

    def abort(self, why: TransportError | None = None) -> None:
        """Close the connection at once; a reader, now or later, gets `why`."""
        self._fail(why or failures.truncated())

    def detach(self) -> asyncio.Transport:
        """Return the transport, for a protocol that continues on it; this connection has ended.

        Raises:
            TransportError: the transport is closed, or bytes have arrived that nothing asked for.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            raise failures.unanswered(self.where)
        if self._parts:
            raise failures.malformed(self.where, "it sent more than one response")
        self._transport = None
        del self._parser  # it holds us
        return transport

    @property
    def reusable(self) -> bool:
        """Another request may follow."""
        transport = self._transport
        return (
            self.ended
            and self.keeps
            and self._failure is None
            and transport is not None
            and not transport.is_closing()
            and not transport.get_write_buffer_size()
        )

    # --- called by the event loop ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        if self.ended:
            # Test: test_a_connection_on_which_more_arrives_than_was_asked_is_not_used.
            self._fail(failures.malformed(self.where, "it sent more than one response"))
            return
        parts = self._parts
        before = len(parts)
        try:
            self._parser.feed_data(self._room[:nbytes])
        # Test: test_each_ends_in_the_right_error_within_bounded_memory.
        except HttpParserUpgrade:
            self.answered = self.ended = True  # no upgrade was requested: its status is the answer
            self.status = self._parser.get_status_code()
        except HttpParserCallbackError as error:
            why = error.__context__
            if not isinstance(why, TransportError):
                why = failures.malformed(self.where, error)
            self._fail(why)
        except HttpParserError as error:
            self._fail(failures.malformed(self.where, error))
        if len(parts) > before:
            self._framing = 0
            self._held += nbytes
            if self._held > _HOLD and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()
        else:
            self._count_useless(nbytes)
        if self._listener is not None:
            self._listener()
        else:
            self._wake()

    def eof_received(self) -> None:
        """Let the transport close itself."""

    def connection_lost(self, error: Exception | None) -> None:
        if not self.answered:
            if isinstance(error, ssl.SSLError):
                # Test: test_s_6_a_server_that_does_not_know_the_client_refuses_it.
                # A server may refuse our certificate as late as here.
                self._fail(failures.untrusted(self.where, error))
            self._fail(failures.unanswered(self.where))
        # Test: test_an_end_at_each_byte_is_an_error_or_the_whole_answer.
        elif self._until_close and error is None:
            self.ended = True
        elif not self.ended:
            self._fail(failures.truncated())
        self.keeps = False
        self._transport = None
        del self._parser  # it holds us
        self._wake()
        self._on_lost(self)

    # --- called by the parser --------------------------------------------------------------------------

    def on_status(self, reason: bytes) -> None:
        self._reason_bytes += len(reason)
        self._check_line(self._reason_bytes)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        if self._header_count > self._limits.max_headers:
            raise failures.too_large(TooLargeError("max_headers", self._limits.max_headers))
        self._check_line(max(len(name), len(value)))
        self._head_bytes = 0
        if not self.answered:  # else it is a trailer
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        # Test: test_the_body_of_a_second_response_does_not_join_the_first.
        if self.ended:
            raise failures.malformed(self.where, "it sent more than one response")
        self._reason_bytes = self._head_bytes = 0
        self.status = self._parser.get_status_code()
        headers = _readable(self._headers)
        self._headers = []
        # Test: test_an_informational_answer_before_the_real_one_is_passed_over.
        if 100 <= self.status < 200:
            self._informational += 1
            if self._informational > _MAX_INFORMATIONAL:
                raise failures.malformed(self.where, "too many informational responses (1xx)")
            return
        self.headers = headers
        coded = headers.get("transfer-encoding", "").lower()
        self._until_close = (
            self.status not in _WITHOUT_BODY
            and "content-length" not in headers
            and not coded.endswith("chunked")
        )
        self.answered = True

    def on_message_complete(self) -> None:
        if not self.answered:
            return  # informational: the real one follows
        self.keeps = self._parser.should_keep_alive()
        self.ended = True

    # --- bounds ------------------------------------------------------------------------------------------

    def _check_line(self, size: int) -> None:
        limit = self._limits.max_header_bytes
        if size > limit:
            raise failures.too_large(TooLargeError("max_header_bytes", limit))

    def _count_useless(self, size: int) -> None:
        """Bound what comes without a byte of the body."""
        if self.answered:
            self._framing += size
            # Test: test_each_ends_in_the_right_error_within_bounded_memory.
            if self._framing > _MAX_FRAMING and not self.ended:
                self._fail(failures.malformed(self.where, "chunks without content"))
            return
        self._head_bytes += size
        limit = self._limits.max_header_bytes
        if self._head_bytes > 2 * limit + size:
            self._fail(failures.too_large(TooLargeError("max_header_bytes", limit)))

    def _fail(self, why: TransportError) -> None:
        if self._failure is None:
            self._failure = why
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if self._listener is not None:
            self._loop.call_soon(self._listener)  # a task may be at work here
        elif waiter is not None and not waiter.done():
            waiter.set_result(None)


def _readable(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw, value in headers:
        name, text = raw.decode("latin-1").lower(), value.decode("latin-1")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found
