"""The endpoints: one function for each path of the gateway.  `app.py` has the table of paths."""

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from dragoman.dialects import dialect
from dragoman.dialects.stored_responses import not_found, page_of
from dragoman.errors import NameTooLongError
from dragoman.gateway.accept import (
    accept,
    admit,
    admit_without_model,
    read_body,
    read_client_request,
)
from dragoman.gateway.client_stream import ClientLeftError, ClientStream
from dragoman.gateway.fallback import ask_upstreams
from dragoman.gateway.fault_replies import JsonResponse, fault_of_error, refused
from dragoman.gateway.models import find_model, model_list
from dragoman.gateway.request_context import RequestContext
from dragoman.gateway.responses.store import ResponsesStore
from dragoman.gateway.responses.vendor import ask_keepers
from dragoman.gateway.token_counting import ESTIMATED, TokenCounter, way_of
from dragoman.turn.events import Fault, FaultKind

_CREATED: Final = 1767225600  # of every model: upstreams do not say


async def answer(context: RequestContext) -> web.StreamResponse:
    """Answer a request for a model's response, in any dialect."""
    # The request itself is held by `accepted` alone, which releases it: this frame lasts as long as the response.
    accepted = await accept(context)
    if isinstance(accepted, Fault):
        return refused(context, accepted)
    stream = ClientStream(context)
    deadlines = context.runtime.deadlines
    deadlines.add(stream)
    try:
        return await ask_upstreams(context, accepted, stream)
    except ClientLeftError:
        raise
    except Exception as error:
        if not await stream.stop_keep_alive():
            raise  # no status line has been sent: the app replies
        ended = await stream.fail(fault_of_error(context, error)[0], accepted.request)
        if ended is None:
            raise
        return ended
    finally:
        deadlines.remove(stream)
        context.count_usage()


async def count_tokens(context: RequestContext) -> web.Response:
    """Return how many tokens a request has."""
    counting = dialect(context.dialect).count_tokens
    assert counting is not None  # noqa: S101 -- its path brought the request here
    client, _ = await read_client_request(context)
    choice = await admit(context, client)
    if isinstance(choice, Fault):
        return refused(context, choice)
    hop, runtime = choice.hops[0], context.runtime
    way = way_of(hop.upstream, hop.profile.name)
    if way == "off":
        message = "tokens are not counted here; the client may estimate them itself"
        return refused(context, Fault(FaultKind.NOT_FOUND, message, status=404))
    counted = None
    if way != "estimate":
        counter = TokenCounter(
            connector=runtime.connector,
            heavy=runtime.heavy,
            plan=context.plan,
            hop=hop,
            route=choice.route,
            client_headers=context.headers,
        )
        counted = await counter.count(client, way)
    context.leave(0)  # it counts as a request, and generates no tokens
    headers = context.response_headers(None if counted is None else hop)
    if counted is None:
        headers |= ESTIMATED
    body = counting.encode(counted or context.outcome.estimate)
    return JsonResponse(body, headers=headers)


async def models(context: RequestContext) -> web.Response:
    """List the models that clients may ask for, or describe one."""
    fault = await admit_without_model(context)
    if fault is not None:
        return refused(context, fault)
    found = await context.runtime.catalogue.models(context.plan)
    router, holder = context.plan.router, context.holder
    listed = router.models(found)
    _, _, name = context.http.path.rstrip("/").partition("/models/")
    if name:
        most = context.plan.settings.server.limits.max_name_chars
        if len(name) > most:
            raise NameTooLongError("max_name_chars", most, path="model")
        covered = router.covered(name)
        listed += () if covered is None else (covered,)
    if holder is not None:
        listed = tuple(one for one in listed if holder.may_use(one.name) is None)
    if name:
        return _reply(context, find_model(listed, name, created=_CREATED, spoken=context.dialect))
    query = context.http.query
    return _reply(context, model_list(listed, query, created=_CREATED, spoken=context.dialect))


async def nothing(context: RequestContext) -> web.Response:
    """Reply `{}` to telemetry and other requests that agents can do without."""
    await read_body(context)
    return _reply(context, b"{}")


# --- kept responses ------------------------------------------------------------------------------


async def get_response(context: RequestContext) -> web.StreamResponse:
    return await _kept(context, lambda store: store.get(_id_in(context), context.owner))


async def delete_response(context: RequestContext) -> web.StreamResponse:
    return await _kept(context, lambda store: store.delete(_id_in(context), context.owner))


async def input_items(context: RequestContext) -> web.StreamResponse:
    page = page_of(context.http.query)
    return await _kept(
        context, lambda store: store.input_items(_id_in(context), context.owner, page)
    )


async def cancel_response(context: RequestContext) -> web.StreamResponse:
    return await _kept(context, lambda store: store.cancel(_id_in(context), context.owner))


async def _kept(
    context: RequestContext, look: Callable[[ResponsesStore], Awaitable[bytes | Fault | None]]
) -> web.StreamResponse:
    """Answer from the gateway's store, else from an upstream that stores responses."""
    _id_in(context)  # one that is too long is refused before anything is asked
    fault = await admit_without_model(context)
    if fault is not None:
        return refused(context, fault)
    store = context.runtime.store
    found = None if store is None else await look(store)
    if found is not None:
        return _reply(context, found)
    elsewhere = await ask_keepers(context)
    if elsewhere is not None:
        return elsewhere
    return _off(context) if store is None else _reply(context, not_found(_id_in(context)))


def _id_in(context: RequestContext) -> str:
    """Return the id of the response that a path names.

    Raises:
        NameTooLongError: no response has such an id.
    """
    path = context.http.path.removeprefix("/v1").removeprefix(dialect(context.dialect).path)
    found = path.split("/")[1]
    most = context.plan.settings.server.limits.max_name_chars
    if len(found) > most:
        raise NameTooLongError("max_name_chars", most, path="response_id")
    return found


def _off(context: RequestContext) -> web.Response:
    message = 'responses are not stored here; set `responses = "sqlite"` under [store]'
    return refused(context, Fault(FaultKind.NOT_FOUND, message, status=404))


def _reply(context: RequestContext, body: bytes | Fault) -> web.Response:
    if isinstance(body, Fault):
        return refused(context, body)
    return JsonResponse(body, headers=context.response_headers())
