"""Questions in Chat Completions."""

from dragoman.probe.bodies.fields import SPOILT, Fields, Json, data_url, function
from dragoman.probe.question import Called, EmptyContent, Habits, Question, Result, Say


def fields(question: Question, model: str, habits: Habits) -> Fields:
    empty = question.empty_content or habits.empty_content
    messages: list[Json] = [_message(one, empty, habits.reasoning) for one in question.said]
    out: Fields = {"model": model, "messages": SPOILT if question.spoilt else messages}
    out[question.limit_field or habits.limit_field] = question.limit
    if question.stream:
        out["stream"] = True
        if question.usage and habits.stream_options:
            out["stream_options"] = {"include_usage": True}
    if question.tools:
        out["tools"] = [{"type": "function", "function": function(one)} for one in question.tools]
    if question.choice in ("auto", "required", "none"):
        out["tool_choice"] = question.choice
    elif question.choice:
        out["tool_choice"] = {"type": "function", "function": {"name": question.choice}}
    if question.parallel is not None:
        out["parallel_tool_calls"] = question.parallel
    if question.stop:
        out["stop"] = list(question.stop)
    if question.temperature is not None:
        out["temperature"] = question.temperature
    if question.reason:
        out["reasoning_effort"] = "low"
    return out


def _message(said: Say | Called | Result, empty: EmptyContent, thought: str) -> Fields:
    match said:
        case Say(role=role, text=text, image=image):
            part: Fields = {"type": "text", "text": text}
            if image:
                picture: Fields = {"type": "image_url", "image_url": {"url": data_url(image)}}
                return {"role": role, "content": [part, picture]}
            return {"role": role, "content": [part] if said.parts else text}
        case Called(calls=calls, reasoning=reasoning):
            out: Fields = {"role": "assistant"}
            if empty != "omit":
                out["content"] = None if empty == "null" else ""
            if reasoning or thought:
                out["reasoning_content"] = reasoning or thought
            out["tool_calls"] = [
                {
                    "id": one.id,
                    "type": "function",
                    "function": {"name": one.name, "arguments": one.arguments},
                }
                for one in calls
            ]
            return out
        case Result(id=call_id, text=text):
            return {"role": "tool", "tool_call_id": call_id, "content": text}
