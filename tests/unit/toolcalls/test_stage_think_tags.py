import pytest

from dragoman.toolcalls.stage import ThinkTags, ThinkTagsMode
from dragoman.turn.answer import fold, merged
from dragoman.turn.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    Finish,
    FinishReason,
    Opaque,
    OpaqueKind,
    ReasoningDelta,
    Start,
    TextDelta,
)


def said(mode: ThinkTagsMode, *pieces: str) -> list[tuple[str, str]]:
    stage = ThinkTags(think_tags=mode)
    events: list[Event] = [Start(), BlockStart(0, BlockKind.TEXT)]
    events += [TextDelta(0, piece) for piece in pieces]
    events += [BlockEnd(0), Finish(FinishReason.STOP)]
    answer = fold([event for one in events for event in stage.feed([one])])
    return [
        (str(one.kind), one.text or "".join(part.text for part in one.segments))
        for one in answer.blocks
    ]


def test_r5_worked_example_5_5_reasoning_between_tags_comes_out() -> None:
    stage = ThinkTags(origin="vllm", seal_plain=True)
    events = stage.feed([Start("m"), BlockStart(0, BlockKind.TEXT), TextDelta(0, "<thi")])
    events += stage.feed([TextDelta(0, "nk>hm</think>\n\nOn it."), BlockEnd(0)])

    assert [
        Start("m"),
        BlockStart(0, BlockKind.REASONING),
        ReasoningDelta(0, "hm"),
        Opaque(0, OpaqueKind.PLAIN, "", "vllm"),
        BlockEnd(0),
        BlockStart(1, BlockKind.TEXT),
        TextDelta(1, "On it."),
        BlockEnd(1),
    ] == merged(events)


@pytest.mark.parametrize(
    ("mode", "text", "expected"),
    [
        ("auto", "\n<think>a</think> \n b", [("reasoning", "a"), ("text", "b")]),
        ("auto", "so <think>a</think> b", [("text", "so <think>a</think> b")]),
        ("auto", "a</think>b", [("text", "a</think>b")]),
        ("auto", "<think>a", [("reasoning", "a")]),
        ("auto", "<thinner>", [("text", "<thinner>")]),
        ("auto", "  \n", [("text", "  \n")]),
        ("auto", "<think></think>b", [("text", "b")]),
        ("auto", "<think>a</think></think>b", [("reasoning", "a"), ("text", "b")]),
        ("auto", "<think>a</think>b</think>c", [("reasoning", "a"), ("text", "bc")]),
        ("auto", "<think>a</think>`</think>` c", [("reasoning", "a"), ("text", "`</think>` c")]),
        ("auto", " </think>\n\nb", [("text", "b")]),
        ("off", "</think>b", [("text", "</think>b")]),
        ("implicit_open", "a</think>\n\nb", [("reasoning", "a"), ("text", "b")]),
        ("implicit_open", "<think>a</think>b", [("reasoning", "a"), ("text", "b")]),
        ("implicit_open", "a", [("reasoning", "a")]),
        ("off", "<think>a</think>b", [("text", "<think>a</think>b")]),
    ],
)
def test_c19_tags_count_as_the_profile_states_however_they_are_cut(
    mode: ThinkTagsMode, text: str, expected: list[tuple[str, str]]
) -> None:
    assert expected == said(mode, text)
    assert expected == said(mode, *text)
    for at in range(1, len(text)):
        assert expected == said(mode, text[:at], text[at:])


def test_text_without_tags_leaves_as_the_same_objects() -> None:
    events: list[Event] = [Start(), BlockStart(0, BlockKind.TEXT), TextDelta(0, "a < b")]
    events += [TextDelta(0, "<think>"), BlockEnd(0), Finish(FinishReason.STOP)]

    out = ThinkTags().feed(events)

    assert [id(event) for event in events] == [id(event) for event in out]


def test_implicit_reasoning_is_not_assumed_after_a_reasoning_block() -> None:
    stage = ThinkTags(think_tags="implicit_open")
    events: list[Event] = [Start(), BlockStart(0, BlockKind.REASONING), ReasoningDelta(0, "r")]
    events += [BlockEnd(0), BlockStart(1, BlockKind.TEXT), TextDelta(1, "t"), BlockEnd(1)]

    assert events == stage.feed(events)
