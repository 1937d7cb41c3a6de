"""Reads, decodes, checks and routes a client's request, and looks for repeated calls.

Every endpoint that asks an upstream passes `admit` (its request names a model) or `admit_without_model`, so that a
key's models and limits hold everywhere.  Where several keys share an upstream's credential, a request may name only
such state at the upstream as its own key was given.  The app ends the admission with the request.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from aiohttp import web
from msgspec import structs

from dragoman.dialects import dialect
from dragoman.dialects.decoding import check_size
from dragoman.dialects.server_tools import mcp_secrets
from dragoman.dialects.stored_responses import NOT_STORED
from dragoman.envelopes import Sealer
from dragoman.errors import MalformedError, PeerError, TooLargeError
from dragoman.gateway.admission import Admission, Unserved
from dragoman.gateway.capacity import shutting_down
from dragoman.gateway.config.settings import Guards
from dragoman.gateway.keys import Holder
from dragoman.gateway.overrides import apply
from dragoman.gateway.request_context import AcceptedRequest, RequestContext
from dragoman.gateway.routing import Question, RouteChoice
from dragoman.gateway.state.key_limits import BUSY
from dragoman.gateway.vendor_ids import not_given
from dragoman.limits import Limits
from dragoman.recorder.writer import credentials_of
from dragoman.translate_requests import ClientRequest, read_request
from dragoman.transport.compression import ENCODINGS, Unpacker, unpacker
from dragoman.turn.estimate import estimate_tokens
from dragoman.turn.events import Fault, FaultKind
from dragoman.turn.losses import Loss
from dragoman.turn.repeats import Loop, find_loop
from dragoman.turn.request import USER, DialectName, Request, TextPart, Turn

_PLAIN: Final = frozenset({"", "identity"})
_SECONDS: Final = 120.0  # a client that sends slower than this holds a place for nothing
_UNPACKED_BYTES: Final = 1024 * 1024  # at once: a small packet may hold a thousand times its size
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_THINKS: Final = frozenset({"auto", "budget", "effort"})


async def accept(context: RequestContext) -> AcceptedRequest | Fault:
    """Return a client's request that may go upstream, or its refusal."""
    client, previous_id = await read_client_request(context, record=True)
    choice = await admit(context, client)
    if isinstance(choice, Fault):
        return choice
    plan, outcome = context.plan, context.outcome
    request, guards, params = client.request, plan.settings.guards, choice.route.params
    if params or guards.loops != "off":
        changed, outcome.guard_losses = await context.runtime.heavy.run(
            len(client.body), lambda: guarded(guards, apply(params, client.request))
        )
        if isinstance(changed, Fault):
            context.leave(0)
            return changed
        request = changed
    if context.logs_steps:
        context.debug(
            "request accepted",
            model=request.model,
            route=choice.route_name,
            upstreams=", ".join(f"{hop.upstream_name}/{hop.model}" for hop in choice.hops),
            bytes=len(client.body),
            turns=len(request.turns),
            tools=len(request.tools),
        )
    outcome.hop = choice.hops[0]
    outcome.streams, outcome.has_tools = request.stream, bool(request.tools)
    return AcceptedRequest(client, request, choice, previous_id=previous_id)


async def read_client_request(
    context: RequestContext, *, record: bool = False
) -> tuple[ClientRequest, str]:
    """Return a client's request, and the id of the stored response that it continues; note its size."""
    plan = context.plan
    limits = plan.settings.server.limits
    heavy = context.runtime.heavy
    body = await read_body(context)
    spoken = dialect(context.dialect)
    paths = spoken.model_paths
    if paths is not None and context.named is not None:
        named, sent, join = context.named, body, paths.join
        try:
            await heavy.run(len(sent), lambda: check_size(sent, limits))
            body = await heavy.run(len(sent), lambda: join(named, sent))
        except PeerError:
            if record:
                context.begin_recording(sent)  # unchanged: there is no object to join
            raise
    if record:
        context.begin_recording(body)
    previous_id = ""
    if spoken.stores_responses:
        received = body
        await heavy.run(len(received), lambda: check_size(received, limits))
        body, previous_id = await _expanded(context, body)
    sealer = plan.sealer(context.owner)
    client, context.outcome.guess = await heavy.run(
        len(body), lambda: _read_and_estimate(body, context.dialect, sealer, limits)
    )
    context.outcome.model = client.request.model
    context.outcome.secrets = mcp_secrets(client.request)
    return client, previous_id


def _read_and_estimate(
    body: bytes, source: DialectName, sealer: Sealer, limits: Limits
) -> tuple[ClientRequest, int]:
    client = read_request(body, source=source, sealer=sealer, limits=limits)
    return client, estimate_tokens(client.request)


