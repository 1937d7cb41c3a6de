"""Deviations of peers that only the whole road from bytes to bytes can show."""

from typing import Any, NamedTuple

import msgspec
import pytest

from dragoman import Limits, Profile, Translator, decode_tools
from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.dialects.framing import StreamReader
from dragoman.exchange_setup import make_exchange
from dragoman.turn.answer import Answer, fold
from dragoman.turn.events import Fault, FaultKind, Finish, FinishReason
from tests.support.chat import DONE, USAGE, chunk, payloads
from tests.support.corpus import SEALER
from tests.support.tables import in_one_test


def seen_blocks(stream: list[bytes], **options: object) -> list[tuple[str, str]]:
    """Return the blocks that a Messages client sees: kind and text."""
    translator = Translator(source="chat", target="anthropic", **options)  # type: ignore[arg-type]
    out = b"".join(translator.feed(piece) for piece in stream) + translator.close()
    assert isinstance(translator.outcome, Finish)
    kinds: list[str] = []
    texts: list[str] = []
    for payload in payloads(out):
        if payload["type"] == "content_block_start":
            kinds.append(payload["content_block"]["type"])
            texts.append("")
        elif payload["type"] == "content_block_delta":
            texts[-1] += payload["delta"].get("text", "") + payload["delta"].get("thinking", "")
    return list(zip(kinds, texts, strict=True))


END = [chunk({}, "stop"), USAGE, DONE]


def contents(text: str, size: int) -> list[bytes]:
    return [chunk({"content": text[at : at + size]}) for at in range(0, len(text), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_r5_think_tags_in_the_text_become_reasoning(size: int) -> None:
    stream = contents("<think>hm</think>\n\nOn it.", size)

    assert [("thinking", "hm"), ("text", "On it.")] == seen_blocks([*stream, *END])


def test_r5_a_tag_that_is_not_at_the_start_is_text() -> None:
    text = "Use <think> and </think> as tags."

    assert [("text", text)] == seen_blocks([*contents(text, 4), *END])


@pytest.mark.parametrize("size", [1, 4, 100])
def test_r6_a_stream_that_begins_inside_reasoning_is_split_at_the_closing_tag(size: int) -> None:
    profile = Profile(name="local", think_tags="implicit_open")
    stream = contents("let me see</think>\n\nFour.", size)

    assert [("thinking", "let me see"), ("text", "Four.")] == seen_blocks(
        [*stream, *END], profile=profile
    )


@pytest.mark.parametrize("empty", [None, ""])
def test_s2_empty_content_opens_nothing(empty: str | None) -> None:
    stream = [chunk({"role": "assistant", "content": empty}), chunk({"content": empty}), *END]

    assert [] == seen_blocks(stream)


def test_s5_a_finish_reason_beside_content_comes_after_it() -> None:
    assert [("text", "all")] == seen_blocks([chunk({"content": "all"}, "stop"), DONE])


@pytest.mark.parametrize("pieces", [1, 50])
def test_s17_an_event_past_its_limit_is_a_named_failure(pieces: int) -> None:
    stream = chunk({"content": "x" * 5000})
    step = len(stream) // pieces + 1
    translator = Translator(
        source="chat", target="anthropic", limits=Limits(max_sse_event_bytes=1000)
    )

    out = b"".join(translator.feed(stream[at : at + step]) for at in range(0, len(stream), step))

    assert isinstance(translator.outcome, Fault)
    assert "max_sse_event_bytes" == translator.outcome.code
    assert b"max_sse_event_bytes" in out


@pytest.mark.parametrize("target", DIALECT_NAMES)
@pytest.mark.parametrize("size", [1, 1000])
def test_s13_a_page_instead_of_a_stream_is_named_in_the_failure(target: str, size: int) -> None:
    page = b"\n<html><title>502</title>Bad\ngateway</html>" * 100
    translator = Translator(source="chat", target=target)

    out = b"".join(translator.feed(page[at : at + size]) for at in range(0, len(page), size))
    out += translator.close()

    assert isinstance(translator.outcome, Fault)
    assert (FaultKind.UPSTREAM_UNUSABLE, "upstream_html") == (
        translator.outcome.kind,
        translator.outcome.code,
    )
    assert b"502" in out
    assert b"gateway" not in out
    assert translator.outcome.message.startswith('an HTML page ("502") instead of an API response')


@pytest.mark.parametrize("stream", [b"", b"  \n\n", b": keep-alive\n\n: keep-alive\n\n"])
def test_s22_an_answer_without_anything_in_it_is_an_empty_answer(stream: bytes) -> None:
    translator = Translator(source="chat", target="anthropic")
    translator.feed(stream)
    translator.close()

    assert isinstance(translator.outcome, Fault)
    assert "upstream_empty" == translator.outcome.code


def test_endless_white_space_is_not_kept() -> None:
    translator = Translator(
        source="chat", target="anthropic", limits=Limits(max_sse_event_bytes=1000)
    )

    for _ in range(100):
        translator.feed(b" " * 100)

    assert isinstance(translator.outcome, Fault)
    assert "max_sse_event_bytes" == translator.outcome.code


# --- Gemini: what servers of the dialect do, and what clients of every dialect get of it --------------


class Deviation(NamedTuple):
    """A stream of a Gemini server, and the answer in it."""

    stream: list[dict[str, Any] | bytes]  # chunks, or bytes as they are
    text: str = "Hi."
    calls: tuple[tuple[str, str], ...] = ()  # names and arguments
    reasoning: str = ""
    reason: FinishReason | None = FinishReason.STOP  # None: the answer fails
    losses: tuple[str, ...] = ()
    message: str = ""  # of the failure


TOOLS = decode_tools(b'[{"name":"bash","input_schema":{"type":"object"}}]')
SOURCE = {"web": {"uri": "https://a.example", "title": "A"}}
GROUNDED: list[dict[str, Any]] = [
    {"groundingChunks": [SOURCE]},
    {
        "groundingChunks": [SOURCE],
        "groundingSupports": [{"segment": {"endIndex": 2}, "groundingChunkIndices": [0]}],
    },
]
COUNTS = {"promptTokenCount": 30, "candidatesTokenCount": 9, "totalTokenCount": 39}


def gemini(*parts: dict[str, Any], finish: str = "", **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "m", "responseId": "r", **more}


def named(name: str = "bash", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"command": "ls"}, **more}}


