"""Quirks of how a server accepts requests: fields that it refuses with a 400 or ignores silently."""

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from msgspec import structs

from dragoman.errors import MalformedError
from dragoman.simulator.answer_writers import gemini
from dragoman.simulator.behaviour import compose
from dragoman.simulator.play import Fields, Json, Play
from dragoman.simulator.quirks.content import think
from dragoman.simulator.quirks.quirk import Quirk
from dragoman.turn.events import Flavor
from dragoman.turn.request import (
    ASSISTANT,
    ImagePart,
    ReasoningPart,
    Request,
    ToolCallPart,
    ToolChoice,
    Turn,
)

_LONG_ID: Final = 40
_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")
_NINE: Final = re.compile(r"[A-Za-z0-9]{9}")
_INSTRUCTIONS: Final = ("system", "developer")

_HISTORIES: Final = ("input", "messages", "contents")

Holds: TypeAlias = Callable[[Play], bool]


def _messages(fields: Fields) -> list[Fields]:
    listed = next((fields[name] for name in _HISTORIES if name in fields), None)
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _roles(play: Play) -> list[Json]:
    return [one.get("role") for one in _messages(play.asked.fields)]


def _midturn(play: Play) -> bool:
    roles = _roles(play)
    before = next((at for at, role in enumerate(roles) if role not in _INSTRUCTIONS), len(roles))
    return any(role in _INSTRUCTIONS for role in roles[before:])


def _has_field(name: str) -> Holds:
    return lambda play: play.asked.fields.get(name) is not None


def _chooses(mode: str) -> Holds:
    def holds(play: Play) -> bool:
        choice = play.asked.request.tool_choice
        return choice is not None and choice.mode == mode

    return holds


def _turns_with_calls(request: Request) -> Iterator[Turn]:
    for turn in request.turns:
        if turn.role is ASSISTANT and any(isinstance(one, ToolCallPart) for one in turn.parts):
            yield turn


def _reasons(turn: Turn) -> bool:
    return any(isinstance(one, ReasoningPart) for one in turn.parts)


def _null_content(play: Play) -> bool:
    return any("content" in one and one["content"] is None for one in _messages(play.asked.fields))


def _listed_content(play: Play) -> bool:
    return any(isinstance(one.get("content"), list) for one in _messages(play.asked.fields))


def _ids(good: Callable[[str], object]) -> Holds:
    return lambda play: not all(good(one) for one in play.asked.request.call_ids)


def _many_instructions(play: Play) -> bool:
    return sum(role in _INSTRUCTIONS for role in _roles(play)) > 1


def _hot(play: Play) -> bool:
    heat = play.asked.request.sampling.temperature
    return heat is not None and heat > 1


def _images(play: Play) -> bool:
    parts = (part for turn in play.asked.request.turns for part in turn.parts)
    return any(isinstance(part, ImagePart) for part in parts)


def _custom_tools(play: Play) -> bool:
    """Return whether a tool that is not a function is declared or was called; server tools are ignored."""
    request = play.asked.request
    parts = (part for turn in request.turns for part in turn.parts)
    flavors = {part.flavor for part in parts if isinstance(part, ToolCallPart)}
    flavors |= {tool.flavor for tool in request.tools if not tool.server}
    return bool(flavors - {Flavor.FUNCTION})


# What may be refused: each function returns whether a request has it.
_REFUSED: Final[dict[str, Holds]] = {
    "developer": lambda play: "developer" in _roles(play),
    "midturn-system": _midturn,
    "two-systems": _many_instructions,
    "images": _images,
    "parts": _listed_content,
    "null-content": _null_content,
    "tools": lambda play: bool(play.asked.request.tools),
    "custom-tools": _custom_tools,
    "server-tools": lambda play: any(tool.server for tool in play.asked.request.tools),
    "required": _chooses("required"),
    "named": _chooses("tool"),
    "none": _chooses("none"),
    "parallel-flag": lambda play: play.asked.request.parallel is not None,
    "max_tokens": _has_field("max_tokens"),
    "max_completion_tokens": _has_field("max_completion_tokens"),
    "stream_options": _has_field("stream_options"),
    "stop": lambda play: bool(play.asked.request.stop),
    "temperature": lambda play: play.asked.request.sampling.temperature is not None,
    "hot": _hot,
    "effort": lambda play: bool(play.asked.request.reasoning.effort),
    "odd-ids": _ids(_WORD.fullmatch),
    "long-ids": _ids(lambda one: len(one) <= _LONG_ID),
    "foreign-ids": _ids(_NINE.fullmatch),
    "unreasoned": lambda play: not all(map(_reasons, _turns_with_calls(play.asked.request))),
    "reasoning": lambda play: any(map(_reasons, play.asked.request.turns)),
}


