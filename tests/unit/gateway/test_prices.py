"""The price table, and amounts without rounding errors."""

import random

import pytest

from dragoman.gateway.config.settings import Price
from dragoman.gateway.prices import PriceTable, in_dollars, nanodollars
from dragoman.turn.events import Usage

KIMI = Price(model="router/kimi-*", input=0.6, output=2.5, cached_input=0.15)
OPUS = Price(
    model="*/claude-opus*",
    input=5,
    output=25,
    cached_input=0.5,
    cache_write=6.25,
    cache_write_1h=10,
    searches=10,
)
PLAIN = Price(model="*", input=1, output=2)
TABLE = PriceTable((KIMI, OPUS, PLAIN))
MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "usage", "cost"),
    [
        ("kimi-k2", Usage(MILLION), 0.6),
        ("kimi-k2", Usage(output_tokens=MILLION), 2.5),
        ("kimi-k2", Usage(cache_read_tokens=MILLION), 0.15),
        ("kimi-k2", Usage(cache_write_5m_tokens=MILLION), 0.6),
        ("Claude-Opus-4", Usage(cache_write_5m_tokens=MILLION), 6.25),
        ("Claude-Opus-4", Usage(cache_write_1h_tokens=MILLION), 10.0),
        ("Claude-Opus-4", Usage(input_tokens=MILLION, searches=3), 5.03),
        ("claude-opus-4", Usage(10, 20, 30, 40, 50), 0.001315),
        ("other", Usage(3, 4, cache_read_tokens=1, reasoning_tokens=4), 0.000012),
        ("other", Usage(), 0.0),
    ],
)
def test_cost_is_tokens_times_prices(model: str, usage: Usage, cost: float) -> None:
    assert cost == TABLE.cost("router", model, usage)


def test_first_entry_that_matches_upstream_and_model_counts() -> None:
    assert 0.6 == TABLE.cost("router", "kimi-k2", Usage(MILLION))
    assert 1.0 == TABLE.cost("other", "kimi-k2", Usage(MILLION))
    assert PriceTable((KIMI,)).cost("other", "kimi-k2", Usage(MILLION)) is None
    assert PriceTable(()).cost("router", "kimi-k2", Usage(MILLION)) is None


def test_hour_long_cache_costs_as_the_other_unless_it_has_a_price() -> None:
    table = PriceTable((Price(model="*", input=1, output=2, cache_write=3),))

    assert 3.0 == table.cost("u", "m", Usage(cache_write_1h_tokens=MILLION))


def test_sum_of_many_costs_is_exact() -> None:
    pick = random.Random(7)
    usages = [Usage(pick.randrange(9999), pick.randrange(999)) for _ in range(1000)]
    table = PriceTable((Price(model="*", input=0.1, output=0.7),))
    costs = [table.cost("u", "m", one) or 0.0 for one in usages]
    tokens_in, tokens_out = (sum(column) for column in zip(*((one.input_tokens, one.output_tokens) for one in usages), strict=True))  # fmt: skip

    assert tokens_in * 100 + tokens_out * 700 == sum(map(nanodollars, costs))


@pytest.mark.parametrize(
    ("dollars", "nano"),
    [(0.1, 100_000_000), (1e-9, 1), (4e-10, 0), (5e-10, 1), (0.3, 300_000_000), (1e300, 10**15)],
)
def test_dollars_are_whole_nano_dollars(dollars: float, nano: int) -> None:
    assert nano == nanodollars(dollars)
    assert nano == nanodollars(in_dollars(nano))
