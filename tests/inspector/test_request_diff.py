"""The request before and after translation, side by side."""

from dragoman.inspector.request_diff import DiffRow, compare, pretty


def test_changed_lines_show_which_characters_differ() -> None:
    rows = compare("a\nmax: 100,\nz", "a\nmax: 250,\nz")

    assert ["same", "changed", "same"] == [row.kind for row in rows]
    changed = rows[1]
    ((left_start, left_end),), ((right_start, right_end),) = changed.left_parts, changed.right_parts
    assert ("10", "25") == (changed.left[left_start:left_end], changed.right[right_start:right_end])


def test_lines_of_one_side_are_removed_or_added() -> None:
    assert [
        DiffRow("same", "a", "a", 1, 1),
        DiffRow("removed", "b", "", 2),
        DiffRow("same", "c", "c", 3, 2),
        DiffRow("added", "", "d", None, 3),
    ] == compare("a\nb\nc", "a\nc\nd")


def test_many_equal_lines_are_folded_into_their_number() -> None:
    lines = [str(number) for number in range(100)]

    rows = compare("\n".join(lines), "\n".join([*lines[:50], "new", *lines[50:]]))

    folded = [row.count for row in rows if row.kind == "folded"]
    assert 2 == len(folded)
    assert 100 == sum(folded) + sum(row.kind == "same" for row in rows)


def test_json_is_shown_with_line_breaks_and_anything_else_as_it_is() -> None:
    assert '{\n  "a": 1\n}' == pretty(b'{"a":1}')
    assert "not JSON \ufffd" == pretty(b"not JSON \xff")
