"""Plain histories, as agents send them, written in one pass.

Text, reasoning, calls, and their results in order: nothing has to be settled or marked.  Whatever is not plain is left to `messages`, which knows everything; both write a plain history alike.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from dragoman.dialects.chat.messages import (
    EMPTY_CONTENT,
    AssistantMessage,
    Call,
    Function,
    Message,
    OutMessage,
    place_instructions,
)
from dragoman.dialects.chat.parts import OutPart, TextOut
from dragoman.dialects.chat.replay import Replay, Replayed
from dragoman.dialects.chat.results import ToolMessage, error_text
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Flavor
from dragoman.turn.loss import Loss
from dragoman.turn.request import (
    ASSISTANT,
    SYSTEM,
    USER,
    ReasoningPart,
    Request,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
)
from dragoman.turn.tools import wire_name

_FUNCTION: Final = Flavor.FUNCTION
_JSON: Final = msgspec.json.Decoder(Raw)


def plain_messages(
    request: Request, profile: Profile, instructions: Sequence[str], losses: list[Loss]
) -> list[OutMessage] | None:
    """Return the messages of a plain history, else None; `instructions` are added to the client's."""
    if not _is_simple(profile):
        return None
    lost: list[Loss] = []
    said = _conversation(request.turns, profile, lost)
    if said is None and any(turn.role is SYSTEM for turn in request.turns):
        lost = []
        said = _conversation(place_instructions(request.turns, profile, lost), profile, lost)
    if said is None:
        return None
    losses += lost
    return _system(request, profile, instructions) + said


def _conversation(
    turns: Sequence[Turn], profile: Profile, losses: list[Loss]
) -> list[OutMessage] | None:
    messages: list[OutMessage] = []
    absent = EMPTY_CONTENT[profile.empty_assistant_content]
    replay: Replay | None = None
    thoughts: list[ReasoningPart] = []  # of one turn
    ids: list[str] = []  # of the calls so far
    answered = 0  # how many of them have results
    for at, turn in enumerate(turns):
        if turn.role is ASSISTANT:
            message = _assistant(turn, ids, thoughts, absent) if answered == len(ids) else None
            if message is None:
                return None
            messages.append(message)
            if thoughts:
                if profile.replay_reasoning == "current_turn":
                    return None  # turns are not yet joined as they will be
                replay = replay or Replay(turns, profile, losses, thinks=True)
                _recall(message, replay.of(at, thoughts, calls=message.tool_calls is not None))
                thoughts = []
            continue
        answered = _user(turn, ids, answered, messages) if turn.role is USER else -1
        if answered < 0:
            return None
    if not answered == len(ids) == len(set(ids)) or (messages and messages[-1].role == "assistant"):
        return None
    return messages


def _system(request: Request, profile: Profile, instructions: Sequence[str]) -> list[OutMessage]:
    said = [part.text for part in request.system if part.text]
    said += instructions
    role = "developer" if profile.developer_role else "system"
    return [Message(role, "\n\n".join(said))] if said else []


@lru_cache(maxsize=256)
def _is_simple(profile: Profile) -> bool:
    """Say whether an upstream takes a plain history just so."""
    return (
        profile.id_style == "any"
        and profile.user_after_tool
        and profile.content_parts == "parts"
        and not profile.cache_control
        and not profile.cache_breakpoints
        and not profile.alternate_roles
        and not profile.carry_reasoning
        and not profile.reasoning_filler
    )


def _assistant(
    turn: Turn, ids: list[str], thoughts: list[ReasoningPart], absent: str | UnsetType | None
) -> AssistantMessage | None:
    """Return what the assistant said and called; adds the ids of its calls, and what it thought."""
    text = ""
    calls: list[Call] = []
    for part in turn.parts:
        if type(part) is ToolCallPart:
            call_id, arguments = part.id, part.arguments
            # Ids that were made here begin so.
            if call_id[:1] == "g" or part.flavor is not _FUNCTION or part.opaque:
                return None
            if arguments[:1] != "{":
                return None
            try:
                _JSON.decode(arguments)
            except (msgspec.DecodeError, UnicodeEncodeError):
                return None
            function = Function(wire_name(part.name, part.namespace), arguments)
            calls.append(Call(call_id, "function", function))
            ids.append(call_id)
        elif type(part) is TextPart and not calls and not part.citations:
            text += part.text
        elif type(part) is ReasoningPart:
            thoughts.append(part)
        else:
            return None
    if not calls:
        return AssistantMessage("assistant", text) if text else None
    return AssistantMessage("assistant", text or absent, tool_calls=calls)


def _recall(message: AssistantMessage, reasoning: Replayed) -> None:
    """Add the reasoning that the upstream gets back."""
    message.reasoning_content = reasoning.content
    message.reasoning = reasoning.text
    message.reasoning_details = reasoning.details


def _user(turn: Turn, ids: Sequence[str], answered: int, messages: list[OutMessage]) -> int:
    """Add results and what the user says; return how many calls are answered, below 0 if not plain."""
    texts: list[str] = []
    for part in turn.parts:
        if type(part) is ToolResultPart:
            only = part.parts[0] if len(part.parts) == 1 else None
            if answered == len(ids) or ids[answered] != part.call_id or texts:
                return -1
            if type(only) is not TextPart or not only.text:
                return -1
            text = error_text(only.text) if part.is_error else only.text
            messages.append(ToolMessage("tool", part.call_id, text))
            answered += 1
        elif type(part) is TextPart:
            if part.text:
                texts.append(part.text)
        else:
            return -1
    if texts:
        # A user's second turn behind results is joined to the first.
        joins = len(messages) > 1 and messages[-1].role == "user" and messages[-2].role == "tool"
        if answered < len(ids) or joins or turn.name:
            return -1
        several: list[OutPart] = [TextOut(text) for text in texts] if len(texts) > 1 else []
        messages.append(Message("user", several or texts[0]))
    return answered
