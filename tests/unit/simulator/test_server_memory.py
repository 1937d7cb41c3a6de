"""What the simulator remembers is bounded, and forgotten on demand."""

from dragoman.simulator.answer import SimulatedAnswer
from dragoman.simulator.play import count, pieces
from dragoman.simulator.server import Memory

MIB = 1024 * 1024


def test_requests_are_counted_by_what_they_are() -> None:
    memory = Memory()

    assert [1, 1, 2] == [memory.count(seed) for seed in ("a", "b", "a")]
    memory.clear()
    assert 1 == memory.count("a")


def test_counts_of_the_oldest_requests_are_forgotten() -> None:
    memory = Memory()
    for number in range(4_097):
        memory.count(str(number))

    assert [2, 1] == [memory.count("4096"), memory.count("0")]


def test_answers_make_room_for_new_ones() -> None:
    memory = Memory()
    for seed in ("a", "b", "c"):
        memory.keep(seed, SimulatedAnswer(headers={}, writes=[bytes(30 * MIB)]))
        memory.answer("a")

    assert [True, False, True] == [memory.answer(seed) is not None for seed in ("a", "b", "c")]


def test_answer_beyond_all_bounds_is_not_kept() -> None:
    memory = Memory()
    memory.keep("a", SimulatedAnswer(headers={}, writes=[bytes(65 * MIB)]))

    assert memory.answer("a") is None


def test_tokens_are_four_characters() -> None:
    assert [0, 1, 1, 2] == [count(text) for text in ("", "a", "abcd", "abcde")]
    assert ["abcd", "e"] == pieces("abcde", 4)
    assert ["abcde"] == pieces("abcde", 0)
    assert [] == pieces("", 4)


def test_very_long_text_comes_in_larger_pieces() -> None:
    cut = pieces("x" * (8 * MIB), 4)

    assert len(cut) <= 100_000
    assert 8 * MIB == sum(map(len, cut))
