"""Plain histories, as agents send them, written in one pass.

Text, reasoning, calls, and their results in order: nothing has to be settled or marked.  Whatever is not plain is left to `messages`, which knows everything; both write a plain history alike.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import UnsetType

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
from dragoman.dialects.functions import AnyObject
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
_OBJECT: Final = msgspec.json.Decoder(AnyObject)


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
    answered: list[str] = []  # of the results so far
    for at, turn in enumerate(turns):
        if turn.role is ASSISTANT:
            if len(answered) != len(ids):  # which of them is compared at the end, once
                return None
            message = _assistant(turn, ids, thoughts, absent)
            if message is None:
                return None
            messages.append(message)
            if thoughts:
                if profile.replay_reasoning == "current_turn":
                    return None  # turns are not yet joined as they will be
                replay = replay or Replay(turns, profile, losses, thinks=True)
                _recall(message, replay.of(at, thoughts, calls=message.tool_calls is not None))
                thoughts = []
        elif turn.role is not USER or not _user(turn, ids, answered, messages):
            return None
    # Ids that were made here begin with `g`.
    if answered != ids or len(ids) != len(set(ids)) or "\ng" in "\n".join(["", *ids]):
        return None
    return None if messages and messages[-1].role == "assistant" else messages


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
            if part.flavor is not _FUNCTION or part.opaque:
                return None
            try:
                _OBJECT.decode(part.arguments)
            except (msgspec.DecodeError, UnicodeEncodeError):
                return None
            function = Function(wire_name(part.name, part.namespace), part.arguments)
            calls.append(Call(part.id, "function", function))
            ids.append(part.id)
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


def _user(turn: Turn, ids: Sequence[str], answered: list[str], messages: list[OutMessage]) -> bool:
    """Add results, with the ids of what they answer, and what the user says; False if that is not plain."""
    texts: list[str] = []
    for part in turn.parts:
        if type(part) is ToolResultPart and len(part.parts) == 1 and not texts:
            only = part.parts[0]
            if type(only) is not TextPart or not only.text:
                return False
            text = error_text(only.text) if part.is_error else only.text
            messages.append(ToolMessage("tool", part.call_id, text))
            answered.append(part.call_id)
        elif type(part) is not TextPart:
            return False
        elif part.text:
            texts.append(part.text)
    if texts:
        # A user's second turn behind results is joined to the first.
        joins = len(messages) > 1 and messages[-1].role == "user" and messages[-2].role == "tool"
        if len(answered) != len(ids) or joins or turn.name:
            return False
        several: list[OutPart] = [TextOut(text) for text in texts] if len(texts) > 1 else []
        messages.append(Message("user", several or texts[0]))
    return True
