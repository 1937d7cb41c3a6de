"""Asks each upstream of a route in turn until one answers.

An upstream with `max_concurrent` has so many places, and a queue in front.  A request holds its place until the response
has ended, also while the same upstream is asked again.
"""

import asyncio
from collections.abc import Awaitable, Sequence

from aiohttp import web
from msgspec import structs

from dragoman.dialects import dialect
from dragoman.dialects.server_tools import needed_tools, runs_needed
from dragoman.gateway.admission import Unserved, UpstreamPlace
from dragoman.gateway.capacity import STATUS, shutting_down
from dragoman.gateway.client_stream import ClientStream
from dragoman.gateway.fault_replies import fault_response
from dragoman.gateway.request_context import AcceptedRequest, RequestContext
from dragoman.gateway.routing import Hop
from dragoman.gateway.upstream_call import Failure, UpstreamCall
from dragoman.turn.events import Fault, FaultKind
from dragoman.turn.request import Request


async def ask_upstreams(
    context: RequestContext, accepted: AcceptedRequest, stream: ClientStream
) -> web.StreamResponse:
    """Ask each upstream in turn until one answers; reply with the failures if none does."""
    outcome = context.outcome
    faults: list[Fault] = []
    choice, runtime = accepted.choice, context.runtime
    hops = choice.hops
    if choice.order is not None:
        hops = choice.order.arrange(hops, accepted.request, runtime.running)
    hops = _running_what_is_needed(hops, accepted.request)
    left = list(runtime.in_order(hops))
    if left[0] is not hops[0]:
        outcome.resting = _skipped(hops, left[0])
    while left:
        hop, place = left[0], None
        if choice.counted:
            taken = await take_place(context, left, choice.route.priority)
            if isinstance(taken, Fault):
                faults.append(taken)
                break
            hop, place = taken
        left.remove(hop)
        outcome.hop = hop
        if faults:
            runtime.metrics.count("fallbacks", choice.route_name, hop.upstream_name)
        try:
            answer = await UpstreamCall(context, accepted, stream, hop).run()
        finally:
            if place is not None:
                place.leave()
        if not isinstance(answer, Failure):
            return answer
        faults.append(answer.fault)
        if not answer.tries_next:
            break
        context.debug("next upstream", failed=hop.upstream_name, reason=answer.fault.message)
    fault = faults[-1]
    if len(faults) > 1:
        fault = structs.replace(fault, message="; then ".join(one.message for one in faults))
    outcome.ended = fault
    ended = await stream.fail(fault, accepted.request)
    if ended is not None:
        return ended
    headers = context.response_headers()
    if outcome.should_retry is not None:
        headers["x-should-retry"] = str(outcome.should_retry).lower()
    return fault_response(fault, dialect=context.dialect, headers=headers)


def _running_what_is_needed(hops: tuple[Hop, ...], request: Request) -> tuple[Hop, ...]:
    """Leave out upstreams without the vendor-run tools that a request needs; one stays and refuses it if all are."""
    if len(hops) == 1 or not needed_tools(request):
        return hops
    able = (
        hop
        for hop in hops
        if runs_needed(request, dialect(hop.upstream.dialect), hop.model_profile)
    )
    return tuple(able) or hops[:1]


def _skipped(hops: Sequence[Hop], first: Hop) -> tuple[str, ...]:
    """Return the upstreams that the route prefers to the one that is asked first."""
    names = [hop.upstream_name for hop in hops]
    return tuple(dict.fromkeys(names[: hops.index(first)]))


# --- places at upstreams ----------------------------------------------------------------------------


async def take_place(
    context: RequestContext, hops: Sequence[Hop], priority: int
) -> tuple[Hop, UpstreamPlace | None] | Fault:
    """Return the upstream that is asked next, of those that are left, or why none has a place.

    The first that has a free place is asked.  If none has, the request waits for the first one whose queue has room.
    Upstreams that rest are considered after all others.
    """
    now = asyncio.get_running_loop().time()
    resting = [hop for hop in hops if context.runtime.health(hop).resting(now)]
    well = [hop for hop in hops if hop not in resting]
    fault: Fault | None = None
    for group in (well, resting):
        free = await _free_place(context, group)
        if free is not None:
            return free
        for hop in group:
            found = await _wait(context, hop, priority)
            if not isinstance(found, str):
                return hop, found
            if found == "draining":
                return shutting_down()
            fault = fault or _refusal(context, hop, found)
            if found == "timeout":
                return fault
    assert fault is not None  # noqa: S101 -- a route has a target
    return fault


async def _free_place(
    context: RequestContext, hops: Sequence[Hop]
) -> tuple[Hop, UpstreamPlace | None] | None:
    for hop in hops:
        if not hop.counted:
            return hop, None
        places = context.runtime.places(hop.upstream_name)
        # A request that finds others waiting waits with them.
        if not places.entrance.queue:
            place = await places.enter(hop.upstream.max_concurrent)
            if place is not None:
                return hop, place
        full = (*context.outcome.full, hop.upstream_name)
        context.outcome.full = tuple(dict.fromkeys(full))
    return None


async def _wait(context: RequestContext, hop: Hop, priority: int) -> UpstreamPlace | Unserved:
    places, upstream = context.runtime.places(hop.upstream_name), hop.upstream

    def attempt() -> Awaitable[UpstreamPlace | None]:
        return places.enter(upstream.max_concurrent)

    return await context.wait(
        places.entrance,
        attempt,
        place=("upstream", hop.upstream_name),
        limits=upstream,
        priority=priority,
    )


def _refusal(context: RequestContext, hop: Hop, why: Unserved) -> Fault:
    upstream, name = hop.upstream, hop.upstream_name
    places = context.runtime.places(name)
    seconds = places.retry_after(upstream.max_concurrent)
    limit = f"{name}: at most {upstream.max_concurrent} requests at once are allowed"
    if why == "full":
        reason = f"{limit}, and {upstream.max_queue} are waiting"
    else:
        reason = f"{limit}, and this one got no place within {upstream.queue_timeout:g} s"
    return Fault(
        FaultKind.OVERLOADED,
        f"{reason}; try again in {seconds:.0f}s",
        status=STATUS,
        code="upstream_full" if why == "full" else "queue_timeout",
        retry_after=seconds,
    )
