"""One HTTP request that the gateway answers: who asks for what, and what is known of it so far."""

import time
from typing import TYPE_CHECKING

from aiohttp import web
from msgspec import structs

from dragoman.gateway.capacity import HeldBytes
from dragoman.gateway.headers import new_request_id
from dragoman.gateway.keys import Admission, Holder
from dragoman.gateway.logging import RequestRecord
from dragoman.gateway.origins import cors_headers
from dragoman.gateway.plan import Plan
from dragoman.gateway.routing import Choice
from dragoman.gateway.runtime import Runtime
from dragoman.toolcalls.selection import choose_format
from dragoman.turn.events import Fault, Finish
from dragoman.turn.request import DialectName

if TYPE_CHECKING:
    from dragoman.gateway.job import Job


class Call:
    """One request, from its first byte to its line in the log."""

    def __init__(
        self, http: web.BaseRequest, *, plan: Plan, runtime: Runtime, dialect: DialectName
    ) -> None:
        self.http = http
        self.plan = plan
        self.runtime = runtime
        self.dialect: DialectName = dialect  # in which the client is answered
        self.id = new_request_id()
        # What lets a page of an allowed site read the answer.
        self.cors = cors_headers(http.headers.get("origin", ""), plan.settings.server)
        self.time = time.time()
        self.began = time.perf_counter()
        self.holder: Holder | None = None
        self.admission: Admission | None = None  # if an upstream may be asked
        self.body = HeldBytes(runtime.inflight, plan.settings.server.max_inflight_bytes)
        self.model = ""  # as the client asks for it
        self.choice: Choice | None = None  # who may answer
        self.job: Job | None = None  # if an upstream was to answer
        self.fault: Fault | None = None  # if it was refused before that

    @property
    def owner(self) -> str:
        """To whom what is kept of this request belongs."""
        return "" if self.holder is None else self.holder.owner

    def leave(self, tokens_used: int | None = None) -> None:
        """End the admission, if there is one; see `Admission.leave`."""
        if self.admission is not None:
            self.admission.leave(tokens_used)

    @property
    def delivered(self) -> bool:
        """The client has been sent all events of a stream."""
        return self.job is not None and self.job.flight.delivered

    def record(self, status: int, *, left: bool) -> RequestRecord:
        """Return what is written down of this request."""
        job = self.job
        spent = (time.perf_counter() - self.began) * 1000
        outcome = self.fault or (None if job is None else job.outcome)
        ended, error, code = "", "", ""
        match outcome:
            case Finish():
                ended = outcome.reason.value
            case Fault():
                ended, error, code = "fault", outcome.kind.value, outcome.code
        if left:
            ended = "client_left"
        record = RequestRecord(
            time=self.time,
            id=self.id,
            path=self.http.path,
            dialect=self.dialect,
            key="" if self.holder is None else self.holder.name,
            route="" if self.choice is None else self.choice.route_name,
            model=self.model,
            status=status,
            ended=ended,
            error=error,
            error_code=code,
            duration_ms=round(spent, 1),
        )
        if job is None:
            return record
        usage = job.usage
        flight, hop = job.flight, job.hop
        family = choose_format(hop.model, hop.native_format) if job.request.tools else None
        first = flight.first_content
        return structs.replace(
            record,
            upstream=hop.upstream_name,
            upstream_model=hop.model,
            native_format=family.key if family else "",
            stream=job.request.stream,
            tokens_in=job.estimate if usage is None else usage.prompt_tokens,
            tokens_out=0 if usage is None else usage.output_tokens,
            tokens_cached=0 if usage is None else usage.cache_read_tokens,
            tokens_reasoning=0 if usage is None else usage.reasoning_tokens,
            tokens_estimated=usage is None or usage.estimated,
            first_event_ms=round((first - flight.began) * 1000, 1) if first else None,
            calls=len(job.calls),
            call_names=tuple(job.calls),
            retries=job.retries,
            warnings=tuple(dict.fromkeys(loss.code for loss in job.losses)),
        )
