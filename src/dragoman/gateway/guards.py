"""Guards: what the gateway does about a client that repeats the same tool calls."""

from msgspec import structs

from dragoman.gateway.config.settings import Guards
from dragoman.turn.events import Fault, FaultKind
from dragoman.turn.losses import Loss
from dragoman.turn.repeats import Loop, find_loop
from dragoman.turn.request import USER, Request, TextPart, Turn


def guarded(guards: Guards, request: Request) -> tuple[Request | Fault, tuple[Loss, ...]]:
    """Return the request as it may go upstream, or its refusal, and warnings for the client."""
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
    """Return the refusal of a request that would go on with a loop."""
    message = (
        f"stopped by the gateway: {loop.description}, with the same arguments and the same results;"
        " explain how to continue, or change `loops` under [guards]"
    )
    return Fault(FaultKind.BAD_REQUEST, message, status=400, code="tool_loop")
