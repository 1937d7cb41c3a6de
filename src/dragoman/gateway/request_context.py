"""One HTTP request: `RequestContext` has the facts, `RequestOutcome` what is learned while it is answered.

The log line of a request is made of these two.  Neither refers to the client's stream, to an upstream call or
to the request's body: those refer to the context, so that no reference cycle keeps a body in memory.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal, TypeVar

from aiohttp import web
from msgspec import Struct, field, structs
from multidict import CIMultiDict

from dragoman.dialects import dialect
from dragoman.dialects.dialect import PathRequest
from dragoman.gateway.admission import Admission, Entrance, QueueLimits, Unserved, Waiter
from dragoman.gateway.capacity import HeldBytes
from dragoman.gateway.headers import answer_headers, new_request_id
from dragoman.gateway.keys import Holder
from dragoman.gateway.logging import Fact, RequestRecord
from dragoman.gateway.origins import cors_headers
from dragoman.gateway.plan import Plan
from dragoman.gateway.recording import ExchangeRecording
from dragoman.gateway.routing import Hop, RouteChoice
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.traces import RequestTrace
from dragoman.redaction import Secrets, hide, redact
from dragoman.toolcalls.findings import NativeFinding, summarize
from dragoman.translate_requests import ClientRequest
from dragoman.turn.events import Fault, Finish, Usage
from dragoman.turn.losses import Loss
from dragoman.turn.request import DialectName, Request

T = TypeVar("T")
_MAX_REASON_CHARS: Final = 200  # of the reason of one failed attempt
_MAX_SECONDS_DIGITS: Final = 6  # of a client's timeout; a longer one limits nothing


class RequestOutcome(Struct, eq=False):
    """What is learned about a request while it is answered."""

    # Before an upstream is asked.
    model: str = ""  # as the client names it
    choice: RouteChoice | None = None  # the route, and the upstreams that may answer
    admission: Admission | None = None  # what the client's key is charged for
    waiting: Waiter | None = None  # while it is in a queue
    waited: float = 0.0  # seconds in queues
    guess: int = 0  # estimated input tokens, before reports about the model correct it
    estimate: int = 0  # after that
    streams: bool = False  # the client asked for a stream
    has_tools: bool = False
    guard_losses: tuple[Loss, ...] = ()
    secrets: Secrets = ()  # of the user, in the request: for MCP servers, and a key that goes upstream
    # While upstreams are asked.
    request_losses: tuple[Loss, ...] = ()  # of the request as this upstream gets it
    hop: Hop | None = None  # the upstream that was chosen last
    asked: bool = False  # it was sent a request
    retries: int = 0
    continued: int = 0  # requests that continue a paused answer
    resting: tuple[str, ...] = ()  # upstreams that were not asked first because they rest
    full: tuple[str, ...] = ()  # upstreams that had no free place
    failures: tuple[str, ...] = ()  # attempts that failed, as the log shows them
    upstream_id: str = ""  # the upstream's id of the request
    should_retry: bool | None = None  # the upstream's `x-should-retry`
    rate_limits: Mapping[str, str] = {}  # its rate-limit headers, in the client's dialect
    stopped: Fault | None = None  # set when no other attempt may follow
    is_exchange: bool = False  # a model is asked for an answer
    recording: ExchangeRecording | None = None
    trace: RequestTrace | None = None
    # Of the response.
    answer_losses: Sequence[Loss] = ()
    usage: Usage | None = None
    cost: float | None = None  # in US dollars
    cost_computed: bool = False  # by the price table
    calls: Sequence[str] = ()  # names of the called tools
    remembered: int = 0  # calls whose reasoning was remembered
    findings: Sequence[NativeFinding] = ()  # what the parser of native tool calls found
    first_event: float | None = None  # seconds until the first content arrived
    delivered: bool = False  # the client was sent the last event of its stream
    ended: Finish | Fault | None = None

    def note_failure(self, hop: Hop, attempt: int, fault: Fault) -> None:
        """Keep an attempt that failed, for the log."""
        status = f" {fault.status}" if fault.status else ""
        reason = fault.message.removeprefix(f"{hop.upstream_name}: ")[:_MAX_REASON_CHARS]
        target = f"{hop.upstream_name}/{hop.model}"
        self.failures += (f"{target} attempt {attempt}: {fault.kind}{status}: {reason}",)

    def note_remembered(self) -> None:
        """Count a call whose reasoning was remembered."""
        self.remembered += 1

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Everything that was dropped or repaired so far, in the request and the response."""
        return (*self.guard_losses, *self.request_losses, *self.answer_losses)


