"""One request of a coding agent."""

import msgspec
from tools.bench.measure import Row, ratio_of
from tools.bench.traffic import agent_tools

from dragoman.dialects.anthropic import schema as anthropic
from dragoman.dialects.chat import schema as chat
from dragoman.dialects.responses import schema as responses
from dragoman.translate_requests import translate_request


def agent_request() -> bytes:
    """Return a Messages request of about 20 KB with 20 tools."""
    tools = agent_tools(20, parameters=5, sentences=6)
    messages: list[object] = [{"role": "user", "content": "Please fix the failing test. " * 10}]
    for at in range(5):
        messages.append(
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I will look at the file first."},
                    {
                        "type": "tool_use",
                        "id": f"toolu_{at}",
                        "name": "tool_1",
                        "input": {"path": f"src/{at}.py"},
                    },
                ],
            }
        )
        messages.append(
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": f"toolu_{at}",
                        "content": "def f():\n    return 1\n" * 10,
                    }
                ],
            }
        )
    body = {
        "model": "claude",
        "max_tokens": 32000,
        "system": "You are a careful engineer. " * 40,
        "tools": tools,
        "messages": messages,
        "stream": True,
    }
    return msgspec.json.encode(body)


class _AnthropicFloor(anthropic.Request, frozen=True, kw_only=True):
    tools: list[anthropic.ToolDefinition] = []


class _ChatFloor(chat.RequestIn):
    tools: list[chat.ToolDefinition] = []


class _ResponsesFloor(responses.RequestBody, frozen=True):
    input: list[responses.InputItem] = []
    tools: list[responses.ToolDefinition] = []


FLOORS = {"anthropic": _AnthropicFloor, "chat": _ChatFloor, "responses": _ResponsesFloor}


def request_row(  # noqa: PLR0913, PLR0917 -- the measured case, and its labels
    bodies: list[bytes], source: str, target: str, budget: float | None, rounds: int, note: str = ""
) -> Row:
    """Measure requests against one typed decode and encode of the same bytes."""
    decoder = msgspec.json.Decoder(FLOORS[source])
    encoder = msgspec.json.Encoder()

    def floor() -> None:
        for body in bodies:
            encoder.encode(decoder.decode(body))

    def reshape() -> None:
        for body in bodies:
            translate_request(body, source=source, target=target)

    timing = ratio_of(reshape, floor, rounds)
    each, least = timing.work / len(bodies) * 1e6, timing.floor / len(bodies) * 1e6
    return Row(
        name=f"request{note}, {source} to {target}",
        values=timing.ratios,
        better="lower",
        limit=budget,
        detail=f"{each:.0f} µs for {len(bodies[0])} bytes, floor {least:.0f} µs",
        guarded=True,
        micros=each,
    )


def bench_request(rounds: int, count: int = 300) -> list[Row]:
    body = agent_request()
    rows = [
        request_row([body] * count, "anthropic", "chat", 3.0, rounds, " of 20 tools"),
        request_row([body] * count, "anthropic", "responses", None, rounds),
    ]
    for source, target in (("responses", "chat"), ("chat", "anthropic")):
        written = translate_request(body, source="anthropic", target=source).body
        rows.append(request_row([written] * count, source, target, None, rounds))
    # Every request has tools that were never seen before.
    fresh = [body.replace(b"Do one thing", b"Do %d things" % at, 1) for at in range(count)]
    rows.append(request_row(fresh, "anthropic", "chat", None, rounds, " of new tools"))
    return rows
