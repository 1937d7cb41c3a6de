"""What the parser of native calls found: the same list for streams, complete bodies, relays and readers."""

import json
from collections.abc import Sequence

import pytest

from dragoman.answer_reader import AnswerReader
from dragoman.toolcalls.findings import MAX_PROBLEMS, NativeFinding, NativeProblem, summarize
from dragoman.translate import Translator, translate_body
from dragoman.turn.losses import CODES, Loss
from dragoman.turn.request import Tool
from tests.support.gateway import DIALECTS

TOOLS = (Tool(name="get_weather"),)
CALL = (
    "<|tool_call_begin|>functions.get_weather:{}<|tool_call_argument_begin|>"
    '{{"city": "Paris"}}<|tool_call_end|>'
)
SECTION = "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>"
TEXT = "Let me look. " + SECTION.format(CALL.format(0) + CALL.format(1))
CALLS = [NativeFinding("kimi_k2", "content", block, "get_weather") for block in (1, 2)]


def stream_of(text: str, field: str = "content", size: int = 7) -> bytes:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    chunks = [{"delta": {field: piece}} for piece in pieces]
    chunks.append({"delta": {}, "finish_reason": "stop"})
    bodies = ({"id": "1", "choices": [{"index": 0, **chunk}]} for chunk in chunks)
    return b"".join(b"data: %b\n\n" % json.dumps(body).encode() for body in bodies)


def body_of(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"id": "1", "object": "chat.completion", "choices": [choice]}).encode()


def found_in(
    text: str, *, field: str = "content", target: str = "anthropic"
) -> Sequence[NativeFinding]:
    translator = Translator(source="chat", target=target, model="kimi-k2", tools=TOOLS)
    translator.feed(stream_of(text, field))
    translator.close()
    return translator.findings


@pytest.mark.parametrize("target", DIALECTS)
def test_translated_and_relayed_streams_have_the_calls_that_were_found(target: str) -> None:
    assert CALLS == list(found_in(TEXT, target=target))


@pytest.mark.parametrize("target", DIALECTS)
def test_complete_bodies_have_the_calls_that_were_found(target: str) -> None:
    done = translate_body(body_of(TEXT), source="chat", target=target, model="kimi-k2", tools=TOOLS)

    assert CALLS == list(done.findings)


def test_readers_have_the_calls_that_were_found() -> None:
    reader = AnswerReader(source="chat", model="kimi-k2", tools=TOOLS)
    reader.feed(stream_of(TEXT))
    reader.close()

    assert CALLS == list(reader.findings)


def test_calls_in_the_reasoning_are_of_that_channel() -> None:
    assert {"reasoning"} == {one.channel for one in found_in(TEXT, field="reasoning_content")}


@pytest.mark.parametrize("text", ["Hello.", "The marker `<|tool_call_begin|>` begins a call.", ""])
def test_answers_without_calls_have_no_findings(text: str) -> None:
    assert [] == list(found_in(text))


def test_list_grows_while_the_answer_arrives() -> None:
    translator = Translator(source="chat", target="chat", model="kimi-k2", tools=TOOLS)
    counts = []
    for frame in stream_of(TEXT).split(b"\n\n")[:-1]:
        translator.feed(frame + b"\n\n")
        counts.append(len(translator.findings))

    assert sorted(counts) == counts
    assert [0, 1, 2] == sorted(set(counts))


def test_problem_of_a_call_has_its_name_and_no_content() -> None:
    cut = TEXT.removesuffix('"Paris"}<|tool_call_end|><|tool_calls_section_end|>')
    problems = [one for one in found_in(cut) if one.problem is not None]

    assert [("get_weather", "call_cut", "get_weather")] == [
        (one.name, one.problem.code, one.problem.detail) for one in problems
    ]


def test_dropped_text_is_an_excerpt_and_not_a_detail() -> None:
    noise = "Done.<|tool_call_end|>"
    (finding,) = found_in(noise)

    assert finding.problem == Loss("native_noise_dropped", excerpt="<|tool_call_end|>")
    assert "<|tool_call_end|>" == finding.problem.full_detail
    assert "" == summarize([finding])[0].problems[0].detail


def test_summary_counts_by_family_and_channel() -> None:
    cut = Loss("call_cut", detail="a", excerpt="one")
    findings = [
        NativeFinding("hermes", "reasoning", 0, "a"),
        NativeFinding("hermes", "content", 1, "a"),
        NativeFinding("hermes", "content", 1, "a", cut),
        NativeFinding("hermes", "reasoning", 2, "b"),
        NativeFinding("hermes", "content", 3, "a", Loss("call_cut", detail="a", excerpt="two")),
    ]
    reasoning, content = summarize(findings)

    assert ("hermes", "reasoning", 2, ()) == (
        reasoning.family,
        reasoning.channel,
        reasoning.calls,
        reasoning.problems,
    )
    assert 1 == content.calls
    assert (NativeProblem("call_cut", CODES["call_cut"], "a", 2),) == content.problems


def test_summary_is_bounded() -> None:
    many = [
        NativeFinding("hermes", "content", 0, "", Loss("call_cut", detail=str(number)))
        for number in range(MAX_PROBLEMS + 5)
    ]

    assert MAX_PROBLEMS == len(summarize(many)[0].problems)
