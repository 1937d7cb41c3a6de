"""One streamed chunk: Chat in, each dialect out, and Gemini in; many events per read."""

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


class _Part(msgspec.Struct, gc=False):
    text: str | None = None
    functionCall: msgspec.Raw | None = None  # noqa: N815 -- the name on the wire


class _Content(msgspec.Struct, gc=False):
    parts: list[_Part]


class _Candidate(msgspec.Struct, gc=False):
    content: _Content
    finishReason: str | None = None  # noqa: N815 -- the name on the wire


class _GeminiChunk(msgspec.Struct, gc=False):
    candidates: list[_Candidate]
    usageMetadata: msgspec.Raw = msgspec.Raw()  # noqa: N815 -- the name on the wire


_WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "more"]


def chunk_payloads(count: int, *, differ: bool = False) -> list[bytes]:
    """Return text chunks as a Chat server sends them, about 265 bytes each; equal except for their text, or not."""
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
                        "delta": {"content": f" {_WORDS[at % len(_WORDS)]}"},
                        "logprobs": None,
                        "finish_reason": None,
                    }
                ],
            }
        )
        for at in range(count)
    ]


def gemini_payloads(count: int) -> list[bytes]:
    """Return text chunks as Google sends them; their counts grow, so that each differs from the last."""
    return [
        msgspec.json.encode(
            {
                "candidates": [
                    {
                        "content": {
                            "parts": [{"text": f" {_WORDS[at % len(_WORDS)]}"}],
                            "role": "model",
                        },
                        "index": 0,
                    }
                ],
                "usageMetadata": {
                    "promptTokenCount": 1024,
                    "candidatesTokenCount": at,
                    "totalTokenCount": 1024 + at,
                },
                "modelVersion": "gemini-3-pro-preview",
                "responseId": "BXy2p1QFe9sZ8vKdL3mWnRtUaHcJo",
            }
        )
        for at in range(count)
    ]


def gemini_reads(payloads: list[bytes], size: int = 65536) -> list[bytes]:
    """Return the stream as reads of a socket, with the line ends that Google writes."""
    end = b'data: {"candidates":[{"finishReason":"STOP"}]}\r\n\r\n'
    stream = b"".join(b"data: %b\r\n\r\n" % payload for payload in payloads) + end
    return [stream[at : at + size] for at in range(0, len(stream), size)]


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


def gemini_floor_of(payloads: list[bytes]) -> Callable[[], None]:
    """Return the same for chunks of Gemini."""
    decoder = msgspec.json.Decoder(_GeminiChunk)
    encoder = msgspec.json.Encoder()

    def floor() -> None:
        for payload in payloads:
            encoder.encode(decoder.decode(payload).candidates[0].content.parts[0].text)

    return floor


def bench_chunk(rounds: int, count: int = 20_000) -> list[Row]:
    payloads = chunk_payloads(count)
    pieces = reads(payloads)
    tenth = reads(payloads[: count // 10])
    floor = floor_of(payloads)

    def translate(stream: list[bytes], target: str = "anthropic", source: str = "chat") -> None:
        translator = Translator(source=source, target=target)
        for piece in stream:
            translator.feed(piece)
        translator.close()

    differing = chunk_payloads(count, differ=True)
    given = gemini_payloads(count)
    google = gemini_floor_of(given)
    cases = (
        ("text chunk, chat to anthropic", pieces, floor, "anthropic", "chat", 6.0),
        ("text chunk, all differ", reads(differing), floor_of(differing), "anthropic", "chat", 6.0),
        ("text chunk, chat to responses", pieces, floor, "responses", "chat", None),
        ("text chunk, chat to chat", pieces, floor, "chat", "chat", None),
        ("text chunk, chat to gemini", pieces, floor, "gemini", "chat", 6.0),
        (
            "text chunk, gemini to anthropic",
            gemini_reads(given),
            google,
            "anthropic",
            "gemini",
            6.0,
        ),
    )
    rows = []
    for name, stream, least, target, source, budget in cases:
        timing = ratio_of(partial(translate, stream, target, source), least, rounds)
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
