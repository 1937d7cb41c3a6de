"""The simulator on a socket."""

import errno
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
from aiohttp import web

from dragoman.errors import ConfigError, DragomanError
from dragoman.limits import DEFAULT_LIMITS
from dragoman.simulator import catalogue, counting
from dragoman.simulator.answer import JSON, Answer, answer, read, refusal, seed_of
from dragoman.simulator.delivery import Clock, deliver
from dragoman.simulator.exchanges import Exchange, Exchanges
from dragoman.simulator.play import Asked, Fields
from dragoman.simulator.script import Script, load_script
from dragoman.turn.request import DialectName

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8485
_MOST_BODIES: Final = 4_096  # whose requests are counted, for `fail:N`
_PATHS: Final[dict[str, DialectName]] = {
    "/chat/completions": "chat",
    "/messages": "anthropic",
    "/responses": "responses",
}
_COUNTS: Final[dict[str, DialectName]] = {
    "/messages/count_tokens": "anthropic",
    "/responses/input_tokens": "responses",
}


class Simulator:
    """A deterministic model that speaks Chat Completions, Messages and Responses over HTTP.

    async with Simulator() as sim:
        ...  # sim.url, sim.exchanges
    """

    def __init__(
        self, host: str = DEFAULT_HOST, port: int = 0, script: Script | Path | None = None
    ) -> None:
        self.host = host
        self.port = port  # 0 until it serves: any free one
        self.exchanges = Exchanges()
        self._script = load_script(script) if isinstance(script, Path) else script
        self._attempts: OrderedDict[str, int] = OrderedDict()  # requests by what they are
        self._clock = Clock()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it is, without a path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Serve.

        Raises:
            ConfigError: the address cannot be had.
        """
        runner = web.AppRunner(
            self._app(), handler_cancellation=True, access_log=None, shutdown_timeout=1.0
        )
        await runner.setup()
        site = web.TCPSite(runner, self.host, self.port)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise ConfigError(_address_problem(self.host, self.port, error)) from error
        self.port = runner.addresses[0][1]
        self._runner = runner

    async def close(self) -> None:
        """Stop serving; answers that wait for something are given up."""
        self._clock.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def wait_for(
        self,
        predicate: Callable[[Exchange], bool],
        timeout: float = 5.0,  # noqa: ASYNC109 -- the caller's words
    ) -> Exchange:
        """Return the first exchange that fits, as soon as there is one.

        Raises:
            TimeoutError: there was none in so many seconds.
        """
        return await self.exchanges.wait_for(predicate, timeout)

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=DEFAULT_LIMITS.max_request_bytes)
        for prefix in ("/v1", ""):
            for path in _PATHS:
                app.router.add_post(prefix + path, self._answer)
            for path in _COUNTS:
                app.router.add_post(prefix + path, self._count)
            app.router.add_get(f"{prefix}/models", self._models)
            app.router.add_get(prefix + "/models/{model:.+}", self._model)
            app.router.add_post(f"{prefix}/tokenize", self._tokenize)
        app.router.add_get("/health", self._health)
        app.router.add_get("/", self._health)
        app.router.add_get("/sim/exchanges", self._list_exchanges)
        app.router.add_delete("/sim/exchanges", self._clear_exchanges)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        dialect = _PATHS[request.path.removeprefix("/v1")]
        exchange = self.exchanges.open(request.method, request.path_qs, request.headers)
        body = await request.read()
        exchange.body = body
        seed = seed_of(dialect, body)
        try:
            made = self._made(read(dialect, body), request.path)
        except DragomanError as error:
            made = refusal(dialect, error, seed)
        return await deliver(request, made, exchange, self.exchanges, self._clock)

    def _made(self, asked: Asked, path: str) -> Answer:
        """Return the script's answer, or the model's own."""
        attempt = self._attempt(asked.seed)
        scripted = self._script.pick(asked, path) if self._script is not None else None
        if self._script is None or scripted is None:
            return answer(asked, attempt)
        if scripted.raw:
            return self._script.raw_answer(scripted, asked)
        more = scripted.asked_quirks
        return answer(asked, attempt, reply=scripted.reply(asked), more=more)

    def _attempt(self, seed: str) -> int:
        """Count a request among those of the same bytes."""
        count = self._attempts.pop(seed, 0) + 1
        self._attempts[seed] = count
        if len(self._attempts) > _MOST_BODIES:
            self._attempts.popitem(last=False)
        return count

    async def _count(self, request: web.Request) -> web.StreamResponse:
        dialect = _COUNTS[request.path.removeprefix("/v1")]
        exchange = self.exchanges.open(request.method, request.path_qs, request.headers)
        exchange.body = await request.read()
        try:
            made = _json_answer(counting.count_tokens(dialect, exchange.body))
        except DragomanError as error:
            made = refusal(dialect, error, seed_of(dialect, exchange.body))
        return await deliver(request, made, exchange, self.exchanges, self._clock)

    async def _tokenize(self, request: web.Request) -> web.StreamResponse:
        exchange = self.exchanges.open(request.method, request.path_qs, request.headers)
        exchange.body = await request.read()
        try:
            made = _json_answer(counting.tokenize(exchange.body))
        except DragomanError as error:
            made = refusal("chat", error, seed_of("chat", exchange.body))
        return await deliver(request, made, exchange, self.exchanges, self._clock)

    async def _models(self, _request: web.Request) -> web.Response:
        return _json_response(catalogue.models())

    async def _model(self, request: web.Request) -> web.Response:
        return _json_response(catalogue.model(request.match_info["model"]))

    async def _health(self, _request: web.Request) -> web.Response:
        return _json_response({"status": "ok"})

    async def _list_exchanges(self, _request: web.Request) -> web.Response:
        return _json_response({"exchanges": [one.fields() for one in self.exchanges]})

    async def _clear_exchanges(self, _request: web.Request) -> web.Response:
        self.exchanges.clear()
        self._attempts.clear()
        if self._script is not None:
            self._script.reset()
        return _json_response({"exchanges": []})


def _json_response(fields: Fields) -> web.Response:
    return web.Response(body=msgspec.json.encode(fields), content_type="application/json")


def _json_answer(fields: Fields) -> Answer:
    body = msgspec.json.encode(fields)
    return Answer(headers={"content-type": JSON}, writes=[body], length=len(body))


def _address_problem(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; choose another with --port"
    return f"cannot serve on {host}:{port}: {error.strerror or error}"
