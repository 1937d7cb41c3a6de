"""What a response cost in US dollars, as upstreams report it beside their token counts."""

from typing import Final

import msgspec
from msgspec import Raw, Struct

_TICKS: Final = 10_000_000_000  # of one dollar


class _Parts(Struct):
    total_cost: float


_COST: Final = msgspec.json.Decoder(float | _Parts)


def read_cost(cost: Raw, ticks: Raw) -> float | None:
    """Return a cost from the fields `cost` and `cost_in_usd_ticks`; None: neither has one.

    No dialect defines these fields, so a mistake in them must not cost the token counts around them.
    """
    billed = _amount(ticks)  # xAI
    found = _amount(cost) if billed is None else billed / _TICKS
    return found if found is not None and 0 <= found < float("inf") else None


def _amount(raw: Raw) -> float | None:
    if not raw:
        return None
    try:
        found = _COST.decode(raw)
    except msgspec.MsgspecError:  # null, or something else
        return None
    # OpenRouter sends a number, in credits, which are dollars; Perplexity an object with the parts of the sum.
    return found.total_cost if isinstance(found, _Parts) else found
