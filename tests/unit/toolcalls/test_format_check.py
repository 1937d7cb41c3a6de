"""Every family, cut at every character: no call is complete whose text was not, and nothing is lost."""

import pytest

from dragoman.toolcalls.format_check import answers, cut_failures, read
from dragoman.toolcalls.formats import FORMATS
from tests.support.renderers import checked

each_family = pytest.mark.parametrize("family", FORMATS)


@each_family
def test_well_formed_answers_have_both_calls_and_all_of_the_text(family: str) -> None:
    for answer in answers(checked(family)):
        found = read(FORMATS[family], answer.text, "stop", required=True)

        assert [call.name for call in answer.calls] == [call.name for call in found.tool_calls]
        assert all(call.complete for call in found.tool_calls)
        assert answer.content == found.content


@each_family
def test_0_4_a_cut_answer_has_no_complete_call_whose_text_was_not(family: str) -> None:
    assert [] == list(cut_failures(checked(family)))
