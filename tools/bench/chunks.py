"""One streamed chunk: Chat in, each dialect out, many events per read."""

from collections.abc import Callable
from functools import partial

import msgspec
from tools.bench.measure import Row, ratio_of

from dragoman.translate import Translator


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    tool_calls: msgspec.Raw | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice]
    usage: msgspec.Raw | None = None


def chunk_payloads(count: int, *, differ: bool = False) -> list[bytes]:
    """Return text chunks as a Chat server sends them, about 265 bytes each; equal except for their text, or not."""
    words = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "more"]
    return [
        msgspec.json.encode(
            {
                "id": "chatcmpl-BXy2p1QFe9sZ8vKdL3mWnRtUaHcJo",
                "object": "chat.completion.chunk",
                "created": 1700000000 + at * differ,
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
    """Return the stream as reads of a socket: many events per read."""
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    stream = b"".join(b"data: %b\n\n" % payload for payload in payloads) + end
    return [stream[at : at + size] for at in range(0, len(stream), size)]


def floor_of(payloads: list[bytes]) -> Callable[[], None]:
    """Return the floor: a function that decodes the needed fields of chunks and encodes their strings."""
    decoder = msgspec.json.Decoder(_Chunk)
    encoder = msgspec.json.Encoder()

    def floor() -> None:
        for payload in payloads:
            encoder.encode(decoder.decode(payload).choices[0].delta.content)

    return floor


def bench_chunk(rounds: int, count: int = 20_000) -> list[Row]:
    payloads = chunk_payloads(count)
    pieces = reads(payloads)
    tenth = reads(payloads[: count // 10])
    floor = floor_of(payloads)

    def translate(stream: list[bytes], target: str = "anthropic") -> None:
        translator = Translator(source="chat", target=target)
        for piece in stream:
            translator.feed(piece)
        translator.close()

    differing = chunk_payloads(count, differ=True)
    cases = (
        ("text chunk, chat to anthropic", pieces, floor, "anthropic", 6.0),
        ("text chunk, all differ", reads(differing), floor_of(differing), "anthropic", 6.0),
        ("text chunk, chat to responses", pieces, floor, "responses", None),
        ("text chunk, chat to chat", pieces, floor, "chat", None),
    )
    rows = []
    for name, stream, least, target, budget in cases:
        timing = ratio_of(partial(translate, stream, target), least, rounds)
        each, floor_each = timing.work / count * 1e6, timing.floor / count * 1e6
        rows.append(
            Row(
                name=name,
                values=timing.ratios,
                better="lower",
                limit=budget,
                detail=f"{each:.2f} µs a chunk, floor {floor_each:.2f} µs",
                guarded=True,
                micros=each,
            )
        )

    def ten_times_a_tenth() -> None:
        for _ in range(10):
            translate(tenth)

    growth = ratio_of(lambda: translate(pieces), ten_times_a_tenth, rounds * 3)
    rows.append(
        Row(
            name="10 x the chunks, time over 10",
            values=growth.ratios,
            better="lower",
            limit=1.1,
            detail=f"{count} chunks",
            guarded=True,
        )
    )
    return rows
