"""The model's tokens: four characters each, so that every count can be told in advance."""

from typing import Final

TOKEN: Final = 4  # characters


def count(text: str) -> int:
    """Return how many tokens a text is."""
    return -(-len(text) // TOKEN)


def pieces(text: str, size: int) -> list[str]:
    """Cut a text into pieces of `size` characters; 0 leaves it whole."""
    if not text:
        return []
    if size < 1 or size >= len(text):
        return [text]
    return [text[at : at + size] for at in range(0, len(text), size)]
