"""Asks each upstream of a route in turn until one answers."""

from collections.abc import Sequence

from aiohttp import web
from msgspec import structs

from dragoman.dialects.server_tools import needed_tools, runs_needed
from dragoman.gateway.client_stream import ClientStream
from dragoman.gateway.fault_replies import fault_response
from dragoman.gateway.request_context import AcceptedRequest, RequestContext
from dragoman.gateway.routing import Hop
from dragoman.gateway.upstream_call import Failure, UpstreamCall
from dragoman.gateway.upstream_places import take_place
from dragoman.turn.events import Fault
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
    able = (hop for hop in hops if runs_needed(request, hop.upstream.dialect, hop.model_profile))
    return tuple(able) or hops[:1]


def _skipped(hops: Sequence[Hop], first: Hop) -> tuple[str, ...]:
    """Return the upstreams that the route prefers to the one that is asked first."""
    names = [hop.upstream_name for hop in hops]
    return tuple(dict.fromkeys(names[: hops.index(first)]))
