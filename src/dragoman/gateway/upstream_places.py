"""Places at upstreams: at most `max_concurrent` requests at once, and a queue in front.

A request takes the first of its route's upstreams that has a free place.  If none has, it waits for the first one whose
queue has room.  Upstreams that rest are considered after all others.  A place is held until the response has ended,
also while the same upstream is asked again.
"""

import asyncio
from collections.abc import Awaitable, Sequence

from dragoman.gateway.admission import Place, Unserved
from dragoman.gateway.capacity import STATUS, shutting_down
from dragoman.gateway.request_context import RequestContext
from dragoman.gateway.routing import Hop
from dragoman.turn.events import Fault, FaultKind


async def take_place(
    context: RequestContext, hops: Sequence[Hop], priority: int
) -> tuple[Hop, Place | None] | Fault:
    """Return the upstream that is asked next, of those that are left, or why none has a place."""
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
) -> tuple[Hop, Place | None] | None:
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


async def _wait(context: RequestContext, hop: Hop, priority: int) -> Place | Unserved:
    places, upstream = context.runtime.places(hop.upstream_name), hop.upstream

    def attempt() -> Awaitable[Place | None]:
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
