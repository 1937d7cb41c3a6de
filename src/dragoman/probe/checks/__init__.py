"""The table of checks, in the order in which they run."""

from typing import Final

from dragoman.probe.checks import calling, conversing, reaching, streaming, wishing
from dragoman.probe.finding import Check

CHECKS: Final[dict[str, Check]] = {
    row.name: row
    for row in (
        reaching.REACH,
        reaching.MODELS,
        *streaming.ROWS,
        *calling.ROWS,
        *conversing.ROWS,
        *wishing.ROWS,
        *reaching.ROWS,
    )
}
