"""Every corpus case as events of a stream: the stage finds what the parser finds, whatever passes it unparsed."""

import pytest

from dragoman.toolcalls.formats import FORMATS
from dragoman.toolcalls.parser import parsed
from dragoman.toolcalls.stage import NativeCalls, Splitter, ThinkTags, ThinkTagsMode
from dragoman.turn.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    Finish,
    FinishReason,
    Start,
    TextDelta,
)
from tests.support.toolcalls import Case, corpus, declared


def stage(case: Case) -> Splitter:
    tools = declared(case.tools)
    mode: ThinkTagsMode = "implicit_open" if case.start_in_reasoning else "auto"
    if tools is not None and not tools:
        return ThinkTags(format=FORMATS[case.family], think_tags=mode)
    return NativeCalls(format=FORMATS[case.family], tools=tools, think_tags=mode)


def events(text: str, size: int) -> list[Event]:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return [
        Start("m"),
        BlockStart(0, BlockKind.TEXT),
        *(TextDelta(0, piece) for piece in pieces),
        BlockEnd(0),
        Finish(FinishReason.STOP),
    ]


@pytest.mark.parametrize("family", FORMATS)
def test_a_case_gives_as_events_what_it_gives_as_text(family: str) -> None:
    for case in corpus(family):
        if case.channel != "content":
            continue
        for size in (1, 4):
            splitter = stage(case)
            out = [one for event in events(case.whole, size) for one in splitter.feed([event])]
            answer = parsed(out)
            assert (case.content, case.reasoning) == (answer.content, answer.reasoning), case
            assert [(call.arguments, call.complete) for call in case.calls] == [
                (call.arguments, call.complete) for call in answer.tool_calls
            ], case
