"""What is done about an agent whose tools go round in circles."""

from msgspec import structs

from dragoman.turn.events import Fault, FaultKind
from dragoman.turn.repeats import Loop
from dragoman.turn.request import USER, Request, TextPart, Turn


def with_note(request: Request, loop: Loop) -> Request:
    """Tell the model about its loop, behind everything else, so that no cached prefix changes."""
    note = TextPart(
        f"[Note from the gateway: {loop.says}, with the same arguments and the same results each time."
        " Calling again will change nothing. Use what the results say, try something different,"
        " or say that you cannot go on and why.]"
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
        f"stopped by the gateway: {loop.says}, with the same arguments and the same results;"
        " say how to go on, or change `loops` under [guards]"
    )
    return Fault(FaultKind.BAD_REQUEST, message, status=400, code="tool_loop")
