"""The path of a setting in the body of a client of any dialect, for losses and refusals."""

from collections.abc import Sequence
from typing import Final, Literal

from dragoman.dialects import dialect, dialect_names
from dragoman.turn.request import Request

# The paths of the entries of most conversations and lists of tools: formatting a path costs more than
# reading the entry.
_ENTRIES: Final = {
    field: tuple(f"$.{field}[{at}]" for at in range(500))
    for field in ("messages", "input", "contents", "tools")
}


def entry_paths(
    field: Literal["messages", "input", "contents", "tools"], count: int
) -> Sequence[str]:
    """Return the paths of a list's entries: at least `count` of them."""
    known = _ENTRIES[field]
    return known if count <= len(known) else [f"$.{field}[{at}]" for at in range(count)]


def path_of(request: Request, meaning: str) -> str:
    """Return the JSON path of a field in the dialect of the request's client.

    `meaning` is the field's name in `Request` or near it; `Dialect.field_names` has those that differ.
    """
    if request.dialect not in dialect_names():
        return f"$.{meaning}"
    return f"$.{dialect(request.dialect).field_names.get(meaning, meaning)}"