HI = gemini({"text": "Hi."})
STOPPED = gemini({"text": ""}, finish="STOP", usageMetadata=COUNTS)
LS = ("bash", '{"command":"ls"}')
ERROR = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
DEVIATIONS: dict[str, Deviation] = {
    "chunks without candidates": Deviation(
        [{"usageMetadata": COUNTS}, {}, HI, {"promptFeedback": {}}, STOPPED]
    ),
    "counts after the finish": Deviation(
        [HI, gemini({"text": ""}, finish="STOP"), {"usageMetadata": COUNTS}]
    ),
    "content without parts": Deviation(
        [
            {"candidates": [{"content": {"role": "model"}}]},
            {"candidates": [{"content": {"role": "model", "parts": []}}]},
            gemini({"text": ""}),
            HI,
            {"candidates": [{"finishReason": "STOP"}], "usageMetadata": COUNTS},
        ]
    ),
    "prefix default_api:": Deviation(
        [gemini(named("default_api:bash")), STOPPED],
        "",
        (LS,),
        reason=FinishReason.TOOL_CALLS,
        losses=("tool_name_fixed",),
    ),
    "prefix default_api.": Deviation(
        [gemini(named("default_api.bash")), STOPPED],
        "",
        (LS,),
        reason=FinishReason.TOOL_CALLS,
        losses=("tool_name_fixed",),
    ),
    "arguments absent": Deviation(
        [gemini({"functionCall": {"name": "bash"}}), STOPPED],
        "",
        (("bash", "{}"),),
        reason=FinishReason.TOOL_CALLS,
    ),
    "arguments null": Deviation(
        [gemini(named(args=None)), STOPPED], "", (("bash", "{}"),), reason=FinishReason.TOOL_CALLS
    ),
    "arguments as a string": Deviation(
        [gemini(named(args='{"command":"ls"}')), STOPPED],
        "",
        (LS,),
        reason=FinishReason.TOOL_CALLS,
        losses=("args_as_text",),
    ),
    "calls without ids": Deviation(
        [gemini(named(), named()), STOPPED], "", (LS, LS), reason=FinishReason.TOOL_CALLS
    ),
    "one id for two calls": Deviation(
        [gemini(named(id="k"), named(id="k")), STOPPED],
        "",
        (LS, LS),
        reason=FinishReason.TOOL_CALLS,
    ),
    "a list in place of events": Deviation(
        [msgspec.json.encode([HI, STOPPED])], losses=("stream_not_sse",)
    ),
    "an object in place of events": Deviation(
        [msgspec.json.encode(gemini({"text": "Hi."}, finish="STOP", usageMetadata=COUNTS))],
        losses=("stream_not_sse",),
    ),
    "an error as an event": Deviation([HI, ERROR], reason=None, message="The model is overloaded."),
    "an error over several lines without `data:`": Deviation(
        [HI, msgspec.json.format(msgspec.json.encode(ERROR), indent=2)],
        reason=None,
        message="The model is overloaded.",
    ),
    "an error in a list": Deviation(
        [msgspec.json.encode([ERROR])],
        "",
        reason=None,
        losses=("stream_not_sse",),
        message="The model is overloaded.",
    ),
    "words of clones": Deviation(
        [b": keep-alive\n\n", b"event: message\n", HI, STOPPED, b"data: [DONE]\n\n"]
    ),
    "nothing but STOP": Deviation([STOPPED], ""),
    "a signature on a text": Deviation(
        [gemini({"text": "Hi.", "thoughtSignature": "U0lH"}), STOPPED]
    ),
    "a signature alone": Deviation([HI, gemini({"thoughtSignature": "U0lH"}), STOPPED]),
    "a signature behind its call": Deviation(
        [gemini(named()), gemini({"thoughtSignature": "U0lH"}), STOPPED],
        "",
        (LS,),
        reason=FinishReason.TOOL_CALLS,
    ),
    "several candidates": Deviation(
        [
            {"candidates": [*HI["candidates"], {**HI["candidates"][0], "index": 1}]},
            STOPPED,
        ],
        losses=("choice_dropped",),
    ),
    "thoughts without includeThoughts": Deviation(
        [gemini({"text": "Hm.", "thought": True}), HI, STOPPED], reasoning="Hm."
    ),
    "thought as a string": Deviation(
        [gemini({"text": "Hm.", "thought": "true"}), HI, STOPPED], reasoning="Hm."
    ),
    "grounding that grows": Deviation(
        [
            {"candidates": [{**HI["candidates"][0], "groundingMetadata": GROUNDED[0]}]},
            {
                "candidates": [{**STOPPED["candidates"][0], "groundingMetadata": GROUNDED[1]}],
                "usageMetadata": COUNTS,
            },
        ]
    ),
    "EOF without a finish reason": Deviation([HI], reason=None, message="terminated unexpectedly"),
}


