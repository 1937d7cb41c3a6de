"""What is read at once is read as if frame by frame."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.answer_reader import AnswerReader
from dragoman.dialects import DIALECT_NAMES, framing
from dragoman.errors import PeerError
from dragoman.limits import Limits
from dragoman.translate import Translator
from dragoman.turn.answer import merged
from dragoman.turn.events import Event, Fault, FaultKind
from dragoman.turn.request import Tool

_FRAME_END = re.compile(rb"\n\n")
UNTOUCHED: dict[str, Any] = {"native_format": "none", "profile": "openai"}  # text stays text
# What may stand where the text of a frame stands, well-formed or not.
ODD = (
    b"",
    b'"',
    b"\\",
    b"\\n",
    b'\\"',
    b"\\u0041",
    b"\\ud83d\\ude00",
    b"\\ud83d",
    b"\\ude00",
    b"\t",
    b"\x7f",
    b"\x00",
    b"\xff",
    b"\xe2\x82",
    "\u20ac".encode(),
    "\u2028".encode(),
    b'a","role":"assistant',
    b'a"},"finish_reason":"stop","x":{"y":"',
    b"<think>",
    b"</think>",
    b"<tool_call>",
    b"<|tool_calls_section_begin|>",
    b"stop here",
    b'<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\\"a\\":',
    b"1}<|tool_call_end|><|tool_calls_section_end|>",
)
WORDS = st.text(max_size=6).map(lambda text: msgspec.json.encode(text)[1:-1])
TEXTS = st.one_of(WORDS, WORDS, st.sampled_from((b" fox", b" the", b"a")), st.sampled_from(ODD))

CHAT_FRAMES = (
    b'data: {"id":"c","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n',
    b'data: {"id":"c","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n',
    b'data: {"id":"c","created":2,"model":"m","choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n',
    b'data: {"id":"c","choices":[{"delta":{"reasoning_content":"%b"}}]}\n\n',
    b'data: {"id":"c","choices":[{"delta":{"content":"x","refusal":"%b"}}]}\n\n',
    b'event: error\ndata: {"id":"c","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n',
    b": %b\n\n",
)
CHAT_WHOLE = (
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"k","function":{"name":"f","arguments":"{\\"a\\""}}]}}]}\n\n',
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]}\n\n',
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n',
    b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n',
)
MESSAGES_FRAMES = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%b"}}\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%b"}}\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"%b"}}\n\n',
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%b"},"more":1}\n\n',
)
MESSAGES_WHOLE = (
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n',
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n',
    b'event: content_block_start\ndata: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}\n\n',
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}\n\n',
    b'event: ping\ndata: {"type":"ping"}\n\n',
)
HEADS = {
    "chat": b'data: {"id":"c","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n',
    "anthropic": b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","model":"m","content":[],'
    b'"usage":{"input_tokens":1}}}\n\n' + MESSAGES_WHOLE[0],
}
TAILS = {
    "chat": b"data: [DONE]\n\n",
    "anthropic": b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
}


def frames(templates: tuple[bytes, ...], whole: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    plain = st.builds(lambda text: templates[0] % text, TEXTS)
    any_of = st.builds(lambda template, text: template % text, st.sampled_from(templates), TEXTS)
    run = st.lists(plain, min_size=1, max_size=6).map(b"".join)
    return st.one_of(run, run, any_of, st.sampled_from(whole))


FRAMES = {
    "chat": frames(CHAT_FRAMES, CHAT_WHOLE),
    "anthropic": frames(MESSAGES_FRAMES, MESSAGES_WHOLE),
}


@contextmanager
def one_by_one() -> Iterator[None]:
    """Read every frame by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "_MAX_TEMPLATES", 0)
        yield


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """Return a dialect, and a stream in it: cut anywhere, or a frame in each read but for one cut."""
    source = draw(st.sampled_from(("chat", "anthropic")))
    said = b"".join(draw(st.lists(FRAMES[source], max_size=12)))
    data = HEADS[source] + said + (TAILS[source] if draw(st.booleans()) else b"")
    cuts = draw(st.lists(st.integers(0, len(data)), max_size=4))
    if draw(st.booleans()):
        cuts = [end.end() for end in _FRAME_END.finditer(data)] + cuts[:1]
    places = [0, *sorted(cuts), len(data)]
    return source, [data[a:b] for a, b in pairwise(places) if a < b]


def translated(
    source: str, target: str, reads: list[bytes], *, strict: bool, **how: Any
) -> tuple[Translator, list[bytes]]:
    translator = Translator(
        source=source, target=target, strict=strict, seed="s", tools=[Tool(name="f")], **how
    )
    return translator, [*(translator.feed(read) for read in reads), translator.close()]


def outcome_of(translator: Translator) -> tuple[object, ...]:
    return translator.losses, translator.outcome, translator.usage, translator.begun


@given(answers(), st.sampled_from(DIALECT_NAMES), st.booleans())
def test_frames_that_are_read_at_once_lead_to_the_same_bytes(
    answer: tuple[str, list[bytes]], target: str, strict: bool
) -> None:
    source, reads = answer
    with one_by_one():
        before, expected = translated(source, target, reads, strict=strict, **UNTOUCHED)

    after, out = translated(source, target, reads, strict=strict, **UNTOUCHED)

    assert expected == out
    assert outcome_of(before) == outcome_of(after)


@given(
    answers(),
    st.sampled_from(DIALECT_NAMES),
    st.sampled_from(("", "kimi-k2", "deepseek-r1")),
    st.sampled_from(((), ("stop here", "fox"))),
)
def test_frames_that_are_read_at_once_are_looked_at_for_calls_and_stops(
    answer: tuple[str, list[bytes]], target: str, model: str, stop: tuple[str, ...]
) -> None:
    source, reads = answer
    with one_by_one():
        before, expected = translated(source, target, reads, strict=False, model=model, stop=stop)

    after, out = translated(source, target, reads, strict=False, model=model, stop=stop)

    # What waited may leave in pieces of another size.
    assert events_of(target, expected) == events_of(target, out)
    assert outcome_of(before) == outcome_of(after)


def events_of(target: str, out: list[bytes]) -> list[Event]:
    reader = AnswerReader(source=target, **UNTOUCHED)
    return merged([*reader.feed(b"".join(out)), *reader.close()])


@given(
    answers(),
    st.booleans(),
    st.sampled_from((Limits(), Limits(max_events=7), Limits(max_response_bytes=900))),
)
def test_frames_that_are_read_at_once_lead_to_the_same_events(
    answer: tuple[str, list[bytes]], strict: bool, limits: Limits
) -> None:
    source, reads = answer

    def events() -> list[list[Event] | str]:
        reader = AnswerReader(source=source, strict=strict, limits=limits, **UNTOUCHED)
        found: list[list[Event] | str] = []
        try:
            found.extend(reader.feed(read) for read in reads)
            found.append(reader.close())
        except PeerError as error:
            found.append(str(error))
            found.append(reader.fail(Fault(FaultKind.UPSTREAM_BAD, "broken")))
        return found

    with one_by_one():
        expected = events()

    assert expected == events()
