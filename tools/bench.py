"""Measure the budgets of the core, as ratios within one run.

    python tools/bench.py [--quick]

Each figure is compared with its floor in turns, several times over, and the median of the ratios counts:
what the machine does meanwhile hits both alike.  The exit code is 1 if a budget is passed.
"""

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable

import msgspec

from dragoman.dialects.anthropic import schema as anthropic
from dragoman.dialects.chat import request_schema as chat
from dragoman.dialects.responses import schema as responses
from dragoman.translate import Translator, translate_request

ROUNDS = 9


class Row(msgspec.Struct):
    """One budget and what was measured."""

    name: str
    ratio: float
    budget: str
    holds: bool
    detail: str


def ratio_of(
    work: Callable[[], None], floor: Callable[[], None], rounds: int
) -> tuple[float, float, float]:
    """Return the median ratio of two timings taken in turns, and the median seconds of each."""
    ratios, works, floors = [], [], []
    work()
    floor()
    for _ in range(rounds):
        gc.collect()
        begin = time.process_time()
        floor()
        middle = time.process_time()
        work()
        end = time.process_time()
        floors.append(middle - begin)
        works.append(end - middle)
        ratios.append((end - middle) / (middle - begin))
    return statistics.median(ratios), statistics.median(works), statistics.median(floors)


# --- one streamed chunk, Chat in, Anthropic out ---------------------------------------------------


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    tool_calls: msgspec.Raw | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice]
    usage: msgspec.Raw | None = None


def chunk_payloads(count: int) -> list[bytes]:
    """Return text chunks as a Chat server sends them, about 265 bytes each."""
    words = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "more"]
    return [
        msgspec.json.encode(
            {
                "id": "chatcmpl-BXy2p1QFe9sZ8vKdL3mWnRtUaHcJo",
                "object": "chat.completion.chunk",
                "created": 1700000000,
                "model": "moonshotai/kimi-k2-instruct-0905",
                "service_tier": "default",
                "system_fingerprint": "fp_1a2b3c4d5e",
                "choices": [
                    {
                        "index": 0,
                        "delta": {"content": f" {words[at % len(words)]}"},
                        "logprobs": None,
                        "finish_reason": None,
                    }
                ],
            }
        )
        for at in range(count)
    ]


def reads(payloads: list[bytes], size: int = 65536) -> list[bytes]:
    """Return the stream as a socket gives it: many events a read."""
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    stream = b"".join(b"data: %b\n\n" % payload for payload in payloads) + end
    return [stream[at : at + size] for at in range(0, len(stream), size)]


def bench_chunk(rounds: int, count: int = 20_000) -> list[Row]:
    payloads = chunk_payloads(count)
    pieces = reads(payloads)
    tenth = reads(payloads[: count // 10])
    decoder = msgspec.json.Decoder(_Chunk)
    encoder = msgspec.json.Encoder()

    def floor() -> None:
        for payload in payloads:
            encoder.encode(decoder.decode(payload).choices[0].delta.content)

    def translate(stream: list[bytes], target: str = "anthropic") -> None:
        translator = Translator(source="chat", target=target)
        for piece in stream:
            translator.feed(piece)
        translator.close()

    rows = []
    for target, budget in (("anthropic", 6.0), ("responses", None), ("chat", None)):
        ratio, seconds, floor_seconds = ratio_of(
            lambda t=target: translate(pieces, t), floor, rounds
        )
        detail = (
            f"{seconds / count * 1e6:.2f} µs a chunk, floor {floor_seconds / count * 1e6:.2f} µs"
        )
        rows.append(
            Row(
                f"text chunk, chat to {target}",
                ratio,
                f"≤ {budget:g}" if budget else "(told, no budget)",
                budget is None or ratio <= budget,
                detail,
            )
        )

    def ten_times_a_tenth() -> None:
        for _ in range(10):
            translate(tenth)

    growth, _, _ = ratio_of(lambda: translate(pieces), ten_times_a_tenth, rounds)
    rows.append(
        Row(
            "10 x the chunks, time over 10",
            growth,
            "0.9 … 1.1",
            0.9 <= growth <= 1.1,
            f"{count} chunks",
        )
    )
    return rows


# --- one request of a coding agent ----------------------------------------------------------------


def agent_request() -> bytes:
    """Return a Messages request of about 20 KB with 20 tools."""
    schema = {
        "type": "object",
        "properties": {
            f"parameter_{at}": {
                "type": "string",
                "description": "What this parameter is for, at some length.",
            }
            for at in range(5)
        },
        "required": ["parameter_0"],
        "additionalProperties": False,
    }
    tools = [
        {
            "name": f"tool_{at}",
            "description": "Do one thing and do it well. " * 6,
            "input_schema": schema,
        }
        for at in range(20)
    ]
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


def request_row(  # noqa: PLR0913, PLR0917 -- what is measured, and how it is told
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

    ratio, seconds, floor_seconds = ratio_of(reshape, floor, rounds)
    each, least = seconds / len(bodies) * 1e6, floor_seconds / len(bodies) * 1e6
    return Row(
        f"request{note}, {source} to {target}",
        ratio,
        f"≤ {budget:g}" if budget else "(told, no budget)",
        budget is None or ratio <= budget,
        f"{each:.0f} µs for {len(bodies[0])} bytes, floor {least:.0f} µs",
    )


def bench_request(rounds: int, count: int = 300) -> list[Row]:
    body = agent_request()
    rows = [
        request_row([body] * count, "anthropic", "chat", 2.0, rounds, " of 20 tools"),
        request_row([body] * count, "anthropic", "responses", None, rounds),
    ]
    for source, target in (("responses", "chat"), ("chat", "anthropic")):
        written = translate_request(body, source="anthropic", target=source).body
        rows.append(request_row([written] * count, source, target, None, rounds))
    # Every request has tools that were never seen before.
    fresh = [body.replace(b"Do one thing", b"Do %d things" % at, 1) for at in range(count)]
    rows.append(request_row(fresh, "anthropic", "chat", None, rounds, " of new tools"))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if parser.parse_args().quick else ROUNDS
    rows: list[Row] = []
    for bench in (bench_chunk, bench_request):
        for row in bench(rounds):
            rows.append(row)
            mark = "ok  " if row.holds else "OVER"
            print(
                f"{mark} {row.name:42} {row.ratio:6.2f}   budget {row.budget:18} {row.detail}",
                flush=True,
            )
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
