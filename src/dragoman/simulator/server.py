"""The simulator on a socket."""

import asyncio
import hashlib
import socket
import struct
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Self, TypeAlias
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from msgspec import structs

from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.dialects.dialect import PathRequest
from dragoman.errors import DragomanError, MalformedError, TooLargeError, cannot_listen
from dragoman.limits import DEFAULT_LIMITS
from dragoman.simulator import endpoints
from dragoman.simulator.answer import (
    JSON,
    SimulatedAnswer,
    answer,
    plain_refusal,
    read,
    refusal,
    seed_of,
)
from dragoman.simulator.exchanges import Exchanges, RecordedExchange
from dragoman.simulator.play import TOKEN, Fields, ReceivedRequest, input_tokens
from dragoman.simulator.quirks.delivery import PLAIN_ERRORS
from dragoman.simulator.quirks.wire_format import PROMPT_CACHE
from dragoman.simulator.script import Script, load_script
from dragoman.turn.request import DialectName

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8485
_BACKLOG: Final = 4_096  # tests open many connections at once
_LOCAL: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_ANSWERS: Final[dict[str, DialectName]] = {
    "/chat/completions": "chat",
    "/messages": "anthropic",
    "/responses": "responses",
}
_COUNTS: Final[dict[str, DialectName]] = {
    "/messages/count_tokens": "anthropic",
    "/responses/input_tokens": "responses",
}
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # linger, for no time: the kernel resets
_CLOSING: Final = "the simulator closes"
_MOST_REQUESTS: Final = 4_096
_MOST_BYTES: Final = 64 * 1024 * 1024  # of all answers that are kept
_PER_WRITE: Final = 64  # bytes that each piece costs beside its own
_BLOCK: Final = 16  # tokens of a prompt that are found again together
_MOST_BLOCKS: Final = 200_000
_PROMPT: Final = (
    "tools",
    "system",
    "instructions",
    "messages",
    "input",
)  # in the order of a prompt
_Make: TypeAlias = Callable[[web.Request, bytes], SimulatedAnswer]


