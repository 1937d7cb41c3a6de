"""Frames that differ in their text alone."""

from typing import Any

import msgspec
import pytest
from msgspec import structs

from dragoman.answer_reader import AnswerReader
from dragoman.context import Rendering
from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.dialects.framing import StreamReader
from dragoman.dialects.text_runs import RepeatedReads, TextTemplate, template_of
from dragoman.errors import TooLargeError
from dragoman.exchange_setup import make_exchange
from dragoman.limits import Limits
from dragoman.toolcalls.format_names import find_format
from dragoman.toolcalls.stage import NativeCalls
from dragoman.translate import Translator
from dragoman.turn.answer import fold, merged
from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Channel,
    DeltaRun,
    Event,
    Fault,
    Finish,
    FinishReason,
    ReasoningDelta,
    Start,
    TextDelta,
    Usage,
    expand_runs,
)
from dragoman.turn.losses import Loss
from dragoman.turn.request import Tool
from dragoman.turn.stages import Stage, StopSequences, WholeCalls

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


TEMPLATE = TextTemplate(*chat_stream("?").split(b"?"))


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
def test_all_text_after_the_first_frame_is_one_event(source: str, stream: bytes) -> None:
    *begun, run = reader_of(source).feed(stream)

    assert isinstance(run, DeltaRun)
    assert TextDelta(0, "a") == begun[-1]
    assert (
        DeltaRun(0, [b" quick", b' \\"brown\\"\\n', " f\u00f6x".encode()], TextDelta(0, run.text))
        == run
    )
    assert ' quick "brown"\n f\u00f6x' == run.text
    assert [
        TextDelta(0, " quick"),
        TextDelta(0, ' "brown"\n'),
        TextDelta(0, " f\u00f6x"),
    ] == run.deltas()


WORDS = ("a", " quick", ' "brown"\n', " f\u00f6x", " jumps")
THOUGHTS = ("Let", " me", " s\u00e9e", ': "dates"\n', " first")
ARGUMENTS = ('{"path": "', "src/", "d\u00e4tes.py", '", "lines": [1,', " 2]}")


def written(target: str, *, calls: bool, arguments: tuple[str, ...] = ARGUMENTS) -> bytes:
    """Return a stream of a dialect as its servers write it, with one event for each piece."""
    pieces = (
        [ArgsDelta(0, one) for one in arguments] if calls else [TextDelta(0, one) for one in WORDS]
    )
    kind = BlockKind.TOOL_CALL if calls else BlockKind.TEXT
    reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
    writer = dialect(target).writer(make_exchange(seed="s"))
    events: list[Event] = [
        Start("m", "m", 1),
        BlockStart(0, kind, *(("call_1", "edit") if calls else ())),
        *pieces,
        BlockEnd(0),
        Usage(1, 1, final=True),
        Finish(reason),
    ]
    return b"".join(map(writer.send, events))


@pytest.mark.parametrize("target", DIALECT_NAMES)
@pytest.mark.parametrize("source", DIALECT_NAMES)
@pytest.mark.parametrize("calls", [False, True])
def test_frames_that_come_together_say_the_same_as_frames_that_come_alone(
    source: str, target: str, calls: bool
) -> None:
    stream = written(source, calls=calls)
    frames = [one + b"\n\n" for one in stream.replace(b"\r\n", b"\n").split(b"\n\n") if one]
    together, alone = (Translator(source=source, target=target, seed="t") for _ in range(2))
    once = together.feed(b"".join(frames)) + together.close()
    parts = b"".join(map(alone.feed, frames)) + alone.close()

    read = [fold((reader := reader_of(target)).feed(one) + reader.close()) for one in (once, parts)]
    assert read[0] == read[1]
    text = read[0].blocks[0].text
    if calls:
        assert msgspec.json.decode("".join(ARGUMENTS)) == msgspec.json.decode(text)
    else:
        assert "".join(WORDS) == text


@pytest.mark.parametrize("source", ["chat", "anthropic"])
def test_pieces_of_reasoning_stay_apart(source: str) -> None:
    writer = dialect(source).writer(make_exchange(seed="s"))
    events: list[Event] = [
        Start("m", "m", 1),
        BlockStart(0, BlockKind.REASONING),
        *(ReasoningDelta(0, one) for one in THOUGHTS),
        BlockEnd(0),
        BlockStart(1, BlockKind.TEXT),
        *(TextDelta(1, one) for one in WORDS),
        BlockEnd(1),
        Usage(1, 1, final=True),
        Finish(FinishReason.STOP),
    ]
    stream = b"".join(map(writer.send, events))
    read = reader_of(source).feed(stream)
    found = expand_runs(read)
    alone = reader_of(source)
    apart = [event for one in stream.split(b"\n\n") for event in alone.feed(one + b"\n\n")]

    assert list(THOUGHTS) == [event.text for event in found if isinstance(event, ReasoningDelta)]
    assert apart == found
    assert 2 == sum(isinstance(event, DeltaRun) for event in read)


