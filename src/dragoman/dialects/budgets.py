"""A thinking budget as an effort, for upstreams that take no number of tokens: the same for every dialect."""

from typing import Final

# The first row that a budget reaches.
_REACHES: Final = ((32_768, "xhigh"), (16_384, "high"), (4096, "medium"))


def effort_of(budget: int) -> str:
    """Return the effort that a budget of tokens amounts to, whatever the number is."""
    return next((effort for least, effort in _REACHES if budget >= least), "low")