class Simulator:
    """A deterministic model that speaks Chat Completions, Messages, Responses and `generateContent` over HTTP.

    Serves while its context is open; `url` says where, `exchanges` what it received.
    """

    def __init__(
        self, host: str = DEFAULT_HOST, port: int = 0, script: Script | Path | None = None
    ) -> None:
        self.host = host
        self.port: int = port  # 0 until it serves: any free one
        self.exchanges: Exchanges = Exchanges()
        self._script = load_script(script) if isinstance(script, Path) else script
        self._memory = Memory()
        self._prompts = PromptCache()
        self._deliveries = Deliveries(self.exchanges)
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """The base URL, without a path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Serve.

        Raises:
            ConfigError: the address is in use or not available.
        """
        for name in DIALECT_NAMES:
            dialect(name)  # loaded now, so that the first answer is as quick as the others
        runner = web.AppRunner(
            self._app(), handler_cancellation=True, access_log=None, shutdown_timeout=1.0
        )
        await runner.setup()
        site = web.TCPSite(runner, self.host, self.port, backlog=_BACKLOG)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise cannot_listen(self.host, self.port, error) from error
        self.port = runner.addresses[0][1]
        self._runner = runner

    async def close(self) -> None:
        """Stop serving; responses in progress are cancelled."""
        self._deliveries.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def wait_for(
        self,
        predicate: Callable[[RecordedExchange], bool],
        timeout: float = 30.0,  # noqa: ASYNC109 -- tests wait for a condition, and no longer
    ) -> RecordedExchange:
        """Return the first exchange that fits, as soon as there is one.

        Raises:
            TimeoutError: there was none in so many seconds.
        """
        return await self.exchanges.wait_for(predicate, timeout)

    # --- what it serves -----------------------------------------------------------------------------

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=DEFAULT_LIMITS.max_request_bytes)
        add = app.router.add_route
        for prefix in ("/v1", ""):
            for path in _ANSWERS:
                add("POST", prefix + path, self._served(self._answer))
            for path in _COUNTS:
                add("POST", prefix + path, self._served(_count))
            add("POST", f"{prefix}/tokenize", self._served(_tokenize))
            add("GET", f"{prefix}/models", self._models)
            add("GET", prefix + "/models/{model:.+}", self._model)
        # Paths that name the model, of AI Studio and Vertex.
        add("POST", "/{base:.*}models/{model:.+}", self._served(self._answer_or_count))
        add("GET", "/{base:v1beta.*}", self._google_models)
        for path in ("/", "/health"):
            app.router.add_get(path, self._health)  # HEAD too
        add("GET", "/sim/exchanges", self._list_exchanges)
        add("DELETE", "/sim/exchanges", self._clear_exchanges)
        add("*", "/{path:.*}", self._nothing)
        return app

    def _served(self, make: _Make) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return a handler that records the exchange around `make`."""

        async def serve(request: web.Request) -> web.StreamResponse:
            exchange = self.exchanges.open(request.method, request.path_qs, request.headers)
            spoken = _dialect(request)
            body = b""
            try:
                body = await _body(request)
                self.exchanges.keep(exchange, body)
                body = _joined(request, body)
                made = make(request, body)
            except DragomanError as error:
                made = refusal(spoken, error, seed_of(spoken, body))
                if PLAIN_ERRORS.encode() in body:
                    made = plain_refusal(error)
            return await self._deliveries.deliver(request, made, exchange)

        return serve

    def _answer(self, request: web.Request, body: bytes) -> SimulatedAnswer:
        """Return the script's answer; without a match, the model's answer."""
        spoken = _dialect(request)
        seed = seed_of(spoken, body)
        attempt = self._memory.count(seed)
        known = self._memory.answer(seed)
        if known is not None:
            return known
        named = _named(request)
        asked = read(spoken, body, as_list=named is not None and named.framing == "list")
        caches = PROMPT_CACHE in asked.request.model
        if caches:
            asked = structs.replace(asked, cached_tokens=self._prompts.read(asked))
        if self._script is not None:
            scripted = self._script.pick(asked, request.path)
            if scripted is not None:
                return self._script.answer(scripted, asked, attempt)
        made = answer(asked, attempt)
        if self._script is None and "+fail" not in asked.request.model and not caches:
            self._memory.keep(seed, made)
        return made

    def _answer_or_count(self, request: web.Request, body: bytes) -> SimulatedAnswer:
        named = _named(request)
        if named is None or named.asks == "nothing":
            raise _NotServedError(f"the simulator serves no {request.method} {request.path}")
        return (
            _count(request, body) if named.asks == "count_tokens" else self._answer(request, body)
        )

    async def _google_models(self, request: web.Request) -> web.Response:
        named = _named(request)
        if named is None or named.asks != "models":
            return await self._nothing(request)
        if named.model:
            return _json_response(endpoints.google_model(named.model))
        return _json_response(endpoints.google_models())

    async def _models(self, _request: web.Request) -> web.Response:
        return _json_response(endpoints.models())

    async def _model(self, request: web.Request) -> web.Response:
        return _json_response(endpoints.model(request.match_info["model"]))

    async def _health(self, _request: web.Request) -> web.Response:
        return _json_response({"status": "ok"})

    async def _list_exchanges(self, request: web.Request) -> web.Response:
        self._refuse_pages(request)
        return _json_response({"exchanges": [one.fields() for one in self.exchanges]})

    async def _clear_exchanges(self, request: web.Request) -> web.Response:
        self._refuse_pages(request)
        self.exchanges.clear()
        self._memory.clear()
        self._prompts.clear()
        if self._script is not None:
            self._script.reset()
        return _json_response({"exchanges": []})

    def _refuse_pages(self, request: web.Request) -> None:
        """Refuse requests of web pages: they must not read what other programs sent."""
        host = urlsplit(f"//{request.host}").hostname or ""
        if "origin" in request.headers or host not in _LOCAL | {self.host.lower()}:
            raise web.HTTPForbidden(text="not for pages in a browser\n")

    async def _nothing(self, request: web.Request) -> web.Response:
        message = f"the simulator serves no {request.method} {request.path}"
        fields: Fields = {"error": {"message": message, "type": "invalid_request_error"}}
        return _json_response(fields, status=404)


class _NotServedError(MalformedError):
    """A verb that is not simulated."""

    http_status = 404


def _named(request: web.Request) -> PathRequest | None:
    """Return what a path asks for that names the model; None for the other paths."""
    paths = dialect("gemini").model_paths
    assert paths is not None  # noqa: S101 -- a fact of this dialect
    return paths.read(request.method, request.rel_url.raw_path, request.query)


def _joined(request: web.Request, body: bytes) -> bytes:
    """Return a request as one object, with what its path names."""
    named, paths = _named(request), dialect("gemini").model_paths
    return body if named is None or paths is None else paths.join(named, body)


def _dialect(request: web.Request) -> DialectName:
    path = request.path.removeprefix("/v1")
    known = _ANSWERS.get(path) or _COUNTS.get(path)
    return known or ("chat" if _named(request) is None else "gemini")


async def _body(request: web.Request) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise TooLargeError("max_request_bytes", DEFAULT_LIMITS.max_request_bytes) from error


def _count(request: web.Request, body: bytes) -> SimulatedAnswer:
    return _json_answer(endpoints.count_tokens(_dialect(request), body))


def _tokenize(_request: web.Request, body: bytes) -> SimulatedAnswer:
    return _json_answer(endpoints.tokenize(body))


def _json_response(fields: Fields, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(fields), status=status, content_type="application/json"
    )


def _json_answer(fields: Fields) -> SimulatedAnswer:
    body = msgspec.json.encode(fields)
    return SimulatedAnswer(headers={"content-type": JSON}, writes=[body], length=len(body))


# --- sending an answer ---


class Deliveries:
    """The responses in progress; closing cancels them instead of waiting."""

    def __init__(self, exchanges: Exchanges) -> None:
        self._exchanges = exchanges
        self._tasks: set[asyncio.Task[object]] = set()

    def cancel(self) -> None:
        """Cancel the responses in progress."""
        for task in self._tasks:
            task.cancel(_CLOSING)

    async def deliver(
        self, request: web.Request, answer: SimulatedAnswer, exchange: RecordedExchange
    ) -> web.StreamResponse:
        """Send an answer.  Tasks that wait for this exchange are woken when it ends."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- a coroutine runs in a task
        self._tasks.add(task)
        exchange.ending = answer.ending
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.content_length = answer.length
        try:
            await self._send(request, response, answer, exchange)
            exchange.finished = answer.ending == "end"
        except asyncio.CancelledError as error:
            exchange.closed_early = _CLOSING not in error.args
            raise
        except ConnectionError:
            exchange.closed_early = True  # not an error: clients may disconnect
        finally:
            self._tasks.discard(task)
            exchange.over = True
            self._exchanges.touch()
        return response

    async def _send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        answer: SimulatedAnswer,
        exchange: RecordedExchange,
    ) -> None:
        if answer.slow:
            await asyncio.sleep(answer.slow)
        await response.prepare(request)
        exchange.status = answer.status
        self._exchanges.touch()
        pause = 0.0
        for piece in answer.writes:
            if pause:
                await asyncio.sleep(pause)
            pause = answer.pace
            await response.write(piece)
            exchange.written += len(piece)
        self._exchanges.touch()
        if pause and answer.ending == "reset":
            # A reset discards bytes that the client has received and not yet read.
            await asyncio.sleep(pause)
        await _end(request, response, answer)


