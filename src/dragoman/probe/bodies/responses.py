"""Questions in Responses."""

from dragoman.probe.bodies.fields import SPOILT, Fields, Json, data_url, function
from dragoman.probe.question import Called, Habits, Question, Result, Say


def fields(question: Question, model: str, habits: Habits) -> Fields:
    items: list[Json] = [item for one in question.said for item in _items(one, habits.reasoning)]
    out: Fields = {
        "model": model,
        "input": {"text": SPOILT} if question.spoilt else items,
        "max_output_tokens": question.limit,
        "store": False,
    }
    if question.stream:
        out["stream"] = True
    if question.tools:
        out["tools"] = [
            {"type": "function", "strict": False, **function(one)} for one in question.tools
        ]
    if question.choice in ("auto", "required", "none"):
        out["tool_choice"] = question.choice
    elif question.choice:
        out["tool_choice"] = {"type": "function", "name": question.choice}
    if question.parallel is not None:
        out["parallel_tool_calls"] = question.parallel
    if question.temperature is not None:
        out["temperature"] = question.temperature
    if question.reason:
        out["reasoning"] = {"effort": "low", "summary": "auto"}
    return out


def _items(said: Say | Called | Result, thought: str) -> list[Fields]:
    match said:
        case Say(role=role, text=text, image=image):
            content: Json = text
            if image:
                picture: Fields = {"type": "input_image", "image_url": data_url(image)}
                content = [{"type": "input_text", "text": text}, picture]
            return [{"type": "message", "role": role, "content": content}]
        case Called(calls=calls, reasoning=reasoning):
            items: list[Fields] = []
            if known := reasoning or thought:
                summary: list[Json] = [{"type": "summary_text", "text": known}]
                items.append({"type": "reasoning", "id": "rs_probe", "summary": summary})
            items += [
                {
                    "type": "function_call",
                    "call_id": one.id,
                    "name": one.name,
                    "arguments": one.arguments,
                }
                for one in calls
            ]
            return items
        case Result(id=call_id, text=text):
            return [{"type": "function_call_output", "call_id": call_id, "output": text}]
