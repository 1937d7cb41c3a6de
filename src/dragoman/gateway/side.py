"""The small endpoints beside the three that answer: models, kept responses, and what nobody needs."""

from typing import Final

from aiohttp import web

from dragoman.gateway.body import read_body
from dragoman.gateway.call import Call
from dragoman.gateway.models import find_model, model_list
from dragoman.gateway.replies import refused
from dragoman.gateway.reqids import answer_headers
from dragoman.gateway.responses_state import not_found, page_of
from dragoman.turn.events import Fault, FaultKind

_STARTED: Final = 1767225600  # the age that every model is given: nobody knows better


async def models(call: Call) -> web.Response:
    """List the models that clients may ask for, or tell of one."""
    told = await call.runtime.catalogue.told(call.plan)
    listed = call.plan.router.models(told)
    holder = call.holder
    if holder is not None:
        listed = tuple(one for one in listed if holder.may_use(one.name) is None)
    _, _, name = call.http.path.rstrip("/").partition("/models/")
    if name:
        return _said(call, find_model(listed, name, created=_STARTED))
    return _said(call, model_list(listed, call.http.query, created=_STARTED))


async def nothing(call: Call) -> web.Response:
    """Answer what an agent asks on the side and has no need of."""
    await read_body(call.http, call.plan.settings.server.limits.max_request_bytes)
    return _said(call, b"{}")


# --- kept responses ------------------------------------------------------------------------------


async def get_response(call: Call) -> web.Response:
    store = call.runtime.store
    if store is None:
        return _off(call)
    found = await store.get(_id_in(call), call.owner)
    return _said(call, not_found(_id_in(call)) if found is None else found)


async def delete_response(call: Call) -> web.Response:
    store = call.runtime.store
    if store is None:
        return _off(call)
    done = await store.delete(_id_in(call), call.owner)
    return _said(call, not_found(_id_in(call)) if done is None else done)


async def input_items(call: Call) -> web.Response:
    store = call.runtime.store
    if store is None:
        return _off(call)
    page = page_of(call.http.query)
    found = await store.input_items(_id_in(call), call.owner, page)
    return _said(call, not_found(_id_in(call)) if found is None else found)


async def cancel_response(call: Call) -> web.Response:
    store = call.runtime.store
    if store is None:
        return _off(call)
    return _said(call, await store.cancel(_id_in(call), call.owner))


def _id_in(call: Call) -> str:
    return call.http.path.removeprefix("/v1").split("/")[2]


def _off(call: Call) -> web.Response:
    said = 'responses are not kept here; set `responses = "sqlite"` under [store]'
    return refused(call, Fault(FaultKind.NOT_FOUND, said, status=404))


def _said(call: Call, body: bytes | Fault) -> web.Response:
    if isinstance(body, Fault):
        return refused(call, body)
    return web.Response(
        body=body, content_type="application/json", headers=answer_headers(call.id, extra=call.cors)
    )