async def _expanded(context: RequestContext, body: bytes) -> tuple[bytes, str]:
    """Return a request with the stored items that it only names, and the id that it continues."""
    store = context.runtime.store
    if store is None:
        return body, ""
    try:
        found = await store.expand(body, context.owner, limits=context.plan.settings.server.limits)
    except MalformedError as error:
        if error.code not in NOT_STORED:
            raise
        return body, ""  # an upstream of this dialect may know it; another refuses it as unknown
    context.held.add(max(0, len(found.body) - len(body)))
    return found.body, found.previous_id


# --- admission ------------------------------------------------------------------------------------


async def admit(context: RequestContext, client: ClientRequest) -> RouteChoice | Fault:
    """Admit a request that names a model: return the route and its upstreams, or a refusal, which costs nothing."""
    request = client.request
    fault = None if context.holder is None else context.holder.may_use(request.model)
    if fault is not None:
        return fault
    outcome = context.outcome
    outcome.estimate = context.runtime.calibration.corrected(request.model, outcome.guess)
    choice = _choose(context, request, outcome.estimate)
    if isinstance(choice, Fault):
        return choice
    if context.plan.shares_credential(choice.route):
        fault = await _refuse_ids(context, client, choice)
    return fault or await _enter(context, outcome.estimate, choice.route.priority) or choice


async def admit_without_model(context: RequestContext) -> Fault | None:
    """Admit a request that names no model and generates nothing, or return its refusal."""
    return await _enter(context, 0)


async def may_name(context: RequestContext, vendor_id: str) -> bool:
    """Return whether a client may name state at an upstream: it was given the id, or its key allows it."""
    if context.holder is not None and context.holder.may_name(vendor_id):
        return True
    return await context.runtime.was_given(context.owner, vendor_id)


async def _refuse_ids(
    context: RequestContext, client: ClientRequest, choice: RouteChoice
) -> Fault | None:
    """Return the refusal of a request that names another client's state at an upstream."""
    dialects = {hop.upstream.dialect for hop in choice.hops}
    same = context.dialect in dialects
    vendors = {dialect(name).vendor for name in dialects}
    if not same and dialect(context.dialect).vendor not in vendors:
        return None  # an id of one vendor means nothing to another
    search = partial(dialect(context.dialect).named_state, client.body)
    for one in await context.runtime.heavy.run(len(client.body), search):
        if (same or one.is_file) and not await may_name(context, one.id):
            return not_given(one)
    return None


async def _enter(context: RequestContext, tokens: int, priority: int = 0) -> Fault | None:
    holder = context.holder
    if holder is None:
        return None
    if holder.enters_at_once:
        entered = holder.enter(asyncio.get_running_loop().time(), tokens)
    else:
        entered = await _enter_or_wait(context, holder, tokens, priority)
    if isinstance(entered, Fault):
        return entered
    context.outcome.admission = entered
    return None


async def _enter_or_wait(
    context: RequestContext, holder: Holder, tokens: int, priority: int
) -> Admission | Fault:
    """Enter a request as soon as its key's limit of concurrent requests allows it."""
    loop, key = asyncio.get_running_loop(), holder.key

    def attempt() -> Awaitable[Admission | Fault | None]:
        return holder.enter_shared(loop.time(), tokens)

    if not holder.entrance.queue:  # otherwise it would overtake those that wait
        entered = await attempt()
        if entered is not None:
            return entered
    assert key is not None  # noqa: S101 -- only a key has limits
    found: Admission | Fault | Unserved = await context.wait(
        holder.entrance, attempt, place=("key", holder.name), limits=key, priority=priority
    )
    if found == "draining":
        return shutting_down()
    return holder.refuse(BUSY) if isinstance(found, str) else found


def _choose(context: RequestContext, request: Request, estimate: int) -> RouteChoice | Fault:
    """Return the route of a request and its upstreams, or the refusal if no route matches."""
    by_tools = context.plan.router.asks_for_server_tools and bool(request.tools)
    question = Question(
        model=request.model,
        dialect=context.dialect,
        thinking=request.reasoning.mode in _THINKS,
        tokens=estimate,
        images=context.plan.router.asks_for_images and request.has_images,
        needed=request.needed if by_tools else frozenset(),
        offered=request.offered if by_tools else frozenset(),
        headers=context.http.headers,
    )
    choice = context.outcome.choice = context.plan.router.choose(question)
    if choice is not None:
        if choice.route.auth == "passthrough":
            context.outcome.secrets += tuple(credentials_of(context.headers))
        return choice
    named = ", ".join(f"`{one.name}`" for one in context.plan.router.models()[:10])
    message = (
        f"no route for the model `{request.model[:200]}`; see `routes` of the gateway's settings"
    )
    return Fault(
        FaultKind.NOT_FOUND, f"{message} (there are {named})" if named else message, param="model"
    )


