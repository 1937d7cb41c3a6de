"""The asynchronous client: sends requests to one server and returns answers, whole or streamed."""

import asyncio
import threading
from collections.abc import Mapping
from typing import NoReturn, Self
from weakref import WeakKeyDictionary

import msgspec

from dragoman.client.answer_stream import AnswerStream, IncomingAnswer
from dragoman.client.encode import prepare
from dragoman.client.errors import fault_error, keep_received, peer_error
from dragoman.client.exchange import HttpExchange, Session
from dragoman.client.settings import Settings, Timeouts
from dragoman.errors import TooLargeError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.profiles.profile import Profile
from dragoman.toolcalls.format import Format
from dragoman.transport import TLS
from dragoman.turn.answer import Answer
from dragoman.turn.request import DialectName, Request
from dragoman.wire.json_values import decode_any


class Client:
    """Send requests to one server, in any dialect, with asyncio.

    Immutable; may be shared between tasks and threads.  Nothing is retried, no redirect is followed, no key is
    read from the environment (nor a proxy, without `proxy="env"`), and no tool is run.

    Connections belong to the event loop that opened them: leave `async with`, or call `close`, in each loop
    that used the client.  A closed client opens new connections when it is used again.

    Args:
        base_url: Where the API begins, without the path of the call: `https://api.openai.com/v1`.
        dialect: What the server speaks: `chat`, `anthropic`, `responses` or `gemini`.
        model: The model of requests that name none.
        api_key: Sent as the dialect demands it: as a bearer token, as `x-api-key` or as `x-goog-api-key`.
        profile: What the server can and cannot do: a name such as `deepseek`, or a `Profile`.
        native_format: The format of tool calls that the model writes as text: a family's name, a `Format`, `auto` to
            choose by the model's name, `none` to leave text alone.
        limits: What a server may send before the answer is rejected; see `Limits`.
        timeouts: How long a server may take; see `Timeouts`.
        tls: How the server is verified, and a client certificate; see `TLS`.
        proxy: `http://[USER:PASSWORD@]HOST:PORT` of an HTTP proxy, or `env` for the one that `HTTPS_PROXY`,
            `HTTP_PROXY` and `NO_PROXY` name.  Empty: none.
        headers: Additional headers of every request; they replace the client's own.
        strict: Raise where the default is to repair and report a loss: unreadable events, parameters that
            cannot be sent to the server, tools without a description or a valid schema.

    Raises:
        ConfigError: a setting is invalid.

    Example:
        async with Client("http://127.0.0.1:8484/v1", model="sim/plain") as client:
            answer = await client.create(request("Hello"))
            print(answer.text)
    """

    __slots__ = ("_lock", "_sessions", "_settings")
    _lock: threading.Lock
    _sessions: "WeakKeyDictionary[asyncio.AbstractEventLoop, Session]"
    _settings: Settings

    def __init__(  # noqa: PLR0913 -- each setting has its name
        self,
        base_url: str,
        *,
        dialect: DialectName = "chat",
        model: str = "",
        api_key: str = "",
        profile: Profile | str = "",
        native_format: Format | str = "auto",
        limits: Limits = DEFAULT_LIMITS,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 -- immutable
        tls: TLS = TLS(),  # noqa: B008 -- immutable
        proxy: str = "",
        headers: Mapping[str, str] | None = None,
        strict: bool = False,
    ) -> None:
        settings = Settings(
            base_url,
            dialect=dialect,
            model=model,
            api_key=api_key,
            profile=profile,
            native_format=native_format,
            limits=limits,
            timeouts=timeouts,
            tls=tls,
            proxy=proxy,
            headers=headers,
            strict=strict,
        )
        set_once = object.__setattr__
        set_once(self, "_settings", settings)
        set_once(self, "_lock", threading.Lock())
        set_once(self, "_sessions", WeakKeyDictionary())

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a client cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a client cannot be changed")

    def __repr__(self) -> str:
        settings = self._settings
        shown = (
            f"{settings.base_url!r}, dialect={settings.dialect.name!r}, model={settings.model!r}"
        )
        names = f", headers of {list(settings.header_names)}" if settings.header_names else ""
        return f"Client({shown}, profile={settings.profile.name!r}{names})"

    async def create(
        self,
        request: Request,
        /,
        *,
        timeout: float = 0.0,  # noqa: ASYNC109 -- a timeout of the exchange, which ends it with our error
    ) -> Answer:
        """Send a request and return its complete answer.

        Args:
            request: What to send; made by `dragoman.request`.
            timeout: Seconds for the whole exchange, besides the client's `timeouts`; 0: none.

        Raises:
            ClientError: there is no complete answer; the error says how far it came.
            MisuseError, MalformedError, UntranslatableError: the request cannot be sent; nothing was.
        """
        call = prepare(request, self._settings, stream=False)
        exchange = HttpExchange(self._session(), timeout)
        try:
            await exchange.open(call.url, call.body, call.headers)
            body = await _read_all(exchange, self._settings.limits)
            answer = call.read(body)
            if answer.fault is not None:
                broken = "json" if body and not _is_json(body) else ""
                error = exchange.identified(fault_error(answer.fault, self._settings, broken))
                keep_received(error, answer)
                raise error
            await exchange.drain()
        finally:
            await exchange.close()
        return answer

    def stream(self, request: Request, /, *, timeout: float = 0.0) -> AnswerStream:
        """Return the answer as a stream: `async with client.stream(request) as stream`.

        The request is sent when the stream is entered.

        Args:
            request: What to send; made by `dragoman.request`.
            timeout: Seconds for the whole exchange, besides the client's `timeouts`; 0: none.

        Raises:
            MisuseError, MalformedError, UntranslatableError: the request cannot be sent.
        """
        return AnswerStream(self._incoming(request, timeout))

    async def close(self) -> None:
        """Close the connections of the running event loop; streams that are still read raise `cancelled`."""
        with self._lock:
            session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def _incoming(self, request: Request, timeout: float) -> IncomingAnswer:
        return IncomingAnswer(prepare(request, self._settings, stream=True), self._session, timeout)

    def _session(self) -> Session:
        """Return the connections of the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            session = self._sessions.get(loop)
            if session is None:
                session = self._sessions[loop] = Session(self._settings)
        return session


async def _read_all(exchange: HttpExchange, limits: Limits) -> bytes:
    parts: list[bytes] = []
    size = 0
    while data := await exchange.read():
        size += len(data)
        if size > limits.max_response_bytes:
            passed = TooLargeError("max_response_bytes", limits.max_response_bytes)
            raise exchange.identified(peer_error(passed))
        parts.append(data)
    return b"".join(parts)


def _is_json(body: bytes) -> bool:
    try:
        decode_any(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.lstrip()[:5] in (b"data:", b"event")  # a stream instead of a body
    return True