# Pieces that end or begin with a comma, or are one.  A comma waits for what follows it; in a run it does not have to.
COMMAS = ('{"a": [1,', " 2", ", 3", ",", ' 4], "b"', ':"x,', 'y",', '"c":1}')


@pytest.mark.parametrize("arguments", [ARGUMENTS, COMMAS])
@pytest.mark.parametrize("source", ["chat", "anthropic", "responses"])
def test_pieces_of_arguments_stay_apart(source: str, arguments: tuple[str, ...]) -> None:
    stream = written(source, calls=True, arguments=arguments)
    frames = [one + b"\n\n" for one in stream.split(b"\n\n") if one]
    alone = reader_of(source)
    apart = [event for one in frames for event in alone.feed(one)]

    assert "".join(arguments) == "".join(one.json for one in apart if isinstance(one, ArgsDelta))
    for cut in range(len(frames) + 1):
        reader = reader_of(source)
        reads = [b"".join(frames[:cut]), b"".join(frames[cut:])]
        events = expand_runs([event for one in reads for event in reader.feed(one)])
        assert merged(apart) == merged(events)
        assert abs(len(apart) - len(events)) <= arguments.count(",")
    assert any(isinstance(event, DeltaRun) for event in reader_of(source).feed(stream))


@pytest.mark.parametrize(
    "arguments",
    [
        ('{"a"', ":", "1, oo", "ps", "}"),
        ('{"a":', " oops", ", 1", "}"),
        ('{"a":1', "}", " and", " more"),
    ],
)
@pytest.mark.parametrize("source", ["chat", "anthropic", "responses"])
def test_arguments_that_are_not_json_leave_in_the_same_pieces(
    source: str, arguments: tuple[str, ...]
) -> None:
    stream = written("chat", calls=True, arguments=arguments)
    translator = Translator(source="chat", target=source, seed="s")
    stream = translator.feed(stream) + translator.close()
    frames = [one + b"\n\n" for one in stream.split(b"\n\n") if one]
    alone, together = reader_of(source), reader_of(source)
    apart = [event for one in frames for event in alone.feed(one)]

    assert apart == expand_runs(together.feed(stream))


def test_arguments_that_are_repaired_in_a_run_leave_as_one_event() -> None:
    """A line feed inside a string is escaped: the run would not have the text that leaves."""
    frames = written("chat", calls=True, arguments=('{"a":"', "one", "two", "\n", 'x"}'))
    events = reader_of("chat").feed(frames)

    assert not any(isinstance(event, DeltaRun) for event in events)
    assert '{"a":"onetwo\\u000ax"}' == "".join(
        one.json for one in events if isinstance(one, ArgsDelta)
    )


def test_texts_of_numbered_events_are_one_event() -> None:
    stream = written("responses", calls=False)
    events = reader_of("responses").feed(stream)
    texts = [event for event in events if isinstance(event, TextDelta | DeltaRun)]

    assert TextDelta(0, WORDS[0]) == texts[0]
    assert [TextDelta(0, one) for one in WORDS[1:]] == texts[1].deltas()  # type: ignore[union-attr]
    assert 2 == len(texts)


@pytest.mark.parametrize(
    "other",
    [
        {"output_index": 1},
        {"item_id": "else"},
        {"content_index": 1},
        {"logprobs": [{"token": "x"}]},
        {"type": "response.refusal.delta"},
    ],
    ids=str,
)
def test_a_numbered_event_about_something_else_does_not_add_text(other: dict[str, Any]) -> None:
    frames = written("responses", calls=False).split(b"\n\n")
    first = next(at for at, one in enumerate(frames) if b"output_text.delta" in one)
    name, data = frames[first + 2].split(b"\ndata: ")
    changed = msgspec.json.encode(msgspec.json.decode(data) | other)
    frames[first + 2] = name + b"\ndata: " + changed
    block = b"\n\n".join(frames[: first + 4]) + b"\n\n"
    whole, apart = reader_of("responses"), reader_of("responses")
    once = whole.feed(block)
    parts = [event for one in frames[: first + 4] for event in apart.feed(one + b"\n\n")]

    assert merged(expand_runs(parts)) == merged(expand_runs(once))


