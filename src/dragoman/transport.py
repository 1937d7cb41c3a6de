"""HTTP as the shells need it: `open` a request, `read` its answer.  Bytes and metadata, nothing else.

One HTTP implementation stands behind these two, and nobody else knows which.  No retries, no redirects, no
proxies, no cookies, nothing from the environment; bodies are passed on as they are.
"""

import asyncio
import os
import ssl
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

import aiohttp
from aiohttp import http_exceptions
from msgspec import Struct
from yarl import URL

from dragoman._version import __version__
from dragoman.errors import ConfigError, TooLarge
from dragoman.limits import DEFAULT_LIMITS, Limits

USER_AGENT: Final = f"dragoman/{__version__}"
_SETTLE_SECONDS: Final = 0.25  # for the end of an answer that is already complete
_SETTLE_BYTES: Final = 64 * 1024
_ERROR_BYTES: Final = 1024 * 1024  # of an error's body

# How far an exchange had come: no connection, no trust, no proper answer, or one that broke off.
Stage: TypeAlias = Literal["connect", "tls", "http"]


class TLS(Struct, frozen=True, kw_only=True):
    """How a server is verified, and how we show ourselves to it."""

    verify: bool = True
    ca: str = ""  # file with the authorities to trust instead of the system's
    cert: str = ""  # our certificate, for mutual TLS
    key: str = ""  # its private key; empty: in the same file
    minimum: Literal["1.2", "1.3"] = "1.2"

    def context(self) -> ssl.SSLContext:
        """Return this as the connection needs it.

        Raises:
            ConfigError: a file cannot be read or holds no certificate.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if self.ca:
                context.load_verify_locations(self.ca)
            elif self.verify:
                _trust_the_system(context)
            if self.cert:
                # A key under a password is refused: nobody is there to be asked for it.
                context.load_cert_chain(self.cert, self.key or None, password=lambda: "")
        except (OSError, ssl.SSLError) as error:
            file = next((one for one in (self.ca, self.cert, self.key) if not _is_file(one)), "")
            where = f"`{file}`: " if file else ""
            raise ConfigError(f"TLS: {where}{error.strerror or error}") from error
        context.minimum_version = ssl.TLSVersion[f"TLSv{self.minimum.replace('.', '_')}"]
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _trust_the_system(context: ssl.SSLContext) -> None:
    """Load the system's authorities from where they are, whatever the environment says."""
    if sys.platform == "win32":
        context.load_default_certs()
        return
    paths = ssl.get_default_verify_paths()
    file, folder = paths.openssl_cafile, paths.openssl_capath
    if Path(file).is_file():
        context.load_verify_locations(cafile=file)
    if Path(folder).is_dir():
        context.load_verify_locations(capath=folder)


def _is_file(name: str) -> bool:
    return not name or Path(name).is_file()


class TransportFailed(Exception):
    """There is no answer, or it broke off."""

    def __init__(self, stage: Stage, code: str, reason: str) -> None:
        self.stage = stage
        self.code = code  # a word for programs
        self.reason = reason
        super().__init__(reason)


