"""Globs over names."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.globs import Glob, fill, is_glob


@pytest.mark.parametrize(
    ("glob", "name", "fits"),
    [
        ("*", "anything/at all", True),
        ("*", "", True),
        ("*", "two\nlines", True),
        ("claude-*haiku*", "claude-3-5-haiku-latest", True),
        ("claude-*haiku*", "claude-haiku", True),
        ("claude-*haiku*", "claude-sonnet-4-5", False),
        ("Claude-*", "cLAUDE-opus", True),
        ("gpt-?", "gpt-5", True),
        ("gpt-?", "gpt-5.1", False),
        ("claude-*[1m]", "claude-sonnet-4-5[1m]", True),
        ("claude-*[1m]", "claude-sonnet-4-5m", False),
        ("a[!b]", "ac", False),
        ("a.c", "abc", False),
        ("", "", True),
        ("", "x", False),
        ("kimi", "kimi-k2", False),
        ("k2", "kimi-k2", False),
    ],
)
def test_glob_knows_stars_and_question_marks_and_nothing_else(glob, name, fits):
    assert fits is Glob(glob).matches(name)


@given(st.text(), st.text())
def test_any_text_is_a_glob(text, name):
    assert Glob(text).matches(name) in (True, False)


@given(st.text())
def test_a_text_without_stars_matches_itself(text):
    assert Glob(text).matches(text)


def test_a_long_name_does_not_make_a_glob_slow():
    glob = Glob("*a*a*a*a*a*a*a*a*a*b")

    started = time.perf_counter()
    matched = glob.matches("a" * 100_000)
    took = time.perf_counter() - started

    assert not matched
    assert took < 20


def test_one_star_of_a_template_is_filled():
    assert fill("anthropic/*", "claude-opus") == "anthropic/claude-opus"
    assert fill("plain", "name") == "plain"
    assert [True, True, False] == [is_glob("a*"), is_glob("a?"), is_glob("a[b]")]
