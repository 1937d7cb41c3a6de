"""A Messages request for a Messages upstream that is not Anthropic's own.

The client's bytes pass, but for what the profile says is not taken there: the vendor's tools, and ways to
ask for thinking.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from dragoman.dialects.anthropic.definitions import Audience, define
from dragoman.dialects.anthropic.thinking import encode_thinking
from dragoman.dialects.decoding import decode, entries_of
from dragoman.dialects.encoding import encode
from dragoman.errors import Untranslatable
from dragoman.exchange import Target
from dragoman.profiles.profile import Profile
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request, Tool

_FIELDS: Final[msgspec.json.Decoder[dict[str, Raw] | None]] = msgspec.json.Decoder(
    dict[str, Raw] | None
)
_NULL: Final = Raw(b"null")


def misfits(request: Request, profile: Profile) -> bool:
    """Say whether a request holds tools, or asks for thinking in a way, that the upstream does not take."""
    return _misfits_in_thinking(request, profile) or any(
        tool.kind and not _fits(tool, profile) for tool in request.tools
    )


def fit_tools(
    fields: Mapping[str, Raw], request: Request, target: Target
) -> tuple[dict[str, Raw], tuple[Loss, ...]]:
    """Return the fields that change, and what is lost; `null` for a field means that it goes.

    Raises:
        Untranslatable: a tool has no form that the upstream takes, or the choice forces one that the
            upstream does not have.
    """
    losses: list[Loss] = []
    fitted: dict[str, Raw] = {}
    if any(tool.kind and not _fits(tool, target.profile) for tool in request.tools):
        fitted |= _declared(fields, request, target.profile, losses)
    if _misfits_in_thinking(request, target.profile):
        fitted |= _thinking(fields, request, target.profile, losses)
    return fitted, tuple(losses)


def _fits(tool: Tool, profile: Profile) -> bool:
    return profile.vendor_tools or (tool.server and profile.runs(tool.kind, "anthropic"))


def _declared(
    fields: Mapping[str, Raw], request: Request, profile: Profile, losses: list[Loss]
) -> dict[str, Raw]:
    """Return the tools, keeping the client's bytes of those that pass."""
    misfitting = {
        tool.path: tool for tool in request.tools if tool.kind and not _fits(tool, profile)
    }
    out: list[Raw] = []
    for at, raw in enumerate(entries_of(fields.get("tools", _NULL))):
        tool = misfitting.get(f"$.tools[{at}]")
        if tool is None:
            out.append(raw)
            continue
        defined = define((tool,), Audience(profile, 0))
        losses += defined.losses
        out += [] if defined.json is None else entries_of(defined.json)
    choice = request.tool_choice
    if choice is not None and choice.mode == "required" and not out:
        reason = "tool use is forced, and none of the tools is available at the target"
        raise Untranslatable(reason, path="$.tool_choice", code="unsupported_tool")
    return {"tools": Raw(encode(out)) if out else _NULL}


def _misfits_in_thinking(request: Request, profile: Profile) -> bool:
    mode = request.reasoning.mode
    if profile.reasoning_control == "none":
        return mode in ("auto", "budget")
    return profile.reasoning_control == "budget" and mode == "auto"


def _thinking(
    fields: Mapping[str, Raw], request: Request, profile: Profile, losses: list[Loss]
) -> dict[str, Raw]:
    """Return `thinking` as the upstream takes it, without an effort that goes with another way."""
    most = request.max_output or profile.default_max_output
    plan = encode_thinking(request, profile, most, losses)
    fitted = {"thinking": _NULL if plan.thinking is None else Raw(encode(plan.thinking))}
    config = decode(_FIELDS, fields.get("output_config", _NULL)) or {}
    if "effort" in config:
        del config["effort"]
        fitted["output_config"] = Raw(encode(config)) if config else _NULL
    return fitted
