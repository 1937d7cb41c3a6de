"""Frames that differ in their text alone."""

from typing import Any

import msgspec
import pytest

from dragoman.answer_reader import AnswerReader
from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.dialects.framing import StreamReader
from dragoman.dialects.text_runs import Echo, Shape, TextRun, shape_of
from dragoman.errors import TooLargeError
from dragoman.limits import Limits
from dragoman.translate import Translator, make_exchange
from dragoman.turn.events import Fault, TextDelta
from dragoman.turn.losses import Loss
from dragoman.turn.request import Tool
from dragoman.wire.sse import Frame

CHAT = (
    '{"id":"c","created":%d,"model":"m","choices":[{"index":0,"delta":{"content":%s},'
    '"finish_reason":null}]}'
)
MESSAGES = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}'
BEGUN = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","model":"m","content":[]}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\n'
)


def chunk(text: str, created: int = 1) -> bytes:
    return (CHAT % (created, msgspec.json.encode(text).decode())).encode()


def chat_stream(*texts: str, created: int = 1) -> bytes:
    return b"".join(b"data: %b\n\n" % chunk(text, created) for text in texts)


def messages_stream(*texts: str) -> bytes:
    said = (MESSAGES % msgspec.json.encode(text).decode() for text in texts)
    return b"".join(b"event: content_block_delta\ndata: %b\n\n" % one.encode() for one in said)


def reader_of(source: str) -> StreamReader:
    exchange = make_exchange(seed="s")
    return StreamReader(dialect(source).frame_reader(exchange), exchange)


@pytest.mark.parametrize(
    ("source", "stream"),
    [
        ("chat", chat_stream("a", " quick", ' "brown"\n', " f\u00f6x")),
        ("anthropic", BEGUN + messages_stream("a", " quick", ' "brown"\n', " f\u00f6x")),
    ],
)
def test_all_text_after_the_first_frame_is_one_piece(source: str, stream: bytes) -> None:
    begun, run = reader_of(source).feed_pieces(stream)

    assert isinstance(begun, list)
    assert isinstance(run, TextRun)
    assert TextDelta(0, "a") == begun[-1]
    assert TextRun(0, [b" quick", b' \\"brown\\"\\n', " f\u00f6x".encode()], run.text) == run
    assert ' quick "brown"\n f\u00f6x' == run.text
    assert [
        TextDelta(0, " quick"),
        TextDelta(0, ' "brown"\n'),
        TextDelta(0, " f\u00f6x"),
    ] == run.deltas()


def test_words_that_stand_elsewhere_too_are_not_taken_for_the_text() -> None:
    read = StreamReader(
        (frames := dialect("chat").frame_reader(exchange := make_exchange())), exchange
    )
    read.feed(chat_stream("m"))

    assert shape_of(chunk("m"), frames.text_of) is None
    assert Shape(*chunk("?").split(b"?")) == shape_of(chunk("else"), frames.text_of)


def test_a_shape_ends_where_the_text_is_no_string_by_itself() -> None:
    shape = Shape(*chunk("?").split(b"?"))
    odd = chunk("?").replace(b'"?"', b'"a","role":"b"')
    frames = [Frame(chunk("one")), Frame(chunk("two")), Frame(odd), Frame(chunk("three"))]

    assert ([b"one", b"two"], "onetwo") == shape.texts(frames, 0)
    assert ([b"two"], "two") == shape.texts(frames, 1)
    assert ([], "") == shape.texts(frames, 2)
    assert ([b"three"], "three") == shape.texts(frames, 3)


def test_a_peer_whose_frames_always_differ_is_read_frame_by_frame() -> None:
    reader = reader_of("chat")
    for at in range(100):
        reader.feed(chat_stream("word", created=at))

    assert [[TextDelta(0, "word"), TextDelta(0, "word")]] == reader.feed_pieces(
        chat_stream("word", "word", created=100)
    )


def test_a_shape_that_changes_now_and_then_is_learned_again() -> None:
    reader = reader_of("chat")
    for at in range(100):
        reader.feed(chat_stream("some", "more", "words", created=at))

    begun, run = reader.feed_pieces(chat_stream("more", "words", "here", created=100))

    assert [TextDelta(0, "more")] == begun
    assert TextRun(0, [b"words", b"here"], "wordshere") == run


def test_text_with_the_beginning_of_a_call_is_looked_at_piece_by_piece() -> None:
    call = '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a":1}<|tool_call_end|><|tool_calls_section_end|>'
    pieces = [call[at : at + 7] for at in range(0, len(call), 7)]
    end = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    translator = Translator(
        source="chat", target="anthropic", model="kimi-k2", seed="s", tools=[Tool(name="f")]
    )

    out = translator.feed(chat_stream("I", " will", " call", *pieces) + end)

    assert ["f"] == translator.calls
    assert b'"text":" call"' in out
    assert b"tool_call" not in out.replace(b'"tool_use"', b"")


