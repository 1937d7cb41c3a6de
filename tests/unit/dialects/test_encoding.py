"""JSON of what texts cannot hold."""

import pytest
from msgspec import Raw, Struct

from dragoman.dialects.encoding import cleaned, encode, escaped
from dragoman.wire.surrogates import join_surrogates


class Leaf(Struct, frozen=True):
    text: str
    raw: Raw


def test_sound_values_are_encoded_as_they_are() -> None:
    assert b'{"text":"a","raw":{"b": 1}}' == encode(Leaf("a", Raw(b'{"b": 1}')))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\ud83d", "a\ufffd"), ("\ud83d\ude00", "\U0001f600"), ("\ude00b", "\ufffdb")],
)
def test_halves_of_surrogate_pairs_are_joined_or_replaced(text: str, expected: str) -> None:
    assert expected == join_surrogates(text)


def test_values_are_cleaned_at_any_depth() -> None:
    value = {"k\ud83d": [Leaf("a\ud83d", Raw(b'"x"')), ("\ude00", 5, None)]}

    assert {"k\ufffd": [Leaf("a\ufffd", Raw(b'"x"')), ["\ufffd", 5, None]]} == cleaned(value)
    assert '{"k\ufffd":[{"text":"a\ufffd","raw":"x"},["\ufffd",5,null]]}'.encode() == encode(value)


def test_escaped_text_is_inside_a_string() -> None:
    assert 'a\\"b\\n' == escaped('a"b\n')
