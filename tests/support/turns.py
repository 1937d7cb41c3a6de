"""Upstream answers and client histories, in each dialect's own shape: for loops over several turns."""

from typing import Any

TOOL_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def request(dialect: str, history: list[Any]) -> dict[str, Any]:
    """Return a client's request with one tool and a history in its dialect."""
    if dialect == "anthropic":
        tool = {"name": "get_weather", "description": "Weather", "input_schema": TOOL_SCHEMA}
        return {
            "model": "m",
            "max_tokens": 4000,
            "tools": [tool],
            "thinking": {"type": "enabled", "budget_tokens": 2000},
            "messages": [{"role": "user", "content": "Oslo and Rome?"}, *history],
        }
    if dialect == "chat":
        function = {"name": "get_weather", "description": "Weather", "parameters": TOOL_SCHEMA}
        return {
            "model": "m",
            "tools": [{"type": "function", "function": function}],
            "messages": [{"role": "user", "content": "Oslo and Rome?"}, *history],
        }
    if dialect == "gemini":
        function = {"name": "get_weather", "description": "Weather"}
        return {
            "model": "m",
            "tools": [
                {"functionDeclarations": [{**function, "parametersJsonSchema": TOOL_SCHEMA}]}
            ],
            "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
            "contents": [{"role": "user", "parts": [{"text": "Oslo and Rome?"}]}, *history],
        }
    return {
        "model": "m",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tools": [
            {
                "type": "function",
                "name": "get_weather",
                "description": "Weather",
                "parameters": TOOL_SCHEMA,
                "strict": False,
            }
        ],
        "input": [{"role": "user", "content": "Oslo and Rome?"}, *history],
    }


def echo(dialect: str, answer: dict[str, Any], results: list[str]) -> list[Any]:
    """Return what a client of the dialect adds to its history: the answer, and its tools' results."""
    if dialect == "anthropic":
        calls = [block for block in answer["content"] if block["type"] == "tool_use"]
        blocks = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": result}
            for call, result in zip(calls, results, strict=True)
        ]
        return [
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": blocks},
        ]
    if dialect == "chat":
        message = answer["choices"][0]["message"]
        return [
            message,
            *(
                {"role": "tool", "tool_call_id": call["id"], "content": result}
                for call, result in zip(message["tool_calls"], results, strict=True)
            ),
        ]
    if dialect == "gemini":
        content = answer["candidates"][0]["content"]
        made = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        parts = [
            {
                "functionResponse": {
                    "id": one["id"],
                    "name": one["name"],
                    "response": {"output": result},
                }
            }
            for one, result in zip(made, results, strict=True)
        ]
        return [content, {"role": "user", "parts": parts}]
    calls = [item for item in answer["output"] if item["type"] == "function_call"]
    return [
        *answer["output"],
        *(
            {"type": "function_call_output", "call_id": call["call_id"], "output": result}
            for call, result in zip(calls, results, strict=True)
        ),
    ]