def _without_choice(mode: str) -> Callable[[Request], Request]:
    """Drop a tool choice: without `required` the model makes no call, otherwise it decides itself."""
    left: ToolChoice = ToolChoice("none" if mode == "required" else "auto")

    def change(request: Request) -> Request:
        choice = request.tool_choice
        if choice is None or choice.mode != mode:
            return request
        return structs.replace(request, tool_choice=left)

    return change


# What may be ignored: each function returns the request without it.
_IGNORED: Final[dict[str, Callable[[Request], Request]]] = {
    "required": _without_choice("required"),
    "named": _without_choice("tool"),
    "none": _without_choice("none"),
    "parallel-flag": lambda request: structs.replace(request, parallel=None),
    "stop": lambda request: structs.replace(request, stop=()),
    "max_tokens": lambda request: structs.replace(request, max_output=None),
}


def _refuses(play: Play, value: str) -> Play:
    if _REFUSED[value](play):
        what = _reasoning_sent(play) if value == "reasoning" else value
        raise MalformedError(f"the simulator refuses `{what}`", code="unsupported_value")
    return play


def _reasoning_sent(play: Play) -> str:
    """Return the field, block or item in which the request carries reasoning."""
    fields = ("reasoning_content", "reasoning", "reasoning_details")
    messages = _messages(play.asked.fields)
    sent = (name for name in fields if any(name in one for one in messages))
    return next(sent, _reasoning_place(play))


def _ignores(play: Play, value: str) -> Play:
    asked = play.asked
    if value == "max_tokens" and "max_completion_tokens" in asked.fields:
        return play  # the quirk does not apply to the newer name of Chat's limit
    changed = structs.replace(asked, request=_IGNORED[value](asked.request))
    own = play.reply == compose(asked)  # not a script's
    return structs.replace(play, asked=changed, reply=compose(changed) if own else play.reply)


def _needs_reasoning(play: Play, value: str) -> Play:
    """Add reasoning, and refuse a turn with calls that lacks its reasoning.

    The required field is the one in which the answers carry reasoning; the error names it.
    """
    field = _reasoning_place(play)
    if play.asked.request.dialect == "chat":
        complete = all(
            one.get(field) for one in _messages(play.asked.fields) if "tool_calls" in one
        )
    elif play.asked.request.dialect == "gemini":
        complete = all(map(_is_signed, _messages(play.asked.fields)))
    else:
        complete = all(map(_reasons, _turns_with_calls(play.asked.request)))
    if not complete:
        raise MalformedError(
            f"thinking is enabled but `{field}` is missing in an assistant message with tool calls; "
            f"the `{field}` of every such message must be passed back",
            code="invalid_request_error",
        )
    return think(play, value)


def _is_signed(content: Fields) -> bool:
    """Return whether the first call of a content of Gemini, if it has one, carries the signature it was given."""
    parts = content.get("parts")
    for part in parts if isinstance(parts, list) else ():
        call = part.get("functionCall") if isinstance(part, dict) else None
        if isinstance(part, dict) and isinstance(call, dict):
            signature = str(part.get("thoughtSignature") or "")
            call_id = str(call.get("id") or "")
            return gemini.is_signature(signature, call_id, str(call.get("name", "")))
    return True


def _reasoning_place(play: Play) -> str:
    """Return the name of the field, block or item that carries reasoning in this dialect."""
    match play.asked.request.dialect:
        case "chat":
            return play.style.reasoning_fields[0]
        case "anthropic":
            return "thinking"
        case "gemini":
            return "thought_signature"
        case _:
            return "reasoning"


ROWS: Final = (
    Quirk(
        "refuses",
        "WHAT",
        f"a 400 if the request has it: {', '.join(_REFUSED)}",
        _refuses,
        words=tuple(_REFUSED),
    ),
    Quirk(
        "ignores",
        "WHAT",
        f"ignores it: {', '.join(_IGNORED)}",
        _ignores,
        words=tuple(_IGNORED),
    ),
    Quirk(
        "needs-reasoning",
        "",
        "it always thinks; a 400 that names the field if a turn with calls is sent back without its "
        "reasoning",
        _needs_reasoning,
        "written",  # after `reasoning-field` has chosen the field
    ),
)
