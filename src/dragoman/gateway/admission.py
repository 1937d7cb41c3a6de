"""Whether a client's request may go to an upstream: the one place that every such endpoint passes.

A key says which models it may use and how much.  `admit` is for endpoints whose request names a model,
`admit_call` for those without one.  Both begin the admission that the app ends with the request.
"""

import asyncio
from typing import Final

from msgspec import Struct

from dragoman.gateway.call import Call
from dragoman.gateway.routing import Choice, Question
from dragoman.requests import ClientRequest
from dragoman.turn.estimate import estimate_tokens
from dragoman.turn.events import Fault, FaultKind
from dragoman.turn.request import Request

_THINKS: Final = frozenset({"auto", "budget", "effort"})


class Admitted(Struct, frozen=True):
    """Who may answer an admitted request, and how large it is."""

    choice: Choice
    guess: int  # tokens of the request, before reports about its model correct it
    estimate: int  # after


def admit(call: Call, client: ClientRequest) -> Admitted | Fault:
    """Admit a request that names a model, or return why it is refused; a refused one costs nothing."""
    request = client.request
    fault = None if call.holder is None else call.holder.may_use(request.model)
    if fault is not None:
        return fault
    guess = estimate_tokens(request)
    estimate = call.runtime.calibration.corrected(request.model, guess)
    choice = _choose(call, request, estimate)
    if isinstance(choice, Fault):
        return choice
    return _enter(call, estimate) or Admitted(choice, guess, estimate)


def admit_call(call: Call) -> Fault | None:
    """Admit a call that names no model and generates nothing, or return why it is refused."""
    return _enter(call, 0)


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