@pytest.mark.parametrize("end", [b"\r", b"\n"])
@pytest.mark.parametrize("together", [True, False])
def test_a_line_end_inside_json_is_not_a_blank(end: bytes, together: bool) -> None:
    """JSON takes it for a blank; in an event stream it ends the line, and what follows is not data."""
    frames = [one + b"\n\n" for one in written("responses", calls=False).split(b"\n\n") if one]
    first = next(at for at, one in enumerate(frames) if b"output_text.delta" in one)
    frames[first + 2] = frames[first + 2].replace(b',"delta"', b"," + end + b'"delta"')
    read = reader_of("responses")
    fed = [b"".join(frames)] if together else frames
    events = [event for one in fed for event in read.feed(one)]

    text = "".join(event.text for event in expand_runs(events) if isinstance(event, TextDelta))
    assert WORDS[0] + WORDS[1] + WORDS[3] + WORDS[4] == text
    assert any(isinstance(event, Loss) and event.code == "chunk_malformed" for event in events)


def test_words_that_stand_elsewhere_too_are_not_taken_for_the_text() -> None:
    read = StreamReader(
        (frames := dialect("chat").frame_reader(exchange := make_exchange())), exchange
    )
    read.feed(chat_stream("m"))

    assert template_of(chat_stream("m"), chunk("m"), frames.text_of) is None
    assert TEMPLATE == template_of(chat_stream("else"), chunk("else"), frames.text_of)


@pytest.mark.parametrize(
    ("framing", "end", "taken"),
    [
        (b"data: ", b"\n\n", True),
        (b"data:", b"\n\n", True),
        (b"event: message\ndata: ", b"\n\n", True),
        (b"event:message\r\ndata: ", b"\r\n\r\n", True),
        (b"id: 1\ndata: ", b"\n\n", False),
        (b"data: ", b"\nid: 1\n\n", False),
    ],
)
def test_a_frame_with_other_lines_than_its_name_and_data_is_no_template(
    framing: bytes, end: bytes, taken: bool
) -> None:
    exchange = make_exchange()
    frames = dialect("chat").frame_reader(exchange)
    StreamReader(frames, exchange).feed(chat_stream("m"))
    template = template_of(framing + chunk("else") + end, chunk("else"), frames.text_of)

    assert taken == (template is not None)
    if template is not None:
        before, after = chunk("?").split(b"?")
        assert TextTemplate(framing + before, after + end) == template


def test_a_shape_ends_where_the_text_is_no_string_by_itself() -> None:
    one, two, three = chat_stream("one"), chat_stream("two"), chat_stream("three")
    odd = chat_stream("?").replace(b'"?"', b'"a","role":"b"')
    block = one + two + odd + three

    assert ([b"one", b"two"], "onetwo", len(one + two)) == TEMPLATE.texts(block, 0, 9)
    assert ([b"one"], "one", len(one)) == TEMPLATE.texts(block, 0, 1)
    assert ([], "", 0) == TEMPLATE.texts(block, 0, 0)
    assert ([b"two"], "two", len(one + two)) == TEMPLATE.texts(block, len(one), 9)
    assert ([], "", len(one + two)) == TEMPLATE.texts(block, len(one + two), 9)
    assert ([b"three"], "three", len(block)) == TEMPLATE.texts(block, len(one + two + odd), 9)


@pytest.mark.parametrize("words", [1, 63, 64, 65, 200])
def test_a_run_of_any_length_is_taken_at_once_and_can_be_split_again(words: int) -> None:
    texts = [f'word "{at}"' if at % 7 == 3 else f"word {at}" for at in range(words)]
    block = chat_stream(*texts) + chat_stream("other", created=2)
    bodies, text, end = TEMPLATE.texts(block, 0, 1000)

    assert "".join(texts) == text
    assert [msgspec.json.encode(one)[1:-1] for one in texts] == bodies
    assert [chat_stream(one) for one in texts] == TEMPLATE.split(block[:end])


def test_texts_that_are_strings_only_when_they_are_joined_are_not_taken() -> None:
    bodies = [rb"one\n", b"a\\", b'b","c']  # the second joins the third, which is two
    frames = [TEMPLATE.before + body + TEMPLATE.after for body in bodies]
    block, first, second = b"".join(frames), len(frames[0]), len(frames[0] + frames[1])

    assert ([rb"one\n"], "one\n", first) == TEMPLATE.texts(block, 0, 9)
    assert ([], "", first) == TEMPLATE.texts(block, first, 9)
    assert ([], "", second) == TEMPLATE.texts(block, second, 9)


