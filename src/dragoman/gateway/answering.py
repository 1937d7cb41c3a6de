"""The three endpoints that answer: from the client's bytes to the pump, and what is learned at the end."""

import asyncio
from typing import Final

from aiohttp import web

from dragoman.dialects import dialect
from dragoman.dialects.decoding import check_size
from dragoman.errors import Malformed
from dragoman.gateway.body import read_body
from dragoman.gateway.call import Call
from dragoman.gateway.flight import Flight
from dragoman.gateway.guards import loop_fault, with_note
from dragoman.gateway.job import Job
from dragoman.gateway.keys import Admission
from dragoman.gateway.overrides import apply
from dragoman.gateway.pump import Pump
from dragoman.gateway.replies import refused
from dragoman.gateway.routing import Choice, Question
from dragoman.requests import ClientRequest, read_request
from dragoman.translate import Translator
from dragoman.turn.estimate import estimate_tokens
from dragoman.turn.events import Fault, FaultKind
from dragoman.turn.loops import find_loop
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request

_THINKS: Final = frozenset({"auto", "budget", "effort"})


async def answer(call: Call) -> web.StreamResponse:
    """Answer a client's request."""
    # The request itself is held by its job alone, which lets it go: this frame lasts as long as the answer.
    accepted = await _accept(call, *await read_client(call))
    if isinstance(accepted, Fault):
        return refused(call, accepted)
    job, admission = accepted
    call.job = job
    watch = call.runtime.watch
    watch.add(job.flight)
    try:
        return await Pump(job, call.runtime).run()
    finally:
        watch.remove(job.flight)
        if admission is not None:
            _leave(call, admission)


async def _accept(
    call: Call, client: ClientRequest, previous: str
) -> tuple[Job, Admission | None] | Fault:
    """Return what is to be done for a request, and what its key is charged; or why it is refused."""
    asked = client.request
    holder = call.holder
    fault = None if holder is None else holder.may_use(asked.model)
    if fault is not None:
        return fault
    heavy, size = call.runtime.heavy, len(client.body)
    guess = await heavy.run(size, lambda: estimate_tokens(asked))
    estimate = call.runtime.calibration.corrected(asked.model, guess)
    choice = choose(call, asked, estimate)
    if isinstance(choice, Fault):
        return choice
    params = choice.route.params
    request, warnings = await heavy.run(size, lambda: _guarded(call, apply(params, asked)))
    if isinstance(request, Fault):
        return request
    now = asyncio.get_running_loop().time()
    admission = None if holder is None else holder.enter(now, estimate)
    if isinstance(admission, Fault):
        return admission
    job = Job(
        plan=call.plan,
        request_id=call.id,
        owner=call.owner,
        client=client,
        request=request,
        previous=previous,
        headers=call.http.headers,
        choice=choice,
        guess=guess,
        estimate=estimate,
        warnings=warnings,
        cors=call.cors,
        flight=Flight(call.http, call.plan.settings.server, dialect(call.dialect).keep_alive),
    )
    return job, admission


async def read_client(call: Call) -> tuple[ClientRequest, str]:
    """Return a client's request, and the id of the kept response that it goes on from."""
    plan = call.plan
    limits = plan.settings.server.limits
    heavy = call.runtime.heavy
    body = await read_body(call.http, limits.max_request_bytes)
    previous = ""
    if call.dialect == "responses":
        received = body
        await heavy.run(len(received), lambda: check_size(received, limits))
        body, previous = await _expanded(call, body)
    client = await heavy.run(
        len(body),
        lambda: read_request(body, source=call.dialect, sealer=plan.sealer, limits=limits),
    )
    call.model = client.request.model
    return client, previous


async def _expanded(call: Call, body: bytes) -> tuple[bytes, str]:
    """Return a Responses request with the items it only names, and the id it goes on from."""
    store = call.runtime.store
    if store is None:
        return body, ""
    try:
        found = await store.expand(body, call.owner, limits=call.plan.settings.server.limits)
    except Malformed as error:
        if error.code not in _NOT_KEPT:
            raise
        return body, ""  # an upstream of this dialect may know it; another refuses it as unknown
    return found.body, found.previous_id


_NOT_KEPT: Final = frozenset({"previous_response_not_found", "item_not_found"})


def choose(call: Call, request: Request, estimate: int) -> Choice | Fault:
    """Return who may answer a request, or why nobody does."""
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


def _guarded(call: Call, request: Request) -> tuple[Request | Fault, tuple[Loss, ...]]:
    """Look for a client whose tools go round in circles."""
    guards = call.plan.settings.guards
    if guards.loops == "off":
        return request, ()
    loop = find_loop(request.turns, repeats=guards.loop_repeats, longest=guards.loop_cycle)
    if loop is None:
        return request, ()
    if guards.loops == "stop":
        return loop_fault(loop), ()
    losses = (Loss("tool_loop", "$", loop.says),)
    return (with_note(request, loop) if guards.loops == "note" else request), losses


def _leave(call: Call, admission: Admission) -> None:
    """Count what a request has used, and learn from it."""
    job = call.job
    usage = None if job is None else job.usage
    if job is None or usage is None or usage.estimated:
        admission.leave()
        return
    admission.leave(usage.prompt + usage.output)
    call.runtime.calibration.learn(job.request.model, job.guess, usage.prompt)


async def break_off(job: Job, fault: Fault) -> web.StreamResponse:
    """End a stream that was begun, after a failure of our own."""
    job.outcome = fault
    translator = job.translator
    if translator is None or not translator.begun:
        translator = Translator(source="chat", target=job.dialect, request=job.request)
    await job.flight.write(translator.fail(fault))
    return await job.flight.end()
