"""Plain histories, as agents send them, written in one pass.

Text, reasoning, calls, and their results in order: nothing has to be settled or marked.  Whatever is not plain is left to `messages`, which knows everything; both write a plain history alike.
"""

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Final

import msgspec

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
_text_of: Final = attrgetter("text")
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
    ids: list[str] = []  # of the calls so far
    answered: list[str] = []  # of the results so far; compared with the calls at the end, once
    for at, turn in enumerate(turns):
        if turn.role is ASSISTANT:
            if len(answered) != len(ids):
                return None
            text = ""
            calls: list[Call] = []
            thoughts: list[ReasoningPart] = []
            for part in turn.parts:
                if type(part) is ToolCallPart:
                    if part.flavor is not _FUNCTION or part.opaque:
                        return None
                    try:
                        _OBJECT.decode(part.arguments)
                    except (msgspec.DecodeError, UnicodeEncodeError):
                        return None
                    ids.append(part.id)
                    name = wire_name(part.name, part.namespace)
                    calls.append(Call(part.id, "function", Function(name, part.arguments)))
                elif type(part) is TextPart and not calls and not part.citations:
                    text += part.text
                elif type(part) is ReasoningPart:
                    thoughts.append(part)
                else:
                    return None
            if not calls and not text:
                return None
            message = AssistantMessage("assistant", text or absent, tool_calls=calls or None)
            messages.append(message)
            if thoughts:
                if profile.replay_reasoning == "current_turn":
                    return None  # turns are not yet joined as they will be
                replay = replay or Replay(turns, profile, losses, thinks=True)
                _recall(message, replay.of(at, thoughts, calls=bool(calls)))
        elif turn.role is USER:
            texts: list[str] = []
            for part in turn.parts:
                if type(part) is ToolResultPart:
                    only = part.parts[0] if len(part.parts) == 1 else None
                    if type(only) is not TextPart or not only.text or texts:
                        return None
                    text = error_text(only.text) if part.is_error else only.text
                    answered.append(part.call_id)
                    messages.append(ToolMessage("tool", part.call_id, text))
                elif type(part) is not TextPart:
                    return None
                elif part.text:
                    texts.append(part.text)
            if texts and (len(answered) != len(ids) or not _say(turn, texts, messages)):
                return None
        else:
            return None
    # Ids that were made here begin with `g`.
    if answered != ids or len(ids) != len(set(ids)) or "\ng" in "\n".join(["", *ids]):
        return None
    return None if messages and messages[-1].role == "assistant" else messages


def _system(request: Request, profile: Profile, instructions: Sequence[str]) -> list[OutMessage]:
    if not request.system and not instructions:
        return []
    said = "\n\n".join(filter(None, [*map(_text_of, request.system), *instructions]))
    return [Message("developer" if profile.developer_role else "system", said)] if said else []


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


def _recall(message: AssistantMessage, reasoning: Replayed) -> None:
    """Add the reasoning that the upstream gets back."""
    message.reasoning_content = reasoning.content
    message.reasoning = reasoning.text
    message.reasoning_details = reasoning.details


def _say(turn: Turn, texts: list[str], messages: list[OutMessage]) -> bool:
    """Add what the user says; False if that is not plain."""
    # A user's second turn behind results is joined to the first.
    joins = len(messages) > 1 and messages[-1].role == "user" and messages[-2].role == "tool"
    if joins or turn.name:
        return False
    several: list[OutPart] = [TextOut(text) for text in texts] if len(texts) > 1 else []
    messages.append(Message("user", several or texts[0]))
    return True
