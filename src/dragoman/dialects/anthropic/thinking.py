"""What a client asks of the model's reasoning, both ways: budgets, efforts, and what is shown."""

from typing import Final

from msgspec import Struct

from dragoman.dialects.anthropic import schema
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import effort_of
from dragoman.errors import Malformed
from dragoman.profiles.profile import Profile
from dragoman.turn.loss import Loss
from dragoman.turn.request import ReasoningWish, Request

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
MIN_BUDGET: Final = 1024  # the vendor refuses less
_MAX_BUDGET: Final = 64_000

# An effort as a budget of tokens.  "max" takes all there is.
_BUDGETS: Final[dict[str, int]] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": _MAX_BUDGET,
}
_USUAL_EFFORT: Final = "high"  # what a model that decides for itself goes by

_SHOWN: Final = {"summarized": "summary", "omitted": "none"}
_DISPLAY: Final = {"summary": "summarized", "none": "omitted"}


def decode_thinking(
    thinking: schema.Thinking | None, effort: str | None, losses: list[Loss]
) -> ReasoningWish:
    """Return the client's wish.  An effort wins over a budget; thinking that is off has neither.

    Raises:
        Malformed: an effort that does not exist, or a budget that is missing.
    """
    if effort is not None and effort not in EFFORTS:
        raise Malformed(f"there is no effort `{effort}`", path="$.output_config.effort")
    if thinking is None:
        return ReasoningWish(mode="effort", effort=effort) if effort else ReasoningWish()
    show = _SHOWN.get(thinking.display or "", "")
    match thinking.type:
        case "disabled" | "between_tools":
            if effort:
                losses.append(Loss("effort_adjusted", "$.output_config.effort", "thinking is off"))
            return ReasoningWish(mode="off")
        case "adaptive":
            return ReasoningWish(mode="auto", effort=effort or "", show=show)  # type: ignore[arg-type]  # values of the table
        case "enabled":
            if thinking.budget_tokens is None:
                raise Malformed("thinking needs a budget", path="$.thinking.budget_tokens")
            mode = "effort" if effort else "budget"
            return ReasoningWish(
                mode=mode,  # type: ignore[arg-type]  # one of two literals
                effort=effort or "",
                budget=thinking.budget_tokens,
                show=show,  # type: ignore[arg-type]  # values of the table
            )


class Plan(Struct, frozen=True):
    """What is asked of the upstream."""

    thinking: schema.Thinking | None = None
    effort: str | None = None

    @property
    def on(self) -> bool:
        """The upstream is asked to think."""
        return self.thinking is not None and self.thinking.type in ("enabled", "adaptive")

    @property
    def by_budget(self) -> bool:
        return self.thinking is not None and self.thinking.type == "enabled"

    def off(self) -> "Plan":
        """Return the plan of not thinking."""
        return Plan(schema.Thinking("disabled"))


def encode_thinking(
    request: Request, profile: Profile, max_tokens: int, losses: list[Loss]
) -> Plan:
    """Return how the client's wish is said to this upstream."""
    wish = request.reasoning
    effort = wish.effort
    if effort and effort not in EFFORTS:
        losses.append(Loss("effort_adjusted", path_of(request, "thinking"), f"unknown: {effort}"))
        effort = _USUAL_EFFORT
    if wish.mode == "default":
        return Plan()
    if profile.reasoning_control == "none":
        if wish.mode != "off":
            losses.append(Loss("thinking_dropped", path_of(request, "thinking")))
        return Plan()
    if wish.mode == "off" or effort == "none":
        return Plan(schema.Thinking("disabled"))
    if wish.mode == "effort" and request.dialect == "anthropic" and wish.budget is None:
        # A Messages client that names an effort alone does not ask for thinking.
        return Plan(None, _supported(effort, request, profile, losses))
    display = _DISPLAY.get(wish.show)
    adaptive = profile.reasoning_control == "adaptive" or (
        profile.reasoning_control != "budget" and wish.mode == "auto"
    )
    if adaptive:
        if wish.mode == "budget":
            effort = effort_of(wish.budget or 0)
        said = _supported(effort, request, profile, losses) if effort else None
        return Plan(schema.Thinking("adaptive", display=display), said)
    if wish.mode == "budget":
        budget = wish.budget or MIN_BUDGET
    else:
        budget = _BUDGETS[effort or _USUAL_EFFORT]
    shown = display if request.dialect == "anthropic" else None
    return _within(budget, max_tokens, request, losses, shown, exact=wish.mode == "budget")


def _within(  # noqa: PLR0913 -- the budget, its bounds, and where to complain
    budget: int,
    max_tokens: int,
    request: Request,
    losses: list[Loss],
    display: str | None,
    *,
    exact: bool,
) -> Plan:
    """Bring a budget between the vendor's least and the output limit, which is not raised for it."""
    path = path_of(request, "thinking")
    if max_tokens <= MIN_BUDGET:
        losses.append(Loss("thinking_dropped", path, f"an output limit of {max_tokens} tokens"))
        return Plan()
    bounded = max(MIN_BUDGET, min(budget, max_tokens - 1))
    if exact and bounded != budget:
        losses.append(Loss("value_clamped", path, f"budget {budget} became {bounded}"))
    return Plan(schema.Thinking("enabled", budget_tokens=bounded, display=display))


def _supported(effort: str, request: Request, profile: Profile, losses: list[Loss]) -> str | None:
    """Return the nearest effort that the upstream knows: the next lower one, else the next higher."""
    known = [one for one in profile.supported_efforts if one in EFFORTS and one != "none"]
    if effort in known or not known:
        return effort
    rank = EFFORTS.index(effort)
    lower = [one for one in known if EFFORTS.index(one) < rank]
    nearest = max(lower, key=EFFORTS.index) if lower else min(known, key=EFFORTS.index)
    losses.append(
        Loss("effort_adjusted", path_of(request, "thinking"), f"{effort} became {nearest}")
    )
    return nearest
