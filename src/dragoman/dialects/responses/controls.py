"""How long a model thinks and in what form it answers, in the words of the Responses dialect."""

from typing import Final

import msgspec
from msgspec import Raw

from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import effort_of
from dragoman.dialects.responses.report import Report
from dragoman.dialects.responses.toolset import Toolset
from dragoman.errors import Untranslatable
from dragoman.profiles.profile import Profile
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request
from dragoman.wire.json_values import decode_any

JSON_INSTRUCTION: Final = "Respond with a single JSON object."
SCHEMA_INSTRUCTION: Final = (
    "Respond with a single JSON object that is valid against this JSON schema:\n"
)

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def reasoning_settings(
    request: Request, profile: Profile, report: Report, toolset: Toolset
) -> dict[str, str]:
    """Return the `reasoning` that the request asks for, as far as the upstream knows it."""
    wish, path = request.reasoning, path_of(request, "thinking")
    effort = wish.effort
    match wish.mode:
        case "off":
            effort = "none"
        case "budget" if not effort:
            effort = effort_of(wish.budget or 0)
        case _:
            pass
    thinks = wish.mode not in ("default", "off")
    if profile.reasoning_control == "none":
        if wish.mode != "default":
            report.lose(Loss("thinking_dropped", path))
        return {}
    if thinks and toolset.forced and not profile.forced_tool_choice_with_thinking:
        match profile.forced_tool_choice_policy:
            case "error":
                reason = "this upstream cannot think when a tool is forced"
                raise Untranslatable(reason, path="$.tool_choice")
            case "downgrade":
                toolset.weaken()
            case "disable_thinking":
                report.lose(Loss("thinking_disabled_by_tool_choice", path))
                return {}
    settings: dict[str, str] = {}
    if effort:
        settings["effort"] = _nearest(effort, profile.supported_efforts)
        if settings["effort"] != effort:
            report.note(Loss("effort_adjusted", path, f"{effort} became {settings['effort']}"))
    if wish.show in ("summary", "full") or (thinks and wish.show == "" and _shows(request)):
        detailed = wish.show == "full" and request.dialect == "responses"
        settings["summary"] = "detailed" if detailed else "auto"
    return settings


def _shows(request: Request) -> bool:
    """Say whether a client that did not ask is shown reasoning by its own vendor."""
    return request.dialect == "anthropic"


def _nearest(effort: str, supported: tuple[str, ...]) -> str:
    """Return the nearest effort that is supported: below, else above."""
    if effort in supported or effort not in EFFORTS or not supported:
        return effort
    place = EFFORTS.index(effort)
    below = [word for word in EFFORTS[:place] if word in supported]
    above = [word for word in EFFORTS[place:] if word in supported]
    # No thinking at all is another thing than little of it.
    if below and below[-1] != "none":
        return below[-1]
    return above[0] if above else below[-1] if below else effort


def is_strict(schema: Raw) -> bool:
    """Say whether a schema is as strict mode demands: closed objects, every property required."""
    try:
        return _closed(decode_any(schema))
    except (msgspec.DecodeError, RecursionError):
        return False


def _closed(node: object) -> bool:
    if isinstance(node, list):
        return all(map(_closed, node))
    if not isinstance(node, dict):
        return True
    if node.get("type") == "object" or "properties" in node:
        properties = node.get("properties")
        required = node.get("required")
        names = properties.keys() if isinstance(properties, dict) else set()
        listed = set(required) if isinstance(required, list) else set()
        if node.get("additionalProperties") is not False or names - listed:
            return False
    return all(map(_closed, node.values()))