# --- repeated calls -------------------------------------------------------------------------------


def guarded(guards: Guards, request: Request) -> tuple[Request | Fault, tuple[Loss, ...]]:
    """Return the request as it may go upstream, or its refusal if calls repeat, and warnings for the client."""
    if guards.loops == "off":
        return request, ()
    loop = find_loop(request.turns, repeats=guards.loop_repeats, longest=guards.loop_cycle)
    if loop is None:
        return request, ()
    if guards.loops == "stop":
        return loop_fault(loop), ()
    losses = (Loss("tool_loop", "$", loop.description),)
    return (with_note(request, loop) if guards.loops == "note" else request), losses


def with_note(request: Request, loop: Loop) -> Request:
    """Add a note about its loop for the model, behind everything else, so that no cached prefix changes."""
    note = TextPart(
        f"[Note from the gateway: {loop.description}, with the same arguments and the same results each time."
        " Calling again will change nothing. Use the results, try something different,"
        " or explain why you cannot continue.]"
    )
    *before, last = request.turns or (Turn(USER, ()),)
    if last.role is USER:
        return structs.replace(
            request, turns=(*before, structs.replace(last, parts=(*last.parts, note)))
        )
    return structs.replace(request, turns=(*before, last, Turn(USER, (note,))))


def loop_fault(loop: Loop) -> Fault:
    """Return the refusal of a request whose history ends with repeated calls."""
    message = (
        f"stopped by the gateway: {loop.description}, with the same arguments and the same results;"
        " explain how to continue, or change `loops` under [guards]"
    )
    return Fault(FaultKind.BAD_REQUEST, message, status=400, code="tool_loop")


# --- the body -------------------------------------------------------------------------------------


class UnknownEncodingError(MalformedError):
    """A `content-encoding` that is not supported."""

    http_status = 415


async def read_body(context: RequestContext) -> bytes:
    """Return the whole body of a request, decompressed; its bytes count against `max_inflight_bytes`.

    Raises:
        UnknownEncodingError: its `content-encoding` is not supported.
        MalformedError: it cannot be decompressed, or took too long to arrive.
        TooLargeError: it exceeds `max_request_bytes`, compressed or not.
    """
    http, count = context.http, context.held.add
    limit = context.plan.settings.server.limits.max_request_bytes
    encoding = http.headers.get("content-encoding", "").strip().lower()
    # Test: test_packed_bodies_are_read.
    packing = None if encoding in _PLAIN else unpacker(encoding)
    if packing is None and encoding not in _PLAIN:
        known = ", ".join(ENCODINGS)
        raise UnknownEncodingError(f"content-encoding `{encoding[:40]}` is not one of {known}")
    if (http.content_length or 0) > limit:
        raise TooLargeError("max_request_bytes", limit)
    if packing is None and http.content.is_eof():  # all of it is here, as mostly
        body = http.content.read_nowait()
        if len(body) > limit:
            raise TooLargeError("max_request_bytes", limit)
        count(len(body))
        return body
    try:
        async with asyncio.timeout(_SECONDS):
            # Test: test_client_that_waits_for_leave_to_send_gets_it.
            if http.headers.get("expect", "").lower() == "100-continue":
                await http.writer.write(_CONTINUE)
                http.writer.output_size = 0  # nothing of the answer has left
            return await _read(http, limit, packing, count)
    except TimeoutError as error:
        raise MalformedError(f"the body did not arrive within {_SECONDS:g} s") from error
    except web.RequestPayloadError as error:
        raise MalformedError(f"the body cannot be read: {error}") from error


async def _read(
    http: web.BaseRequest,
    limit: int,
    packing: Unpacker | None,
    count: Callable[[int], object],
) -> bytes:
    parts: list[bytes] = []
    size = 0
    while data := await http.content.readany():
        while True:
            piece = data if packing is None else packing.feed(data, _UNPACKED_BYTES)
            size += len(piece)
            if size > limit:
                raise TooLargeError("max_request_bytes", limit)
            count(len(piece))
            parts.append(piece)
            if packing is None or not packing.holds:
                break
            data = b""
            await asyncio.sleep(0)  # a few bytes may hold very much: others have their turn
    if packing is not None:
        packing.close()
    return b"".join(parts)
