"""What the stream itself shows, for models of which nothing is known."""

import pytest

from dragoman.toolcalls.format_names import ALIASES, find_format
from dragoman.toolcalls.formats import AUTO, FORMATS
from dragoman.toolcalls.parser import Parsed, ToolCallParser
from tests.support.tables import check_all, in_one_test
from tests.support.toolcalls import Case, corpus, declared

SHOWN = (
    "one_call",
    "several_calls",
    "text_around",
    "literal_end_marker",
    "prose_about_markers",
    "section_missing",
    "think_tags",
)


def parse(case: Case, family: str, pieces: list[str]) -> Parsed:
    form = AUTO if family == "auto" else FORMATS[family]
    parser = ToolCallParser(format=form, tools=declared(case.tools), seed="s")
    for piece in pieces:
        parser.feed(piece)
    parser.close()
    return parser.result


@pytest.mark.parametrize("family", [key for key, form in FORMATS.items() if not form.bare])
def test_a_family_shows_itself_by_its_markers(family: str) -> None:
    check_all([case for case in corpus(family) if case.name in SHOWN], shows_itself)


def shows_itself(case: Case) -> None:
    known = parse(case, case.family, [case.whole])

    for pieces in ([case.whole], list(case.whole)):
        shown = parse(case, "auto", pieces)
        assert (known.content, known.tool_calls) == (shown.content, shown.tool_calls)


def test_markerless_forms_are_never_taken_for_calls() -> None:
    parser = ToolCallParser(format="auto")
    text = '{"name": "f", "parameters": {}} [f(a=1)] functools[{"name": "f", "arguments": {}}]'
    parser.feed(text)
    parser.close()

    assert text == parser.result.content
    assert parser.result.tool_calls == ()


def test_a_family_that_did_not_show_after_all_leaves_others_their_chance() -> None:
    parser = ToolCallParser(format="auto")
    parser.feed("a <tool_call>{} b <|tool_call_begin|> c [TOOL_CALLS]f{}")
    parser.close()

    assert parser.result.content == "a <tool_call>{} b <|tool_call_begin|> c "
    assert [call.name for call in parser.result.tool_calls] == ["f"]


@in_one_test
@pytest.mark.parametrize(("alias", "family"), ALIASES.items())
def test_other_names_lead_to_a_family(alias: str, family: str) -> None:
    assert alias not in FORMATS
    assert FORMATS[family] == find_format(alias)


@pytest.mark.parametrize(
    "pair",
    [
        ("<think>", "</think>"),
        ("◁think▷", "◁/think▷"),
        ("[THINK]", "[/THINK]"),
        ("<seed:think>", "</seed:think>"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
        ("<|inner_prefix|>", "<|inner_suffix|>"),
    ],
    ids=lambda pair: pair[0],
)
@pytest.mark.parametrize("tools", [None, ()], ids=["tools", "no tools"])
def test_reasoning_tags_show_themselves_and_a_lone_closer_is_dropped(
    pair: tuple[str, str], tools: tuple[()] | None
) -> None:
    opener, closer = pair
    for text, expected in (
        (f"{opener}a{closer}\nb", ("a", "b")),
        (f"{opener}a{closer}b{closer}c", ("a", "bc")),
        (f"\n{closer}\n\nb", ("", "b")),
        (f"so {closer} b", ("", f"so {closer} b")),
    ):
        for pieces in ([text], list(text)):
            parser = ToolCallParser(format="auto", tools=tools)
            for piece in pieces:
                parser.feed(piece)
            parser.close()
            assert expected == (parser.result.reasoning, parser.result.content)


def test_a_first_sign_counts_only_where_an_answer_begins() -> None:
    parser = ToolCallParser(format="auto")
    parser.feed("x to=self<|message|>hm<|eom|>")
    parser.close()

    assert parser.result.content == "x to=self<|message|>hm<|eom|>"
