"""The way to an upstream: `open` a request, `read` its answer.

One HTTP implementation stands behind these two; nothing else in the gateway knows which.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Self

import aiohttp
from yarl import URL

from dragoman._version import __version__
from dragoman.errors import ConfigError
from dragoman.gateway.config.settings import Timeouts, Tls
from dragoman.turn.events import Fault, FaultKind

USER_AGENT: Final = f"dragoman/{__version__}"
_SETTLE_SECONDS: Final = 0.25  # for the end of an answer that is already complete
_SETTLE_BYTES: Final = 64 * 1024
_ERROR_BYTES: Final = 1024 * 1024  # of an error's body


class UpstreamFailed(Exception):
    """The upstream could not be reached, or its answer broke off."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.message)


class Reply:
    """An upstream's answer, read as it comes."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._read = response.content.readany
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        """Return what has arrived, at least a byte; nothing at the end.

        Raises:
            UpstreamFailed: the connection broke before the end.
        """
        try:
            return await self._read()
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamFailed(_broken(error)) from error

    async def read_all(self, limit: int, heard: Callable[[], object]) -> bytes | None:
        """Return the whole answer, None if it is larger than `limit`; `heard` is told of each piece."""
        parts: list[bytes] = []
        size = 0
        while data := await self.read():
            heard()
            size += len(data)
            if size > limit:
                return None
            parts.append(data)
        return b"".join(parts)

    async def read_error(self) -> bytes:
        """Return the beginning of an error's body, however it ends."""
        parts: list[bytes] = []
        size = 0
        try:
            while size < _ERROR_BYTES and (data := await self.read()):
                size += len(data)
                parts.append(data)
        except UpstreamFailed:
            pass  # what came must do
        return b"".join(parts)[:_ERROR_BYTES]

    async def settle(self) -> None:
        """Let the connection serve another request, if the answer's end is at hand."""
        content = self._response.content
        size = 0
        try:
            async with asyncio.timeout(_SETTLE_SECONDS):
                while not content.at_eof() and size < _SETTLE_BYTES:
                    size += len(await self._read())
        except (TimeoutError, aiohttp.ClientError, OSError):
            return
        if content.at_eof():
            self._response.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Closed, not released: a generation that nobody reads must stop.
        self._response.close()


class Connector:
    """Connections to all upstreams.  Made and closed inside the event loop."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=30),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": USER_AGENT, "accept-encoding": "identity"},
            trust_env=False,
            read_bufsize=2**16,
        )

    async def open(  # noqa: PLR0913 -- what, where, and how
        self,
        method: str,
        url: URL,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        timeouts: Timeouts,
        tls: ssl.SSLContext | bool,
    ) -> Reply:
        """Send a request and return its answer once the status is known.

        Raises:
            UpstreamFailed: there is none.
        """
        try:
            response = await self._session.request(
                method,
                url,
                headers=headers,
                data=body,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(sock_connect=timeouts.connect or None),
                ssl=tls,
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise UpstreamFailed(_unreachable(url, error)) from error
        return Reply(response)

    async def close(self) -> None:
        await self._session.close()


def tls_context(tls: Tls, upstream: str) -> ssl.SSLContext | bool:
    """Return how an upstream's certificate is verified and ours is shown; True: the usual way.

    Raises:
        ConfigError: a file cannot be read or is no certificate.
    """
    if tls == Tls():
        return True
    try:
        context = ssl.create_default_context(cafile=tls.ca or None)
        if tls.cert:
            context.load_cert_chain(tls.cert, tls.key or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"`upstreams.{upstream}.tls`: {error}") from error
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _unreachable(url: URL, error: Exception) -> Fault:
    """Say why no answer came."""
    where = f"{url.host}:{url.port}"
    match error:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            reason = getattr(error, "certificate_error", None) or error
            said = f"TLS to {where} failed: {reason}; see `tls` of the upstream"
            return Fault(FaultKind.UPSTREAM_BAD, said, code="upstream_tls")
        case aiohttp.ServerTimeoutError() | TimeoutError():
            return Fault(
                FaultKind.TIMEOUT, f"no connection to {where} in time", code="connect_timeout"
            )
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno
            reason = os.strerror(number) if number and number > 0 else error.os_error
            said = f"cannot connect to {where}: {reason}"
            return Fault(FaultKind.UPSTREAM_BAD, said, code="upstream_unreachable")
        case aiohttp.InvalidURL() | ValueError():
            said = f"`{url}` is no address that can be asked"
            return Fault(FaultKind.GATEWAY, said, code="upstream_address")
    said = f"{where} closed the connection without an answer"
    return Fault(FaultKind.UPSTREAM_BAD, said, code="upstream_closed")


def _broken(error: Exception) -> Fault:
    """Say that an answer broke off."""
    if isinstance(error, TimeoutError):
        return Fault(FaultKind.TIMEOUT, "upstream stream fell silent", code="timeout")
    return Fault(
        FaultKind.UPSTREAM_BAD, "upstream stream ended unexpectedly", code="upstream_truncated"
    )
