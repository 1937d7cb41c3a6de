"""From a client's request to an upstream's answer: attempts, fallbacks, and the stream between.

The pump reads, feeds and writes.  What a dialect looks like, the core knows.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web
from msgspec import Struct, structs

from dragoman.context import Rendering
from dragoman.dialects import dialect
from dragoman.dialects.anthropic.request_reader import strip_billing_body
from dragoman.errors import DragomanError, MalformedError, TooLargeError, UntranslatableError
from dragoman.gateway.fault_replies import JsonResponse, fault_response, upstream_fault
from dragoman.gateway.headers import answer_headers
from dragoman.gateway.heavy import Feeder
from dragoman.gateway.job import Job
from dragoman.gateway.plan import extra_fields, upstream_headers
from dragoman.gateway.rate_limits import rate_limits
from dragoman.gateway.responses.state import complete_response_of
from dragoman.gateway.routing import Hop
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.telling import Telling
from dragoman.gateway.upstream import fault_of_transport
from dragoman.gateway.vendor_ids import given_by_body, given_by_frames
from dragoman.translate import (
    ExchangeOptions,
    Translator,
    fault_of,
    translate_body,
)
from dragoman.translate_requests import ClientRequest, fault_of_request, write_request
from dragoman.transport import NO_DESCRIPTORS, Reply, TransportError
from dragoman.turn.events import CALL_KINDS, Fault, FaultKind, Finish, FinishReason
from dragoman.turn.request import Request
from dragoman.turn.stages import Stage

# Failures that another attempt at the same upstream may not meet.
_PASSING: Final = frozenset(
    {FaultKind.RATE_LIMIT, FaultKind.OVERLOADED, FaultKind.SERVER, FaultKind.UPSTREAM_BAD}
)
# Failures that another upstream may not have.
_LOCAL: Final = _PASSING | {
    FaultKind.AUTH,
    FaultKind.PERMISSION,
    FaultKind.BILLING,
    FaultKind.NOT_FOUND,
    FaultKind.CONTEXT_LENGTH,
    FaultKind.TOO_LARGE,
    FaultKind.TIMEOUT,
}
# Failures that tell of the upstream's state rather than of the request.
_ILL: Final = _PASSING | {FaultKind.TIMEOUT}
_SETTLED: Final = frozenset({"upstream_tls", "upstream_address"})  # no attempt will change these
_ESTIMATED: Final = {"x-dragoman-usage": "estimated"}  # nobody counted the tokens that are told
# A response that ended normally and has no content.
_EMPTY: Final = Fault(
    FaultKind.UPSTREAM_BAD, "upstream sent a response without content", code="upstream_empty"
)
# User agents of clients that retry after a Chat stream without a finish, but not after an error event.
_RETRY_TRUNCATED: Final = ("QwenCode/",)
_FIRST_DELAY: Final = 0.5  # seconds, doubled with each attempt
_LONGEST_DELAY: Final = 8.0


class Failure(Struct, frozen=True):
    """An upstream did not answer."""

    fault: Fault
    elsewhere: bool  # another upstream might


class Pump:
    """Answers one request."""

    def __init__(self, job: Job, runtime: Runtime) -> None:
        self._job = job
        self._runtime = runtime
        self._flight = job.flight
        # What the present upstream is sent: kept here alone, to be let go once it answers.
        self._body = b""
        self._profile = job.hop.profile  # of the present upstream, with what it has shown
        self._stop: tuple[str, ...] = ()  # sequences that it cannot match itself
        self._repeats_empty = False  # an empty response is asked for again

    async def run(self) -> web.StreamResponse:
        """Ask each upstream in turn until one answers; tell the client why if none does."""
        said: list[Fault] = []
        for hop in self._runtime.in_order(self._job.choice.hops):
            self._job.hop = hop
            answer = await self._ask(hop)
            if not isinstance(answer, Failure):
                return answer
            said.append(answer.fault)
            if not answer.elsewhere:
                break
        fault = said[-1]
        if len(said) > 1:
            reasons = "; then ".join(one.message for one in said)
            fault = structs.replace(fault, message=reasons)
        return await self._tell(fault)

    async def _tell(self, fault: Fault) -> web.StreamResponse:
        """Tell the client that nobody answered."""
        job = self._job
        job.outcome = fault
        if not await self._flight.hush():
            headers = self._head()
            if job.should_retry is not None:
                headers["x-should-retry"] = str(job.should_retry).lower()
            return fault_response(fault, dialect=job.dialect, headers=headers)
        translator = Translator(source="chat", target=job.dialect, request=job.request)
        await self._flight.open()
        await self._flight.write_last(translator.fail(fault))
        return await self._flight.end()

    # --- one upstream ------------------------------------------------------------------------------

    async def _ask(self, hop: Hop) -> web.StreamResponse | Failure:
        """Ask one upstream, again if its failure may pass."""
        unwritten = await self._write_for(hop)
        if unwritten is not None:
            return unwritten
        job, flight = self._job, self._flight
        flight.head = self._head
        attempt = 0
        # Once per upstream.  A stop sequence may have cut the content away.
        self._repeats_empty = hop.upstream.retries > 0 and not job.request.stop
        learned = False  # the refusal of an earlier attempt showed what the upstream wants
        while True:
            answer = await self._observed(hop)
            if answer is _EMPTY:
                self._note_empty(hop)
            if not isinstance(answer, Fault):
                return answer
            if flight.stopped is not None:
                return Failure(flight.stopped, elsewhere=False)
            if not learned and await self._learn(hop, answer):
                learned = True
                job.retries += 1
                unwritten = await self._write_for(hop)
                if unwritten is not None:
                    return unwritten
                continue
            delay = _delay(hop, answer, attempt, said=job.should_retry)
            if delay is None:
                return Failure(self._teller(hop)(answer), elsewhere=answer.kind in _LOCAL)
            attempt += 1
            job.retries += 1
            self._repeats_empty = self._repeats_empty and attempt < hop.upstream.retries
            await flight.pause(delay)

    def _note_empty(self, hop: Hop) -> None:
        self._repeats_empty = False
        self._runtime.logger.notice(
            "empty response, asking again",
            level="warning",
            id=self._job.request_id,
            upstream=hop.upstream_name,
            model=hop.model,
        )

    async def _observed(self, hop: Hop) -> web.StreamResponse | Fault:
        """Make one attempt, and note how the upstream fares."""
        health = self._runtime.health(hop)
        health.started(asyncio.get_running_loop().time())
        try:
            answer = await self._attempt(hop)
        except BaseException:
            health.abandoned()  # its client left
            raise
        finally:
            self._flight.rest()
        if answer is _EMPTY:
            health.succeeded()
            return answer
        failed = answer if isinstance(answer, Fault) else self._job.outcome
        if isinstance(failed, Fault) and failed.kind in _ILL and failed.code != NO_DESCRIPTORS:
            health.failed(asyncio.get_running_loop().time(), failed.retry_after)
        elif not isinstance(failed, Fault):
            health.succeeded()
        else:
            health.abandoned()  # the request was at fault: nothing is learned from that
        return answer

    async def _learn(self, hop: Hop, fault: Fault) -> bool:
        """Learn from a refusal what the upstream wants; say whether another attempt may succeed."""
        body, hosts = self._body, self._runtime.reasoning_hosts
        return await self._runtime.heavy.run(len(body), lambda: hosts.learn(hop, fault, body))

    async def _write_for(self, hop: Hop) -> Failure | None:
        """Write the request for an upstream, or say why it cannot be written."""
        self._profile = self._runtime.reasoning_hosts.profile_for(hop)
        try:
            size = len(self._job.client.body)
            await self._runtime.heavy.run(size, lambda: self._write(hop))
        except (MalformedError, UntranslatableError, TooLargeError) as error:
            return Failure(fault_of_request(error), elsewhere=True)
        return None

    def _write(self, hop: Hop) -> None:
        job = self._job
        route = job.choice.route
        memory = self._runtime.memory
        profile = self._profile
        request = memory.restore(
            job.request,
            job.owner,
            profile.origin,
            arguments=self._rewrites(hop),
            signed_only=profile.replay_reasoning == "never",
        )
        if request is not job.request and not self._rewrites(hop) and self._may_replay(hop):
            # The client sends reasoning itself; messages in which it was completed are written with it.
            profile = structs.replace(profile, replay_reasoning="always")
        written = write_request(
            self._client_for(hop),
            target=hop.upstream.dialect,
            changed=None if request is job.client.request else request,
            profile=profile,
            model=hop.model,
            strict=route.strict,
            repair_history=route.repair_history,
            prefill=route.prefill,
            known_ids=memory.known_ids(job.request, job.owner),
            limits=job.plan.settings.server.limits,
        )
        job.request_losses = written.losses
        self._body = extra_fields(hop, route, written.body)
        self._stop = written.stop

    def _may_replay(self, hop: Hop) -> bool:
        """Return whether nothing is known against sending reasoning to this upstream."""
        return hop.profile.replay_reasoning == "auto" and not self._profile.refuses_reasoning

    def _client_for(self, hop: Hop) -> ClientRequest:
        """Return what the client said, without a line that only one vendor has a use for."""
        client = self._job.client
        guards = self._job.plan.settings.guards
        if not guards.strip_billing or hop.profile.origin == "anthropic":
            return client
        body = strip_billing_body(client.body) if self._job.dialect == "anthropic" else client.body
        return client if body is client.body else structs.replace(client, body=body)

    async def _attempt(self, hop: Hop) -> web.StreamResponse | Fault:
        """Return the client's answer, or why there is none of which it has seen anything."""
        job, flight = self._job, self._flight
        translator: Translator | None = None
        try:
            async with asyncio.timeout(None) as scope:
                flight.expect(scope, hop.timeouts, streams=job.request.stream)
                job.should_retry, job.rate_limits = None, {}
                async with await self._open(hop) as reply:
                    self._note_headers(reply, hop)
                    if not 200 <= reply.status < 300:
                        return await _refusal(reply, hop)
                    if not job.request.stream:
                        return await self._whole(reply, hop)
                    outline = job.request.outline()
                    translator = self._translator(hop, outline)
                    if await self._stream(reply, translator, outline):
                        return await flight.end()
                    if translator.empty:
                        return _EMPTY
        except TimeoutError:
            fault = flight.deadline
        except TransportError as failed:
            fault = fault_of_transport(failed)
        if translator is None:
            return fault
        if not translator.begun:
            return translator.outcome if isinstance(translator.outcome, Fault) else fault
        await self._finish(translator, translator.fail(fault))
        return await flight.end()

    def _note_headers(self, reply: Reply, hop: Hop) -> None:
        """Keep what an upstream's headers say that its client should hear."""
        job = self._job
        hide = job.plan.hide
        job.upstream_id = hide(reply.request_id)
        job.should_retry = reply.should_retry
        limits = rate_limits(reply.headers, upstream=hop.upstream.dialect, client=job.dialect)
        job.rate_limits = {name: hide(value) for name, value in limits.items()}

    async def _open(self, hop: Hop) -> Reply:
        job = self._job
        same = hop.upstream.dialect == job.dialect
        return await self._runtime.connector.open(
            "POST",
            job.plan.url(hop.upstream_name),
            headers=upstream_headers(hop, job.choice.route, job.headers, same_dialect=same),
            body=self._body,
            connect_seconds=hop.timeouts.connect,
            tls=job.plan.tls(hop.upstream_name),
        )

    # --- a complete answer ---------------------------------------------------------------------------

    async def _whole(self, reply: Reply, hop: Hop) -> web.StreamResponse | Fault:
        job, flight = self._job, self._flight
        limits = job.plan.settings.server.limits
        body = await reply.read_all(limits.max_response_bytes, flight.heard)
        if body is None:
            return fault_of(TooLargeError("max_response_bytes", limits.max_response_bytes))
        await reply.settle()
        watchers, options = self._watchers(hop), self._options(hop, job.request)
        translated = await self._runtime.heavy.run(
            len(body),
            lambda: translate_body(
                body,
                source=hop.upstream.dialect,
                target=job.dialect,
                model=hop.model,
                native_format=hop.native_format,
                stop=self._stop,
                request_id=job.request_id,
                watchers=watchers,
                **options,
            ),
        )
        answer = translated.answer
        if answer.fault is not None:
            return answer.fault
        ended = answer.finish is not None and answer.finish.reason is FinishReason.STOP
        if ended and not answer.blocks and self._may_repeat_empty:
            return _EMPTY
        self._runtime.reasoning_hosts.note_field(hop, translated.reasoning_field)
        job.answer_losses = translated.losses
        job.usage = answer.usage
        job.outcome = answer.finish
        job.calls = [block.name for block in answer.blocks if block.kind in CALL_KINDS]
        await self._keep(translated.body)
        if self._notes_ids:
            await self._runtime.note_given(job.owner, given_by_body(translated.body))
        flight.first_content = flight.last_read
        headers = self._head()
        # A relayed answer tells no tokens where its upstream told none.
        if answer.usage is not None and answer.usage.estimated and translated.body is not body:
            headers |= _ESTIMATED
        return JsonResponse(translated.body, headers=headers)

    # --- a stream ------------------------------------------------------------------------------------

    def _options(self, hop: Hop, request: Request) -> ExchangeOptions:
        job = self._job
        route, server = job.choice.route, job.plan.settings.server
        return ExchangeOptions(
            profile=self._profile,
            request=request,
            previous_id=job.previous,
            seed=job.request_id,
            created=int(time.time()),
            sealer=job.plan.sealer(job.owner),
            input_estimate=job.estimate,
            strict=hop.upstream.strict,
            rendering=Rendering(
                chat_reasoning=route.chat_reasoning,
                responses_reasoning=route.responses_reasoning,
                responses_encrypted="always" if self._keeps else "asked",
                stream_error_tail=route.stream_error_tail or server.stream_error_tail,
                chat_truncated_tail="nothing" if self._retries_truncated else "error",
            ),
            limits=server.limits,
        )

    @property
    def _retries_truncated(self) -> bool:
        """The client retries after a stream without a finish, but not after an error event."""
        return self._job.headers.get("user-agent", "").startswith(_RETRY_TRUNCATED)

    def _translator(self, hop: Hop, outline: Request) -> Translator:
        return Translator(
            source=hop.upstream.dialect,
            target=self._job.dialect,
            model=hop.model,
            native_format=hop.native_format,
            stop=self._stop,
            watchers=(*self._watchers(hop), Telling(self._teller(hop))),
            **self._options(hop, outline),
        )

    def _teller(self, hop: Hop) -> Callable[[Fault], Fault]:
        """Return what makes a failure fit for the client; one of the gateway's own stays as it is.

        It does not refer to the pump: the job refers to it by its translator, and the pump to the job.
        """
        flight, route, plan = self._flight, self._job.choice.route, self._job.plan
        logger = self._runtime.logger

        def told(fault: Fault) -> Fault:
            if fault == flight.stopped:
                return fault
            return upstream_fault(fault, hop, route, plan, logger)

        return told

    def _watchers(self, hop: Hop) -> Sequence[Stage]:
        """Return who remembers what a client does not send back as it was."""
        job = self._job
        return self._runtime.memory.watchers(
            job.request, job.owner, hop.profile, arguments=self._rewrites(hop)
        )

    def _rewrites(self, hop: Hop) -> bool:
        """Say whether requests are translated; within one dialect the client's bytes pass."""
        return hop.upstream.dialect != self._job.dialect

    async def _stream(self, reply: Reply, translator: Translator, outline: Request) -> bool:
        """Send everything as it comes, one write for each read; say whether there was anything to send."""
        flight = self._flight
        self._job.translator = translator
        feeder = Feeder(self._runtime.heavy, translator)
        out = await self._first(reply, translator, feeder)
        if not translator.begun or (translator.empty and self._may_repeat_empty):
            return False
        flight.first_content = flight.last_read
        self._job.answer_losses = translator.losses
        self._body = b""
        self._job.forget(outline, body=not self._keeps)
        await flight.open()
        read, feed, heard = reply.read, translator.feed, flight.heard
        write = self._write_noting_ids if self._notes_ids else flight.write
        while not translator.done:
            if out:
                await write(out)
            data = await read()
            heard()
            if data and feeder.is_light(data):
                out = feed(data)
            else:
                out = await feeder.feed(data)
        await self._finish(translator, out)
        await reply.settle()
        return True

    @property
    def _may_repeat_empty(self) -> bool:
        """The upstream may be asked again if its response is empty."""
        return self._repeats_empty and self._job.should_retry is not False

    async def _first(self, reply: Reply, translator: Translator, feeder: Feeder) -> bytes:
        """Read until the answer has something to say, or ended without; return what it says."""
        held: list[bytes] = []
        while not translator.begun and not translator.done:
            data = await reply.read()
            self._flight.heard()
            light = data and feeder.is_light(data)
            held.append(translator.feed(data) if light else await feeder.feed(data))
        return b"".join(held)

    async def _finish(self, translator: Translator, out: bytes) -> None:
        """Send the last of a stream, and note how it ended."""
        job = self._job
        self._runtime.reasoning_hosts.note_field(job.hop, translator.reasoning_field)
        job.answer_losses = translator.losses
        job.usage = translator.usage
        job.outcome = translator.outcome
        job.calls = translator.calls
        if self._keeps and isinstance(job.outcome, Finish):
            kept = await self._runtime.heavy.run(len(out), lambda: complete_response_of(out))
            await self._keep(kept)
        if self._notes_ids:
            job.given |= given_by_frames(out)
            await self._runtime.note_given(job.owner, job.given)
        await self._flight.write_last(out)

    @property
    def _notes_ids(self) -> bool:
        """The client may name ids of this answer later, and others of the same upstream may not."""
        job = self._job
        return job.notes_ids and job.dialect in (job.hop.upstream.dialect, "responses")

    async def _write_noting_ids(self, data: bytes) -> None:
        """Send a piece of the stream; the client may name at once what it is given."""
        given = given_by_frames(data)
        if given:
            self._job.given |= given
            self._runtime.given.add(self._job.owner, given)
        await self._flight.write(data)

    @property
    def _keeps(self) -> bool:
        """The answer is kept for requests that go on from it."""
        job = self._job
        if self._runtime.store is None or job.dialect != "responses" or job.request.store is False:
            return False
        # A vendor of this dialect keeps it itself, and knows more of it.
        return job.hop.upstream.dialect != "responses" or not job.hop.profile.supports_store

    async def _keep(self, response: bytes | None) -> None:
        """Keep an answer, before the client knows its end and can ask for it."""
        store, job = self._runtime.store, self._job
        if store is None or response is None or not self._keeps:
            return
        try:
            await store.keep(job.owner, job.client.body, response)
        except Exception as error:  # noqa: BLE001 -- an answer is not lost because it cannot be kept
            why = str(error) if isinstance(error, DragomanError) else type(error).__name__
            self._runtime.logger.notice(
                "response not kept", level="warning", id=job.request_id, why=why
            )

    def _head(self) -> dict[str, str]:
        job = self._job
        return answer_headers(
            job.request_id,
            route=job.choice.route_name,
            upstream_model=job.hop.model,
            upstream_id=job.upstream_id,
            warnings=(loss.code for loss in job.losses),
            extra={**job.rate_limits, **job.cors},
        )


