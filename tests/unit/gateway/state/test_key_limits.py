"""Buckets that drain with time."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.state.key_limits import Bucket


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
