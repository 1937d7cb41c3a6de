"""Writes questions as request bodies of each dialect.

They are written by hand and not by the writers in `dragoman.dialects`, which adapt a request to what an
upstream accepts: a question must arrive unchanged.
"""

from typing import Final, TypeAlias

import msgspec

from dragoman.probe.questions import (
    CallMessage,
    EmptyContent,
    Habits,
    Question,
    ResultMessage,
    TextMessage,
    Tool,
)
from dragoman.turn.request import DialectName

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
Fields: TypeAlias = dict[str, Json]

MALFORMED: Final = "this is not a conversation"  # sent where the dialect requires a list
_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}
_MODES: Final = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_ROLES: Final = {"assistant": "model", "system": "user", "developer": "user"}
_PLACEHOLDER: Final = "skip_thought_signature_validator"
_THOUGHT_TOKENS: Final = 1024  # the smallest budget that is accepted


def write_question(question: Question, dialect: DialectName, model: str, habits: Habits) -> Fields:
    """Return a question as a request's fields."""
    name = question.model or model
    match dialect:
        case "chat":
            return _chat(question, name, habits)
        case "anthropic":
            return _anthropic(question, name, habits)
        case "gemini":
            return _gemini(question, name)
        case _:
            return _responses(question, name, habits)


# --- Chat Completions ---


def _chat(question: Question, model: str, habits: Habits) -> Fields:
    empty = question.empty_content or habits.empty_content
    messages: list[Json] = [
        _chat_message(one, empty, habits.reasoning) for one in question.messages
    ]
    out: Fields = {"model": model, "messages": MALFORMED if question.malformed else messages}
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
    return out | _CHAT_SEARCHES.get(question.search, {})


_ZAI: Final[Fields] = {"enable": True, "search_engine": "search_pro", "search_result": True}
# What asks each Chat host for a web search.
_CHAT_SEARCHES: Final[dict[str, Fields]] = {
    "openrouter": {"tools": [{"type": "openrouter:web_search"}]},
    "zai": {"tools": [{"type": "web_search", "web_search": _ZAI}]},
    "compound": {"compound_custom": {"tools": {"enabled_tools": ["web_search"]}}},
    "browser": {"tools": [{"type": "browser_search"}], "tool_choice": "required"},
    "xai": {"search_parameters": {"mode": "on", "return_citations": True}},
    "options": {"web_search_options": {}},
    "kimi": {
        "tools": [{"type": "builtin_function", "function": {"name": "$web_search"}}],
        "thinking": {"type": "disabled"},  # it does not search while it thinks
    },
}


def _chat_message(
    messages: TextMessage | CallMessage | ResultMessage, empty: EmptyContent, thought: str
) -> Fields:
    match messages:
        case TextMessage(role=role, text=text, image=image):
            part: Fields = {"type": "text", "text": text}
            if image:
                picture: Fields = {"type": "image_url", "image_url": {"url": data_url(image)}}
                return {"role": role, "content": [part, picture]}
            return {"role": role, "content": [part] if messages.parts else text}
        case CallMessage(calls=calls, reasoning=reasoning):
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
        case ResultMessage(id=call_id, text=text):
            return {"role": "tool", "tool_call_id": call_id, "content": text}


# --- Messages ---


def _anthropic(question: Question, model: str, habits: Habits) -> Fields:
    leading, rest = _split_system(question)
    messages: list[Json] = [*_anthropic_messages(rest, habits.reasoning)]
    out: Fields = {
        "model": model,
        "max_tokens": question.limit,
        "messages": MALFORMED if question.malformed else messages,
    }
    if leading:
        out["system"] = [{"type": "text", "text": one.text} for one in leading]
    if question.stream:
        out["stream"] = True
    if question.tools:
        out["tools"] = [
            {"name": one.name, "description": one.description, "input_schema": decoded(one.schema)}
            for one in question.tools
        ]
    if question.search:
        out["tools"] = [{"type": "web_search_20250305", "name": "web_search", "max_uses": 1}]
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


def _split_system(
    question: Question,
) -> tuple[list[TextMessage], list[TextMessage | CallMessage | ResultMessage]]:
    """Split off the leading instructions: Messages has the separate field `system` for them."""
    rest = list(question.messages)
    leading: list[TextMessage] = []
    while (
        rest and isinstance(first := rest[0], TextMessage) and first.role in ("system", "developer")
    ):
        leading.append(first)
        del rest[0]
    return leading, rest


def _anthropic_messages(
    messages: list[TextMessage | CallMessage | ResultMessage], thought: str
) -> list[Fields]:
    out: list[Fields] = []
    results: list[Json] = []
    for one in messages:
        match one:
            case TextMessage(role=role, text=text):
                out.append(
                    {"role": role, "content": _anthropic_content(one) if one.image else text}
                )
            case CallMessage(calls=calls, reasoning=reasoning):
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
            case ResultMessage(id=call_id, text=text):
                results.append({"type": "tool_result", "tool_use_id": call_id, "content": text})
    if results:
        out.append({"role": "user", "content": results})
    return out


