"""The gateway as an HTTP application: paths, access checks, and failures as responses."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from aiohttp import web

from dragoman._version import __version__
from dragoman.dialects import DEFAULT_DIALECT, dialect, dialect_names
from dragoman.dialects.dialect import Dialect, PathRequest
from dragoman.gateway import endpoints, metrics
from dragoman.gateway.capacity import SHUTTING_DOWN, HeldBytes, overloaded, shutting_down
from dragoman.gateway.client_stream import ClientLeftError
from dragoman.gateway.connections import OWN_NAME, connections_allowed
from dragoman.gateway.fault_replies import fault_of_error, fault_response, refused
from dragoman.gateway.inspection import Inspection
from dragoman.gateway.keys import Holder
from dragoman.gateway.logging import RequestRecord
from dragoman.gateway.origins import refuse_page
from dragoman.gateway.plan import Plan
from dragoman.gateway.recording import keys_in_url
from dragoman.gateway.request_context import RequestContext
from dragoman.gateway.responses.vendor import compact
from dragoman.gateway.runtime import Runtime
from dragoman.turn.events import Fault, FaultKind
from dragoman.turn.request import DialectName

Handler: TypeAlias = Callable[[RequestContext], Awaitable[web.StreamResponse]]

CLIENT_LEFT: Final = 499  # logged for a client that did not wait; never sent


class Endpoint(NamedTuple):
    """One path and its handler.

    A handler that asks an upstream admits the request first (`accept.admit`), so that a key's models and limits
    hold everywhere; one that is declared with `asks=False` must not ask.
    """

    methods: tuple[str, ...]
    path: str  # with and without `/v1`; `{id}` is one segment, `{rest}` at the end any text
    handle: Handler
    dialect: DialectName | None = None  # None: as the client's headers show
    asks: bool = True

    def matches(self, path: str) -> bool:
        """Return whether a path, without `/v1`, belongs to this endpoint."""
        if self.path.endswith("{rest}"):
            return f"{path}/".startswith(self.path.removesuffix("{rest}"))
        own, given = self.path.split("/"), path.split("/")
        return len(own) == len(given) and all(
            given_part == part or (part == "{id}" and given_part)
            for part, given_part in zip(own, given, strict=True)
        )


class Gateway:
    """The gateway.  Its plan may be replaced at any time."""

    def __init__(self, plan: Plan, runtime: Runtime) -> None:
        self.plan = plan
        self.runtime = runtime
        self.draining: bool = False
        self.ready = True
        self.inspection: Inspection | None = None
        self._requests: set[RequestContext] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._hurried = asyncio.Event()
        runtime.metrics.show(self._budgets)
        table = all_endpoints()
        self._exact = {
            (method, one.path): one
            for one in table
            if "{" not in one.path
            for method in one.methods
        }
        self._patterns = tuple(one for one in table if "{" in one.path)
        self._by_model = tuple(one for one in map(dialect, dialect_names()) if one.model_paths)

    # --- the life of the server ------------------------------------------------------------------

    async def drain(self, seconds: float) -> int:
        """Refuse new requests and those that wait for a place, and wait for those in progress.

        Return how many had to be ended.
        """
        self.draining = True
        self._end_waits()
        if self.inspection is not None:
            self.inspection.inspector.close()
        waits = [asyncio.create_task(one.wait()) for one in (self._idle, self._hurried)]
        _, left = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for one in left:
            one.cancel()
        late = tuple(self.runtime.deadlines.streams)
        fault = Fault(FaultKind.OVERLOADED, "the gateway is shutting down", code=SHUTTING_DOWN)
        for stream in late:
            stream.abort(fault, final=True)
        self._end_waits()  # of requests that were still being read
        return len(late)

    def _end_waits(self) -> None:
        for context in self._requests:
            if context.outcome.waiting is not None:
                context.outcome.waiting.end()

    def hurry(self) -> None:
        """Stop waiting for requests in progress."""
        self._hurried.set()

    async def gone(self) -> None:
        """Wait until no request is in progress."""
        await self._idle.wait()

    def running(self) -> frozenset[RequestContext]:
        """Return the requests in progress."""
        return frozenset(self._requests)

    def _endpoint(
        self, http: web.BaseRequest
    ) -> tuple[Endpoint | None, DialectName | None, PathRequest | None]:
        """Return the endpoint of a path, which may begin with `/v1`, its dialect, and what the path names."""
        # Test: test_paths_are_known_without_their_version.
        path = http.path.rstrip("/").removeprefix("/v1")
        exact = self._exact.get((http.method, path))
        if exact is not None:
            return exact, exact.dialect, None
        for spoken in self._by_model:
            assert spoken.model_paths is not None  # noqa: S101 -- they were chosen by it
            asked = spoken.model_paths.read(http.method, http.rel_url.raw_path, http.query)
            if asked is not None:
                return _ABOUT_MODELS[asked.asks], spoken.name, asked
        for one in self._patterns:
            if http.method in one.methods and one.matches(path):
                return one, one.dialect, None
        return None, None, None

    # --- one request -----------------------------------------------------------------------------

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer any request; every failure becomes a response."""
        if http.path in PROBES:
            return self._state(http)
        if http.path == INSPECTOR or http.path.startswith(f"{INSPECTOR}/"):
            return await self._inspect(http)
        endpoint, shown, named = self._endpoint(http)
        spoken = shown or _dialect_shown(http)
        plan = self.plan
        keys = keys_in_url(http, spoken)
        identity = plan.keyring.identify(http.headers, keys)
        holder = identity if isinstance(identity, Holder) else None
        context = RequestContext(
            http,
            plan,
            self.runtime,
            dialect=spoken,
            named=named,
            key_in_url=keys[0] if keys else "",
            holder=holder,
            held=HeldBytes(self.runtime.inflight, plan.settings.server.max_inflight_bytes),
            owner="" if holder is None else holder.owner,
            logs_steps=self.runtime.logger.shows_debug,
        )
        if self.runtime.traces is not None:
            context.outcome.trace = self.runtime.traces.begin(
                http.headers,
                method=http.method,
                route=_route(endpoint, named),
                request_id=context.id,
                key="" if context.holder is None else context.holder.name,
            )
        self._requests.add(context)
        self.runtime.open_requests = len(self._requests)
        self._idle.clear()
        status, left = CLIENT_LEFT, True
        try:
            response = await self._answer(context, endpoint, identity)
            status, left = response.status, False
            if context.outcome.recording is not None and isinstance(response, web.Response):
                body = response.body  # that of a stream was recorded as it was sent
                context.outcome.recording.wrote(body if isinstance(body, bytes) else b"")
        except ClientLeftError:
            return web.Response(status=CLIENT_LEFT)  # reaches no client
        else:
            return response
        finally:
            context.leave()
            self._requests.discard(context)
            self.runtime.open_requests = len(self._requests)
            context.held.release()
            if not self._requests:
                self._idle.set()
            # Test: test_g7_client_that_leaves_after_the_last_event_is_logged_as_served.
            if left and context.outcome.delivered:
                status, left = 200, False  # closed after the last event, as Claude Code does
            record = context.log_record(status, left=left)
            if context.holder is not None and context.holder.has_budget:
                self._charge(context.holder, record)
            self.runtime.logger.request(record)
            self.runtime.metrics.request(record)
            if self.inspection is not None:
                self.inspection.ended(context, record)
            if context.outcome.recording is not None:
                context.outcome.recording.close(record)
            if context.outcome.trace is not None:
                context.outcome.trace.end(record)

    def _charge(self, holder: Holder, record: RequestRecord) -> None:
        """Count what a request cost against the budgets of its key."""
        if record.cost is not None:
            holder.charge(record.cost)
        elif record.tokens_out:
            self.runtime.metrics.count("unpriced_requests", record.upstream, record.key)

    def _budgets(self) -> dict[metrics.Series, float]:
        """Return what the metrics show of the keys' budgets."""
        figures: dict[metrics.Series, float] = {}
        for name, period, budget, spent in self.plan.keyring.budgets():
            figures["budget_dollars", name, period] = budget
            figures["budget_spent_dollars", name, period] = spent
        return figures

    async def _answer(
        self, context: RequestContext, endpoint: Endpoint | None, identity: Holder | Fault
    ) -> web.StreamResponse:
        try:
            if context.http.method == "OPTIONS" and context.cors:  # asked without any key
                return web.Response(status=204, headers={**OWN_NAME, **context.cors})
            fault = self._refusal(context, identity)
            if fault is not None:
                status = 503 if fault.kind is FaultKind.OVERLOADED else 0
                return refused(context, fault, status)
            if endpoint is None:
                return _unknown(context)
            return await endpoint.handle(context)
        except ClientLeftError:
            raise
        except Exception as error:  # noqa: BLE001 -- our own failure must reach the client as a response
            return refused(context, *fault_of_error(context, error))

    def _refusal(self, context: RequestContext, identity: Holder | Fault) -> Fault | None:
        """Return why a request is refused whatever it asks for."""
        http = context.http
        fault = refuse_page(
            host=http.headers.get("host", ""),
            origin=http.headers.get("origin", ""),
            fetch_site=http.headers.get("sec-fetch-site", ""),
            method=http.method,
            server=context.plan.settings.server,
        )
        if fault is not None:
            return fault
        if isinstance(identity, Fault):
            return identity
        if self.draining:
            return shutting_down()
        return self._too_many(context)

    def _too_many(self, context: RequestContext) -> Fault | None:
        """Return the refusal of a request beyond the limits of the process."""
        server = context.plan.settings.server
        if allowed := connections_allowed(context.http):
            return overloaded("max_connections", allowed)
        if len(self._requests) > server.max_requests:
            return overloaded("max_requests", server.max_requests)
        return None

    async def _inspect(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer a request to the inspector."""
        fault = self._foreign_host(http)
        if fault is not None:
            return fault_response(fault, dialect=DEFAULT_DIALECT, headers=OWN_NAME)
        if self.inspection is None or self.draining:
            return web.Response(status=503, headers=OWN_NAME)
        return await self.inspection.inspector.handle(http)

    def _foreign_host(self, http: web.BaseRequest) -> Fault | None:
        """Return the refusal of a request whose `Host` is not the gateway's; the origin is not checked here."""
        return refuse_page(
            host=http.headers.get("host", ""),
            origin="",
            fetch_site="",
            method="GET",
            server=self.plan.settings.server,
        )

    def _state(self, http: web.BaseRequest) -> web.Response:
        """Answer liveness (`/health`), readiness (`/ready`: 503 while draining) and `/metrics`.

        Readiness includes the state of each upstream, for those who may use the gateway.
        """
        fault = self._foreign_host(http)  # nothing is changed, so only the host is checked
        if fault is not None:
            return fault_response(fault, dialect=DEFAULT_DIALECT, headers=OWN_NAME)
        if http.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={**OWN_NAME, "allow": "GET, HEAD"})
        if http.path == metrics.PATH:
            return self._metrics(http)
        good = http.path != "/ready" or not self.draining
        status = "ok" if good else "draining"
        facts: dict[str, object] = {"status": status, "name": "dragoman", "version": __version__}
        if http.path == "/ready" and isinstance(self.plan.keyring.identify(http.headers), Holder):
            facts["upstreams"] = self.runtime.states(self.plan.settings.upstreams)
            if self.runtime.state.status:
                facts["state"] = self.runtime.state.status
        return web.json_response(facts, status=200 if good else 503, headers=OWN_NAME)

    def _metrics(self, http: web.BaseRequest) -> web.Response:
        """Answer with the page for Prometheus, for those who may read it."""
        identity = self.plan.keyring.identify(http.headers)
        if isinstance(identity, Holder) and identity.may_read_metrics:
            headers = {**OWN_NAME, "content-type": metrics.CONTENT_TYPE}
            return web.Response(body=self.runtime.metrics.page(), headers=headers)
        if isinstance(identity, Holder):
            message = "this key may not read metrics; its entry in `keys` needs `metrics = true`"
            identity = Fault(FaultKind.PERMISSION, message, code="no_metrics")
        return fault_response(identity, dialect=DEFAULT_DIALECT, headers=OWN_NAME)


