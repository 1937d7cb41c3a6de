"""No regular expression of the tree takes more than linear time, whatever text it is given."""

import time

import pytest

from tests.support.expressions import (
    Found,
    calls_inside_functions,
    expressions,
    hostile_texts,
    uses_of_other_engines,
)

# Seconds of the processor for one text, from which on its growth is measured.
LONGEST = 0.04  # a quadratic expression takes 0.1 on a fast machine; linear ones take up to 0.15 on a slow one
GROWTH = 8  # at most, with four times the text: a linear expression has 4, a quadratic one 16
# Functions that build an expression from data; `tests/support/expressions.py` lets each of them do so.
BUILDERS = {
    "gateway/config/texts.py:_expression",  # the operator's own; whether it compiles
    "globs.py:__init__",
    "redaction.py:__init__",  # the same, where recordings are written
    "recorder/masked_text.py:_id_prefix",
    "recorder/masked_text.py:_tokens",
    "redaction.py:_known",
    "toolcalls/bodies/tags.py:__init__",
    "toolcalls/scanner.py:__init__",
    "toolcalls/format.py:chars_of",
    "toolcalls/schema_types.py:text_without",
    "toolcalls/stage.py:_finder",
}
# Families of native calls build hundreds of expressions; `tests/unit/toolcalls/test_machine_linear.py` feeds each
# of them hostile texts made of its own markers.
FAMILIES = "toolcalls/scanner.py"


def seconds(found: Found, text: str) -> float:
    data = text.encode("utf-8", "surrogatepass") if found.is_bytes else text
    pattern = found.compiled()
    began = time.process_time()
    pattern.match(data)
    pattern.fullmatch(data)
    if not found.anchored:
        for _ in pattern.finditer(data):
            pass
    return time.process_time() - began


def is_slow(found: Found, text: str) -> bool:
    """Return whether a text takes long and its time grows faster than its length, each time of three."""
    quarter = text[: len(text) // 4] + text[-1]  # the last character makes the expression fail
    return all(
        (whole := seconds(found, text)) > LONGEST and whole > GROWTH * seconds(found, quarter)
        for _ in range(3)
    )


@pytest.mark.parametrize("part", range(8))
def test_every_expression_is_linear(part: int) -> None:
    others = [one for one in expressions() if one.file != FAMILIES and not one.short]
    slow = [
        (found.file, found.pattern, text[:60])
        for found in others[part::8]
        for text in hostile_texts(found)
        if is_slow(found, text)
    ]

    assert len(others) > 50
    assert not slow


def test_a_careless_expression_is_found_out() -> None:
    careless = (r"\beyJ[A-Za-z0-9_\-]{8,}\.", " *$", "(?:xy|z).*w", "<[^>]*>")
    founds = [Found("errors.py", pattern, 0, is_bytes=False) for pattern in careless]

    missed = [
        found.pattern
        for found in founds
        if not any(is_slow(found, text) for text in hostile_texts(found))
    ]

    assert not missed


def test_expressions_are_compiled_where_the_test_sees_them() -> None:
    assert set(calls_inside_functions()) == BUILDERS


def test_no_module_brings_another_kind_of_expression() -> None:
    assert not list(uses_of_other_engines())
