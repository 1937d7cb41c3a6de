"""Calls that are not what the model meant: cut by a limit, or with arguments that are no JSON.

They stay in the history as they came, so that the model can be told about them; they are never run.
"""

from msgspec import structs

from dragoman.client.errors import ClientError
from dragoman.client.tool_calls import CUT, INVALID
from dragoman.turn.answer import Answer, Block
from dragoman.turn.events import CUT_REASONS


def with_broken_call(error: ClientError) -> Answer:
    """Return an answer that failed because of a call's arguments and nothing else.

    Raises:
        ClientError: it failed for another reason.
    """
    answer = error.received
    if error.code != "invalid_arguments" or answer is None:
        raise error
    if not answer.calls or answer.calls[-1] is not answer.blocks[-1]:
        raise error
    return answer


def for_history(answer: Answer) -> Answer:
    """Return an answer that may stand in the history with its cut and broken calls.

    Arguments that are no object are wrapped when a request is written (`object_arguments`).
    """
    blocks = tuple(
        block if block.complete else structs.replace(block, complete=True)
        for block in answer.blocks
    )
    return structs.replace(answer, blocks=blocks, fault=None)


def why_broken(call: Block, answer: Answer) -> str:
    """Return why a call must never be run: what a limit ended is not, even if it looks whole.

    A Messages body holds arguments as an object, which never shows that it was cut.
    """
    last = call is answer.blocks[-1]
    if answer.fault is not None and last:
        return answer.fault.message
    ended_early = answer.finish is not None and answer.finish.reason in CUT_REASONS
    if not call.complete and not ended_early:
        return INVALID
    return CUT if not call.complete or (ended_early and last) else ""
