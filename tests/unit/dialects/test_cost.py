"""What a response cost, in every spelling."""

import pytest
from msgspec import Raw

from dragoman.dialects.cost import read_cost


@pytest.mark.parametrize(
    ("cost", "ticks", "expected"),
    [
        ("", "", None),
        ("0.00014", "", 0.00014),
        ("2", "", 2.0),
        ("0", "", 0.0),
        ('{"total_cost":0.005,"request_cost":0.004}', "", 0.005),
        ("", "37756000", 0.0037756),
        ("1", "37756000", 0.0037756),  # what was billed
        ("0.5", "null", 0.5),
        ("null", "null", None),
        ('"free"', "", None),
        ("{}", "", None),
        ("[1]", "", None),
        ("true", "", None),
        ("-1", "", None),
        ("1e999", "", None),
    ],
)
def test_cost_is_read_in_every_spelling(cost: str, ticks: str, expected: float | None) -> None:
    assert expected == read_cost(Raw(cost.encode()), Raw(ticks.encode()))
