"""Responses that an upstream keeps itself: the gateway keeps no copy of them, and asks where they are.

An upstream knows only the gateway's key, not whose request it was.  It is asked only where that cannot hand
out what belongs to somebody else: the gateway has one client, or the client's own credential goes upstream.
"""

import asyncio
import re
from collections.abc import Iterator
from typing import Final

from aiohttp import web
from msgspec import structs

from dragoman.dialects import dialect
from dragoman.errors import TooLarge
from dragoman.gateway.answering import choose, read_client
from dragoman.gateway.call import Call
from dragoman.gateway.config.settings import Route
from dragoman.gateway.flight import STREAM_HEADERS, ClientLeft
from dragoman.gateway.plan import extra_fields, upstream_headers
from dragoman.gateway.replies import refused, upstream_fault
from dragoman.gateway.reqids import answer_headers
from dragoman.gateway.routing import Hop
from dragoman.gateway.upstream import fault_of_transport
from dragoman.requests import write_request
from dragoman.translate import fault_of
from dragoman.transport import Reply, TransportFailed
from dragoman.turn.events import Fault, FaultKind

_OWN: Final = Route(to=())
# Nothing but the id of a response leads to another path of the upstream.
_ABOUT_ONE: Final = re.compile(r"/responses/[A-Za-z0-9_-]+(/(input_items|cancel))?/?(\?|\Z)")


async def ask_keepers(call: Call) -> web.StreamResponse | None:
    """Pass a question about a response to whoever may keep it; None if nobody knows it."""
    path = call.http.path_qs.removeprefix("/v1")
    if not _ABOUT_ONE.match(path):
        return None
    for hop, route in _keepers(call):
        answer = await _passed_on(call, hop, route, path, None)
        if answer is not None:
            return answer
    return None


async def compact(call: Call) -> web.StreamResponse:
    """Have a conversation shortened by an upstream that can."""
    client, _ = await read_client(call)
    heavy, size = call.runtime.heavy, len(client.body)
    calibration = call.runtime.calibration
    estimate = await heavy.run(size, lambda: calibration.estimate(call.model, client.request))
    choice = choose(call, client.request, estimate)
    if isinstance(choice, Fault):
        return refused(call, choice)
    hop = choice.hops[0]
    if hop.upstream.dialect == "responses":
        written = await heavy.run(
            size,
            lambda: write_request(client, target="responses", profile=hop.profile, model=hop.model),
        )
        body = extra_fields(hop, choice.route, written.body)
        answer = await _passed_on(call, hop, choice.route, "/responses/compact", body)
        if answer is not None:
            return answer
    said = f"`{hop.upstream_name}` cannot compact conversations; let the client do it"
    return refused(call, Fault(FaultKind.NOT_FOUND, said, code="unknown_url"))


def _keepers(call: Call) -> Iterator[tuple[Hop, Route]]:
    """Return the upstreams that may be asked, each with the route that says with whose credential."""
    settings = call.plan.settings
    for hop in call.plan.router.upstreams():
        if hop.upstream.dialect != "responses" or not hop.profile.supports_store:
            continue
        targets = f"{hop.upstream_name}/"
        ways = (one for one in settings.routes if any(to.startswith(targets) for to in one.to))
        route = next(ways, _OWN)
        if len(settings.server.keys) < 2 or route.auth == "passthrough":
            yield hop, route


async def _passed_on(
    call: Call, hop: Hop, route: Route, path: str, body: bytes | None
) -> web.StreamResponse | None:
    """Return what an upstream answers; None if it has not heard of what is asked for."""
    try:
        async with asyncio.timeout(hop.timeouts.first_byte or None):
            reply = await call.runtime.connector.open(
                call.http.method,
                call.plan.url(hop.upstream_name, path),
                headers=upstream_headers(hop, route, call.http.headers, same_dialect=True),
                body=body,
                connect_seconds=hop.timeouts.connect,
                tls=call.plan.tls(hop.upstream_name),
            )
        async with reply:
            if reply.status in (404, 405):
                return None
            if 200 <= reply.status < 300:
                return await _relayed(call, hop, reply)
            fault = dialect("responses").decode_fault(reply.status, await reply.read_error())
            fault = structs.replace(fault, retry_after=reply.retry_after or fault.retry_after)
    except TimeoutError:
        fault = Fault(FaultKind.TIMEOUT, f"no answer within {hop.timeouts.first_byte:g} s")
    except TransportFailed as failed:
        fault = fault_of_transport(failed)
    return refused(call, upstream_fault(fault, hop, route, call.runtime.logger.redact))


async def _relayed(call: Call, hop: Hop, reply: Reply) -> web.StreamResponse:
    headers = answer_headers(
        call.id, upstream_model=hop.model, upstream_id=reply.request_id, extra=call.cors
    )
    if not reply.headers.get("content-type", "").startswith("text/event-stream"):
        limit = call.plan.settings.server.limits.max_response_bytes
        body = await reply.read_all(limit, lambda: None)
        if body is None:
            return refused(call, fault_of(TooLarge("max_response_bytes", limit)))
        return web.Response(body=body, content_type="application/json", headers=headers)
    response = web.StreamResponse(headers=STREAM_HEADERS | headers)
    try:
        await response.prepare(call.http)
        while data := await reply.read():
            await response.write(data)
        await response.write_eof()
    except ConnectionError as error:
        raise ClientLeft from error
    return response
