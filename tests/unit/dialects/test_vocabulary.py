"""What the strings in a dialect's JSON are."""

from dragoman.dialects import DIALECT_NAMES, dialect, vocabulary
from dragoman.dialects.vocabulary import Vocabulary


def test_the_union_has_the_fields_of_both() -> None:
    one = Vocabulary(words=frozenset({"type"}), names=frozenset({"id"}))
    other = Vocabulary(words=frozenset({"role"}), system=frozenset({"system"}))

    assert one | other == Vocabulary(
        words=frozenset({"type", "role"}), names=frozenset({"id"}), system=frozenset({"system"})
    )


def test_the_registry_joins_the_vocabularies_of_all_dialects() -> None:
    for name in DIALECT_NAMES:
        assert vocabulary() == vocabulary() | dialect(name).vocabulary


def test_where_the_conversation_is_agrees_with_the_fields_that_a_relay_rewrites() -> None:
    for name in DIALECT_NAMES:
        known = dialect(name)
        conversation = known.vocabulary.history | known.vocabulary.system

        assert known.vocabulary.history <= set(known.history_fields) <= conversation
