"""Responses that an upstream stores itself: the gateway has no copy of them, and forwards questions about them.

An upstream knows only the gateway's key, not the client behind a request.  It is asked only if its reply cannot
contain another client's data: the client was given the id, the gateway has one client, or the client's own credential
goes upstream.
"""

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from aiohttp import web
from msgspec import structs

from dragoman.dialects import dialect
from dragoman.dialects.stored_responses import error_event, is_last_event
from dragoman.errors import PeerError, TooLargeError
from dragoman.gateway.accept import admit, may_name, read_client_request
from dragoman.gateway.client_stream import STREAM_HEADERS, ClientLeftError
from dragoman.gateway.config.settings import Route, Timeouts
from dragoman.gateway.fallback import take_place
from dragoman.gateway.fault_replies import JsonResponse, refused, upstream_fault
from dragoman.gateway.headers import COST, answer_headers, decimal, reported_cost
from dragoman.gateway.plan import extra_fields, upstream_headers
from dragoman.gateway.request_context import RequestContext
from dragoman.gateway.retry import fault_of_transport
from dragoman.gateway.routing import Hop
from dragoman.redaction import hide_in_json
from dragoman.translate_requests import write_request
from dragoman.transport import Reply, TransportError
from dragoman.turn.events import Fault, FaultKind, Usage
from dragoman.turn.stages import fault_of
from dragoman.wire.sse import SSEReader

_OWN: Final = Route(to=())
# After the dialect's path: only the id of a response may choose another path of the upstream.
_ABOUT_ONE: Final = re.compile(r"/([A-Za-z0-9_-]+)(/(input_items|cancel))?/?(\?|\Z)")


async def ask_keepers(context: RequestContext) -> web.StreamResponse | None:
    """Forward a question about a response to the upstreams that may store it; None if none does."""
    path = context.http.path_qs.removeprefix("/v1")
    asked = _ABOUT_ONE.match(path.removeprefix(dialect(context.dialect).path))
    if asked is None:
        return None
    known = await may_name(context, asked[1])
    for hop, route in _keepers(context, known=known):
        answer = await _passed_on(context, hop, route, path, None)
        if answer is not None:
            return answer
    return None


async def compact(context: RequestContext) -> web.StreamResponse:
    """Have a conversation shortened by an upstream that can.

    It is a request like any other: it needs a place at the upstream, and its key pays for it.
    """
    client, _ = await read_client_request(context)
    choice = await admit(context, client)
    if isinstance(choice, Fault):
        return refused(context, choice)
    heavy, size = context.runtime.heavy, len(client.body)
    hop = choice.hops[0]
    if hop.upstream.dialect == context.dialect:
        written = await heavy.run(
            size,
            lambda: write_request(
                client, target=context.dialect, profile=hop.profile, model=hop.model
            ),
        )
        body = extra_fields(hop, choice.route, written.body)
        taken = await take_place(context, (hop,), choice.route.priority)
        if isinstance(taken, Fault):
            return refused(context, taken)
        _, place = taken
        context.outcome.hop, context.outcome.asked = hop, True
        try:
            path = f"{dialect(context.dialect).path}/compact"
            answer = await _passed_on(context, hop, choice.route, path, body)
        finally:
            if place is not None:
                place.leave()
        if answer is not None:
            return answer
    message = f"`{hop.upstream_name}` cannot compact conversations; let the client do it"
    return refused(context, Fault(FaultKind.NOT_FOUND, message, code="unknown_url"))


def _keepers(context: RequestContext, *, known: bool) -> Iterator[tuple[Hop, Route]]:
    """Return the upstreams that may be asked, each with the route that decides the credential.

    `known`: the client was given the id that it asks for.
    """
    settings = context.plan.settings
    for hop in context.plan.router.upstreams():
        if hop.upstream.dialect != context.dialect or not hop.profile.supports_store:
            continue
        targets = f"{hop.upstream_name}/"
        ways = (one for one in settings.routes if any(to.startswith(targets) for to in one.to))
        route = next(ways, _OWN)
        if known or not context.plan.shares_credential(route):
            yield hop, route


async def _passed_on(
    context: RequestContext, hop: Hop, route: Route, path: str, body: bytes | None
) -> web.StreamResponse | None:
    """Return what an upstream answers; None if it does not know what is asked for.

    A request with a body generates something, which is counted.
    """
    clock = _Clock(hop.timeouts)
    try:
        async with clock.first():
            reply = await context.runtime.connector.open(
                context.http.method,
                context.plan.url(hop.upstream_name, path),
                headers=upstream_headers(hop, route, context.http.headers, same_dialect=True),
                body=body,
                connect_seconds=hop.timeouts.connect,
                tls=context.plan.tls(hop.upstream_name),
                proxy=context.plan.proxy(hop.upstream_name),
            )
        with reply:
            if reply.status in (404, 405):
                return None
            if 200 <= reply.status < 300:
                return await _relayed(context, hop, reply, clock, counts=body is not None)
            async with clock.next():
                refusal = await reply.read_error()
            fault = dialect(context.dialect).decode_fault(reply.status, refusal)
            fault = structs.replace(fault, retry_after=reply.retry_after or fault.retry_after)
    except TimeoutError:
        fault = Fault(FaultKind.TIMEOUT, clock.reason)
    except TransportError as failed:
        fault = fault_of_transport(failed)
    return refused(context, upstream_fault(fault, hop, route, context))


