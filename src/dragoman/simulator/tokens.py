"""The model's tokens: four characters each, so that every count can be told in advance."""

from typing import Final

TOKEN: Final = 4  # characters
_MOST_PIECES: Final = 100_000  # a name may ask for texts of many MiB: they come in larger pieces


def count(text: str) -> int:
    """Return how many tokens a text is."""
    return -(-len(text) // TOKEN)


def pieces(text: str, size: int) -> list[str]:
    """Cut a text into pieces of `size` characters, or more if it is very long; 0 leaves it whole."""
    if not text:
        return []
    if size < 1 or size >= len(text):
        return [text]
    size = max(size, -(-len(text) // _MOST_PIECES))
    return [text[at : at + size] for at in range(0, len(text), size)]
