"""The table of checks, in the order in which they run."""

from typing import Final

from dragoman.probe.checks import availability, history, parameters, searches, streams, tool_calls
from dragoman.probe.finding import Check

CHECKS: Final[dict[str, Check]] = {
    row.name: row
    for row in (
        availability.REACH,
        availability.MODELS,
        *streams.ROWS,
        *tool_calls.ROWS,
        searches.SEARCH,
        *history.ROWS,
        *parameters.ROWS,
        *availability.ROWS,
    )
}
