"""Connections of clients: how many there are, and how long one may keep the gateway waiting.

The HTTP server itself waits for ever for a client that does not read, and an hour for the head of a request.
One slow clock looks at all connections instead.
"""

import asyncio
import re
import struct
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from dragoman.dialects import DEFAULT_DIALECT, dialect
from dragoman.gateway.capacity import Descriptors, overloaded
from dragoman.gateway.config.settings import Server
from dragoman.gateway.logging import Logger
from dragoman.turn.events import Fault, FaultKind

if sys.platform != "win32":
    import fcntl
    import termios

OWN_NAME: Final = {"server": "dragoman"}  # in place of the versions that the library would show

_C_INT: Final = struct.Struct("i")
_LOOK_SECONDS: Final = 0.25
_HEAD_SECONDS: Final = 30.0  # for the head of a request, from the connection or its first byte
_SURPLUS_SECONDS: Final = 5.0  # the same, for a client that only gets a 503
_REFUSED_SECONDS: Final = 1.0  # to read the 503, for a client whose request is not read
_SURPLUS: Final = 64  # connections beyond `max_connections`, where descriptors are not limited
_AGENT: Final = re.compile(rb"\r\nuser-agent:", re.IGNORECASE)
_OTHER_NAME: Final = b"\r\nsame-agent:"  # of the same length
_TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def _with_one_agent(data: bytes) -> bytes:
    """Return the beginning of a request with another name for a second `user-agent`.

    pydantic-ai sends two with Google's SDK, and the HTTP parser refuses that.  The number of bytes stays: should
    they be the rest of an earlier body, the next request begins where a proxy in front sees it.
    """
    found = [*_AGENT.finditer(data, 0, max(0, data.find(b"\r\n\r\n")))]
    for again in found[1:]:
        data = data[: again.start()] + _OTHER_NAME + data[again.end() :]
    return data


class ClientConnection(web.RequestHandler):
    """One connection of a client."""

    __slots__ = (
        "_busy", "_head_begun", "_last_word", "_moved", "_patience", "_refused", "_unsent", "_waits_since", "beyond",
    )  # fmt: skip

    def __init__(self, server: "ClientServer", **options: Any) -> None:
        super().__init__(server, **options)
        # Beyond this many connections, it gets a 503 and is closed; 0: it is one of them.
        self.beyond: int = 0
        self._refused = False  # even beyond those: what it sends is not read
        self._patience = _HEAD_SECONDS
        self._last_word = _TOO_SLOW
        self._busy = False  # a request is being answered
        self._head_begun = False  # some of a request's head has come
        self._waits_since = 0.0  # for the rest of it; 0: for nothing
        self._unsent = 0  # bytes that the client has not taken
        self._moved = 0.0  # when that changed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._waits_since = self._moved = self._loop.time()
        super().connection_made(transport)

    def allow_less(self, allowed: int) -> None:
        """Answer with 503, even if no request comes: there are too many connections."""
        self.beyond = allowed
        self._patience = _SURPLUS_SECONDS
        self._last_word = _refusal(allowed)

    def refuse(self, response: bytes) -> None:
        """Send this response to any request, and nothing else.

        The connection stays open for a moment: closed with unread bytes, the system would reset it, and
        the client might not see the response.
        """
        self._refused = True
        self._patience = _REFUSED_SECONDS
        if self.transport is not None:
            self.transport.write(response)
            self.transport.write_eof()

    def close_refused(self) -> None:
        """Close the connection now, because a newer one needs its file descriptor."""
        if self.transport is not None:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if not self._busy:
            if not self._head_begun:
                data = _with_one_agent(data)
            self._head_begun = True
            self._waits_since = self._waits_since or self._loop.time()
        super().data_received(data)

    def resume_writing(self) -> None:
        self._moved = self._loop.time()
        super().resume_writing()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Refuse what is not valid HTTP, without the parser's own words."""
        super().handle_error(request, status, exc, message)  # logs it, or closes a broken response
        kind = FaultKind.BAD_REQUEST if status < 500 else FaultKind.GATEWAY
        reason = "the request is not valid HTTP" if status < 500 else "the gateway failed"
        if isinstance(exc, LineTooLong):
            _, limit, *_ = exc.args
            reason = f"the URL or a header of the request is longer than {limit} bytes"
        _, body = dialect(DEFAULT_DIALECT).encode_fault(Fault(kind, reason, status=status), "")
        response = web.Response(
            status=status, body=body, content_type="application/json", headers=OWN_NAME
        )
        response.force_close()
        return response

    def begin(self) -> None:
        """Note that the head of a request is complete."""
        self._busy = True
        self._head_begun = False
        self._waits_since = 0.0

    def finish(self) -> None:
        """Note that the request is answered, but for what the client has yet to read."""
        self._busy = False

    def late(self, now: float, idle: float) -> str:
        """Return what the client fails to do; nothing, if it is in time."""
        transport = self.transport
        if transport is None:
            return ""
        unsent = _unsent(transport)
        if unsent != self._unsent or not unsent:
            self._unsent = unsent
            self._moved = now
        if idle and now - self._moved >= idle:
            return "does not read its response"
        if self._waits_since and unsent:
            self._waits_since = now  # the response before this request is still being sent
        patience = min(self._patience, idle) if idle else self._patience
        if self._waits_since and now - self._waits_since >= patience:
            return "does not finish the head of its request"
        return ""

    def drop(self) -> None:
        """Close the connection of a client that is late."""
        transport = self.transport
        if transport is None:
            return
        if not self._unsent and (self._head_begun or self.beyond):
            transport.write(self._last_word)
            transport.close()
        else:
            transport.abort()


