"""Characters that were cut in two."""

from dragoman.wire.surrogates import Halves, join_surrogates

HIGH, LOW = "\ud83d", "\ude00"


def test_s16_clean_joins_pairs_and_replaces_lone_halves() -> None:
    assert "a" == join_surrogates("a")
    assert "😀é" == join_surrogates(HIGH + LOW + "é")
    assert "�x�" == join_surrogates(LOW + "x" + HIGH)


def test_s16_halves_wait_in_their_channel() -> None:
    replaced: list[bool] = []
    halves = Halves(lambda: replaced.append(True))
    halves.active = True

    assert "a" == halves.join("content", "a" + HIGH)
    assert "b" == halves.join("reasoning", "b")
    assert bool(halves)
    assert "😀c" == halves.join("content", LOW + "c")
    assert not halves
    assert [] == replaced


def test_s16_halves_that_stay_alone_are_reported() -> None:
    replaced: list[bool] = []
    halves = Halves(lambda: replaced.append(True))
    halves.active = True

    assert "�x" == halves.join("content", LOW + "x")
    assert "" == halves.join("content", HIGH)
    assert [("content", "�")] == halves.release()
    assert [] == halves.release("content")
    assert 2 == len(replaced)


def test_nothing_is_looked_at_before_the_first_half() -> None:
    assert HIGH == Halves(lambda: None).join("content", HIGH)