def test_text_for_another_block_than_the_open_one_is_told_as_a_fault_of_numbering() -> None:
    other = (
        b'event: content_block_start\ndata: {"type":"content_block_start","index":1,'
        b'"content_block":{"type":"text","text":""}}\n\n'
        + messages_stream("new").replace(b'"index":0', b'"index":1')
    )
    reader = reader_of("anthropic")
    reader.feed(BEGUN + messages_stream("a", "b", "c") + other)

    events = reader.feed(messages_stream("for", "the", "first"))

    assert [
        Loss("block_index_fixed", "$.index", "a text delta for block 0"),
        TextDelta(1, "for"),
        TextDelta(1, "the"),
        TextDelta(1, "first"),
    ] == events


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        (b" fox", (b" fox", " fox")),
        (b"\\u0041\\n", (b"A\\n", "A\n")),
        ("f\u00f6x".encode(), ("f\u00f6x".encode(), "f\u00f6x")),
        ("a\u2028b".encode(), ("a\u2028b".encode(), "a\u2028b")),
        (b"", None),
        (b"a\nb", None),
        (b"\xff", None),
        (b'a","b":"c', None),
        (b"\\", None),
        (b"8 bytes!", (b"8 bytes!", "8 bytes!")),
        (b"9 bytes !", None),
    ],
)
def test_a_read_that_repeats_another_is_taken_if_its_text_is_a_string(
    said: bytes, taken: tuple[bytes, str] | None
) -> None:
    echo = Echo(Shape(b'x"', b'"x'), left=2, most=12)

    assert taken == echo.take(b'x"%b"x' % said)
    assert (0 if taken is None else 1) == echo.count
    assert (0 if taken is None else 4 + len(said)) == echo.size
    assert (0 if taken is None else len(taken[1])) == echo.chars


def test_no_more_reads_are_taken_than_there_is_room_for() -> None:
    echo = Echo(Shape(b"<", b">"), left=2, most=12)

    assert [True, True, False] == [echo.take(b"<a>") is not None for _ in range(3)]
    assert None is Echo(Shape(b"<", b"<"), left=2, most=12).take(b"<")


@pytest.mark.parametrize("limits", [Limits(max_events=40), Limits(max_response_bytes=25_000)])
@pytest.mark.parametrize("source", ["chat", "anthropic"])
def test_reads_that_repeat_one_another_end_at_the_same_limit(source: str, limits: Limits) -> None:
    begun, word = (b"", chat_stream("words"))
    if source == "anthropic":
        begun, word = BEGUN, messages_stream("words")
    exchange = make_exchange(limits=limits)
    reader = StreamReader(dialect(source).frame_reader(exchange), exchange)
    reader.feed(begun)
    by_events = limits.max_events - begun.count(b"\n\n")
    by_bytes = (limits.max_response_bytes - len(begun)) // len(word)

    for _ in range(min(by_events, by_bytes)):
        assert TextDelta(0, "words") == reader.feed(word)[-1]
    with pytest.raises(TooLargeError):
        reader.feed(word)


OPEN = "<|tool_calls_section_begin|>"
CALL = "<|tool_call_begin|>functions.f:%d<|tool_call_argument_begin|>%s<|tool_call_end|>"
CLOSE = "<|tool_calls_section_end|>"
LARGE = (OPEN, CALL % (0, '{"a":"0123456789"}'), CLOSE)
SMALL_LIMIT = Limits(max_tool_args_bytes=8)


@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_text_that_comes_with_one_call_too_many_is_not_told(target: str) -> None:
    translator = Translator(
        source="chat",
        target=target,
        model="kimi-k2",
        seed="s",
        tools=[Tool(name="f")],
        limits=Limits(max_calls=1),
    )
    calls = (OPEN, CALL % (0, "{}"), CALL % (1, "{}"), CLOSE)

    out = translator.feed(
        chat_stream("I", "will", *calls) + chat_stream("or", "not", "so", "much", created=2)
    )

    assert isinstance(translator.outcome, Fault)
    assert "max_calls" == translator.outcome.code
    assert b"much" not in out


@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_text_that_comes_with_a_call_too_large_is_not_told(target: str) -> None:
    translator = Translator(
        source="chat",
        target=target,
        model="kimi-k2",
        seed="s",
        tools=[Tool(name="f")],
        limits=SMALL_LIMIT,
    )

    out = translator.feed(
        chat_stream("I", "will", "now", *LARGE) + chat_stream("or", "not", "so", "much", created=2)
    )

    assert isinstance(translator.outcome, Fault)
    assert "max_tool_args_bytes" == translator.outcome.code
    assert b"much" not in out


def test_a_call_too_large_is_refused_although_text_came_with_it() -> None:
    reader = AnswerReader(
        source="chat", model="kimi-k2", tools=[Tool(name="f")], limits=SMALL_LIMIT
    )

    with pytest.raises(TooLargeError, match="max_tool_args_bytes"):
        reader.feed(
            chat_stream("I", "will", "now", *LARGE)
            + chat_stream("or", "not", "so", "much", created=2)
        )


def test_texts_that_are_no_strings_are_not_looked_at_over_and_over() -> None:
    class Counted(list[Frame]):
        looked = 0

        def __getitem__(self, at: Any) -> Any:
            Counted.looked += 1
            return super().__getitem__(at)

    odd = chunk("?").replace(b'"?"', b'"a","role":"b"')
    frames = Counted([Frame(odd)] * 2000)
    shape = Shape(*chunk("?").split(b"?"))

    for at in range(len(frames)):
        assert ([], "") == shape.texts(frames, at)

    assert Counted.looked <= 64 * len(frames)