class RequestContext(Struct, frozen=True, eq=False):
    """The facts of one HTTP request, known when its head has arrived."""

    http: web.BaseRequest
    plan: Plan  # the settings that were in force when the request arrived
    runtime: Runtime
    dialect: DialectName  # in which the client is answered
    holder: Holder | None  # whose key it is; None: it was refused
    held: HeldBytes  # bytes of its body, as far as they are in memory
    named: PathRequest | None = (
        None  # what its URL asks for, in a dialect whose URLs name the model
    )
    key_in_url: str = ""  # the client's key, where its dialect lets a URL have it
    owner: str = ""  # of everything that is kept of this request
    logs_steps: bool = False  # the log's level is `debug`; other steps need no description
    id: str = field(default_factory=new_request_id)
    arrived: float = field(default_factory=time.time)  # Unix seconds
    started: float = field(default_factory=time.perf_counter)
    outcome: RequestOutcome = field(default_factory=RequestOutcome)

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers for upstreams: the client's, and one for a key that came in the URL."""
        if not self.key_in_url:
            return self.http.headers
        return CIMultiDict(
            {**self.http.headers, **dialect(self.dialect).auth_header(self.key_in_url)}
        )

    @property
    def framing(self) -> Literal["sse", "list"]:
        """How a stream is framed for the client."""
        return "sse" if self.named is None else self.named.framing

    @property
    def client_timeout(self) -> float:
        """Seconds within which the client wants the complete response; 0: it does not say."""
        name = dialect(self.dialect).timeout_header
        text = self.http.headers.get(name, "") if name else ""
        plain = text.isascii() and text.isdecimal() and len(text) <= _MAX_SECONDS_DIGITS
        return float(text) if plain else 0.0

    @property
    def cors(self) -> dict[str, str]:
        """The headers that let a page of an allowed site read the response."""
        return cors_headers(self.http.headers.get("origin", ""), self.plan.settings.server)

    def redact(self, text: str) -> str:
        """Return a text of an upstream's failure as a client may see it, and the log."""
        return redact(text, self.plan.secrets + self.outcome.secrets)

    def hide(self, text: str) -> str:
        """Return a text of an upstream's good answer without the secrets of the settings and of the request."""
        return hide(text, self.plan.secrets + self.outcome.secrets)

    def debug(self, event: str, **facts: Fact) -> None:
        """Log a step of this request, if the log's level is `debug`."""
        if self.logs_steps:
            self.runtime.logger.notice(event, level="debug", id=self.id, **facts)

    def begin_recording(self, body: bytes) -> None:
        """Record the exchange from now on, if it is to be recorded."""
        self.outcome.is_exchange = True
        self.outcome.recording = self.runtime.recorder.begin(
            self.http,
            request_id=self.id,
            dialect=self.dialect,
            arrived=self.arrived,
            may_ask=self.holder is not None and self.holder.may_record,
            owner="" if self.holder is None else self.holder.shown_owner,
            body=body,
        )

    async def wait(
        self,
        entrance: Entrance,
        attempt: Callable[[], Awaitable[T | None]],
        *,
        place: tuple[str, str],
        limits: QueueLimits,
        priority: int,
    ) -> T | Unserved:
        """Wait in an entrance's queue until an attempt to enter succeeds, or return why none did.

        `place` are the labels of the queue: `key` or `upstream`, and its name.
        """
        runtime, outcome, queue = self.runtime, self.outcome, entrance.queue
        if len(queue) >= limits.max_queue:
            runtime.metrics.count("queue_refusals", *place, "full")
            return "full"
        outcome.waiting = queue.join(priority)
        runtime.queued[place] += 1
        began = asyncio.get_running_loop().time()
        try:
            found = await queue.wait(
                outcome.waiting, attempt, seconds=limits.queue_timeout, polls=entrance.shared
            )
        finally:
            outcome.waiting = None
            runtime.queued[place] -= 1
            seconds = asyncio.get_running_loop().time() - began
            outcome.waited += seconds
            runtime.metrics.observe(seconds, "queue_seconds", *place)
        if isinstance(found, str):
            runtime.metrics.count("queue_refusals", *place, found)
        return found

    def leave(self, tokens_used: int | None = None) -> None:
        """End the admission, if there is one; see `Admission.leave`."""
        if self.outcome.admission is not None:
            self.outcome.admission.leave(tokens_used)

    def count_usage(self) -> None:
        """Charge the key for the tokens of a request, and correct the estimates of its model."""
        outcome, usage = self.outcome, self.outcome.usage
        if usage is None or usage.estimated:
            return
        prompt_tokens = usage.prompt_tokens
        self.leave(prompt_tokens + usage.output_tokens)
        if not outcome.continued:  # else the tokens of several requests
            self.runtime.calibration.learn(outcome.model, outcome.guess, prompt_tokens)

    def note_cost(self, hop: Hop, usage: Usage | None, in_head: float | None = None) -> None:
        """Keep what a response cost: as the upstream reports it, some only `in_head`; else by the price table."""
        outcome = self.outcome
        reported = None if usage is None else usage.cost
        outcome.cost = in_head if reported is None else reported
        if outcome.cost is None and usage is not None:
            outcome.cost = self.plan.prices.cost(hop.upstream_name, hop.model, usage)
            outcome.cost_computed = outcome.cost is not None

    def response_headers(self, asked: Hop | None = None) -> dict[str, str]:
        """Return the gateway's own headers of the response, from what is known so far.

        `asked` is an upstream that helped without being asked for the answer.
        """
        outcome = self.outcome
        choice = outcome.choice
        hop = outcome.hop if outcome.asked else asked
        routed = hop or (None if choice is None else choice.hops[0])
        return answer_headers(
            self.id,
            route="" if choice is None else choice.route_name,
            upstream="" if hop is None else hop.upstream_name,
            upstream_model="" if routed is None else routed.model,
            upstream_id=outcome.upstream_id,
            warnings=[loss.code for loss in outcome.losses],
            extra={**outcome.rate_limits, **self.cors},
        )

    def log_record(self, status: int, *, left: bool) -> RequestRecord:
        """Return the line of this request in the log; `left`: the client did not wait for the end."""
        outcome = self.outcome
        ended, error, code, reason = "", "", "", ""
        match outcome.ended:
            case Finish() as finish:
                ended = finish.reason.value
            case Fault() as fault:
                ended, error = "fault", fault.kind.value
                code, reason = fault.code, fault.message
        record = RequestRecord(
            time=self.arrived,
            id=self.id,
            path=self.http.path,
            dialect=self.dialect,
            key="" if self.holder is None else self.holder.name,
            route="" if outcome.choice is None else outcome.choice.route_name,
            model=outcome.model,
            status=status,
            ended="client_left" if left else ended,
            error=error,
            error_code=code,
            reason=reason,
            waited_ms=round(outcome.waited * 1000, 1) if outcome.waited else None,
            duration_ms=round((time.perf_counter() - self.started) * 1000, 1),
        )
        return record if outcome.hop is None else _with_upstream(record, outcome, outcome.hop)


