"""A request before and after translation, side by side."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal

import msgspec
from msgspec import Struct

TEXT_BYTES: Final = 256 * 1024  # of a request that is shown
_MOST_LINES: Final = 3000  # of each side that are compared
_LINE_CHARS: Final = 600
_CONTEXT: Final = 2  # equal lines that are shown around a difference
_LEAST_FOLD: Final = 4

Span = tuple[int, int]


class DiffRow(Struct, omit_defaults=False):
    """One line of the comparison."""

    kind: Literal["same", "changed", "removed", "added", "folded"]
    left: str = ""
    right: str = ""
    left_no: int | None = None
    right_no: int | None = None
    left_parts: list[Span] = []  # what differs, in characters
    right_parts: list[Span] = []
    count: int = 0  # of lines that are folded


def pretty(body: bytes) -> str:
    """Return JSON with line breaks; anything else as it is."""
    try:
        return msgspec.json.format(body, indent=2).decode("utf-8", "replace")
    except (msgspec.DecodeError, RecursionError):
        return body.decode("utf-8", "replace")


def compare(left: str, right: str) -> list[DiffRow]:
    """Return two texts side by side, line by line."""
    lines = [_lines(text) for text in (left, right)]
    old, new = lines[0][:_MOST_LINES], lines[1][:_MOST_LINES]
    rows: list[DiffRow] = []
    matcher = SequenceMatcher(None, old, new)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            rows += _same(old[a:b], a, c, first=a == 0, last=b == len(old))
        else:
            rows += _different(old, new, (a, b), (c, d))
    more = max(len(lines[0]) - _MOST_LINES, len(lines[1]) - _MOST_LINES)
    if more > 0:
        rows.append(DiffRow("folded", count=more))
    return rows


def _lines(text: str) -> list[str]:
    return [
        line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 1] + "…"
        for line in text.split("\n")
    ]


def _same(
    lines: Sequence[str], left: int, right: int, *, first: bool, last: bool
) -> Iterator[DiffRow]:
    """Yield equal lines: those next to a difference, and how many are between."""
    head = 0 if first else _CONTEXT
    tail = 0 if last else _CONTEXT
    count = len(lines) - head - tail
    for at, line in enumerate(lines):
        if count >= _LEAST_FOLD and head <= at < head + count:
            if at == head:
                yield DiffRow("folded", count=count)
            continue
        yield DiffRow("same", line, line, left + at + 1, right + at + 1)


def _different(
    old: Sequence[str], new: Sequence[str], left: Span, right: Span
) -> Iterator[DiffRow]:
    pairs = min(left[1] - left[0], right[1] - right[0])
    for at in range(pairs):
        one, other = old[left[0] + at], new[right[0] + at]
        parts = _parts(one, other)
        numbers = left[0] + at + 1, right[0] + at + 1
        yield DiffRow("changed", one, other, *numbers, [parts[0]], [parts[1]])
    for at in range(left[0] + pairs, left[1]):
        yield DiffRow("removed", old[at], "", at + 1)
    for at in range(right[0] + pairs, right[1]):
        yield DiffRow("added", "", new[at], None, at + 1)


def _parts(one: str, other: str) -> tuple[Span, Span]:
    """Return what differs in two lines: all between their common beginning and their common end."""
    most = min(len(one), len(other))
    start = next((at for at in range(most) if one[at] != other[at]), most)
    end = 0
    while end < most - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return (start, len(one) - end), (start, len(other) - end)