INSPECTOR: Final = "/inspector"
PROBES: Final = ("/", "/health", "/ready", metrics.PATH)  # not logged, no upstream is asked
_ANY_METHOD: Final = ("POST", "GET", "HEAD", "PUT", "PATCH", "DELETE")
# Test: test_claude_code_probes_and_reports_on_the_side.
# Telemetry and other requests that agents can do without: answered at once, never forwarded.
_SIDE_PATHS: Final = (
    "/api/event_logging/{rest}",
    "/api/claude_code/{rest}",
    "/api/hello{rest}",
    "/api/oauth/{rest}",
    "/traces{rest}",
    "/otlp/{rest}",
)


def all_endpoints() -> tuple[Endpoint, ...]:
    """Return the table of paths: those of every dialect in the registry, and those that all share."""
    return (
        *(one for name in dialect_names() for one in _dialect_endpoints(dialect(name))),
        Endpoint(("GET", "HEAD"), "/models", endpoints.models),
        Endpoint(("GET", "HEAD"), "/models/{rest}", endpoints.models),
        *(Endpoint(_ANY_METHOD, path, endpoints.nothing, asks=False) for path in _SIDE_PATHS),
    )


# The endpoints of paths that name a model, by what they ask for.
_ABOUT_MODELS: Final[dict[str, Endpoint | None]] = {
    "answer": Endpoint(("POST",), "/models/{model}:answer", endpoints.answer),
    "count_tokens": Endpoint(("POST",), "/models/{model}:count_tokens", endpoints.count_tokens),
    "models": Endpoint(("GET", "HEAD"), "/models/{model}", endpoints.models),
    "nothing": None,
}


