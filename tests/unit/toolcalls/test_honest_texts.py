"""Texts that talk about tool calls are no calls: they come back unchanged, in every family, however they are cut.

A text that names a family's own special tokens keeps all of its words; the tokens themselves may be dropped, because
a tokenizer writes them only as markers.
"""

import random

import pytest

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.formats import AUTO, FORMATS
from dragoman.toolcalls.parser import Parsed, ToolCallParser
from dragoman.turn.request import Tool
from tests.support.honest import honest_texts, names_special_tokens, words_outside_markers

TOOLS = (Tool(name="fetch_forecast"), Tool(name="open_window"))
FAMILIES = {**FORMATS, AUTO.key: AUTO}
# A family and a text that is not unchanged in it, with the reason.
ACCEPTED = {
    ("granite", "prose/15"): "`<response>` at the start of an answer is the family's tag around it",
    ("ernie45", "prose/15"): "`<response>` at the start of an answer is the family's tag around it",
    ("functionary", "functionary/fence"): "`>>>all` on a line of its own begins a message",
    (
        "kimi_k2",
        "docs/command-line.md",
    ): "the page shows a whole call in the family's special tokens",
    ("auto", "docs/command-line.md"): "the same",
}
MAX_CHARS = 3000  # of a text that is fed in pieces


def run(form: Format, pieces: list[str]) -> Parsed:
    parser = ToolCallParser(format=form, tools=TOOLS)
    for piece in pieces:
        parser.feed(piece)
    parser.close()
    return parser.result


def pieces_of(text: str, name: str, key: str) -> list[str]:
    """Cut the beginning of a text into small pieces, the same ones in every run."""
    text = text[:MAX_CHARS]
    sizes = random.Random(f"{name} {key}")
    found = []
    while text:
        size = sizes.choice((1, 1, 2, 3, 5, 8, 40))
        found.append(text[:size])
        text = text[size:]
    return found


def test_there_are_at_least_200_texts() -> None:
    assert len(honest_texts()) >= 200


def test_every_accepted_change_is_still_one() -> None:
    for key, name in ACCEPTED:
        assert honest_texts()[name] != run(FAMILIES[key], [honest_texts()[name]]).content


@pytest.mark.parametrize("key", FAMILIES)
def test_an_honest_text_is_unchanged(key: str) -> None:
    form = FAMILIES[key]
    for name, text in honest_texts().items():
        if (key, name) in ACCEPTED:
            continue
        whole = run(form, [text])

        assert whole.tool_calls == (), name
        if names_special_tokens(text, form) or key == AUTO.key:
            shown = words_outside_markers(whole.content + whole.reasoning, form)
            assert words_outside_markers(text, form) == shown, name
        else:
            assert text == whole.content, name


@pytest.mark.parametrize("key", FAMILIES)
def test_an_honest_text_is_the_same_in_small_pieces(key: str) -> None:
    form = FAMILIES[key]
    # Each family gets another third of the texts.
    third = sum(map(ord, key)) % 3
    for name, text in list(honest_texts().items())[third::3]:
        pieces = pieces_of(text, name, key)
        whole, cut = run(form, ["".join(pieces)]), run(form, pieces)

        assert (whole.content, whole.reasoning) == (cut.content, cut.reasoning), name
        assert len(whole.tool_calls) == len(cut.tool_calls), name
