"""Questions in Messages."""

from typing import Final

from dragoman.probe.bodies.fields import SPOILT, Fields, Json, decoded
from dragoman.probe.question import Called, Habits, Question, Result, Say

_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}
_THOUGHT_TOKENS: Final = 1024  # the least that is taken


def fields(question: Question, model: str, habits: Habits) -> Fields:
    leading, rest = _split(question)
    messages: list[Json] = [*_messages(rest, habits.reasoning)]
    out: Fields = {
        "model": model,
        "max_tokens": question.limit,
        "messages": SPOILT if question.spoilt else messages,
    }
    if leading:
        out["system"] = [{"type": "text", "text": one.text} for one in leading]
    if question.stream:
        out["stream"] = True
    if question.tools:
        out["tools"] = [
            {"name": one.name, "description": one.says, "input_schema": decoded(one.schema)}
            for one in question.tools
        ]
    choice: Fields = {}
    if question.choice:
        known = _CHOICES.get(question.choice)
        choice = {"type": known} if known else {"type": "tool", "name": question.choice}
    if question.parallel is not None:
        choice = {"type": "auto", **choice, "disable_parallel_tool_use": not question.parallel}
    if choice:
        out["tool_choice"] = choice
    if question.stop:
        out["stop_sequences"] = list(question.stop)
    if question.temperature is not None:
        out["temperature"] = question.temperature
    if question.reason:
        out["thinking"] = {"type": "enabled", "budget_tokens": _THOUGHT_TOKENS}
    return out


def _split(question: Question) -> tuple[list[Say], list[Say | Called | Result]]:
    """Take the instructions at the top, which have a place of their own, from the conversation."""
    rest = list(question.said)
    leading: list[Say] = []
    while rest and isinstance(first := rest[0], Say) and first.role in ("system", "developer"):
        leading.append(first)
        del rest[0]
    return leading, rest


def _messages(said: list[Say | Called | Result], thought: str) -> list[Fields]:
    out: list[Fields] = []
    results: list[Json] = []
    for one in said:
        match one:
            case Say(role=role, text=text):
                out.append({"role": role, "content": _content(one) if one.image else text})
            case Called(calls=calls, reasoning=reasoning):
                content: list[Json] = []
                if known := reasoning or thought:
                    content.append({"type": "thinking", "thinking": known, "signature": ""})
                content += [
                    {
                        "type": "tool_use",
                        "id": call.id,
                        "name": call.name,
                        "input": decoded(call.arguments),
                    }
                    for call in calls
                ]
                out.append({"role": "assistant", "content": content})
            case Result(id=call_id, text=text):
                results.append({"type": "tool_result", "tool_use_id": call_id, "content": text})
    if results:
        out.append({"role": "user", "content": results})
    return out


def _content(said: Say) -> list[Json]:
    source: Fields = {"type": "base64", "media_type": "image/png", "data": said.image}
    return [{"type": "text", "text": said.text}, {"type": "image", "source": source}]