def _route(endpoint: Endpoint | None, named: PathRequest | None) -> str:
    """Return the path of an endpoint for traces, in the words of its dialect; empty: there is none."""
    if endpoint is None:
        return ""
    return endpoint.path if named is None else named.route


def _dialect_endpoints(spoken: Dialect) -> Iterator[Endpoint]:
    path, name = spoken.path, spoken.name
    if spoken.model_paths is not None:
        return
    yield Endpoint(("POST",), path, endpoints.answer, name)
    if spoken.count_tokens is not None:
        yield Endpoint(("POST",), spoken.count_tokens.path, endpoints.count_tokens, name)
    if spoken.stores_responses:
        yield Endpoint(("POST",), f"{path}/compact", compact, name)
        yield Endpoint(("GET",), f"{path}/{{id}}", endpoints.get_response, name)
        yield Endpoint(("DELETE",), f"{path}/{{id}}", endpoints.delete_response, name)
        yield Endpoint(("GET",), f"{path}/{{id}}/input_items", endpoints.input_items, name)
        yield Endpoint(("POST",), f"{path}/{{id}}/cancel", endpoints.cancel_response, name)


def _dialect_shown(http: web.BaseRequest) -> DialectName:
    """Return the dialect of a client that asks for a path which all dialects share: some send a header."""
    for name in dialect_names():
        spoken = dialect(name)
        if any(header in http.headers for header in spoken.own_headers) or any(
            parameter in http.query for parameter in spoken.key_parameters
        ):
            return name
    return DEFAULT_DIALECT


def _unknown(context: RequestContext) -> web.Response:
    http = context.http
    # Test: test_websocket_is_426.
    if http.headers.get("upgrade", "").lower() == "websocket":
        message = "WebSocket connections are not served; use HTTP with `stream: true`"
        return refused(context, Fault(FaultKind.BAD_REQUEST, message), 426)
    paths = ", ".join(_shown_path(dialect(name)) for name in dialect_names())
    message = (
        f"there is no {http.method} {http.path[:200]} here; there are POST {paths},"
        " and GET /v1/models"
    )
    return refused(context, Fault(FaultKind.NOT_FOUND, message, code="unknown_url"))


def _shown_path(spoken: Dialect) -> str:
    return f"/v1{spoken.path}" if spoken.model_paths is None else spoken.model_paths.shown
