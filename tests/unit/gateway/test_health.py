"""When an upstream is left alone, and for how long."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.health import LONGEST_REST, Health, in_order


def rested(failures: int = 1, cooldown: float = 30.0) -> Health:
    """An upstream that failed at 0."""
    health = Health(failures, cooldown)
    for _ in range(failures):
        health.failed(0.0)
    return health


def test_an_upstream_rests_after_failures_in_a_row() -> None:
    health = Health(3, 30.0)

    seen = []
    for now in (0.0, 1.0, 2.0):
        seen.append(health.resting(now))
        health.failed(now)

    assert [0.0, 0.0, 0.0] == seen
    assert 30.0 == health.resting(2.0)
    assert 0.5 == health.resting(31.5)
    assert 0.0 == health.resting(32.0)


def test_a_success_between_failures_restarts_the_count() -> None:
    health = Health(2, 30.0)

    for _ in range(5):
        health.failed(0.0)
        health.succeeded()

    assert 0.0 == health.resting(0.0)


def test_one_probe_is_let_through_after_the_rest() -> None:
    health = rested()

    health.started(30.0)

    assert 30.0 == health.resting(30.0)
    assert 25.0 == health.resting(35.0)


def test_a_probe_that_succeeds_ends_the_matter() -> None:
    health = rested(failures=2)
    health.started(30.0)

    health.succeeded()
    health.failed(31.0)

    assert 0.0 == health.resting(31.0)


def test_a_probe_that_fails_begins_another_rest() -> None:
    health = rested(failures=3)
    health.started(30.0)

    health.failed(32.0)

    assert 30.0 == health.resting(32.0)
    assert 0.0 == health.resting(62.0)


def test_a_probe_whose_client_left_makes_room_for_another() -> None:
    health = rested()
    health.started(30.0)

    health.abandoned()

    assert 0.0 == health.resting(30.0)


def test_a_probe_that_never_ends_makes_room_after_a_while() -> None:
    health = rested()
    health.started(30.0)

    assert 0.0 == health.resting(60.0)
    health.started(60.0)
    assert 30.0 == health.resting(60.0)


def test_failures_of_requests_under_way_do_not_prolong_a_rest() -> None:
    health = rested()

    for now in (5.0, 10.0, 29.0):
        health.failed(now)

    assert 1.0 == health.resting(29.0)


def test_an_upstream_that_asks_to_be_left_alone_is() -> None:
    health = Health(3, 30.0)

    health.failed(0.0, retry_after=7.0)

    assert 7.0 == health.resting(0.0)
    assert 0.0 == health.resting(7.0)


def test_the_longer_of_both_rests_counts() -> None:
    short, long = Health(1, 30.0), Health(1, 30.0)

    short.failed(0.0, retry_after=7.0)
    long.failed(0.0, retry_after=70.0)

    assert (30.0, 70.0) == (short.resting(0.0), long.resting(0.0))


def test_a_shorter_retry_after_does_not_end_a_cool_down() -> None:
    health = rested()

    health.failed(1.0, retry_after=2.0)

    assert 29.0 == health.resting(1.0)


@pytest.mark.parametrize("wish", [1e12, math.inf])
def test_no_upstream_puts_itself_away_for_ever(wish: float) -> None:
    health = Health(3, 30.0)

    health.failed(0.0, retry_after=wish)

    assert LONGEST_REST == health.resting(0.0)


@pytest.mark.parametrize("wish", [0.0, -5.0, math.nan])
def test_an_empty_retry_after_is_ignored(wish: float) -> None:
    health = Health(2, 30.0)

    health.failed(0.0, retry_after=wish)

    assert 0.0 == health.resting(0.0)


@pytest.mark.parametrize(("failures", "cooldown"), [(0, 30.0), (3, 0.0)])
def test_rest_can_be_switched_off(failures: int, cooldown: float) -> None:
    health = Health(failures, cooldown)

    for _ in range(10):
        health.started(0.0)
        health.failed(0.0, retry_after=60.0)

    assert 0.0 == health.resting(0.0)


def test_a_late_success_ends_a_rest() -> None:
    health = rested()

    health.succeeded()

    assert 0.0 == health.resting(1.0)


def test_hops_that_rest_go_last_in_their_own_order() -> None:
    healths = {"a": rested(), "b": Health(1, 30.0), "c": rested(), "d": Health(1, 30.0)}

    assert ("b", "d", "a", "c") == in_order("abcd", healths.__getitem__, 1.0)
    assert ("a", "b", "c", "d") == in_order("abcd", healths.__getitem__, 30.0)


def test_if_all_rest_all_are_tried() -> None:
    healths = {"a": rested(), "b": rested()}

    assert ("a", "b") == in_order("ab", healths.__getitem__, 1.0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["started", "failed", "reported", "succeeded", "abandoned"]),
            st.floats(0, 100),
        ),
        max_size=60,
    )
)
def test_whatever_happens_an_upstream_is_asked_again_in_the_end(
    story: list[tuple[str, float]],
) -> None:
    health, now = Health(2, 30.0), 0.0
    for what, gap in story:
        now += gap
        match what:
            case "started":
                health.started(now)
            case "failed":
                health.failed(now)
            case "reported":
                health.failed(now, retry_after=gap * 10)
            case "succeeded":
                health.succeeded()
            case _:
                health.abandoned()

        assert 0.0 <= health.resting(now) <= LONGEST_REST + 1e-6

    assert 0.0 == health.resting(now + LONGEST_REST + 1)


def test_rest_that_another_gateway_reports_ends_with_a_probe() -> None:
    health = Health(3, 30.0)

    assert "resting" == health.learn_rest(20.0, 10.0)
    assert "" == health.learn_rest(21.0, 10.4)
    assert 10.0 == health.resting(11.0)
    health.started(21.0)
    assert "resting" == health.failed(21.5)  # one failure is enough
    health.started(60.0)
    assert "well" == health.succeeded()


def test_upstream_that_never_rests_ignores_what_other_gateways_report() -> None:
    health = Health(3, 0.0)

    assert "" == health.learn_rest(20.0, 10.0)
    assert 0.0 == health.resting(11.0)
