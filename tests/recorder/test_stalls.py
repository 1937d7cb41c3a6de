"""Times in which a stream stalled."""

import pytest

from dragoman.recorder.stalls import Gap, stalls


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([], ()),
        ([5.0], ()),
        ([0, 10, 20, 3000, 3010], ((20, 3000),)),
        ([0, 10, 20, 1010, 1020], ()),  # less than a second
        ([0, 2000, 4000, 6000], ()),  # slow, but steady
        ([0, 10, 20, 30, 2000, 2010, 2020, 2030, 9000], ((30, 2000), (2030, 9000))),
    ],
)
def test_a_gap_is_a_stall_if_it_is_long_and_unlike_the_others(
    times: list[float], found: tuple[Gap, ...]
) -> None:
    assert found == stalls(times)
