"""JSON whose values come with paths is written while they come."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import MalformedError, TooLargeError
from dragoman.wire.json_paths import PathWriter


def put(writer: PathWriter, path: str, value: Any) -> str:
    if isinstance(value, str):
        return writer.add_text(path, value)
    return writer.add(path, json.dumps(value).encode())


def written(*pieces: tuple[str, Any], limit: int = 10_000) -> list[str]:
    """Return what each piece leads to, and then the end."""
    writer = PathWriter(limit)
    return [*(put(writer, path, value) for path, value in pieces), writer.end()]


def test_each_piece_is_written_when_it_comes() -> None:
    assert [
        '{"path":"a.',
        "txt",
        '","n":7',
        ',"deep":{"list":[true',
        ',{"x":null',
        "}]}}",
    ] == written(
        ("$.path", "a."),
        ("$.path", "txt"),
        ("$.n", 7),
        ("$.deep.list[0]", True),
        ("$.deep.list[1].x", None),
    )


def test_nothing_is_an_empty_object() -> None:
    assert ["{}"] == written()


def test_paths_with_names_quotes_and_positions() -> None:
    pieces = [("$.a['b c'][0][0]", "x"), ("$.a['b c'][1]", "y"), ('$["a"]["b c"][1]', "z")]

    assert '{"a":{"b c":[["x"],"yz"]}}' == "".join(written(*pieces))


def test_text_is_escaped() -> None:
    assert {"a": 'say "é"\n\\ '} == json.loads(
        "".join(written(("$.a", 'say "é"\n'), ("$.a", "\\ ")))
    )


@pytest.mark.parametrize(
    ("pieces", "expected", "repaired"),
    [
        ([("$.a", "x"), ("$.b", 1), ("$.a", "y")], {"a": "xy", "b": 1}, True),
        ([("$.a.b", 1), ("$.c", 2), ("$.a.d", 3)], {"a": {"b": 1, "d": 3}, "c": 2}, True),
        ([("$.a[0]", "x"), ("$.b", 1), ("$.a[1]", "y")], {"a": ["x", "y"], "b": 1}, True),
        ([("$.a", 1), ("$.a", 2)], {"a": 2}, True),
        ([("$.a", "x"), ("$.a", 2)], {"a": 2}, True),
        ([("$.a", 1), ("$.b", 2), ("$.a", 3), ("$.c", "z")], {"a": 3, "b": 2, "c": "z"}, True),
        ([("$.a", 1), ("$.b", "x"), ("$.b", "y")], {"a": 1, "b": "xy"}, False),
    ],
)
def test_a_field_that_was_left_is_written_again_at_the_end(
    pieces: list[tuple[str, Any]], expected: dict[str, Any], *, repaired: bool
) -> None:
    writer = PathWriter(10_000)
    text = "".join([*(put(writer, path, value) for path, value in pieces), writer.end()])

    assert expected == json.loads(text)
    assert repaired is writer.repaired


@pytest.mark.parametrize("path", ["", "a", "$", "$[0]", "$.a..b", "$.a[x]", "$" + ".a" * 65])
def test_what_is_not_a_path_is_refused(path: str) -> None:
    with pytest.raises(MalformedError, match="path"):
        written((path, "x"))


@pytest.mark.parametrize("second", ["$.a.b", "$.a[0]", "$.c[5]", "$.c.x", "$.d[2].e"])
def test_pieces_that_contradict_each_other_are_refused(second: str) -> None:
    with pytest.raises(MalformedError, match="contradict"):
        written(("$.a", "x"), ("$.d[0].e", 1), ("$.c[0]", "x"), (second, "y"), ("$.a", 1))


def test_pieces_are_limited() -> None:
    with pytest.raises(TooLargeError, match="max_tool_args_bytes"):
        written(("$.a", "x" * 100), limit=50)


# --- any document -------------------------------------------------------------------------------------

leaves = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5)
names = st.text("abc", min_size=1, max_size=2)
documents = st.dictionaries(
    names,
    st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3)
            | st.dictionaries(names, inner, min_size=1, max_size=3)
        ),
        max_leaves=8,
    ),
    max_size=4,
)


def pieces_of(value: Any, path: str = "$") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a document in their order, strings in two pieces."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from pieces_of(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from pieces_of(inner, f"{path}[{at}]")
    elif isinstance(value, str):
        yield from ((path, value[:2]), (path, value[2:]))
    else:
        yield path, value


@given(documents)
def test_a_document_in_order_is_written_once(document: dict[str, Any]) -> None:
    writer = PathWriter(100_000)
    pieces = [put(writer, path, value) for path, value in pieces_of(document)]
    text = "".join([*pieces, writer.end()])

    assert [*document.items()] == [*json.loads(text).items()]
    assert not writer.repaired


@given(documents, st.randoms())
def test_fields_in_any_order_have_their_values(
    document: dict[str, Any], order: random.Random
) -> None:
    fields = [[*pieces_of(value, f"$.{name}")] for name, value in document.items()]
    mixed: list[tuple[str, Any]] = []
    while fields := [one for one in fields if one]:
        mixed.append(order.choice(fields).pop(0))

    assert document == json.loads("".join(written(*mixed)))
