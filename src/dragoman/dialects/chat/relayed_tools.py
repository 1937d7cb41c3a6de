"""A Chat request for a Chat upstream that takes functions and no custom tools.

The client's bytes pass, but for custom tools and the history's calls of them, which become functions.
`ToolTable` turns the calls of the answer back.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from dragoman.dialects.chat.definitions import Audience, define
from dragoman.dialects.decoding import decode, entries_of
from dragoman.dialects.encoding import encode
from dragoman.exchange import Target
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Flavor
from dragoman.turn.loss import Loss
from dragoman.turn.request import Request, ToolCallPart
from dragoman.turn.tools import wire_name
from dragoman.wire.json_values import decode_any, read_float

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_CALLS: Final[msgspec.json.Decoder[list[dict[str, Any]] | None]] = msgspec.json.Decoder(
    list[dict[str, Any]] | None, float_hook=read_float
)
_NULL: Final = Raw(b"null")


def misfits(request: Request, profile: Profile) -> bool:
    """Say whether a request holds custom tools, or calls of them, and the upstream takes none."""
    if profile.supports_custom_tools:
        return False
    return any(tool.flavor is Flavor.CUSTOM for tool in request.tools) or any(
        type(part) is ToolCallPart and part.flavor is Flavor.CUSTOM
        for turn in request.turns
        for part in turn.parts
    )


def fit_tools(
    fields: Mapping[str, Raw], request: Request, target: Target
) -> tuple[dict[str, Raw], tuple[Loss, ...]]:
    """Return the fields that change, and what is lost."""
    losses: list[Loss] = []
    custom = {tool.path: tool for tool in request.tools if tool.flavor is Flavor.CUSTOM}
    tools: list[Raw] = []
    for at, raw in enumerate(entries_of(fields.get("tools", _NULL))):
        tool = custom.get(f"$.tools[{at}]")
        if tool is None:
            tools.append(raw)
            continue
        defined = define((tool,), Audience(target.profile, native=True))
        losses += defined.losses
        tools += entries_of(defined.json)
    messages = entries_of(fields.get("messages", _NULL))
    fitted = {"messages": Raw(encode([_with_functions(one) for one in messages]))}
    if tools:
        fitted["tools"] = Raw(encode(tools))
    choice = bytes(fields.get("tool_choice", _NULL))
    if choice.startswith(b"{"):
        fitted["tool_choice"] = Raw(encode(_choice(choice)))
    return fitted, tuple(losses)


def _with_functions(message: Raw) -> Raw:
    """Return a message whose custom calls are calls of functions; the same bytes if it has none."""
    if b'"custom"' not in bytes(message):
        return message
    fields = decode(_FIELDS, message)
    calls = decode(_CALLS, fields.get("tool_calls", _NULL)) or []
    if not any(call.get("type") == "custom" for call in calls):
        return message
    fields["tool_calls"] = Raw(encode([_as_function(call) for call in calls]))
    return Raw(encode(fields))


def _as_function(call: dict[str, Any]) -> dict[str, Any]:
    custom = call.get("custom")
    if call.get("type") != "custom" or not isinstance(custom, dict):
        return call
    arguments = encode({"input": custom.get("input") or ""}).decode()
    function = {"name": wire_name(str(custom.get("name") or "")), "arguments": arguments}
    rest = {name: value for name, value in call.items() if name != "custom"}
    return rest | {"type": "function", "function": function}


def _choice(given: bytes) -> dict[str, Any]:
    """Return a choice that names functions where it named custom tools."""
    choice: dict[str, Any] = decode_any(given)
    allowed = choice.get("allowed_tools")
    if isinstance(allowed, dict) and isinstance(allowed.get("tools"), list):
        named = [_reference(one) for one in allowed["tools"]]
        return choice | {"allowed_tools": allowed | {"tools": named}}
    return _reference(choice)


def _reference(one: dict[str, Any]) -> dict[str, Any]:
    custom = one.get("custom")
    if one.get("type") != "custom" or not isinstance(custom, dict):
        return one
    return {"type": "function", "function": {"name": wire_name(str(custom.get("name") or ""))}}
