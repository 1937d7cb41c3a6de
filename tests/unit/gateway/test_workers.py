"""When a worker that ended is replaced, and when all of them are given up."""

import itertools

from dragoman.gateway.workers import Deaths


def test_first_death_is_replaced_at_once_and_the_next_ones_later_and_later() -> None:
    deaths = Deaths(10)

    delays = [deaths.note(float(second)) for second in range(10)]

    assert [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0] == delays


def test_too_many_deaths_within_the_window_end_all() -> None:
    deaths = Deaths(5)

    delays = [deaths.note(float(second)) for second in range(6)]

    assert None is delays[-1]
    assert None not in delays[:-1]


def test_deaths_now_and_then_never_end_all() -> None:
    deaths = Deaths(5)

    delays = [deaths.note(hour * 3600.0) for hour in itertools.islice(itertools.count(), 1000)]

    assert {0.0} == set(delays)


def test_deaths_do_not_end_a_worker_that_has_served_for_longer_than_the_window() -> None:
    deaths = Deaths(5)

    delays = [deaths.note(200.0 + second, serving_since=0.0) for second in range(60)]

    assert {5.0} == set(delays[6:])


def test_worker_that_has_only_just_begun_does_not_keep_the_others() -> None:
    deaths = Deaths(5)

    delays = [deaths.note(float(second), serving_since=0.0) for second in range(6)]

    assert None is delays[-1]