class ClientServer(web.Server):
    """Makes connections, and watches over them.  `settings` returns the current limits."""

    def __init__(
        self,
        handle: Handler,
        *,
        settings: Callable[[], Server],
        room: Descriptors | None,
        notices: Logger,
        **options: Any,
    ) -> None:
        super().__init__(self._answer, handler_cancellation=True)
        self._handle = handle
        self._settings = settings
        self._room = room  # None: descriptors are not limited
        self._notice = notices.notice
        self._options = options  # of each connection
        self._loop = asyncio.get_running_loop()
        self._open: set[ClientConnection] = set()
        # Connections that get a 503 without their request being read, the oldest first.
        self._refused: dict[ClientConnection, None] = {}
        self._refusals = 0  # since the last look
        self._clock: asyncio.TimerHandle | None = None

    def __call__(self) -> ClientConnection:
        return ClientConnection(self, loop=self._loop, **self._options)

    @property
    def max_connections(self) -> int:
        """How many clients may be connected."""
        wanted = self._settings().max_connections
        return wanted if self._room is None else min(wanted, self._room.connections)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        assert isinstance(handler, ClientConnection)  # noqa: S101 -- made here
        allowed, room = self.max_connections, self._room
        if len(self._open) >= allowed + (room.surplus if room else _SURPLUS):
            self._refusals += 1
            self._refused[handler] = None
            handler.refuse(_refusal(allowed))
            if len(self._refused) > (room.backlog if room else _SURPLUS):
                oldest = next(iter(self._refused))
                del self._refused[oldest]
                oldest.close_refused()
        else:
            if len(self._open) >= allowed:
                handler.allow_less(allowed)
            self._open.add(handler)
        if self._clock is None:
            self._wind()

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        super().connection_lost(handler, exc)
        assert isinstance(handler, ClientConnection)  # noqa: S101 -- made here
        self._open.discard(handler)
        self._refused.pop(handler, None)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, ClientConnection)  # noqa: S101 -- made here
        connection.begin()
        try:
            response = await self._handle(request)
        finally:
            connection.finish()
        if connection.beyond:
            response.force_close()
        return response

    def _wind(self) -> None:
        self._clock = self._loop.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Close the connections of clients that are late, and log how many there were."""
        self._clock = None
        now, idle = self._loop.time(), self._settings().client_idle
        late: dict[str, int] = {}
        for connection in tuple(self._open):
            if why := connection.late(now, idle):
                connection.drop()
                late[why] = late.get(why, 0) + 1
        for connection in tuple(self._refused):
            if connection.late(now, idle):
                connection.close_refused()
        for why, count in late.items():
            self._notice("connections closed", level="warning", why=f"client {why}", count=count)
        if self._refusals:
            why = f"`max_connections` is {self.max_connections}"
            self._notice("connections refused", level="warning", why=why, count=self._refusals)
            self._refusals = 0
        if self._open or self._refused:
            self._wind()


def _unsent(transport: asyncio.Transport) -> int:
    """Return the bytes that wait for a client, as soon as some do not fit into the system's buffer.

    That buffer counts too: of several MiB, it takes more only once a third of it is free.
    """
    ours = transport.get_write_buffer_size()
    if not ours or sys.platform == "win32":
        return ours
    try:
        number = transport.get_extra_info("socket").fileno()
        found = fcntl.ioctl(number, termios.TIOCOUTQ, bytes(_C_INT.size))
    except (OSError, AttributeError):
        return ours  # closed, or the system does not support it
    theirs: int = _C_INT.unpack(found)[0]
    return ours + theirs


def connections_allowed(http: web.BaseRequest) -> int:
    """Return how many connections are allowed, if a request came on one beyond them; else 0."""
    connection = http.protocol
    return connection.beyond if isinstance(connection, ClientConnection) else 0


def _refusal(allowed: int) -> bytes:
    """Return a response for a client of any dialect, whose request is not even read."""
    fault = overloaded("max_connections", allowed)
    error = {"type": "overloaded_error", "code": fault.code, "message": fault.message}
    body = msgspec.json.encode({"type": "error", "error": error})
    return (
        b"HTTP/1.1 503 Service Unavailable\r\nserver: dragoman\r\ncontent-type: application/json\r\n"
        b"retry-after: %d\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
        % (fault.retry_after or 0, len(body), body)
    )
