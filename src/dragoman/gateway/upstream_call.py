"""One upstream, asked for one request: each attempt, and the response as it arrives.

Reads, feeds and writes; the core knows what a dialect looks like, `upstream_request.py` writes the request and decides
how far an answer is continued that its upstream pauses, and `retry.py` decides what follows a failure.
"""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Final, Literal

from aiohttp import web
from msgspec import Struct, structs

from dragoman.context import Rendering
from dragoman.dialects import dialect
from dragoman.errors import DragomanError, TooLargeError
from dragoman.exchange_setup import ExchangeOptions
from dragoman.gateway.client_stream import CONTINUED_TIMEOUT, ClientStream
from dragoman.gateway.fault_replies import FaultRedaction, JsonResponse
from dragoman.gateway.headers import COST, decimal, rate_limits, reported_cost
from dragoman.gateway.health import Change
from dragoman.gateway.logging import Fact
from dragoman.gateway.pipe import Pipe
from dragoman.gateway.plan import upstream_headers
from dragoman.gateway.recording import ExchangeRecording
from dragoman.gateway.request_context import AcceptedRequest, RequestContext
from dragoman.gateway.retry import (
    EMPTY_RESPONSE,
    Retries,
    counts_for_cooldown,
    fault_of_refusal,
    fault_of_transport,
    tries_next_upstream,
)
from dragoman.gateway.routing import Hop
from dragoman.gateway.traces import AttemptTrace, RequestTrace
from dragoman.gateway.upstream_request import ContinuationBounds, Paused, UpstreamRequest
from dragoman.recorder.lines import Translation
from dragoman.toolcalls.findings import summarize
from dragoman.translate import Translator, Watcher, translate_body
from dragoman.transport import Reply, TransportError
from dragoman.turn.events import CALL_KINDS, STOP, Fault, Finish, Usage
from dragoman.turn.request import Request
from dragoman.turn.stages import fault_of

# Sent when no upstream counted the tokens of a response.
_ESTIMATED: Final = {"x-dragoman-usage": "estimated"}
# Test: test_p_10_truncated_stream_has_no_error_event_for_a_client_that_retries_without_one.
# User agents of clients that retry after a Chat stream without a finish, but not after an error event.
_RETRY_TRUNCATED: Final = ("QwenCode/",)


class Failure(Struct, frozen=True):
    """Why an upstream has not answered."""

    fault: Fault
    tries_next: bool  # another upstream may succeed


