"""Requests for the simulator, in all dialects, and what it answers."""

import asyncio
import json
from typing import Any, NamedTuple

import aiohttp

from dragoman.simulator.server import Simulator

# Dialects that send a call in pieces under an index, and end a stream with an event of its own.  Gemini does neither.
IN_PIECES = ("chat", "anthropic", "responses")
PATHS = {
    "chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "responses": "/v1/responses",
}
WEATHER = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 3},
        },
        "required": ["city", "unit", "days"],
    },
}
WEATHER_CALL = {"city": "Paris", "unit": "celsius", "days": 3}
CLOCK = {
    "name": "get_time",
    "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
}
# An MCP server as each dialect that has them declares one.
SERVERS: dict[str, dict[str, Any]] = {
    "anthropic": {
        "mcp_servers": [{"type": "url", "name": "notes", "url": "https://mcp.example"}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "notes"}],
    },
    "responses": {
        "tools": [
            {
                "type": "mcp",
                "server_label": "notes",
                "server_url": "https://mcp.example",
                "require_approval": "never",
            }
        ]
    },
    "gemini": {
        "tools": [
            {
                "mcpServers": [
                    {"name": "notes", "streamableHttpTransport": {"url": "https://mcp.example"}}
                ]
            }
        ]
    },
}


class Got(NamedTuple):
    """An answer, unchanged."""

    status: int
    headers: dict[str, str]
    body: bytes
    error: Exception | None = None  # how the connection failed, if it did

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def question(
    dialect: str,
    model: str = "sim/plain",
    text: str = "What is the weather?",
    *,
    tools: list[dict[str, Any]] | None = None,
    stream: bool = True,
    **more: Any,
) -> dict[str, Any]:
    """Return a request of one user's text."""
    body: dict[str, Any] = {"model": model, "stream": stream}
    turn = {"role": "user", "content": text}
    match dialect:
        case "chat":
            body["messages"] = [turn]
            if stream:
                body["stream_options"] = {"include_usage": True}
        case "anthropic":
            body |= {"messages": [turn], "max_tokens": 100_000}
        case "gemini":
            body["contents"] = [{"role": "user", "parts": [{"text": text}]}]
        case _:
            body["input"] = [turn]
    if tools is not None:
        listed = [declared(dialect, tool) for tool in tools]
        body["tools"] = [{"functionDeclarations": listed}] if dialect == "gemini" else listed
    return body | more


def wire(dialect: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the path of a request and its body there: Gemini's path names the model and the kind of answer."""
    if dialect != "gemini":
        return PATHS[dialect], body
    sent = {name: value for name, value in body.items() if name not in ("model", "stream")}
    verb = "streamGenerateContent?alt=sse" if body.get("stream") else "generateContent"
    return f"/v1beta/models/{body['model']}:{verb}", sent


def declared(dialect: str, tool: dict[str, Any]) -> dict[str, Any]:
    match dialect:
        case "chat":
            return {"type": "function", "function": tool}
        case "anthropic":
            shape = {key: value for key, value in tool.items() if key != "parameters"}
            return shape | {"input_schema": tool["parameters"]}
        case "gemini":
            shape = {key: value for key, value in tool.items() if key != "parameters"}
            return shape | {"parametersJsonSchema": tool["parameters"]}
        case _:
            return {"type": "function", "strict": False, **tool}


def answered(dialect: str, body: dict[str, Any], result: str = "12 degrees") -> dict[str, Any]:
    """Return a request whose first call was made and answered."""
    field = {"responses": "input", "gemini": "contents"}.get(dialect, "messages")
    match dialect:
        case "chat":
            call = {
                "id": "call_1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": "{}"},
            }
            more = [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": result},
            ]
        case "anthropic":
            call = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}
            outcome = {"type": "tool_result", "tool_use_id": "toolu_1", "content": result}
            more = [
                {"role": "assistant", "content": [call]},
                {"role": "user", "content": [outcome]},
            ]
        case "gemini":
            call = {"id": "call_1", "name": "get_weather", "args": {}}
            outcome = {"id": "call_1", "name": "get_weather", "response": {"output": result}}
            more = [
                {"role": "model", "parts": [{"functionCall": call}]},
                {"role": "user", "parts": [{"functionResponse": outcome}]},
            ]
        case _:
            call = {
                "type": "function_call",
                "call_id": "call_1",
                "name": "get_weather",
                "arguments": "{}",
            }
            more = [
                call,
                {"type": "function_call_output", "call_id": "call_1", "output": result},
            ]
    return body | {field: [*body[field], *more]}


async def post(simulator: Simulator, path: str, body: Any, *, idle: float = 10.0) -> Got:
    """Post a body and read all that comes."""
    timeout = aiohttp.ClientTimeout(sock_read=idle)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    received = bytearray()
    async with (
        aiohttp.ClientSession(timeout=timeout) as http,
        http.post(simulator.url + path, data=data) as response,
    ):
        headers = {name.lower(): value for name, value in response.headers.items()}
        try:
            async for piece in response.content.iter_any():
                received += piece
        except (aiohttp.ClientError, TimeoutError) as error:
            return Got(response.status, headers, bytes(received), error)
    return Got(response.status, headers, bytes(received))


def ask(dialect: str, body: Any, *, idle: float = 10.0) -> Got:
    """Ask a fresh simulator once."""

    async def run() -> Got:
        async with Simulator() as simulator:
            path, sent = wire(dialect, body) if isinstance(body, dict) else (PATHS[dialect], body)
            return await post(simulator, path, sent, idle=idle)

    return asyncio.run(run())