def _delay(hop: Hop, fault: Fault, attempt: int, *, said: bool | None) -> float | None:
    """Return how long to wait before the next attempt; None: there is none.

    `said` is what the upstream itself says of another attempt.
    """
    upstream = hop.upstream
    passing = fault.kind in _PASSING if said is None else said
    if attempt >= upstream.retries or not passing or fault.code in _SETTLED:
        return None
    backoff: float = min(_LONGEST_DELAY, _FIRST_DELAY * 2**attempt) * random.uniform(0.5, 1.0)  # noqa: S311 -- spreads clients
    if fault.retry_after is None:
        return backoff
    return None if fault.retry_after > upstream.max_retry_after else max(fault.retry_after, 0.0)


async def _refusal(reply: Reply, hop: Hop) -> Fault:
    """Read an upstream's error answer."""
    body = await reply.read_error()
    if 300 <= reply.status < 400:
        where = reply.headers.get("location", "elsewhere")
        said = f"upstream redirects to {where}; set `base_url` to where its API is"
        return Fault(FaultKind.UPSTREAM_BAD, said, status=reply.status, code="upstream_address")
    fault = dialect(hop.upstream.dialect).decode_fault(reply.status, body)
    wait = reply.retry_after
    return fault if wait is None else structs.replace(fault, retry_after=wait)
