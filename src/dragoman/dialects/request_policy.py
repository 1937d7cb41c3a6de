"""Decisions that every request writer makes in the same way."""

from typing import Final

from dragoman.context import Target
from dragoman.dialects.paths import path_of
from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request

# A thinking budget as an effort: the first row that it reaches.
_EFFORTS: Final = ((32_768, "xhigh"), (16_384, "high"), (4096, "medium"))
GO_ON: Final = "Continue."  # the user turn that stands behind an assistant turn


def continues(request: Request, profile: Profile) -> bool:
    """Say whether the upstream goes on from an assistant turn at the end of a translated request.

    A turn that is being continued has no place for new reasoning, and upstreams refuse to do both.  A
    Messages client that asks for both gets the upstream's own refusal.
    """
    if profile.prefill == "no":
        return False
    wish = request.reasoning
    thinks = wish.mode not in ("default", "off") and wish.effort != "none"
    return request.dialect == "anthropic" or not thinks


def go_on_loss(request: Request, target: Target) -> Loss:
    """Return the loss for a user turn `GO_ON` after an assistant turn that the upstream cannot continue.

    In Messages a last assistant turn is a prefill: the client expects the rest of that very text, so
    the route's `prefill` setting decides.  Chat and Responses define no such thing: there the model says
    what comes next, and Codex ends its history so when it repeats a request after a broken stream.
    So does opencode in Messages, and a client that declares tools is an agent, which joins no text.

    Raises:
        UntranslatableError: the turn is a prefill and the route rejects those.
    """
    path = path_of(request, "messages")
    if request.dialect != "anthropic" or request.tools:
        return Loss("user_turn_appended", path)
    if target.prefill == "reject":
        reason = "this model does not continue an assistant's turn (prefill)"
        raise UntranslatableError(reason, path=path, code="prefill_not_supported")
    return Loss("prefill_emulated", path)


def effort_of(budget: int) -> str:
    """Return the effort that a thinking budget amounts to, for upstreams that take no number of tokens."""
    return next((effort for least, effort in _EFFORTS if budget >= least), "low")