class UpstreamCall:
    """One upstream, asked for one request: as often as the retry policy allows."""

    __slots__ = (
        "_accepted", "_attempts", "_bodies", "_bounds", "_client_dialect", "_context", "_given", "_hop", "_notes_ids",
        "_options", "_outcome", "_paused", "_recording", "_retries", "_runtime", "_stores", "_stream", "_trace", "_written",
    )  # fmt: skip

    def __init__(
        self,
        context: RequestContext,
        accepted: AcceptedRequest,
        stream: ClientStream,
        hop: Hop,
    ) -> None:
        self._context = context
        self._outcome = context.outcome
        self._runtime = context.runtime
        self._accepted = accepted
        self._stream = stream
        self._hop = hop
        self._written = UpstreamRequest(context, accepted, hop)
        self._retries = Retries(hop.upstream, has_stop=bool(accepted.request.stop))
        self._client_dialect = dialect(context.dialect)
        self._notes_ids = self._may_name_ids()
        self._stores = self._is_stored()
        self._attempts = 0  # made at this upstream
        self._recording: ExchangeRecording | None = context.outcome.recording
        self._trace: AttemptTrace | None = None  # of the current attempt
        self._given: list[str] = []  # ids of the upstream's state that the client was given
        self._options = ExchangeOptions()  # of the response
        # Of an answer that the upstream pauses, if it does.
        self._bounds: ContinuationBounds | None = None
        self._paused: Paused | None = None  # the last time
        # Complete responses so far, with what their headers say of their cost.
        self._bodies: list[tuple[bytes, float | None]] = []

    async def run(self) -> web.StreamResponse | Failure:
        """Make attempts until one succeeds or the policy ends them, and continue an answer that is paused."""
        unwritable = await self._written.write()
        if unwritable is not None:
            return Failure(unwritable, tries_next=True)
        try:
            return await self._ask()
        except BaseException:
            self._note_unfinished()  # its client left
            raise

    async def _ask(self) -> web.StreamResponse | Failure:
        outcome = self._outcome
        learned = False  # the refusal of an earlier attempt showed what the upstream expects
        while True:
            answer = await self._observed_attempt()
            if isinstance(answer, Paused):
                if await self._continues(answer):
                    continue
                return await self._give_up()
            if answer is EMPTY_RESPONSE:
                self._note_empty()
            if not isinstance(answer, Fault):
                return answer
            if answer.code == CONTINUED_TIMEOUT:
                return await self._give_up()
            if outcome.stopped is not None:
                return await self._failed(outcome.stopped, outcome.stopped, tries_next=False)
            if not learned and self._paused is None and await self._written.learn(answer):
                learned = True
                self._count_retry()
                fault = self._redaction().redact(answer)
                outcome.note_failure(self._hop, self._attempts, fault)
                self._debug("retrying with other reasoning", reason=fault.message)
                unwritable = await self._written.write()
                if unwritable is not None:
                    return Failure(unwritable, tries_next=True)
                continue
            delay = self._retries.next_delay(answer, should_retry=outcome.should_retry)
            fault = self._redaction().redact(answer)
            outcome.note_failure(self._hop, self._attempts, fault)
            if delay is None:
                return await self._failed(answer, fault, tries_next=tries_next_upstream(answer))
            self._count_retry()
            self._debug("retrying", seconds=round(delay, 2), reason=fault.message)
            await self._stream.pause(delay)

    def _count_retry(self) -> None:
        self._outcome.retries += 1
        self._runtime.metrics.count("retries", self._hop.upstream_name)

    def _note_empty(self) -> None:
        self._retries.note_empty()
        self._runtime.logger.notice(
            "empty response, retrying",
            level="warning",
            id=self._context.id,
            upstream=self._hop.upstream_name,
            model=self._hop.model,
        )

    async def _failed(
        self, fault: Fault, redacted: Fault, *, tries_next: bool
    ) -> web.StreamResponse | Failure:
        """Return a failure; one of a request that continues an answer ends the answer."""
        if self._paused is None:
            return Failure(redacted, tries_next=tries_next)
        translator = self._stream.translator
        if translator is None:
            self._outcome.usage = self._paused.spent
            self._note_unfinished()
            return Failure(redacted, tries_next=False)
        return await self._finish(translator, translator.fail(fault))

    async def _observed_attempt(self) -> web.StreamResponse | Fault | Paused:
        """Make one attempt, and record whether the upstream is well."""
        health = self._runtime.health(self._hop)
        health.started(asyncio.get_running_loop().time())
        if self._outcome.trace is not None:
            self._trace = self._begin_trace(self._outcome.trace)
        try:
            answer = await self._attempt()
        except BaseException:
            health.abandoned()  # its client left
            if self._trace is not None:
                self._trace.leave()
            raise
        finally:
            self._stream.end_attempt()
        failed = answer if isinstance(answer, Fault) else self._outcome.ended
        if self._trace is not None:
            self._trace.end(failed, None if failed is answer else self._outcome.usage)
        if isinstance(failed, Fault):
            self._runtime.metrics.count("upstream_errors", self._hop.upstream_name, failed.kind)
        if answer is EMPTY_RESPONSE or not isinstance(failed, Fault):
            change = health.succeeded()
            if change:
                self._runtime.state.well(self._hop.upstream_name)
            self._log_health(change)
        elif counts_for_cooldown(failed):
            now = asyncio.get_running_loop().time()
            change = health.failed(now, failed.retry_after)
            seconds = round(health.resting(now), 1)
            if seconds:
                self._runtime.state.rest(self._hop.upstream_name, seconds)
            self._log_health(
                change, reason=self._context.redact(failed.message), seconds=seconds or None
            )
        else:
            health.abandoned()  # the request was wrong: that shows nothing about the upstream
        return answer

    def _begin_trace(self, trace: RequestTrace) -> AttemptTrace:
        url = self._context.plan.url(self._hop.upstream_name)
        stream = self._accepted.request.stream
        return trace.attempt(self._hop, url.host or "", url.port or 0, stream=stream)

    def _debug(self, event: str, **facts: Fact) -> None:
        hop = self._hop
        self._context.debug(event, upstream=hop.upstream_name, model=hop.model, **facts)

    def _log_health(self, change: Change, **facts: Fact) -> None:
        """Log that an upstream begins to fail, gets no requests for a while, or answers again."""
        if change == "resting":
            self._runtime.metrics.count("cooldowns", self._hop.upstream_name)
        if change:
            self._runtime.logger.notice(
                f"upstream {change}",
                level="info" if change == "well" else "warning",
                upstream=self._hop.upstream_name,
                **facts,
            )

    # --- an answer that is paused --------------------------------------------------------------------

    async def _continues(self, paused: Paused) -> bool:
        """Prepare the request that continues a paused answer; return False if there is none."""
        self._paused = paused
        if self._bounds is None:
            settings, request = self._context.plan.settings.continuations, self._accepted.request
            self._bounds = ContinuationBounds(settings, request, self._stream.began)
        bound = self._bounds.passed(paused, asyncio.get_running_loop().time())
        if not bound and not await self._written.continue_with(paused.answer):
            bound = "max_request_bytes"
        self._debug("answer paused", requests=self._bounds.requests, bound=bound)
        if bound:
            return False
        self._outcome.continued = self._bounds.requests
        self._retries = Retries(self._hop.upstream, has_stop=True)
        return True

    async def _give_up(self) -> web.StreamResponse | Failure:
        """End a paused answer that is not continued."""
        translator = self._stream.translator
        if translator is not None:
            return await self._finish(translator, translator.give_up())
        answer = await self._translate(pause="end")
        assert isinstance(answer, web.StreamResponse)  # noqa: S101 -- what was paused has not failed
        return answer

    def _resumed(self, reply: Reply) -> Translator | None:
        """Return the translator of a paused answer, for the response that continues it; None: this is the first."""
        translator = self._stream.translator
        if self._paused is None or translator is None:
            return None
        translator.resume()
        self._record_reply(reply)
        return translator

    # --- one attempt -------------------------------------------------------------------------------

    async def _attempt(self) -> web.StreamResponse | Fault | Paused:
        """Return the client's response, or a failure of which the client has seen nothing, or a pause."""
        outcome, stream, request = self._outcome, self._stream, self._accepted.request
        translator: Translator | None = None
        try:
            async with asyncio.timeout(None) as scope:
                continued = 0.0 if self._bounds is None else self._bounds.max_seconds
                stream.begin_attempt(scope, self._hop, streams=request.stream, continued=continued)
                outcome.should_retry, outcome.rate_limits = None, {}
                with await self._open() as reply:
                    self._note_headers(reply)
                    if self._context.logs_steps:
                        self._debug("upstream answered", status=reply.status)
                    if not 200 <= reply.status < 300:
                        return await self._refusal(reply)
                    if not request.stream:
                        return await self._forward_body(reply)
                    outline = request.outline()
                    del request  # `AcceptedRequest` alone holds it, and releases it
                    translator = self._resumed(reply) or self._translator(reply, outline)
                    answer = await self._forward_stream(reply, translator, outline)
                    if answer is not None:
                        return answer
                    if translator.empty:
                        return EMPTY_RESPONSE
        except TimeoutError:
            fault = stream.deadline
        except TransportError as failed:
            fault = fault_of_transport(failed)
        if self._recording is not None:
            self._recording.failed(fault)
        if translator is None:
            return fault
        if translator.repeatable:
            return translator.failure or fault
        return await self._finish(translator, translator.fail(fault))

    async def _open(self) -> Reply:
        plan, hop = self._context.plan, self._hop
        self._attempts += 1
        self._outcome.asked = True
        if self._context.logs_steps:
            self._debug("upstream asked", attempt=self._attempts)
        headers = upstream_headers(
            hop,
            self._accepted.choice.route,
            self._context.headers,
            same_dialect=not self._written.translates,
            body=self._written.body if self._written.translates else b"",
        )
        if self._trace is not None:
            headers |= self._trace.headers()
        url = plan.url(hop.upstream_name, self._written.path)
        if self._recording is not None:
            self._recording.asked(
                upstream=hop.upstream_name,
                model=hop.model,
                url=str(url),
                headers=headers,
                body=self._written.body,
            )
        return await self._runtime.connector.open(
            "POST",
            url,
            headers=headers,
            body=self._written.sent,
            connect_seconds=hop.timeouts.connect,
            tls=plan.tls(hop.upstream_name),
            proxy=plan.proxy(hop.upstream_name),
        )

    def _note_headers(self, reply: Reply) -> None:
        """Keep the upstream's headers that the client gets."""
        outcome, hide = self._outcome, self._context.hide
        outcome.upstream_id = hide(reply.request_id)
        outcome.should_retry = reply.should_retry
        limits = rate_limits(
            reply.headers,
            upstream=dialect(self._hop.upstream.dialect),
            client=self._client_dialect,
        )
        if limits:
            outcome.rate_limits = {name: hide(value) for name, value in limits.items()}

    async def _refusal(self, reply: Reply) -> Fault:
        """Read an upstream's error response."""
        body = await reply.read_error()
        if self._recording is not None:
            self._recording.answered(reply.status, reply.headers, None)
            self._recording.read(body)
            self._recording.read(b"")
        return fault_of_refusal(reply, body, dialect(self._hop.upstream.dialect))

    # --- a complete response -------------------------------------------------------------------------

    async def _forward_body(self, reply: Reply) -> web.StreamResponse | Fault | Paused:
        limit = self._context.plan.settings.server.limits.max_response_bytes
        body = await reply.read_all(limit, self._stream.note_read)
        if body is None:
            return fault_of(TooLargeError("max_response_bytes", limit))
        reply.release()
        if self._paused is None:
            self._options = self._make_options(self._accepted.request)
        if self._recording is not None:
            self._record_reply(reply)
            self._recording.read(body)
            self._recording.read(b"")
        self._bodies.append((body, reported_cost(reply.headers)))
        answer = await self._translate(pause="return" if self._written.may_pause else "forward")
        if isinstance(answer, Fault):
            self._bodies.pop()  # it may be asked for again
        return answer

    async def _translate(
        self, *, pause: Literal["forward", "return", "end"]
    ) -> web.StreamResponse | Fault | Paused:
        """Translate the complete response, or several that are one answer."""
        context, outcome, hop = self._context, self._outcome, self._hop
        *earlier, body = (data for data, _ in self._bodies)
        watchers = self._watchers()
        if self._recording is not None:
            watchers = (*watchers, self._recording.watch)
        translated = await self._runtime.heavy.run(
            len(body) + sum(map(len, earlier)),
            lambda: translate_body(
                body,
                source=hop.upstream.dialect,
                target=context.dialect,
                model=hop.model,
                native_format=hop.native_format,
                stop=self._written.stop,
                request_id=context.id,
                watchers=watchers,
                earlier=earlier,
                pause=pause,
                **self._options,
            ),
        )
        answer = translated.answer
        usage = answer.usage
        if translated.paused is not None:
            return Paused(translated.paused, usage or Usage())
        # Test: test_g1_error_in_a_good_answer_is_a_502_with_its_words.
        if answer.fault is not None:
            return answer.fault
        ended = answer.finish is not None and answer.finish.reason is STOP
        if ended and not answer.blocks and self._may_repeat_empty:
            return EMPTY_RESPONSE
        self._runtime.reasoning_hosts.note_field(hop, translated.reasoning_field)
        outcome.answer_losses = translated.losses
        outcome.findings = translated.findings
        outcome.usage = usage
        costs = [cost for _, cost in self._bodies if cost is not None]
        context.note_cost(hop, usage, sum(costs) if costs else None)
        outcome.ended = answer.finish
        outcome.calls = [block.name for block in answer.blocks if block.kind in CALL_KINDS]
        self._log_answer()
        if self._stores:
            await self._store(translated.body)
        if self._notes_ids:
            await self._runtime.note_given(context.owner, translated.given)
        self._stream.note_first_content()
        headers = context.response_headers()
        # A relayed response has no token counts where its upstream sent none.
        if usage is not None and usage.estimated and translated.body is not body:
            headers |= _ESTIMATED
        if outcome.cost is not None:
            headers[COST] = decimal(outcome.cost)
        return JsonResponse(translated.body, headers=headers)

    def _note_unfinished(self) -> None:
        """Keep what an answer cost that has no end: the upstream bills what it has generated."""
        translator = self._stream.translator
        if self._outcome.cost is not None:
            return
        if translator is not None and translator.begun:
            self._context.note_cost(self._hop, translator.spent)
        elif self._paused is not None:
            self._context.note_cost(self._hop, self._paused.spent)

    @property
    def _may_repeat_empty(self) -> bool:
        return self._retries.may_repeat_empty(should_retry=self._outcome.should_retry)

    def _make_options(self, request: Request) -> ExchangeOptions:
        context, rendering = self._context, self._accepted.choice.rendering
        if self._stores or self._retries_truncated or context.named is not None:
            rendering = structs.replace(
                rendering,
                responses_encrypted="always" if self._stores else "asked",
                chat_truncated_tail="nothing" if self._retries_truncated else "error",
                framing=context.framing,
            )
        return ExchangeOptions(
            profile=self._written.profile,
            request=request,
            previous_id=self._accepted.previous_id,
            seed=context.id,
            created=int(time.time()),
            sealer=context.plan.sealer(context.owner),
            input_estimate=self._outcome.estimate,
            strict=self._hop.upstream.strict,
            rendering=rendering,
            limits=context.plan.settings.server.limits,
            notes_ids=self._notes_ids,
        )

    @property
    def _retries_truncated(self) -> bool:
        """The client retries after a stream without a finish, but not after an error event."""
        return self._context.http.headers.get("user-agent", "").startswith(_RETRY_TRUNCATED)

    def _watchers(self) -> Sequence[Watcher]:
        """Return the stages that remember what a client does not send back unchanged."""
        traced = () if self._trace is None else (self._trace.watch,)
        return (
            *traced,
            *self._runtime.memory.watchers(
                self._accepted.request,
                self._context.owner,
                self._hop.profile,
                arguments=self._written.translates,
                on_reasoning=self._outcome.note_remembered,
            ),
        )

    # --- a stream ------------------------------------------------------------------------------------

    def _translator(self, reply: Reply, outline: Request) -> Translator:
        redaction = self._redaction()
        self._options = self._make_options(outline)
        watchers = self._watchers()
        if self._recording is not None:
            self._record_reply(reply)
            # Before the stage that puts the upstream's name into a failure.
            watchers = (*watchers, self._recording.watch)
        return Translator(
            source=self._hop.upstream.dialect,
            target=self._context.dialect,
            model=self._hop.model,
            native_format=self._hop.native_format,
            stop=self._written.stop,
            watchers=(*watchers, lambda _exchange: redaction),
            continues=self._written.may_pause,
            **self._options,
        )

    def _redaction(self) -> FaultRedaction:
        return FaultRedaction(self._context, self._accepted.choice.route, self._hop)

    async def _forward_stream(
        self, reply: Reply, translator: Translator, outline: Request
    ) -> web.StreamResponse | Paused | None:
        """Forward the stream; return None if there was neither content nor a pause."""
        stream = self._stream
        stream.translator = translator
        pipe = Pipe(reply, translator, stream, self._runtime.heavy, self._recording)
        await pipe.begin()
        pauses = translator.paused is not None
        if (translator.repeatable and not pauses) or (translator.empty and self._may_repeat_empty):
            return None
        if self._paused is None:
            stream.note_first_content()
            self._debug("first content")
            self._note_answer(translator)
            self._release_request(outline)
        last = await pipe.run(partial(self._note_ids, translator) if self._notes_ids else None)
        answer: web.StreamResponse | Paused
        if translator.paused is None:
            answer = await self._finish(translator, last)
        else:
            await stream.write(last)
            answer = Paused(translator.paused, translator.spent)
        await reply.drain()
        return answer

    def _release_request(self, outline: Request) -> None:
        """Drop the request from memory: the response may take long."""
        self._written.release()
        self._accepted.release(outline, body=not self._stores)
        if not self._stores and not self._written.may_pause:
            self._context.held.release()

    def _note_answer(self, translator: Translator) -> None:
        """Keep the lists that grow with the answer: a client may leave before its end."""
        outcome = self._outcome
        outcome.answer_losses, outcome.calls = translator.losses, translator.calls
        outcome.findings = translator.findings

    def _log_answer(self) -> None:
        """Log what was found in a response and is kept of it."""
        outcome = self._outcome
        if not self._context.logs_steps:
            return
        for one in summarize(outcome.findings):
            self._debug(
                "native calls found",
                family=one.family,
                channel=one.channel,
                calls=one.calls,
                problems=", ".join(problem.code for problem in one.problems),
            )
        if outcome.remembered:
            self._debug("reasoning remembered", calls=outcome.remembered)

    async def _finish(self, translator: Translator, out: bytes) -> web.StreamResponse:
        """Record how a stream ended, and send the last of it."""
        outcome = self._outcome
        self._runtime.reasoning_hosts.note_field(self._hop, translator.reasoning_field)
        self._note_answer(translator)
        outcome.usage = translator.usage
        outcome.ended = translator.outcome
        self._context.note_cost(self._hop, translator.spent)
        self._log_answer()
        if self._stores and isinstance(outcome.ended, Finish):
            await self._store(translator.response)
        if self._notes_ids:
            self._given += translator.take_given()
            await self._runtime.note_given(self._context.owner, self._given)
        return await self._stream.end(out)

    # --- the recording -------------------------------------------------------------------------------

    def _record_reply(self, reply: Reply) -> None:
        """Record that the upstream answers, and all that decides how its answer is translated."""
        if self._recording is None:
            return
        options = self._options
        hop = self._hop
        family = hop.family
        self._recording.answered(
            reply.status,
            reply.headers,
            Translation(
                source=hop.upstream.dialect,
                target=self._context.dialect,
                model=hop.model,
                native_format="none" if family is None else family.key,
                stop=self._written.stop,
                stream=self._accepted.request.stream,
                profile=self._written.profile,
                seed=options["seed"],
                created=options["created"],
                previous_id=options["previous_id"],
                input_estimate=options["input_estimate"],
                strict=options["strict"],
                rendering=options["rendering"] or Rendering(),
                limits=options["limits"],
                continues=self._written.may_pause,
                earlier=0 if self._bounds is None else self._bounds.requests,
            ),
        )

    # --- storing a response and its ids ----------------------------------------------------------------

    def _may_name_ids(self) -> bool:
        """Return whether the client may name ids of this response later, and other clients may not."""
        shared = self._context.plan.shares_credential(self._accepted.choice.route)
        return shared and (not self._written.translates or self._client_dialect.stores_responses)

    def _note_ids(self, translator: Translator) -> None:
        """Remember the ids that the client is about to be given: it may name them at once."""
        given = translator.take_given()
        if given:
            self._given += given
            self._runtime.given.add(self._context.owner, given)

    def _is_stored(self) -> bool:
        """Return whether the gateway stores the response for requests that continue it."""
        if self._runtime.store is None or not self._client_dialect.stores_responses:
            return False
        if self._accepted.request.store is False:
            return False
        # An upstream of this dialect may store it itself, and then knows more about it.
        return self._written.translates or not self._hop.profile.supports_store

    async def _store(self, response: bytes) -> None:
        """Store a response before the client receives its end and can ask for it."""
        store = self._runtime.store
        if store is None or not response:
            return
        try:
            await store.keep(self._context.owner, self._accepted.client.body, response)
        except Exception as error:  # noqa: BLE001 -- a failed store must not cost the client its response
            why = str(error) if isinstance(error, DragomanError) else type(error).__name__
            self._runtime.logger.notice(
                "response not stored", level="warning", id=self._context.id, why=why
            )
