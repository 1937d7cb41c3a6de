"""What a strict target refuses: a request that would mean something else on arrival."""

from collections.abc import Iterable
from typing import Final

from dragoman.errors import UntranslatableError
from dragoman.turn.losses import CODES, Loss

# Losses that leave the meaning of a request as it was, whatever the dialect of the target.
_HARMLESS: Final = frozenset(
    {
        "cache_hint_dropped",
        "call_id_renumbered",
        "json_object_emulated",
        "opaque_dropped",
        "reasoning_dropped",
        "system_midturn_emulated",
        "tool_choice_dropped",
        "tool_choice_narrowed",
        "tool_renamed",
        "turn_added",
        "user_turn_appended",
    }
)


def refuse_losses(losses: Iterable[Loss], *, harmless: frozenset[str]) -> None:
    """Refuse a request of which something is lost; `harmless` are further codes that do no harm.

    Raises:
        UntranslatableError: with the path of the first thing that would be lost.
    """
    for loss in losses:
        if loss.code not in _HARMLESS and loss.code not in harmless:
            detail = f": {loss.detail}" if loss.detail else ""
            raise UntranslatableError(f"{CODES[loss.code]}{detail}", path=loss.path, code=loss.code)
