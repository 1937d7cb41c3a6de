"""The three endpoints that answer: from the client's bytes to the pump, and what is learned at the end."""

from typing import Final

from aiohttp import web

from dragoman.dialects import dialect
from dragoman.dialects.decoding import check_size
from dragoman.errors import MalformedError
from dragoman.gateway.admission import admit, shares_credential
from dragoman.gateway.body import read_body
from dragoman.gateway.call import Call
from dragoman.gateway.client_stream import ClientStream
from dragoman.gateway.fault_replies import refused
from dragoman.gateway.guards import loop_fault, with_note
from dragoman.gateway.job import Job
from dragoman.gateway.overrides import apply
from dragoman.gateway.pump import Pump
from dragoman.translate import Translator
from dragoman.translate_requests import ClientRequest, read_request
from dragoman.turn.events import Fault
from dragoman.turn.losses import Loss
from dragoman.turn.repeats import find_loop
from dragoman.turn.request import Request


async def answer(call: Call) -> web.StreamResponse:
    """Answer a client's request."""
    # The request itself is held by its job alone, which lets it go: this frame lasts as long as the answer.
    accepted = await _accept(call, *await read_client(call))
    if isinstance(accepted, Fault):
        return refused(call, accepted)
    job = call.job = accepted
    watch = call.runtime.watch
    watch.add(job.flight)
    try:
        return await Pump(job, call.runtime).run()
    finally:
        watch.remove(job.flight)
        job.flight.close()
        _count_usage(call, job)


async def _accept(call: Call, client: ClientRequest, previous: str) -> Job | Fault:
    """Return what is to be done for a request, or why it is refused."""
    admitted = await admit(call, client)
    if isinstance(admitted, Fault):
        return admitted
    choice = admitted.choice
    asked, params = client.request, choice.route.params
    request, warnings = await call.runtime.heavy.run(
        len(client.body), lambda: _guarded(call, apply(params, asked))
    )
    if isinstance(request, Fault):
        call.leave(0)
        return request
    return Job(
        plan=call.plan,
        request_id=call.id,
        owner=call.owner,
        client=client,
        request=request,
        previous=previous,
        headers=call.http.headers,
        choice=choice,
        guess=admitted.guess,
        estimate=admitted.estimate,
        warnings=warnings,
        cors=call.cors,
        held=call.body,
        notes_ids=shares_credential(call, choice.route),
        flight=ClientStream(call.http, call.plan.settings.server, dialect(call.dialect).keep_alive),
    )


async def read_client(call: Call) -> tuple[ClientRequest, str]:
    """Return a client's request, and the id of the kept response that it goes on from."""
    plan = call.plan
    limits = plan.settings.server.limits
    heavy = call.runtime.heavy
    body = await read_body(call.http, limits.max_request_bytes, call.body.add)
    previous = ""
    if call.dialect == "responses":
        received = body
        await heavy.run(len(received), lambda: check_size(received, limits))
        body, previous = await _expanded(call, body)
    sealer = plan.sealer(call.owner)
    client = await heavy.run(
        len(body), lambda: read_request(body, source=call.dialect, sealer=sealer, limits=limits)
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
    except MalformedError as error:
        if error.code not in _NOT_KEPT:
            raise
        return body, ""  # an upstream of this dialect may know it; another refuses it as unknown
    call.body.add(max(0, len(found.body) - len(body)))
    return found.body, found.previous_id


_NOT_KEPT: Final = frozenset({"previous_response_not_found", "item_not_found"})


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


def _count_usage(call: Call, job: Job) -> None:
    """Charge the key for what a request has used, and learn from it."""
    usage = job.usage
    if usage is None or usage.estimated:
        return
    call.leave(usage.prompt_tokens + usage.output_tokens)
    call.runtime.calibration.learn(job.request.model, job.guess, usage.prompt_tokens)


async def break_off(job: Job, fault: Fault) -> web.StreamResponse:
    """End a stream that was begun, after a failure of our own."""
    job.outcome = fault
    translator = job.translator
    if translator is None or not translator.begun:
        translator = Translator(source="chat", target=job.dialect, request=job.request)
    await job.flight.write_last(translator.fail(fault))
    return await job.flight.end()
