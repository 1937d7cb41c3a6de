"""Deviations of peers that only the whole road from bytes to bytes can show."""

import pytest

from dragoman import Limits, Profile, Translator
from dragoman.dialects import DIALECT_NAMES
from dragoman.turn.events import Fault, FaultKind, Finish
from tests.support.chat import DONE, USAGE, chunk, payloads


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
