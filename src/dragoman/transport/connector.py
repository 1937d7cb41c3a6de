"""Connections to any number of servers, kept for the next request."""

import asyncio
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Final, TypeAlias

from aiohappyeyeballs import start_connection
from yarl import URL

from dragoman._version import __version__
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.transport import failures
from dragoman.transport.connection import Connection, ProxyServer, Server
from dragoman.transport.failures import TransportError
from dragoman.transport.proxy import Proxy
from dragoman.transport.reply import Reply
from dragoman.transport.tls import TLS

USER_AGENT: Final = f"dragoman/{__version__}"
_ALWAYS: Final = {"user-agent": USER_AGENT, "accept": "*/*", "accept-encoding": "identity"}
_PORTS: Final = {"http": 80, "https": 443}
KEEP_SECONDS: Final = 15.0  # that an unused connection is kept; servers close theirs soon after
_KEEP_CONNECTIONS: Final = 100  # to one server
_ROOM: Final = 256 * 1024  # bytes that are received at once
_DNS_SECONDS: Final = 30.0
_NEXT_ADDRESS: Final = 0.25  # seconds for one address of a host, before the next is tried as well
_UNFIT: Final = re.compile(r"[\r\n\0\ud800-\udfff]")  # nor what has no bytes
# As `getaddrinfo` returns it.
_Address: TypeAlias = tuple[
    int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
]


