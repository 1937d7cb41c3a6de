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

# Seconds of the processor for one text.
LONGEST = 0.12  # the slowest expression takes 0.05, a quadratic one 0.3
# Functions that build an expression from data; `tests/support/expressions.py` lets each of them do so.
BUILDERS = {
    "gateway/config/texts.py:_expression",  # the operator's own; whether it compiles
    "globs.py:__init__",
    "redaction.py:__init__",  # the same, where recordings are written
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


@pytest.mark.parametrize("part", range(8))
def test_every_expression_is_linear(part: int) -> None:
    others = [one for one in expressions() if one.file != FAMILIES and not one.short]
    slow = [
        (found.file, found.pattern, text[:60])
        for found in others[part::8]
        for text in hostile_texts(found)
        # Twice, for other programs share the machine.
        if seconds(found, text) > LONGEST and seconds(found, text) > LONGEST
    ]

    assert len(others) > 50
    assert not slow


def test_a_careless_expression_is_found_out() -> None:
    careless = (r"\beyJ[A-Za-z0-9_\-]{8,}\.", " *$", "(?:xy|z).*w", "<[^>]*>")
    founds = [Found("errors.py", pattern, 0, is_bytes=False) for pattern in careless]

    missed = [
        found.pattern
        for found in founds
        if not any(seconds(found, text) > LONGEST for text in hostile_texts(found))
    ]

    assert not missed


def test_expressions_are_compiled_where_the_test_sees_them() -> None:
    assert set(calls_inside_functions()) == BUILDERS


def test_no_module_brings_another_kind_of_expression() -> None:
    assert not list(uses_of_other_engines())
