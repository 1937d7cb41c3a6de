"""Lists of models, as OpenAI, Anthropic and Google send them, are read by one function."""

import pytest

from dragoman.dialects.model_lists import read_model_list


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (b'{"data":[{"id":"a"},{"id":""},{"id":"b"},{"id":"c"}]}', ["a", "b"]),
        (b'{"models":[{"name":"models/a"},{"name":"b"}]}', ["a", "b"]),
        (b'{"data":[]}', []),
        (b'{"others":[]}', None),
        (b'{"data":[{"id":5}]}', None),
        (b"<html>", None),
        (b'{"data":[{"id":"\xff"}]}', None),
        (b'{"x":' + b"[" * 5000, None),
        (b"", None),
    ],
)
def test_a_list_of_models_has_names_in_one_of_two_shapes(body, names):
    assert names == read_model_list(body, 3)
