"""Buckets that drain with time."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.config.settings import Key, Secret
from dragoman.gateway.state.key_limits import Bucket, Levels, Meter


@given(
    limit=st.integers(1, 600),
    gaps=st.lists(st.floats(0, 20), min_size=1, max_size=300),
)
def test_in_no_stretch_of_time_more_passes_than_the_limit_and_what_drains(
    limit: int, gaps: list[float]
) -> None:
    bucket, now, passed = Bucket(), 0.0, []
    for gap in gaps:
        now += gap
        if not bucket.wait(1, per_minute=limit, now=now):
            bucket.spend(1)
            passed.append(now)

    for first in range(0, len(passed), 7):
        stretch = passed[-1] - passed[first]
        assert len(passed) - first <= limit + stretch * limit / 60 + 1e-6


def test_a_process_whose_clock_is_behind_does_not_drain_a_bucket_twice() -> None:
    bucket = Bucket()
    bucket.wait(1, per_minute=60, now=100.0)
    bucket.spend(60)

    waits = [bucket.wait(1, per_minute=60, now=now) for now in (100.5, 100.4, 100.5, 100.4, 100.5)]

    assert [0.5] * 5 == waits


KEY = Key(key=Secret("env:K", "k"), requests_per_minute=60, tokens_per_minute=6000, concurrent=9)


def admitted(meter: Meter, now: float, estimate: int = 1) -> int:
    return sum(meter.enter(KEY, now, estimate) is None for _ in range(100))


def test_a_machine_that_counts_alone_goes_on_from_the_last_levels_and_takes_its_share() -> None:
    meter, other = Meter(), Meter()
    levels = Levels(at=100.0, requests=50.0, tokens=0.0, machines=2)
    for one in (meter, other):
        one.learn(levels)

    counts = [admitted(one, 102.0) for one in (meter, other)]

    assert [5, 5] == counts  # nine at once: five on each of two machines


def test_levels_that_are_older_than_what_was_counted_since_are_ignored() -> None:
    meter = Meter()
    levels = Levels(at=100.0, requests=58.0, tokens=0.0, machines=1)
    meter.learn(levels)
    first = admitted(meter, 100.5)
    meter.learn(levels)  # another worker goes on alone, too
    second = admitted(meter, 100.5)
    meter.learn(levels._replace(at=101.0))
    third = admitted(meter, 101.0)

    assert (2, 0, 2) == (first, second, third)


def test_tokens_of_a_machine_that_counts_alone_are_its_share() -> None:
    meter = Meter()
    meter.learn(Levels(at=100.0, requests=0.0, tokens=4000.0, machines=2))

    assert 4 == admitted(meter, 100.0, estimate=250)