def sse(stream: list[dict[str, Any] | bytes]) -> bytes:
    return b"".join(
        one if isinstance(one, bytes) else b"data: %b\r\n\r\n" % msgspec.json.encode(one)
        for one in stream
    )


def read_back(target: str, out: bytes) -> Answer:
    """Return what a client of the dialect reads."""
    exchange = make_exchange()
    reader = StreamReader(dialect(target).frame_reader(exchange), exchange)
    return fold([*reader.feed(out), *reader.close()])


@in_one_test
@pytest.mark.parametrize("target", DIALECT_NAMES)
@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("which", DEVIATIONS)
def test_a_gemini_server_that_deviates_is_understood(which: str, size: int, target: str) -> None:
    row, data = DEVIATIONS[which], sse(DEVIATIONS[which].stream)
    translator = Translator(
        source="gemini", target=target, tools=TOOLS, profile="gemini-api", seed="s", sealer=SEALER
    )

    out = b"".join(translator.feed(data[at : at + size]) for at in range(0, len(data), size))
    out += translator.close()

    answer = read_back(target, out)
    losses = {loss.code for loss in translator.losses}
    # Sources of a search are of a shape that Messages does not have.
    assert {*row.losses} == losses - ({"citations_dropped"} if target == "anthropic" else set())
    assert row.reason == answer.finish_reason
    if row.reason is None:
        assert answer.fault is not None
        assert row.message in answer.fault.message
        return
    assert row.text == answer.text
    assert [*row.calls] == [(call.name, call.text) for call in answer.call_blocks]
    assert b"default_api" not in out
    assert b'"args":"' not in out.replace(b" ", b"")
    assert len({call.call_id for call in answer.call_blocks}) == len(row.calls)
    assert row.reasoning == answer.reasoning
    assert answer.usage is not None
    assert (30, 9) == (answer.usage.input_tokens, answer.usage.output_tokens)
