"""Whether a client's request may go to an upstream: the one place that every such endpoint passes.

A key says which models it may use and how much.  Where several keys share an upstream's credential, a request
may name only such state at the upstream as its own key was given.  `admit` is for endpoints whose request names a model,
`admit_call` for those without one.  Both begin the admission that the app ends with the request.
"""

import asyncio
from functools import partial
from typing import Final

from msgspec import Struct

from dragoman.gateway.call import Call
from dragoman.gateway.config.settings import Route
from dragoman.gateway.routing import Choice, Question
from dragoman.gateway.vendor_ids import not_given, references
from dragoman.translate_requests import ClientRequest
from dragoman.turn.estimate import estimate_tokens
from dragoman.turn.events import Fault, FaultKind
from dragoman.turn.request import Request

_THINKS: Final = frozenset({"auto", "budget", "effort"})


class Admitted(Struct, frozen=True):
    """Who may answer an admitted request, and how large it is."""

    choice: Choice
    guess: int  # tokens of the request, before reports about its model correct it
    estimate: int  # after


async def admit(call: Call, client: ClientRequest) -> Admitted | Fault:
    """Admit a request that names a model, or return why it is refused; a refused one costs nothing."""
    request = client.request
    fault = None if call.holder is None else call.holder.may_use(request.model)
    if fault is not None:
        return fault
    guess = await call.runtime.heavy.run(len(client.body), lambda: estimate_tokens(request))
    estimate = call.runtime.calibration.corrected(request.model, guess)
    choice = _choose(call, request, estimate)
    if isinstance(choice, Fault):
        return choice
    fault = await _refuse_ids(call, client, choice)
    return fault or _enter(call, estimate) or Admitted(choice, guess, estimate)


def admit_call(call: Call) -> Fault | None:
    """Admit a call that names no model and generates nothing, or return why it is refused."""
    return _enter(call, 0)


def shares_credential(call: Call, route: Route) -> bool:
    """Return whether upstreams of a route see one credential for several clients."""
    return len(call.plan.settings.server.keys) > 1 and route.auth != "passthrough"


async def may_name(call: Call, vendor_id: str) -> bool:
    """Return whether a client may name state that an upstream keeps: it was given the id, or is allowed to."""
    if call.holder is not None and call.holder.may_name(vendor_id):
        return True
    return await call.runtime.was_given(call.owner, vendor_id)


async def _refuse_ids(call: Call, client: ClientRequest, choice: Choice) -> Fault | None:
    """Return why a request is refused that names state of another client's at an upstream."""
    if not shares_credential(call, choice.route):
        return None
    dialects = {hop.upstream.dialect for hop in choice.hops}
    same = call.dialect in dialects
    if not same and (call.dialect == "anthropic" or dialects <= {"anthropic"}):
        return None  # no id of one vendor's means anything to the other
    search = partial(references, client.body, files_only=not same)
    for one in await call.runtime.heavy.run(len(client.body), search):
        if not await may_name(call, one.id):
            return not_given(one)
    return None


def _enter(call: Call, tokens: int) -> Fault | None:
    if call.holder is None:
        return None
    entered = call.holder.enter(asyncio.get_running_loop().time(), tokens)
    if isinstance(entered, Fault):
        return entered
    call.admission = entered
    return None


def _choose(call: Call, request: Request, estimate: int) -> Choice | Fault:
    """Return which upstreams may answer a request, or why none does."""
    question = Question(
        model=request.model,
        dialect=call.dialect,
        thinking=request.reasoning.mode in _THINKS,
        tokens=estimate,
        images=request.has_images,
        headers=call.http.headers,
    )
    choice = call.choice = call.plan.router.choose(question)
    if choice is not None:
        return choice
    named = ", ".join(f"`{one.name}`" for one in call.plan.router.models()[:10])
    said = f"no route for the model `{request.model[:200]}`; see `routes` of the gateway's settings"
    return Fault(
        FaultKind.NOT_FOUND, f"{said} (there are {named})" if named else said, param="model"
    )
