"""The small endpoints beside the three that answer: models, kept responses, and what nobody needs."""

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from dragoman.errors import NameTooLongError
from dragoman.gateway.admission import admit_call
from dragoman.gateway.body import read_body
from dragoman.gateway.call import Call
from dragoman.gateway.fault_replies import JsonResponse, refused
from dragoman.gateway.headers import answer_headers
from dragoman.gateway.models import find_model, model_list
from dragoman.gateway.responses.state import not_found, page_of
from dragoman.gateway.responses.store import ResponsesStore
from dragoman.gateway.responses.vendor import ask_keepers
from dragoman.turn.events import Fault, FaultKind

_STARTED: Final = 1767225600  # the age that every model is given: nobody knows better


async def models(call: Call) -> web.Response:
    """List the models that clients may ask for, or tell of one."""
    fault = admit_call(call)
    if fault is not None:
        return refused(call, fault)
    told = await call.runtime.catalogue.told(call.plan)
    listed = call.plan.router.models(told)
    holder = call.holder
    if holder is not None:
        listed = tuple(one for one in listed if holder.may_use(one.name) is None)
    _, _, name = call.http.path.rstrip("/").partition("/models/")
    if name:
        most = call.plan.settings.server.limits.max_name_chars
        if len(name) > most:
            raise NameTooLongError("max_name_chars", most, path="model")
        return _said(call, find_model(listed, name, created=_STARTED))
    return _said(call, model_list(listed, call.http.query, created=_STARTED))


async def nothing(call: Call) -> web.Response:
    """Answer what an agent asks on the side and has no need of."""
    await read_body(call.http, call.plan.settings.server.limits.max_request_bytes, call.body.add)
    return _said(call, b"{}")


# --- kept responses ------------------------------------------------------------------------------


async def get_response(call: Call) -> web.StreamResponse:
    return await _kept(call, lambda store: store.get(_id_in(call), call.owner))


async def delete_response(call: Call) -> web.StreamResponse:
    return await _kept(call, lambda store: store.delete(_id_in(call), call.owner))


async def input_items(call: Call) -> web.StreamResponse:
    page = page_of(call.http.query)
    return await _kept(call, lambda store: store.input_items(_id_in(call), call.owner, page))


async def cancel_response(call: Call) -> web.StreamResponse:
    return await _kept(call, lambda store: store.cancel(_id_in(call), call.owner))


async def _kept(
    call: Call, look: Callable[[ResponsesStore], Awaitable[bytes | Fault | None]]
) -> web.StreamResponse:
    """Answer from what is kept here, else from where an upstream keeps it."""
    _id_in(call)  # a hostile one is refused before anybody is asked
    fault = admit_call(call)
    if fault is not None:
        return refused(call, fault)
    store = call.runtime.store
    found = None if store is None else await look(store)
    if found is not None:
        return _said(call, found)
    elsewhere = await ask_keepers(call)
    if elsewhere is not None:
        return elsewhere
    return _off(call) if store is None else _said(call, not_found(_id_in(call)))


def _id_in(call: Call) -> str:
    """Return the id of the response that a path names.

    Raises:
        NameTooLongError: no response has such an id.
    """
    found = call.http.path.removeprefix("/v1").split("/")[2]
    most = call.plan.settings.server.limits.max_name_chars
    if len(found) > most:
        raise NameTooLongError("max_name_chars", most, path="response_id")
    return found


def _off(call: Call) -> web.Response:
    said = 'responses are not kept here; set `responses = "sqlite"` under [store]'
    return refused(call, Fault(FaultKind.NOT_FOUND, said, status=404))


def _said(call: Call, body: bytes | Fault) -> web.Response:
    if isinstance(body, Fault):
        return refused(call, body)
    return JsonResponse(body, headers=answer_headers(call.id, extra=call.cors))