async def _end(request: web.Request, response: web.StreamResponse, answer: SimulatedAnswer) -> None:
    transport = request.transport
    match answer.ending:
        case "end":
            await response.write_eof()
        case "stall":
            await asyncio.Event().wait()
        case "cut" if transport is not None:
            transport.close()
        case "reset" if transport is not None:
            # Flush first: a reset discards bytes that are not yet sent.
            transport.set_write_buffer_limits(0)
            await request.writer.drain()
            peer = transport.get_extra_info("socket")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            transport.abort()


# --- what it remembers of earlier requests ---


class Memory:
    """Counts of requests (for `fail:N`) and cached answers, by the seed of a request."""

    def __init__(self) -> None:
        self._attempts: OrderedDict[str, int] = OrderedDict()
        self._answers: OrderedDict[str, SimulatedAnswer] = OrderedDict()
        self._held = 0  # bytes of the answers kept

    def count(self, seed: str) -> int:
        """Count a request among those of the same bytes, from 1."""
        attempt = self._attempts.pop(seed, 0) + 1
        self._attempts[seed] = attempt
        if len(self._attempts) > _MOST_REQUESTS:
            self._attempts.popitem(last=False)
        return attempt

    def answer(self, seed: str) -> SimulatedAnswer | None:
        """Return the answer that the same request got before."""
        found = self._answers.get(seed)
        if found is not None:
            self._answers.move_to_end(seed)
        return found

    def keep(self, seed: str, answer: SimulatedAnswer) -> None:
        """Cache an answer; the least recently used ones are evicted."""
        self._answers[seed] = answer
        self._held += _cost(answer)
        while self._held > _MOST_BYTES:
            _, oldest = self._answers.popitem(last=False)
            self._held -= _cost(oldest)

    def clear(self) -> None:
        self._attempts.clear()
        self._answers.clear()
        self._held = 0


def _cost(answer: SimulatedAnswer) -> int:
    """Return the approximate memory of an answer."""
    return answer.size + _PER_WRITE * len(answer.writes)


class PromptCache:
    """How much of a prompt the server has read before; the least recently used blocks are evicted.

    As in inference servers, a prompt is cut into blocks, and a block is found again by its text and all text before it.
    """

    def __init__(self) -> None:
        self._blocks: OrderedDict[bytes, None] = OrderedDict()

    def read(self, asked: ReceivedRequest) -> int:
        """Return how many tokens of a prompt's beginning are cached, and cache all of it."""
        text = b"".join(
            msgspec.json.encode(asked.fields[name]) for name in _PROMPT if name in asked.fields
        )
        size, cached, begins = _BLOCK * TOKEN, 0, True
        digest = hashlib.blake2b(digest_size=16)
        for at in range(0, len(text) - size + 1, size):
            digest.update(text[at : at + size])
            block = digest.digest()
            begins = begins and block in self._blocks
            cached += _BLOCK if begins else 0
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > _MOST_BLOCKS:
            self._blocks.popitem(last=False)
        return min(cached, input_tokens(asked) - 1)  # no server has cached all of a prompt

    def clear(self) -> None:
        self._blocks.clear()
