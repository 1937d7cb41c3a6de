"""What a client asks of the model's reasoning, both ways.

The dialect has one field for it; vendors have their own, and each upstream is told in the one it knows.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from dragoman.dialects.chat.request_schema import OPENROUTER, TEMPLATE, THINKING
from dragoman.dialects.decoding import decode
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import effort_of
from dragoman.errors import Malformed
from dragoman.profiles.profile import Profile
from dragoman.turn.loss import Loss
from dragoman.turn.request import ReasoningWish, Request

T = TypeVar("T")

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# Fields by which vendors take the client's wish.
FIELDS: Final = (
    "reasoning",
    "thinking",
    "chat_template_kwargs",
    "enable_thinking",
    "thinking_budget",
)


def decode_wish(effort: str | None, fields: Mapping[str, Raw]) -> ReasoningWish:
    """Return the client's wish, whichever of the known fields it stands in."""
    if effort:
        return _wish(effort)
    if "reasoning" in fields:
        asked = _read(OPENROUTER, fields["reasoning"])
        if asked is not None and asked.enabled is not False:
            if asked.effort:
                return _wish(asked.effort)
            if asked.max_tokens is not None:
                return _budget(asked.max_tokens)
        if asked is not None and asked.enabled is not None:
            return ReasoningWish(mode="auto" if asked.enabled else "off")
    if "thinking" in fields:
        thinking = _read(THINKING, fields["thinking"])
        if thinking is not None and thinking.budget_tokens is not None:
            return _budget(thinking.budget_tokens)
        if thinking is not None and thinking.type:
            return ReasoningWish(mode="off" if thinking.type == "disabled" else "auto")
    switch = _switch(fields)
    return ReasoningWish() if switch is None else ReasoningWish(mode="auto" if switch else "off")


def _wish(effort: str) -> ReasoningWish:
    return ReasoningWish(mode="off" if effort == "none" else "effort", effort=effort)


def _budget(tokens: int) -> ReasoningWish:
    """Return the wish for a budget; several vendors write a number below 0 where the model decides."""
    return ReasoningWish(mode="auto") if tokens < 0 else ReasoningWish(mode="budget", budget=tokens)


def _switch(fields: Mapping[str, Raw]) -> bool | None:
    word = bytes(fields.get("enable_thinking", Raw(b"")))
    if word in (b"true", b"false"):
        return word == b"true"
    template = fields.get("chat_template_kwargs")
    arguments = None if template is None else _read(TEMPLATE, template)
    if arguments is None:
        return None
    return arguments.thinking if arguments.enable_thinking is None else arguments.enable_thinking


def _read(decoder: msgspec.json.Decoder[T], raw: Raw) -> T | None:
    """Read a vendor's field; one of an unknown shape says nothing."""
    try:
        return decode(decoder, bytes(raw))
    except Malformed:
        return None


def encode_wish(
    request: Request, wish: ReasoningWish, profile: Profile, losses: list[Loss]
) -> dict[str, object]:
    """Return the fields that tell an upstream of the client's wish."""
    if wish.mode == "default":
        return {}
    path = path_of(request, "thinking")
    off = wish.mode == "off" or wish.effort == "none"
    effort = "none" if off else _effort(wish, path, losses)
    match profile.reasoning_control:
        case "none":
            losses.append(Loss("thinking_dropped", path))
            return {}
        case "openrouter":
            return {"reasoning": _openrouter(wish, effort, profile, path, losses)}
        case "thinking_type":
            fields: dict[str, object] = {"thinking": {"type": "disabled" if off else "enabled"}}
            # An effort beside thinking that is off is refused as a contradiction.
            if effort and not off and profile.supported_efforts:
                fields["reasoning_effort"] = _nearest(effort, profile, path, losses)
            return fields
        case "chat_template_kwargs":
            return {"chat_template_kwargs": {"enable_thinking": not off}}
        case "enable_thinking":
            budget = {} if off or wish.budget is None else {"thinking_budget": wish.budget}
            return {"enable_thinking": not off, **budget}
        case _:
            if not effort:
                return {}
            return {"reasoning_effort": _nearest(effort, profile, path, losses)}


def _openrouter(
    wish: ReasoningWish, effort: str, profile: Profile, path: str, losses: list[Loss]
) -> dict[str, object]:
    if effort == "none":
        return {"enabled": False}
    if wish.mode == "budget":
        return {"max_tokens": wish.budget}
    return {"effort": _nearest(effort, profile, path, losses)} if effort else {"enabled": True}


def _effort(wish: ReasoningWish, path: str, losses: list[Loss]) -> str:
    """Return the effort that the wish names or amounts to; empty: the model shall decide."""
    if wish.effort:
        if wish.effort in EFFORTS:
            return wish.effort
        losses.append(Loss("effort_adjusted", path, f"unknown: {wish.effort}"))
        return "high"
    if wish.budget is None:
        return ""
    return effort_of(wish.budget)


def _nearest(effort: str, profile: Profile, path: str, losses: list[Loss]) -> str:
    """Return the nearest effort that the upstream knows: the next lower one, else the next higher."""
    known = [one for one in profile.supported_efforts if one in EFFORTS]
    if effort in known or not known:
        return effort
    rank = EFFORTS.index(effort)
    lower = [one for one in known if one != "none" and EFFORTS.index(one) < rank]
    higher = [one for one in known if EFFORTS.index(one) > rank]
    nearest = max(lower, key=EFFORTS.index) if lower else min(higher or known, key=EFFORTS.index)
    losses.append(Loss("effort_adjusted", path, f"{effort} became {nearest}"))
    return nearest
