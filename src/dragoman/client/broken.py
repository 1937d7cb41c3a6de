"""Calls that are not what the model meant: cut by a limit, or with arguments that are no JSON.

They stand in the history, closed, so that the model can be told about them; they are never run.
"""

from msgspec import structs

from dragoman.client.calls import CUT
from dragoman.client.errors import ClientError
from dragoman.turn.events import CUT_REASONS, BlockKind
from dragoman.turn.fold import Answer, Block
from dragoman.wire.json_stream import JsonScanner


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


def closed(answer: Answer) -> Answer:
    """Return an answer whose cut and broken calls are valid JSON, so that it can stand in the history."""
    blocks = tuple(
        block if block.complete else structs.replace(block, text=_closed_text(block), complete=True)
        for block in answer.blocks
    )
    return structs.replace(answer, blocks=blocks, fault=None)


def _closed_text(block: Block) -> str:
    if block.kind is not BlockKind.TOOL_CALL:
        return block.text  # free text is as good as it is
    scanner = JsonScanner()
    scanner.feed(block.text)
    return block.text + (block.repair or scanner.closing()) if block.text else "{}"


def why_broken(call: Block, answer: Answer) -> str:
    """Return why a call must never be run: what a limit ended is not, even if it looks whole.

    A Messages body holds arguments as an object, which never shows that it was cut.
    """
    last = call is answer.blocks[-1]
    if answer.fault is not None and last:
        return answer.fault.message
    ended_early = answer.finish is not None and answer.finish.reason in CUT_REASONS
    return CUT if not call.complete or (ended_early and last) else ""