def _with_upstream(record: RequestRecord, outcome: RequestOutcome, hop: Hop) -> RequestRecord:
    """Add what only requests have that an upstream was asked for."""
    usage, first, losses = outcome.usage, outcome.first_event, outcome.losses
    family = hop.family if outcome.has_tools else None
    return structs.replace(
        record,
        upstream=hop.upstream_name,
        upstream_model=hop.model,
        upstream_dialect=hop.upstream.dialect,
        native_format=family.key if family else "",
        stream=outcome.streams,
        tokens_in=outcome.estimate if usage is None else usage.prompt_tokens,
        tokens_out=0 if usage is None else usage.output_tokens,
        tokens_cached=0 if usage is None else usage.cache_read_tokens,
        tokens_reasoning=0 if usage is None else usage.reasoning_tokens,
        tokens_estimated=usage is None or usage.estimated,
        cost=outcome.cost,
        cost_computed=outcome.cost_computed,
        first_event_ms=None if first is None else round(first * 1000, 1),
        calls=len(outcome.calls),
        call_names=tuple(outcome.calls),
        searches=0 if usage is None else usage.searches,
        fetches=0 if usage is None else usage.fetches,
        code_runs=0 if usage is None else usage.code_runs,
        mcp_calls=0 if usage is None else usage.mcp_calls,
        images=0 if usage is None else usage.images,
        retries=outcome.retries,
        continued=outcome.continued,
        resting=outcome.resting,
        full=outcome.full,
        failures=outcome.failures,
        warnings=tuple(dict.fromkeys([loss.code for loss in losses])) if losses else (),
        losses=tuple(dict.fromkeys(map(_described, losses))) if losses else (),
        native_found=summarize(outcome.findings),
    )


def _described(loss: Loss) -> str:
    """Return a loss as the log shows it: its code, where it occurred, and what it was about."""
    place = f" at {loss.path}" if loss.path else ""
    detail = f": {loss.detail}" if loss.detail else ""
    return f"{loss.code}{place}{detail}"


class AcceptedRequest:
    """A client's request that may go upstream: the one holder of its body until the response begins."""

    def __init__(
        self, client: ClientRequest, request: Request, choice: RouteChoice, *, previous_id: str = ""
    ) -> None:
        self.client: ClientRequest = client  # as it was received
        self.request: Request = request  # after guards and overrides
        self.choice = choice
        self.previous_id = previous_id  # of the kept response that the request continues

    def release(self, outline: Request, *, body: bool) -> None:
        """Drop the conversation once the response has begun, which may take long.

        `body`: the received bytes too; they are kept where the exchange will be stored.
        """
        self.request = outline
        self.client = ClientRequest(b"" if body else self.client.body, outline)