class Connector:
    """Opens requests.  Made and closed inside the event loop."""

    def __init__(
        self, limits: Limits = DEFAULT_LIMITS, *, keep_seconds: float = KEEP_SECONDS
    ) -> None:
        self._limits = limits
        self._keep_seconds = keep_seconds
        self._loop = asyncio.get_running_loop()
        self._room = memoryview(bytearray(_ROOM))  # of all connections, one after the other
        self._connections: set[Connection] = set()
        self._idle: dict[Server, list[Connection]] = {}  # the last one used comes first again
        self._sweeping: asyncio.TimerHandle | None = None
        self._addresses: dict[tuple[str, int], tuple[float, Sequence[_Address]]] = {}
        self._usual_tls: ssl.SSLContext | None = None

    async def open(  # noqa: PLR0913 -- what, where, and how
        self,
        method: str,
        url: URL,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        connect_seconds: float,
        tls: ssl.SSLContext | bool,
        proxy: Proxy | None = None,
    ) -> Reply:
        """Send a request and return its answer once the status is known.

        `tls` is for the server, and for a proxy that speaks TLS itself.

        Raises:
            TransportError: there is none.
        """
        server = self._server(url, proxy, tls=tls)
        forwarder = None if server.tls is not None else proxy  # of plain requests; else it tunnels
        head = request_head(method, url, headers, body, proxy=forwarder)
        connection = self._kept(server) or await self._make(server, connect_seconds)
        try:
            await connection.ask(head, body)
            if forwarder is not None:
                _check_forwarded(connection, server, forwarder)
            return Reply(connection, self._keep)
        except BaseException:
            connection.abort()
            raise

    async def close(self) -> None:
        """Close all connections; answers that are still read break off."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        self._idle.clear()
        for connection in tuple(self._connections):
            connection.abort()
        await asyncio.sleep(0)  # the event loop closes them

    def _server(self, url: URL, proxy: Proxy | None, *, tls: ssl.SSLContext | bool) -> Server:
        host, port = url.raw_host, url.port
        if url.scheme not in _PORTS or not host or not port:
            raise failures.no_address(url)
        secure = url.scheme == "https"
        proxy_secure = proxy is not None and proxy.secure
        context = self._context(tls=tls) if secure or proxy_secure else None
        return Server(
            host,
            port,
            context if secure else None,
            proxy,
            context if proxy_secure else None,
        )

    def _context(self, *, tls: ssl.SSLContext | bool) -> ssl.SSLContext:
        if not isinstance(tls, bool):
            return tls
        if self._usual_tls is None:
            self._usual_tls = TLS().context(environment=True)
        return self._usual_tls

    # --- connections -----------------------------------------------------------------------------------

    async def _make(self, server: Server, seconds: float) -> Connection:
        try:
            return await self._connect(server, seconds)
        except TransportError as failed:
            if failed.code != failures.NO_DESCRIPTORS or not self._idle:
                raise
        self._close_idle()
        await asyncio.sleep(0)  # the event loop closes them
        return await self._connect(server, seconds)

    async def _connect(self, server: Server, seconds: float) -> Connection:
        until = self._loop.time() + seconds if seconds else None
        proxy = server.proxy
        if proxy is None:
            connection = await self._dial(server, server, until)
        else:
            first = ProxyServer(proxy.host, proxy.port, server.proxy_tls)
            tunnels = server.tls is not None
            try:
                connection = await self._dial(first, first if tunnels else server, until)
            except TransportError as failed:
                raise failures.of_proxy(failed) from failed
            if tunnels:
                connection = await self._tunnel(connection, server, proxy, until)
        self._connections.add(connection)
        return connection

    async def _dial(self, first: Server, server: Server, until: float | None) -> Connection:
        """Return a connection to `first` on which requests for `server` are sent."""
        secure = first.tls is not None
        try:
            async with asyncio.timeout_at(until):
                addresses = await self._resolve(first.host, first.port)
                link = await start_connection(
                    addresses, happy_eyeballs_delay=_NEXT_ADDRESS, interleave=1
                )
                link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                _, connection = await self._loop.create_connection(
                    lambda: self._connection(server),
                    sock=link,
                    ssl=first.tls,
                    server_hostname=_tls_name(first) if secure else None,
                )
        except OSError as error:
            raise failures.unreachable(first.where, error, secure=secure) from error
        except UnicodeError as error:
            raise failures.no_address(first.where) from error  # a host such as `a..b`
        return connection

    async def _tunnel(
        self, asked: Connection, server: Server, proxy: Proxy, until: float | None
    ) -> Connection:
        """Ask a proxy to connect to a server (RFC 9110, section 9.3.6), and begin TLS with the server."""
        assert server.tls is not None  # noqa: S101 -- plain requests are forwarded
        transport: asyncio.Transport | None = None
        try:
            async with asyncio.timeout_at(until):
                transport = await _tunnel_through(asked, server, proxy)
                connection = self._connection(server)
                inner = await self._loop.start_tls(
                    transport, connection, server.tls, server_hostname=_tls_name(server)
                )
        except BaseException as error:
            asked.abort()
            if transport is not None:
                transport.abort()
            if isinstance(error, OSError):
                raise failures.unreachable(server.where, error, secure=True) from error
            raise
        if inner is None:  # it was closed at once
            raise failures.unanswered(server.where)
        connection.connection_made(inner)
        return connection

    def _connection(self, server: Server) -> Connection:
        return Connection(server, self._limits, self._lost, self._room)

    async def _resolve(self, host: str, port: int) -> Sequence[_Address]:
        now = self._loop.time()
        until, found = self._addresses.get((host, port), (0.0, ()))
        if now < until:
            return found
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        self._addresses[host, port] = (now + _DNS_SECONDS, found)
        return found

    def _kept(self, server: Server) -> Connection | None:
        """Return a connection that was used before, if one is left."""
        kept = self._idle.get(server)
        while kept:
            connection = kept.pop()
            if connection.reusable and self._loop.time() - connection.since < self._keep_seconds:
                connection.begin()
                return connection
            connection.abort()
        return None

    def _keep(self, connection: Connection) -> None:
        """Keep a connection for the next request, if it can serve one."""
        kept = self._idle.setdefault(connection.server, [])
        if not connection.reusable or len(kept) >= _KEEP_CONNECTIONS:
            connection.abort()
            return
        connection.since = self._loop.time()
        kept.append(connection)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(self._keep_seconds, self._sweep)

    def _sweep(self) -> None:
        """Close what was not used for long."""
        self._sweeping = None
        oldest = self._loop.time() - self._keep_seconds
        for server, kept in tuple(self._idle.items()):
            for connection in kept:
                if connection.since <= oldest:
                    connection.abort()
            self._idle[server] = [one for one in kept if one.since > oldest]
            if not self._idle[server]:
                del self._idle[server]
        if self._idle:
            self._sweeping = self._loop.call_later(self._keep_seconds, self._sweep)

    def _close_idle(self) -> None:
        """Close what is kept for later requests: its descriptors are needed now."""
        for kept in self._idle.values():
            for connection in kept:
                connection.abort()
        self._idle.clear()

    def _lost(self, connection: Connection) -> None:
        self._connections.discard(connection)


def request_head(
    method: str,
    url: URL,
    headers: Mapping[str, str],
    body: bytes | None,
    *,
    proxy: Proxy | None = None,
) -> bytes:
    """Return the head of a request; the caller's headers replace ours.

    With a `proxy` that forwards the request, the target is the whole URL (RFC 9112, section 3.2.2).

    Raises:
        TransportError: a header cannot be written.
    """
    head = _head(method, url, tuple(headers.items()), proxy)
    if body is None:
        return head + b"\r\n"
    # Test: tests/servers/test_proxy_py.py.  It adds a second `Content-Length` to one in lower case.
    name = b"content-length" if proxy is None else b"Content-Length"
    return b"%b%b: %d\r\n\r\n" % (head, name, len(body))


@lru_cache(maxsize=64)  # the requests to one server mostly differ in their length alone
def _head(
    method: str, url: URL, headers: tuple[tuple[str, str], ...], proxy: Proxy | None
) -> bytes:
    """Return the head of a request up to the length of its body."""
    host = _bracketed(url.raw_host or "")
    if url.port != _PORTS[url.scheme]:
        host = f"{host}:{url.port}"
    headers_out = {"host": host, **_ALWAYS}
    for name, value in headers:
        headers_out[name.lower()] = value
    headers_out.pop("content-length", None)
    target = url.raw_path_qs
    if proxy is not None:
        target = f"{url.scheme}://{host}{target}"
        if proxy.authorization:
            headers_out["proxy-authorization"] = proxy.authorization
        headers_out = {name.title(): value for name, value in headers_out.items()}
    lines = [f"{name}: {value}" for name, value in headers_out.items()]
    if _UNFIT.search("".join(lines)):
        bad = next(line.partition(":")[0] for line in lines if _UNFIT.search(line))
        refused = f"the header `{bad[:40]!a}` contains a character that a header cannot contain"
        raise TransportError("connect", "upstream_address", refused)
    return "\r\n".join((f"{method} {target} HTTP/1.1", *lines, "")).encode()


def _connect_head(server: Server, proxy: Proxy) -> bytes:
    where = f"{_bracketed(server.host)}:{server.port}"
    lines = [f"CONNECT {where} HTTP/1.1", f"host: {where}", f"user-agent: {USER_AGENT}"]
    if proxy.authorization:
        lines.append(f"proxy-authorization: {proxy.authorization}")
    return "\r\n".join((*lines, "", "")).encode()


async def _tunnel_through(asked: Connection, server: Server, proxy: Proxy) -> asyncio.Transport:
    """Return a transport that leads through a proxy to a server."""
    try:
        await asked.ask(_connect_head(server, proxy), None)
        if 200 <= asked.status < 300:
            return asked.detach()
    except TransportError as failed:
        raise failures.of_proxy(failed) from failed
    raise _refusal(asked, server, proxy)


def _check_forwarded(connection: Connection, server: Server, proxy: Proxy) -> None:
    """Raise if a proxy answers instead of the server; other statuses than this one may be the server's."""
    if connection.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        raise _refusal(connection, server, proxy)


def _refusal(connection: Connection, server: Server, proxy: Proxy) -> TransportError:
    return failures.refused_by_proxy(
        proxy.where,
        f"{server.host}:{server.port}",
        connection.status,
        connection.headers,
        shown=bool(proxy.authorization),
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _tls_name(server: Server) -> str:
    return server.host.rstrip(".")