def test_a_peer_whose_frames_always_differ_is_read_frame_by_frame() -> None:
    reader = reader_of("chat")
    for at in range(100):
        reader.feed(chat_stream("word", created=at))

    expected: list[Event] = [TextDelta(0, "word"), TextDelta(0, "word")]
    assert expected == reader.feed(chat_stream("word", "word", created=100))


def test_a_shape_that_changes_now_and_then_is_learned_again() -> None:
    reader = reader_of("chat")
    for at in range(100):
        reader.feed(chat_stream("some", "more", "words", created=at))

    expected: list[Event] = [
        TextDelta(0, "more"),
        DeltaRun(0, [b"words", b"here"], TextDelta(0, "wordshere")),
    ]
    assert expected == reader.feed(chat_stream("more", "words", "here", created=100))


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


def test_text_for_another_block_than_the_open_one_is_reported_as_a_fault_of_numbering() -> None:
    other = (
        b'event: content_block_start\ndata: {"type":"content_block_start","index":1,'
        b'"content_block":{"type":"text","text":""}}\n\n'
        + messages_stream("new").replace(b'"index":0', b'"index":1')
    )
    reader = reader_of("anthropic")
    reader.feed(BEGUN + messages_stream("a", "b", "c") + other)

    events = expand_runs(reader.feed(messages_stream("for", "the", "first")))

    assert [
        Loss("block_index_fixed", "$.index", "a text delta for block 0"),
        TextDelta(1, "for"),
        TextDelta(1, "the"),
        TextDelta(1, "first"),
    ] == events


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        (b" fox", " fox"),
        (b"\\u0041\\n", "A\n"),
        ("f\u00f6x".encode(), "f\u00f6x"),
        ("a\u2028b".encode(), "a\u2028b"),
        (b"", ""),
        (b"a\nb", ""),
        (b"\xff", ""),
        (b'a","b":"c', ""),
        (b"\\", ""),
        (b"8 bytes!", "8 bytes!"),
        (b"9 bytes !", ""),
    ],
)
def test_a_read_that_repeats_another_is_taken_if_its_text_is_a_string(
    said: bytes, taken: str
) -> None:
    repeats = RepeatedReads(TextTemplate(b'x"', b'"x'), left=2, most=12)

    assert taken == repeats.text_of(b'x"%b"x' % said)
    assert (1 if taken else 0) == repeats.count
    assert (4 + len(said) if taken else 0) == repeats.size
    assert len(taken) == repeats.chars


def test_no_more_reads_are_taken_than_there_is_room_for() -> None:
    repeats = RepeatedReads(TextTemplate(b"<", b">"), left=2, most=12)

    assert [True, True, False] == [bool(repeats.text_of(b"<a>")) for _ in range(3)]
    assert "" == RepeatedReads(TextTemplate(b"<", b"<"), left=2, most=12).text_of(b"<")


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
def test_text_that_comes_with_one_call_too_many_is_not_emitted(target: str) -> None:
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
def test_text_that_comes_with_a_call_too_large_is_not_emitted(target: str) -> None:
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
    class Counted(bytes):
        looked = 0

        def startswith(self, *what: Any) -> bool:
            Counted.looked += 1
            return super().startswith(*what)

    odd = chat_stream("?").replace(b'"?"', b'"a","role":"b"')
    block = Counted(odd * 2000)

    for at in range(2000):
        assert ([], "", at * len(odd)) == TEMPLATE.texts(block, at * len(odd), 10_000)

    assert Counted.looked <= 2 * 65 * 2000


RUN = DeltaRun(0, [b"one", b' \\"two\\"', " dr\u00ef".encode()], TextDelta(0, 'one "two" dr\u00ef'))


