"""Values of a JSON text are counted as a decoder would, without one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire import json_values
from dragoman.wire.json_values import canonical_json, has_more_items

values = st.recursive(
    st.none() | st.integers() | st.text(alphabet=',"\\a\n', max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(',"\\'), inner, max_size=4),
    max_leaves=20,
)


def commas(value: object) -> int:
    """Count what separates the values of a decoded text."""
    if isinstance(value, dict):
        return max(0, len(value) - 1) + sum(map(commas, value.values()))
    if isinstance(value, list):
        return max(0, len(value) - 1) + sum(map(commas, value))
    return 0


@given(values, st.integers(1, 7))
def test_commas_in_strings_do_not_count_wherever_the_text_is_cut(value: object, step: int) -> None:
    data = json.dumps(value).encode()
    count = commas(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_values, "_STEP", step)

        assert not has_more_items(data, count)
        assert count == 0 or has_more_items(data, count - 1)


def test_a_large_text_with_many_commas_in_strings_passes() -> None:
    data = json.dumps(["a,b" * 100_000, "\\,"]).encode()

    assert not has_more_items(data, 1)
    assert has_more_items(data, 0)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('{ "b": [1.0, 1.5e3], "a": "\\u0041" }', '{"a":"A","b":[1,1500]}'),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("1e999", "1e999"),
        ('{ "a":', '{ "a":'),
        ('{ "a": "\ud800" }', '{ "a": "\ud800" }'),
        ("[" * 3000, "[" * 3000),
        ("not JSON", "not JSON"),
    ],
)
def test_equal_values_have_one_canonical_text(text: str, canonical: str) -> None:
    assert canonical == canonical_json(text)
