"""Calls that are not what the model meant: cut by a limit, or with arguments that are no JSON.

They stay in the history as they came, so that the model can be told about them; they are never run.
"""

from msgspec import structs

from dragoman.client.errors import ClientError
from dragoman.turn.answer import Answer


def with_broken_call(error: ClientError) -> Answer:
    """Return an answer that failed because of a call's arguments and nothing else.

    Raises:
        ClientError: it failed for another reason.
    """
    answer = error.received
    if error.code != "invalid_arguments" or answer is None:
        raise error
    if not answer.call_blocks or answer.call_blocks[-1] is not answer.blocks[-1]:
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