THOUGHT_RUN = DeltaRun(
    0, RUN.bodies, ReasoningDelta(0, 'one "two" dr\u00ef', Channel.SUMMARY, part=1)
)
CALL_START = BlockStart(0, BlockKind.TOOL_CALL, "call_1", "edit")
ARGS_RUN = DeltaRun(0, [b'{\\"a\\"', b":", b"1}"], ArgsDelta(0, '{"a":1}'))
# Blocks with a run in them, and how their answer ends.
WITH_RUNS: dict[str, tuple[list[Event], FinishReason]] = {
    "text": ([BlockStart(0, BlockKind.TEXT), RUN], FinishReason.STOP),
    "text after text": ([BlockStart(0, BlockKind.TEXT), TextDelta(0, "a"), RUN], FinishReason.STOP),
    "reasoning": ([BlockStart(0, BlockKind.REASONING), THOUGHT_RUN], FinishReason.STOP),
    "more reasoning": (
        [BlockStart(0, BlockKind.REASONING), *THOUGHT_RUN.deltas(), THOUGHT_RUN],
        FinishReason.STOP,
    ),
    "arguments": ([CALL_START, ARGS_RUN], FinishReason.TOOL_CALLS),
    "more arguments": (
        [CALL_START, ArgsDelta(0, " "), ArgsDelta(0, "\n"), ARGS_RUN],
        FinishReason.TOOL_CALLS,
    ),
}


@pytest.mark.parametrize("rendering", ["reasoning_content", "both", "details", "off"])
@pytest.mark.parametrize("case", WITH_RUNS)
@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_a_writer_writes_a_run_as_it_writes_its_deltas(
    name: str, case: str, rendering: str
) -> None:
    shown = Rendering(chat_reasoning=rendering)  # type: ignore[arg-type]
    exchange = make_exchange(seed="s", rendering=shown)
    quick, slow = dialect(name).writer(exchange), dialect(name).writer(exchange)
    events, reason = WITH_RUNS[case]
    for event in (Start("m"), *events, BlockEnd(0), Usage(final=True), Finish(reason)):
        assert b"".join(map(slow.send, expand_runs([event]))) == quick.send(event)


@pytest.mark.parametrize("case", WITH_RUNS)
def test_a_run_is_folded_and_merged_as_its_deltas_are(case: str) -> None:
    events, reason = WITH_RUNS[case]
    whole = [Start(), *events, BlockEnd(0), Finish(reason)]
    apart = expand_runs(whole)

    assert not any(isinstance(event, DeltaRun) for event in apart)
    assert fold(apart) == fold(whole)
    assert merged(apart) == merged(whole)


@pytest.mark.parametrize("case", WITH_RUNS)
def test_stages_do_with_a_run_what_they_do_with_its_deltas(case: str) -> None:
    def stages() -> list[Stage]:
        return [
            NativeCalls(format=find_format("kimi"), tools=[Tool(name="f")]),
            StopSequences(["two"]),
            WholeCalls(),
        ]

    events, reason = WITH_RUNS[case]
    whole = [Start(), *events, BlockEnd(0), Usage(final=True), Finish(reason)]
    for quick, slow in zip(stages(), stages(), strict=True):
        assert merged(slow.feed(expand_runs(whole))) == merged(quick.feed(whole))
    for quick, slow in zip(stages(), stages(), strict=True):
        found = [one for event in whole for one in quick.feed([event])]
        assert merged([one for event in whole for one in slow.feed(expand_runs([event]))]) == (
            merged(found)
        )


def test_a_run_after_a_call_in_text_has_the_index_of_its_new_block() -> None:
    call = "".join((OPEN, CALL % (0, "{}"), CLOSE))
    stage = NativeCalls(format=find_format("kimi"), tools=[Tool(name="f")])
    begin = [Start(), BlockStart(0, BlockKind.TEXT), TextDelta(0, f"I look.{call}"), BlockEnd(0)]
    stage.feed(begin)

    out = stage.feed([structs.replace(CALL_START, index=1), ARGS_RUN.at(1)])

    start, run = out[-2:]
    assert isinstance(start, BlockStart)
    assert ARGS_RUN.at(start.index) == run
    assert 1 < start.index


def test_a_relay_forwards_the_frames_around_a_call_in_a_run() -> None:
    """The upstream's own bytes pass in all frames but those that hold the call, however they arrive."""
    call = "".join((OPEN, CALL % (0, "{}"), CLOSE))
    frames = [chat_stream(word) for word in ("I", " will", " call", " it", call, " and", " go")]

    def relayed(*reads: bytes) -> bytes:
        translator = Translator(
            source="chat", target="chat", model="kimi-k2", seed="s", tools=[Tool(name="f")]
        )
        out = b"".join(map(translator.feed, reads))
        assert ["f"] == translator.calls
        return out + translator.close()

    out = relayed(b"".join(frames))

    assert b"".join(frames[1:4]) in out
    assert relayed(*frames) == out
