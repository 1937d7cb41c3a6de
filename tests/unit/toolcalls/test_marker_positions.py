"""Positions of markers, over the corpus: the text at a position is the marker, however the text was cut."""

import pytest

from dragoman.toolcalls.format_names import find_format
from dragoman.toolcalls.formats import FORMATS
from dragoman.toolcalls.grammar import format_grammar
from dragoman.toolcalls.marker_positions import MarkerTracer
from dragoman.toolcalls.native_blocks import NativeBlocks
from dragoman.toolcalls.tool_names import DeclaredTools
from dragoman.turn.tools import ToolTable
from tests.support.toolcalls import Case, corpus, declared

UNMARKED = {"llama3_json", "xlam", "granite"}  # calls may be JSON alone
STEP = 5  # every fifth case: there are 2,400


def traced(case: Case, pieces: list[str]) -> MarkerTracer:
    tools = declared(case.tools)
    content = case.channel == "content"
    blocks = NativeBlocks(table=ToolTable(tools or ()), seed="corpus")
    blocks.channel = "content" if content else "reasoning"
    tracer = MarkerTracer(
        format_grammar(find_format(case.family), calls=tools is None or bool(tools), think=content),
        blocks,
        DeclaredTools(tools),
        reasoning=not content,
        thinking=content and case.start_in_reasoning,
    )
    for piece in pieces:
        tracer.feed(piece)
    tracer.close()
    return tracer


@pytest.mark.parametrize("family", FORMATS)
def test_the_text_at_a_position_is_the_marker(family: str) -> None:
    for case in corpus(family)[::STEP]:
        whole = case.whole
        markers, calls = traced(case, [whole]).found()
        at = 0
        for marker in markers:
            assert at <= marker.start < marker.end, case
            assert whole[marker.start : marker.end] == marker.text, case
            at = marker.end
        assert bool(case.calls) is bool(calls), case
        if case.calls and family not in UNMARKED:
            assert markers, case
        assert sum(one.calls for one in calls) == len(case.calls), case
        cut = traced(case, [whole[at : at + 3] for at in range(0, len(whole), 3)])
        assert (markers, calls) == cut.found(), case
