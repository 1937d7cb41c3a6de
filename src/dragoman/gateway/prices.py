"""What responses cost: the price table of the settings, and amounts of money without rounding errors.

Costs are shown in US dollars and summed in whole nano-dollars.  A cost is rounded once, to a nano-dollar, when it is
computed; every sum of costs is exact.
"""

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Final, NamedTuple

from dragoman.gateway.config.settings import Price
from dragoman.globs import Glob
from dragoman.turn.events import Usage

_NANO: Final = 1_000_000_000  # of one dollar
_MOST: Final = 1_000_000 * _NANO  # of one response, so that sums fit into 64 bits
_NANO_PER_TOKEN: Final = 1000  # for a price of one dollar for a million tokens
_NANO_PER_SEARCH: Final = 1_000_000  # for a price of one dollar for a thousand searches


def nanodollars(dollars: float) -> int:
    """Return an amount as whole nano-dollars; the digits that are shown of a float count, not its binary value."""
    return min(_MOST, _whole(Decimal(repr(dollars)) * _NANO))


def in_dollars(nano: int) -> float:
    """Return whole nano-dollars in dollars."""
    return nano / _NANO


class _Rates(NamedTuple):
    """Dollars for a million tokens of each kind."""

    glob: Glob
    input: Decimal
    output: Decimal
    cached_input: Decimal
    cache_write: Decimal
    cache_write_1h: Decimal
    searches: Decimal  # dollars for a thousand


class PriceTable:
    """The prices of the settings."""

    def __init__(self, prices: Sequence[Price]) -> None:
        self._rates = tuple(map(_rates, prices))

    def cost(self, upstream: str, model: str, usage: Usage) -> float | None:
        """Return what a response cost in dollars; None: its model has no price."""
        if not self._rates:
            return None
        name = f"{upstream}/{model}"
        rates = next((one for one in self._rates if one.glob.matches(name)), None)
        if rates is None:
            return None
        sum_ = (
            usage.input_tokens * rates.input
            + usage.output_tokens * rates.output
            + usage.cache_read_tokens * rates.cached_input
            + usage.cache_write_5m_tokens * rates.cache_write
            + usage.cache_write_1h_tokens * rates.cache_write_1h
        )
        nano = sum_ * _NANO_PER_TOKEN + usage.searches * rates.searches * _NANO_PER_SEARCH
        return in_dollars(_whole(nano))


def _rates(price: Price) -> _Rates:
    write = price.input if price.cache_write is None else price.cache_write
    return _Rates(
        Glob(price.model),
        input=_exact(price.input),
        output=_exact(price.output),
        cached_input=_exact(price.input if price.cached_input is None else price.cached_input),
        cache_write=_exact(write),
        cache_write_1h=_exact(write if price.cache_write_1h is None else price.cache_write_1h),
        searches=_exact(price.searches),
    )


def _exact(dollars: float) -> Decimal:
    return Decimal(repr(dollars))


def _whole(amount: Decimal) -> int:
    return int(amount.to_integral_value(ROUND_HALF_UP))