def _anthropic_content(messages: TextMessage) -> list[Json]:
    source: Fields = {"type": "base64", "media_type": "image/png", "data": messages.image}
    return [{"type": "text", "text": messages.text}, {"type": "image", "source": source}]


# --- Responses ---


def _responses(question: Question, model: str, habits: Habits) -> Fields:
    items: list[Json] = [
        item for one in question.messages for item in _response_items(one, habits.reasoning)
    ]
    out: Fields = {
        "model": model,
        "input": {"text": MALFORMED} if question.malformed else items,
        "max_output_tokens": question.limit,
        "store": False,
    }
    if question.stream:
        out["stream"] = True
    if question.tools:
        out["tools"] = [
            {"type": "function", "strict": False, **function(one)} for one in question.tools
        ]
    if question.search:
        out["tools"] = [{"type": "web_search"}]
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


def _response_items(
    messages: TextMessage | CallMessage | ResultMessage, thought: str
) -> list[Fields]:
    match messages:
        case TextMessage(role=role, text=text, image=image):
            content: Json = text
            if image:
                picture: Fields = {"type": "input_image", "image_url": data_url(image)}
                content = [{"type": "input_text", "text": text}, picture]
            return [{"type": "message", "role": role, "content": content}]
        case CallMessage(calls=calls, reasoning=reasoning):
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
        case ResultMessage(id=call_id, text=text):
            return [{"type": "function_call_output", "call_id": call_id, "output": text}]


# --- `generateContent` ---


def _gemini(question: Question, model: str) -> Fields:
    """Return a question with the model and the kind of answer, which `Dialect.wire_request` puts into the path."""
    leading, rest = _split_system(question)
    contents: list[Json] = [*_gemini_contents(rest)]
    settings: Fields = {"maxOutputTokens": question.limit}
    out: Fields = {
        "model": model,
        "stream": question.stream,
        "contents": MALFORMED if question.malformed else contents,
        "generationConfig": settings,
    }
    if leading:
        out["systemInstruction"] = {"parts": [{"text": one.text} for one in leading]}
    if question.tools:
        declared: list[Json] = [
            {
                "name": one.name,
                "description": one.description,
                "parametersJsonSchema": decoded(one.schema),
            }
            for one in question.tools
        ]
        out["tools"] = [{"functionDeclarations": declared}]
    if question.search:
        out["tools"] = [{"googleSearch": {}}]
    if question.choice:
        calling: Fields = {"mode": _MODES.get(question.choice, "ANY")}
        if question.choice not in _MODES:
            calling["allowedFunctionNames"] = [question.choice]
        out["toolConfig"] = {"functionCallingConfig": calling}
    if question.stop:
        settings["stopSequences"] = list(question.stop)
    if question.temperature is not None:
        settings["temperature"] = question.temperature
    if question.reason:
        settings["thinkingConfig"] = {"includeThoughts": True}
    return out


def _gemini_contents(
    messages: list[TextMessage | CallMessage | ResultMessage],
) -> list[Fields]:
    """Return the contents; all results of a turn are in one, and each has the name of its call."""
    out: list[Fields] = []
    names: dict[str, str] = {}
    results: list[Json] = []
    for one in messages:
        match one:
            case TextMessage(role=role, text=text, image=image):
                parts: list[Json] = [{"text": text}]
                if image:
                    parts.append({"inlineData": {"mimeType": "image/png", "data": image}})
                out.append({"role": _ROLES.get(role, role), "parts": parts})
            case CallMessage(calls=calls):
                made: list[Json] = []
                for at, call in enumerate(calls):
                    names[call.id] = call.name
                    function: Fields = {
                        "id": call.id,
                        "name": call.name,
                        "args": decoded(call.arguments),
                    }
                    part: Fields = {"functionCall": function}
                    if at == 0:  # what Gemini 3 accepts for a call that it did not make
                        part["thoughtSignature"] = _PLACEHOLDER
                    made.append(part)
                out.append({"role": "model", "parts": made})
            case ResultMessage(id=call_id, text=text):
                answer: Fields = {
                    "id": call_id,
                    "name": names.get(call_id, ""),
                    "response": {"output": text},
                }
                results.append({"functionResponse": answer})
    if results:
        out.append({"role": "user", "parts": results})
    return out


# --- all dialects ---


def decoded(text: str) -> Json:
    value: Json = msgspec.json.decode(text)
    return value


def function(tool: Tool) -> Fields:
    """Return a tool as OpenAI's dialects describe it."""
    return {"name": tool.name, "description": tool.description, "parameters": decoded(tool.schema)}


def data_url(image: str) -> str:
    return f"data:image/png;base64,{image}"