class Reply:
    """A server's answer, read as it comes."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._read = response.content.readany
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    @property
    def request_id(self) -> str:
        """The server's name for the request, if it has one."""
        return self.headers.get("request-id") or self.headers.get("x-request-id") or ""

    @property
    def retry_after(self) -> float | None:
        """Seconds that the server asks to wait; dates and nonsense count as nothing said."""
        for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            try:
                value = float(self.headers.get(name, "")) * unit
            except ValueError:
                continue
            if 0 <= value < float("inf"):
                return value
        return None

    async def read(self) -> bytes:
        """Return what has arrived, at least a byte; nothing at the end.

        Raises:
            TransportFailed: the connection broke before the end.
        """
        try:
            return await self._read()
        except (aiohttp.ClientError, OSError) as error:
            if left := self._left(error):
                return left
            raise _broken(error) from error

    def _left(self, error: Exception) -> bytes:
        """Return what came before the connection broke and was not read: nothing of it may be lost."""
        content = self._response.content
        # While it is set, nothing can be read.
        content.set_exception(None)  # type: ignore[arg-type]
        left = content.read_nowait()
        content.set_exception(error)
        return left

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
        except TransportFailed:
            pass  # what came must do
        return b"".join(parts)[:_ERROR_BYTES]

    def abort(self, why: TransportFailed) -> None:
        """Close the connection; whoever reads, now or later, gets `why`."""
        self._response.content.set_exception(why)
        self._response.close()

    async def settle(self) -> None:
        """Let the connection serve another request, if the answer's end is at hand."""
        content = self._response.content
        size = 0
        if not content.at_eof():
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
    """Connections to any number of servers.  Made and closed inside the event loop."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=30),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": USER_AGENT, "accept-encoding": "identity"},
            trust_env=False,
            read_bufsize=2**16,
            max_line_size=limits.max_header_bytes,
            max_field_size=limits.max_header_bytes,
            max_headers=limits.max_headers,
        )

    async def open(  # noqa: PLR0913 -- what, where, and how
        self,
        method: str,
        url: URL,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        connect_seconds: float,
        tls: ssl.SSLContext | bool,
    ) -> Reply:
        """Send a request and return its answer once the status is known.

        Raises:
            TransportFailed: there is none.
        """
        try:
            response = await self._session.request(
                method,
                url,
                headers=headers,
                data=body,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(connect=connect_seconds or None),
                ssl=tls,
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _header_limit(error, self._limits) or _unreachable(url, error) from error
        return Reply(response)

    async def close(self) -> None:
        await self._session.close()


def _header_limit(error: Exception, limits: Limits) -> TransportFailed | None:
    """Say which limit the headers of an answer passed, if that is what went wrong."""
    cause: BaseException | None = error
    while isinstance(cause, aiohttp.ClientResponseError | http_exceptions.HttpProcessingError):
        if isinstance(cause, http_exceptions.BadHttpMessage):
            break
        cause = cause.__cause__
    if isinstance(cause, http_exceptions.LineTooLong):
        passed = TooLarge("max_header_bytes", limits.max_header_bytes)
    elif isinstance(cause, http_exceptions.BadHttpMessage) and "Too many headers" in cause.message:
        passed = TooLarge("max_headers", limits.max_headers)
    else:
        return None
    return TransportFailed("http", passed.limit, f"the server's answer is refused: {passed}")


def _unreachable(url: URL, error: Exception) -> TransportFailed:
    """Say why no answer came."""
    where = f"{url.host}:{url.port}"
    match error:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            why = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
            return _untrusted(where, why)
        case aiohttp.ServerTimeoutError() | TimeoutError():
            return TransportFailed(
                "connect", "connect_timeout", f"no connection to {where} in time"
            )
        case aiohttp.ClientConnectorError(os_error=ConnectionResetError()) if url.scheme == "https":
            return _untrusted(where, "the server closed the connection in the middle of it")
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno
            why = os.strerror(number) if number and number > 0 else str(error.os_error)
            said = f"cannot connect to {where}: {why}"
            return TransportFailed("connect", "upstream_unreachable", said)
        case aiohttp.InvalidURL():
            said = f"`{url}` is no address that can be asked"
            return TransportFailed("connect", "upstream_address", said)
        case aiohttp.ClientResponseError() | http_exceptions.HttpProcessingError():
            said = f"{where} answered with something that is no HTTP: {_brief(error.message)}"
            return TransportFailed("http", "upstream_malformed", said)
        case aiohttp.ClientOSError(__cause__=ssl.SSLError() as why):
            return _untrusted(where, why)  # a server may refuse our certificate as late as here
    said = f"{where} closed the connection without an answer"
    return TransportFailed("http", "upstream_closed", said)


def _untrusted(where: str, why: object) -> TransportFailed:
    return TransportFailed("tls", "upstream_tls", f"TLS to {where} failed: {why}")


def _broken(error: Exception) -> TransportFailed:
    """Say that an answer broke off."""
    if isinstance(error, TimeoutError):
        return TransportFailed("http", "timeout", "upstream stream fell silent")
    return TransportFailed("http", "upstream_truncated", "upstream stream ended unexpectedly")


def _brief(message: str) -> str:
    return " ".join(message.split())[:200]
