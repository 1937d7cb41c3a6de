"""Arguments in pieces: paths, contradictions, limits."""

import pytest

from dragoman.dialects.gemini.block_reader import _PartialCall
from dragoman.dialects.gemini.schema import FunctionCall, PartialArg
from dragoman.errors import MalformedError, TooLargeError
from dragoman.limits import DEFAULT_LIMITS, Limits


def pieces(*given, limits=DEFAULT_LIMITS):
    made = _PartialCall(FunctionCall("f"), "", limits)
    made.add([PartialArg(path, text) for path, text in given])
    return made.json()


def test_paths_with_names_quotes_and_positions():
    assert '{"a":{"b c":[["x"],"yz"]}}' == pieces(
        ("$.a['b c'][0][0]", "x"), ("$.a['b c'][1]", "y"), ('$["a"]["b c"][1]', "z")
    )


@pytest.mark.parametrize("path", ["", "a", "$", "$[0]", "$.a..b", "$.a[x]"])
def test_what_is_not_a_path_is_refused(path):
    with pytest.raises(MalformedError, match="path"):
        pieces((path, "x"))


@pytest.mark.parametrize("second", ["$.a.b", "$.a[0]", "$.c[5]"])
def test_pieces_that_contradict_each_other_are_refused(second):
    with pytest.raises(MalformedError, match="contradict"):
        pieces(("$.a", "x"), ("$.c[0]", "x"), (second, "y"))


def test_pieces_are_limited():
    with pytest.raises(TooLargeError, match="max_tool_args_bytes"):
        pieces(("$.a", "x" * 100), limits=Limits(max_tool_args_bytes=50))
