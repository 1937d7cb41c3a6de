"""What the strings in a dialect's JSON are, by the names of their fields.

Who looks at JSON without reading it as a request or an answer needs this: a mask, which keeps the protocol and replaces
the content, and a comparison of what two requests give to a model.
"""

from dataclasses import dataclass, fields
from typing import Final

_NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The fields of one dialect, or of several together.

    Attributes:
        words: Fields whose values are words of the protocol, if they are a single word.
        names: Fields with names of tools and parameters, ids and stop sequences.
        schemas: Fields with a JSON schema.
        free: Fields with JSON of the client: arguments, results, labels.
        results: Fields with an object whose `response` is free.
        parts: Fields that distinguish the parts of a stream: the pieces of one text have the same values there.
        no_input: Fields that are not part of a model's input, and that clients may change from turn to turn.
        system: Fields of a request with the instructions of the model.
        history: Fields of a request with the conversation.
        own_names: Names of tools that the vendor has chosen, and by which an answer is read.
        id_prefixes: What the vendor puts before ids.
        path_words: Words of its URLs.
        headers: Headers that describe the API, not the conversation.
    """

    words: frozenset[str] = _NONE
    names: frozenset[str] = _NONE
    schemas: frozenset[str] = _NONE
    free: frozenset[str] = _NONE
    results: frozenset[str] = _NONE
    parts: frozenset[str] = _NONE
    no_input: frozenset[str] = _NONE
    system: frozenset[str] = _NONE
    history: frozenset[str] = _NONE
    own_names: frozenset[str] = _NONE
    id_prefixes: frozenset[str] = _NONE
    path_words: frozenset[str] = _NONE
    headers: frozenset[str] = _NONE

    def __or__(self, other: "Vocabulary") -> "Vocabulary":
        """Return the fields of both."""
        names = [one.name for one in fields(self)]
        return Vocabulary(**{name: getattr(self, name) | getattr(other, name) for name in names})