class _Clock:
    """How long an upstream may be silent: before its headers, and after them."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._times = timeouts
        self._began = asyncio.get_running_loop().time()
        self.reason = f"upstream timed out: no answer within {timeouts.first_byte:g} s"

    def first(self) -> asyncio.Timeout:
        """Bound the wait for the headers."""
        return asyncio.timeout_at(self._due(self._times.first_byte))

    def next(self) -> asyncio.Timeout:
        """Bound the wait for the next bytes."""
        self.reason = (
            f"upstream timed out: it was silent for {self._times.idle:g} s, or took too long"
        )
        return asyncio.timeout_at(self.due)

    @property
    def due(self) -> float | None:
        """When the next bytes must have come; None: at any time."""
        return self._due(self._times.idle)

    def _due(self, seconds: float) -> float | None:
        ends = [asyncio.get_running_loop().time() + seconds] if seconds else []
        if self._times.total:
            ends.append(self._began + self._times.total)
        return min(ends, default=None)


async def _relayed(
    context: RequestContext, hop: Hop, reply: Reply, clock: _Clock, *, counts: bool
) -> web.StreamResponse:
    headers = answer_headers(
        context.id,
        upstream=hop.upstream_name,
        upstream_model=hop.model,
        upstream_id=context.hide(reply.request_id),
        extra=context.cors,
    )
    if not reply.headers.get("content-type", "").startswith("text/event-stream"):
        limit = context.plan.settings.server.limits.max_response_bytes
        async with clock.next() as scope:
            body = await reply.read_all(limit, lambda: scope.reschedule(clock.due))
        if body is None:
            return refused(context, fault_of(TooLargeError("max_response_bytes", limit)))
        if counts:
            headers |= await _count(context, hop, reply, body)
        return JsonResponse(await _body_for_client(context, body), headers=headers)
    response = web.StreamResponse(headers=STREAM_HEADERS | headers)
    try:
        await response.prepare(context.http)
        await _pass_on_stream(context, reply, response, clock)
        await response.write_eof()
    except ConnectionError as error:
        raise ClientLeftError from error
    return response


async def _count(context: RequestContext, hop: Hop, reply: Reply, body: bytes) -> dict[str, str]:
    """Charge the client's key for what an upstream has generated; return the header with its cost."""
    outcome = context.outcome
    read_usage = dialect(context.dialect).read_usage
    usage = await context.runtime.heavy.run(len(body), lambda: read_usage(body))
    outcome.usage = usage or Usage(input_tokens=outcome.estimate, estimated=True)
    context.note_cost(hop, outcome.usage, reported_cost(reply.headers))
    context.count_usage()
    return {} if outcome.cost is None else {COST: decimal(outcome.cost)}


async def _body_for_client(context: RequestContext, body: bytes) -> bytes:
    """Return a body without known secrets; ids in it are remembered for the client."""
    run, secrets = context.runtime.heavy.run, context.plan.secrets
    hidden = await run(len(body), lambda: hide_in_json(body, secrets))
    if len(context.plan.settings.server.keys) > 1:
        given = await run(len(hidden), lambda: dialect(context.dialect).given_ids(hidden))
        await context.runtime.note_given(context.owner, given)
    return hidden


async def _pass_on_stream(
    context: RequestContext, reply: Reply, response: web.StreamResponse, clock: _Clock
) -> None:
    """Send a stream in whole frames without known secrets; ids in it are remembered for the client.

    If it breaks off, its last event reports it, since the status has been sent.
    """
    several = len(context.plan.settings.server.keys) > 1
    may_give, given_ids = dialect(context.dialect).may_give, dialect(context.dialect).given_ids
    run = context.runtime.heavy.run
    reader = SSEReader(limits=context.plan.settings.server.limits)
    given: set[str] = set()
    last = b""
    fault: Fault | None = None
    ended = False
    try:
        while not ended:
            async with clock.next():
                data = await reply.read()
            frames = reader.feed(data) if data else reader.close()
            last_frame = next((at for at, one in enumerate(frames, 1) if is_last_event(one)), 0)
            ended = not data or last_frame > 0  # nothing behind the last event is sent
            frames = frames[: last_frame or None]
            raw = b"".join(one.raw for one in frames)
            out = await run(len(raw), partial(hide_in_json, raw, context.plan.secrets))
            if several:
                seen = [one.data for one in frames if may_give(one.data)]
                fresh = {one for data in seen for one in given_ids(data)}
                given |= fresh
                context.runtime.given.add(context.owner, fresh)
            if out:
                await response.write(out)
                last = out
    except TimeoutError:
        fault = Fault(FaultKind.TIMEOUT, clock.reason, code="idle_timeout")
    except TransportError as failed:
        fault = fault_of_transport(failed)
    except PeerError as error:
        fault = fault_of(error)
    if given:
        await context.runtime.note_given(context.owner, given)
    if fault is not None:
        context.outcome.ended = fault
        await response.write(error_event(fault, last))
