"""Sends questions to an upstream, each one once, and keeps the responses."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct, structs
from yarl import URL

from dragoman.dialects import dialect as find_dialect
from dragoman.probe.questions import Habits, Question
from dragoman.probe.request_bodies import write_question
from dragoman.probe.response import Failure, Listing, Response, read_listing
from dragoman.profiles.profile import Profile
from dragoman.redaction import hide_in_json
from dragoman.toolcalls.format import Format
from dragoman.transport import Connector, Proxy, Reply, TransportError
from dragoman.turn.request import DialectName

_MAX_BYTES: Final = 4 * 1024 * 1024  # of one response; the questions request a hundredth of it
_MAX_PAUSE: Final = 10.0  # seconds; there is no retry if the server requests a longer wait


class Peer(Struct, frozen=True, kw_only=True):
    """The upstream that is probed, and how to connect to it."""

    url: str  # the part before `/chat/completions`, `/messages`, `/responses` or `/models`
    dialect: DialectName
    model: str = ""
    headers: Mapping[str, str] = {}
    secrets: tuple[str, ...] = ()  # removed from every response
    extra: Mapping[str, object] = {}  # fields that the operator adds to every request
    tls: ssl.SSLContext | bool = True
    proxy: Proxy | None = None
    timeout: float = 60.0  # seconds for one answer
    pause: float = 1.0  # seconds before a retry at a busy server, unless it sends Retry-After
    profile: Profile = Profile(name="generic")  # the known facts about it
    own_formats: tuple[Format, ...] = ()  # formats of calls in text that the settings declare


class Probe:
    """One run against one upstream.  The same question is sent once."""

    def __init__(self, peer: Peer, connector: Connector) -> None:
        self.peer: Peer = peer
        self.habits: Habits = Habits()
        self.requests: int = 0
        self.repeated: int = 0  # requests that were retries, because the server was busy
        self.output_tokens: int = 0  # as far as the upstream reported them
        self._connector = connector
        self._responses: dict[bytes, Response] = {}  # by the request's body
        self._listing: Listing | None = None

    @property
    def dialect(self) -> DialectName:
        return self.peer.dialect

    def learn(self, **habits: str | bool) -> None:
        """Remember what the upstream accepts, for the questions that follow."""
        self.habits = structs.replace(self.habits, **habits)

    def use_model(self, model: str) -> None:
        self.peer = structs.replace(self.peer, model=model)

    async def ask(self, question: Question) -> Response:
        """Send a question and return its response; a repeated question gets the stored response."""
        body = self._body(question)
        if body not in self._responses:
            self._responses[body] = await self._patiently(body)
        return self._responses[body]

    async def list_models(self) -> Listing:
        """Request the list of models, once."""
        if self._listing is None:
            self._listing = read_listing(await self._send("GET", "/models", None))
        return self._listing

    async def leave(self, question: Question) -> Failure | None:
        """Send a question and disconnect when the response begins."""
        self.requests += 1
        try:
            async with asyncio.timeout(self.peer.timeout):
                reply = await self._open("POST", *self._wire(self._body(question)))
                with reply:
                    await reply.read()
        except TimeoutError:
            return self._late()
        except TransportError as failed:
            return Failure(failed.stage, failed.reason)
        return None

    def _wire(self, body: bytes) -> tuple[str, bytes]:
        """Return the path of a request and its body there."""
        return find_dialect(self.dialect).wire_request(body)

    def _body(self, question: Question) -> bytes:
        peer = self.peer
        fields = write_question(question, peer.dialect, peer.model, self.habits)
        return msgspec.json.encode({**fields, **peer.extra})

    async def _patiently(self, body: bytes) -> Response:
        """Send a request, and retry once if the server was busy."""
        response, pause = await self._timed(body)
        if response.passing and pause <= _MAX_PAUSE:
            await asyncio.sleep(pause)
            self.repeated += 1
            response, _ = await self._timed(body)
        if response.status == 200 and response.failure is None:
            usage = response.answer.usage
            self.output_tokens += 0 if usage is None else usage.output_tokens
        return response

    async def _timed(self, body: bytes) -> tuple[Response, float]:
        clock = asyncio.get_running_loop().time
        began = clock()
        response = await self._send("POST", *self._wire(body))
        response.seconds = clock() - began
        thinking = response.retry_after
        return response, self.peer.pause if thinking is None else thinking

    async def _send(self, method: str, path: str, body: bytes | None) -> Response:
        self.requests += 1
        peer = self.peer
        status, kind, parts = 0, "", list[bytes]()
        retry_after: float | None = None
        failure: Failure | None = None
        try:
            async with asyncio.timeout(peer.timeout):
                reply = await self._open(method, path, body)
                with reply:
                    status = reply.status
                    kind = reply.headers.get("content-type", "")
                    retry_after = reply.retry_after
                    size = 0
                    while data := await reply.read():
                        parts.append(data)
                        size += len(data)
                        if size > _MAX_BYTES:
                            failure = Failure(
                                "size", f"the answer has more than {_MAX_BYTES} bytes"
                            )
                            break
        except TimeoutError:
            failure = self._late()
        except TransportError as failed:
            failure = Failure(failed.stage, failed.reason)
        return Response(
            peer.dialect,
            status=status,
            content_type=kind.lower(),
            # Some error messages repeat our credentials.
            body=hide_in_json(b"".join(parts), self.peer.secrets),
            failure=failure,
            retry_after=retry_after,
        )

    async def _open(self, method: str, path: str, body: bytes | None) -> Reply:
        peer = self.peer
        return await self._connector.open(
            method,
            URL(f"{peer.url.rstrip('/')}{path}"),
            # Without this, the server could close a kept connection between two requests: one would fail.
            headers={**peer.headers, "connection": "close"},
            body=body,
            connect_seconds=peer.timeout,
            tls=peer.tls,
            proxy=peer.proxy,
        )

    def _late(self) -> Failure:
        return Failure("timeout", f"no end of the answer within {self.peer.timeout:g} s")
